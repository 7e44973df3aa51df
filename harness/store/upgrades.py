"""Records of older schemas brought up to this one when they are read, a small function for each version. Files stay as they are.

What an older harness did not have gets the value that was in effect then, not today's default; what it did not measure is null, and
says so. Keys and hashes stay what they were: they are over what was stored then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from harness.model import SCHEMA_VERSION

Stored = Mapping[str, Any]
"""A Result, LaunchRecord or ImportedResult as JSON has it."""


def upgraded(stored: Stored, version: int) -> Stored:
    """A record of an older version as this one would have written it."""
    for each in range(version, SCHEMA_VERSION):
        stored = _UPGRADES[each](stored)
    return {**stored, "schema_version": SCHEMA_VERSION}


def _from_1(stored: Stored) -> Stored:
    if "started_at" in stored:  # a launch
        return {"monitor_reason": f"there was no monitor yet ({_OF_1})", **stored}
    protocol, numbers = stored["metadata"]["protocol"], stored["measurements"]
    return {
        **stored,
        "metadata": {
            **stored["metadata"],
            "protocol": {**_PROTOCOL_OF_1, "most_blocks": protocol.get("blocks", 2), **protocol},
        },
        "measurements": {"blocks": numbers.get("launches", 0), **_explained(numbers, _UNKNOWN_IN_1, _OF_1)},
    }


_OF_1 = "schema version 1"

_PROTOCOL_OF_1: Stored = {"budget_seconds": 1e9, "repeats": 0, "monitor": False, "idle_seconds": 0.0}
"""What is said today of the only way in which it measured then: as many blocks as asked for, no pass twice, no monitor."""

_UNKNOWN_IN_1 = (
    *("median_ci_low_s", "median_ci_high_s", "p50_s", "p90_s", "p95_s", "p99_s", "ratio_ci_low", "ratio_ci_high"),
    *("ratio_confidence", "verdict", "break_even_ci_low_calls", "break_even_ci_high_calls", "blocks_needed"),
    *("peak_allocated_bytes", "energy_j_per_call", "energy_j_per_item", "idle_power_w", "monitoring", "compilations"),
)
"""Numbers that came with version 2."""


def _from_2(stored: Stored) -> Stored:
    if "started_at" in stored:  # a launch: what it lacks is what it did not have
        return stored
    numbers = {**stored, "measurements": _explained(stored["measurements"], _UNKNOWN_IN_2, "schema version 2")}
    if "origin" in stored:  # another tool's: there are no settings of ours
        return numbers
    metadata = stored["metadata"]
    return {**numbers, "metadata": {**metadata, "protocol": {**_PROTOCOL_OF_2, **metadata["protocol"]}}}


_PROTOCOL_OF_2: Stored = {"marked_rounds": 0, "accuracy": False}
"""What was not done then."""

_UNKNOWN_IN_2 = (
    *("ttft_s", "inter_token_latency_s", "e2e_latency_s", "prefill_tokens_per_s", "decode_tokens_per_s"),
    *("kv_cache_bytes", "tokens_equal", "first_token_difference", "accuracy_metric", "accuracy_value"),
    *("application_latency_s", "tokenize_s", "transfer_s", "model_s", "postprocess_s"),
)
"""Numbers that came with version 3."""


def _from_3(stored: Stored) -> Stored:
    if "started_at" in stored:  # a launch: what it lacks is what it did not have
        return stored
    of_3 = "schema version 3"
    numbers = _explained(stored["measurements"], ("produced_tokens",), of_3)
    if watched := numbers.get("monitoring"):
        numbers = {**numbers, "monitoring": _explained(watched, ("launches",), of_3)}
    return {**stored, "measurements": numbers}


def _explained(numbers: Stored, unknown: Iterable[str], version: str) -> Stored:
    """Measurements, or Monitoring, with a reason for what was not measured yet."""
    return {
        **numbers,
        "reasons": {**dict.fromkeys(unknown, f"not measured yet ({version})"), **numbers.get("reasons", {})},
    }


_UPGRADES: Mapping[int, Callable[[Stored], Stored]] = {1: _from_1, 2: _from_2, 3: _from_3}
"""Version -> what makes the next one of it."""
