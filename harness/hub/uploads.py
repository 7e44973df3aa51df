"""The uploads of a run: after each cell, or when it has ended. One that fails is told and fails nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from harness.hookspecs import hookimpl
from harness.hub.client import Dataset
from harness.hub.files import wanted
from harness.hub.push import HASTY, Patience, Pushed, push
from harness.hub.rows import Form
from harness.model import HarnessError, Result
from harness.spelling import counted
from harness.store import ResultStore


class RunUploads:
    """Observes a run as a plugin does: between cells, when nothing is timed and the result is on disk."""

    def __init__(
        self, dataset: Dataset, store: ResultStore, note: Callable[[str], None], *, after_each_cell: bool
    ) -> None:
        self._dataset = dataset
        self._store = store
        self._note = note
        self._after_each_cell = after_each_cell

    @hookimpl
    def harness_cell_finished(self, result: Result) -> None:
        """Upload the run so far. After a failure nothing more is tried before the end: the machine is to measure."""
        if self._after_each_cell:
            self._after_each_cell = self._upload([result], HASTY)

    def finish(self, results: Iterable[Result], patience: Patience | None = None) -> None:
        """Upload the runs that these results are of: a run that was continued is of several."""
        self._upload(results, patience or Patience())

    def _upload(self, results: Iterable[Result], patience: Patience) -> bool:
        runs = frozenset(result.metadata.run_id for result in results)
        try:
            pushed = push(self._dataset, wanted(self._store, Form, runs), patience)
        except Exception as error:  # whatever it is: a benchmark does not fail of it
            told = str(error) if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}"
            self._note(f"Not uploaded: {told}. The results are kept here; `harness sync` uploads them.")
            return False
        self._note(told_of(pushed, self._dataset.repo))
        return True


def told_of(pushed: Pushed, repo: str) -> str:
    """One sentence for people."""
    if pushed.message is None:
        return f"The dataset {repo} had everything already."
    return f"Uploaded to the dataset {repo}, {counted(pushed.files, 'file')}: {pushed.message}"
