"""Where the time of an application goes, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from harness.application import FIELDS
from harness.model import Result
from harness.report import units

_WORDS: Mapping[str, tuple[str, str]] = {
    "tokenize": ("tokenize", "what reads the input"),
    "transfer": ("transfer", "the way to the device"),
    "model": ("model", "the model"),
    "postprocess": ("post-process", "what follows the model"),
}
"""Part -> what it is called, and what to optimise where most of the time goes there."""


def where_time_goes(result: Result) -> str | None:
    """The parts of a call, what they add to the model alone, and which of them is worth work; None where they are not known."""
    parts = {part: getattr(result.measurements, field) for part, field in FIELDS.items()}
    latency_s = result.measurements.application_latency_s
    if latency_s is None or None in parts.values():
        return None
    whole_s = sum(parts.values())
    shares = ", ".join(f"{_WORDS[part][0]} {part_s / whole_s:.0%}".replace("%", " %") for part, part_s in parts.items())
    around_s, longest = whole_s - parts["model"], max(parts, key=lambda part: parts[part])
    return (
        f"{result.config.label}: of {units.duration(latency_s)} a call {shares}; {units.duration(around_s)} more than the model "
        f"alone: optimise {_WORDS[longest][1]}."
    )
