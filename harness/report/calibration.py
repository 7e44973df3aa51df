"""What `harness calibrate` found: in full, and as the line that stands beside verdicts."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from harness.model import Calibration
from harness.report.layout import Row, paragraph, plain, table, to_string
from harness.spelling import counted
from harness.stats import FEWEST_FOR_FLOOR


def render_calibration(found: Calibration, width: int = 80, colour: bool = False) -> str:
    """All of it, and what it means for whoever reads verdicts of this machine."""
    title = f"{found.config.label}, batch {found.config.batch_size} x {found.config.sequence_length}, against itself"
    lines = [
        *paragraph(plain(title), width, style="bold"),
        *paragraph(_how(found), width),
        Text(),
        *table([Row(f"{name} ", remark=plain(words)) for name, words in _facts(found)], width),
    ]
    return to_string(lines, width, colour)


def _how(found: Calibration) -> str:
    comparisons = counted(found.comparisons, "comparison")
    aside = f"; set aside for an unstable launch: {found.set_aside}" if found.set_aside else ""
    return f"{comparisons} of {found.protocol.blocks} blocks or more, in {found.elapsed_s:.0f} s{aside}"


def _facts(found: Calibration) -> Iterator[tuple[str, str]]:
    yield "noise floor", _floor(found)
    yield (
        "false positives",
        f"{found.false_positives} of {found.comparisons} ({_rate(found)}); the level allows 1 in 20",
    )
    yield "intervals", f"±{_part(found.median_ci_half_width)} in the middle, without margin and correction"
    yield "threads", _binding(found)


def beside_verdicts(found: Calibration) -> str:
    """As `this machine against itself: within 1.3 %, 2 of 40 called different (0.6 % to 17 %)`."""
    rejections = f"{found.false_positives} of {found.comparisons} called different ({_rate(found)})"
    within = "" if found.noise_floor_ratio is None else f"within {_part(found.noise_floor_ratio - 1)}, "
    return f"this machine against itself: {within}{rejections}"


def _floor(found: Calibration) -> str:
    if found.noise_floor_ratio is None:
        return f"unknown: it takes {FEWEST_FOR_FLOOR} comparisons"
    return f"{_part(found.noise_floor_ratio - 1)}: 95 of 100 ratios of a cell to itself are nearer to 1"


def _rate(found: Calibration) -> str:
    """As `0.61 % to 17 %`."""
    return f"{_part(found.false_positive_ci_low)} to {_part(found.false_positive_ci_high)}"


def _binding(found: Calibration) -> str:
    decided = {True: "bound", False: "not bound", None: "not decided"}[found.bind_threads]
    return f"{decided}: {found.bind_reason}"


def _part(value: float) -> str:
    """As `1.3 %`."""
    return f"{100 * value:.2g} %"
