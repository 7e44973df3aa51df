"""What a row tells of a generation beside its numbers, and what the columns are called that mean something else there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.model import Cell, Measurements, Result
from harness.report import units
from harness.spelling import counted
from harness.tasks import GENERATION

LATENCY_HEADINGS: Mapping[str, str] = {"prefill": "first\ntoken", "decode": "per\ntoken", "generate": "all\ntokens"}
"""Operation -> what the column of the latency is called."""

_CALLS: Mapping[str, str] = {"prefill": "prompt", "decode": "token", "generate": "text"}
"""Operation -> what one call makes of a row."""


def call(cell: Cell) -> str:
    """What a latency is of, as `a call`, `a prompt`, `for 8 prompts`: rows of a batch are read and continued together."""
    made, rows = _CALLS.get(cell.operation, "call"), cell.batch_size
    if rows == 1 or cell.operation not in _CALLS:
        return f"a {made}"
    return f"for a token of {rows} rows" if cell.operation == "decode" else f"for {rows} {made}s"


def asked(cell: Cell) -> list[str]:
    """Of a workload's facts, as `32 new tokens`, `4 beams`, `sampling`."""
    at_most = "at most " if cell.stop_at_eos else ""
    new_tokens = [] if cell.new_tokens is None else [f"{at_most}{counted(cell.new_tokens, 'new token')}"]
    beams = [f"{cell.num_beams} beams"] if cell.num_beams > 1 else []
    return [*new_tokens, *beams, *(["sampling"] if cell.do_sample else [])]


def remark(result: Result) -> str:
    """The line below a row's numbers, as `first token 210ms · 31.2ms between tokens · tokens equal`; empty where there is none."""
    if result.config.operation not in GENERATION:
        return ""
    parts = [tell(result.measurements) for tell in _TELLERS[result.config.operation]]
    produced = _produced(result.measurements) if result.config.stop_at_eos else ""
    return " · ".join(filter(None, [produced, *parts]))


def _produced(numbers: Measurements) -> str:
    """Where texts may end early: otherwise it is known."""
    return "" if numbers.produced_tokens is None else f"{numbers.produced_tokens:.4g} tokens made a call"


def _first_token(numbers: Measurements) -> str:
    return "" if numbers.ttft_s is None else f"first token {units.duration(numbers.ttft_s)}"


def _between_tokens(numbers: Measurements) -> str:
    latency_s = numbers.inter_token_latency_s
    return "" if latency_s is None else f"{units.duration(latency_s)} between tokens"


def _read(numbers: Measurements) -> str:
    return _rate(numbers.prefill_tokens_per_s, "tokens/s read")


def _made(numbers: Measurements) -> str:
    return _rate(numbers.decode_tokens_per_s, "tokens/s made")


def _rate(per_second: float | None, words: str) -> str:
    return "" if per_second is None else f"{units.rate(per_second)} {words}"


def _cache(numbers: Measurements) -> str:
    return "" if numbers.kv_cache_bytes is None else f"cache {units.size(numbers.kv_cache_bytes)}"


def _tokens(numbers: Measurements) -> str:
    """Of a difference also whether near-equal logits explain it: then parity has passed."""
    if numbers.tokens_equal is None:
        return ""
    if numbers.tokens_equal:
        return "tokens equal"
    near = ", near-equal" if numbers.parity_passed else ""
    return f"tokens differ from position {numbers.first_token_difference} on{near}"


_TELLERS: Mapping[str, tuple[Callable[[Measurements], str], ...]] = {
    "prefill": (_read, _cache),
    "decode": (_cache, _tokens),
    "generate": (_first_token, _between_tokens, _made, _cache, _tokens),
}
