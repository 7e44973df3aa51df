"""How good a backend's answers are, beside how fast they come: a number for each cell whose weights mean something.

    found = make_windows(cell, checkpoint)          texts of our own as token windows of the cell's shape, or why there are none
    ... a worker runs them: harness.worker.accuracy
    record = judge(found, cell.task, file)          perplexity, or how well similarities are ranked

Parity tells how far a backend's outputs are from the reference's, this tells whether that matters. Docs: docs/methodology.md,
"Precision and accuracy".
"""

from harness.accuracy.judging import IS_BETTER, METRICS, judge
from harness.accuracy.windows import Windows, make_windows

__all__ = ["IS_BETTER", "METRICS", "Windows", "judge", "make_windows"]
