"""The numbers of generation: time to the first token, between tokens, to the last one; rates, the cache, equal tokens.
Each operation measures its own: prefill the first token, decode the further ones, generate all of them, by stamps inside its calls.
None is ever the difference of two measurements. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness import stats
from harness.model import Cell
from harness.samples import NS, MarkedSamples, MeasuredLaunch
from harness.tasks import GENERATION, TOKEN_MAKERS
from harness.unknown import Unknown
from harness.worker.api import KV_CACHE_BYTES

Number = float | int | bool | Unknown

FIELDS = (
    *("ttft_s", "inter_token_latency_s", "e2e_latency_s", "prefill_tokens_per_s", "decode_tokens_per_s"),
    *("produced_tokens", "kv_cache_bytes", "tokens_equal", "first_token_difference"),
)
"""Of Measurements, found here."""


def generation_numbers(
    cell: Cell, launches: Sequence[MeasuredLaunch], common: Mapping[str, Any], reasons: Mapping[str, str], untold: str
) -> dict[str, Number]:
    """Fields of Measurements. `common`: those that every operation has, `reasons` why some of them are null.

    `untold`: why a launch has not told what all are asked for, where nothing else says it.
    """
    if cell.operation not in GENERATION:
        return dict.fromkeys(FIELDS, Unknown(f"operation {cell.operation} generates nothing"))
    generation = _Generation(cell, launches, common, reasons, untold)
    return {name: getattr(generation, name) for name in FIELDS}


@dataclass(frozen=True)
class _Generation:
    cell: Cell
    launches: Sequence[MeasuredLaunch]
    common: Mapping[str, Any]
    reasons: Mapping[str, str]
    untold: str

    @property
    def ttft_s(self) -> Number:
        if self.cell.operation == "generate":
            return self._by_stamps(lambda marked: float(np.median(marked.mark_ns[:, 0])) / NS)
        return self._latency_of("prefill")

    @property
    def inter_token_latency_s(self) -> Number:
        if self.cell.operation == "generate":
            return self._between_stamps(lambda marked: float(np.median(np.diff(marked.mark_ns, axis=1))) / NS)
        return self._latency_of("decode")

    @property
    def e2e_latency_s(self) -> Number:
        return self._latency_of("generate")

    @property
    def prefill_tokens_per_s(self) -> Number:
        return self._rate_of("prefill")

    @property
    def decode_tokens_per_s(self) -> Number:
        if self.cell.operation == "generate":
            return self._between_stamps(self._stamped_rate)
        return self._rate_of("decode")

    @property
    def produced_tokens(self) -> Number:
        """The median of the launches'."""
        told = [x.record.items_per_call.get("tokens") for x in self.launches]
        found = stats.median([each for each in told if each is not None])
        return self._of("generate", found, "throughput_unit")

    @property
    def kv_cache_bytes(self) -> Number:
        """The largest of the launches'."""
        counted = [x.record.memory_bytes.get(KV_CACHE_BYTES) for x in self.launches]
        told = (x.record.memory_reasons.get(KV_CACHE_BYTES) for x in self.launches)
        known = [each for each in counted if each is not None]
        return max(known) if known else Unknown(next((reason for reason in told if reason), self.untold))

    @property
    def tokens_equal(self) -> Number:
        if self.cell.operation not in TOKEN_MAKERS:
            return Unknown("a prefill is judged by its logits")
        verdicts = [p.tokens_equal for x in self.launches for p in x.record.parity if p.tokens_equal is not None]
        return all(verdicts) if verdicts else Unknown(self.reasons.get("parity_passed", self.untold))

    @property
    def first_token_difference(self) -> Number:
        """The earliest of all judgements."""
        if self.tokens_equal is True:
            return Unknown("all tokens are equal")
        found = [p.first_token_difference for x in self.launches for p in x.record.parity]
        known = [each for each in found if each is not None]
        return min(known) if known else self.tokens_equal

    # --- what an operation measures by itself -----------------------------------------------------------------------

    def _latency_of(self, operation: str) -> Number:
        return self._of(operation, self.common["median_latency_s"], "median_latency_s")

    def _rate_of(self, operation: str) -> Number:
        return self._of(operation, self.common["rates"].get("tokens/s"), "throughput")

    def _of(self, operation: str, value: float | None, field: str) -> Number:
        if self.cell.operation != operation:
            return Unknown(f"measured by operation {operation}")
        return Unknown(self.reasons.get(field, self.untold)) if value is None else value

    # --- by stamps --------------------------------------------------------------------------------------------------

    def _between_stamps(self, find: Callable[[MarkedSamples], float]) -> Number:
        if self.cell.new_tokens == 1:
            return Unknown("with one new token there is nothing between two")
        if self.cell.stop_at_eos:
            return Unknown("with stop_at_eos calls make different numbers of tokens, and stamp the first alone")
        return self._by_stamps(find)

    def _by_stamps(self, find: Callable[[MarkedSamples], float]) -> Number:
        """Median over the launches whose calls stamped each token that is stamped."""
        marked = [x.marked for x in self.launches if x.marked is not None and len(x.marked.total_ns)]
        wanted = 1 if self.cell.stop_at_eos else self.cell.new_tokens
        stamped = [each for each in marked if len(each.names) == wanted]
        found = stats.median([find(each) for each in stamped])
        return Unknown(self._why_unstamped(marked)) if found is None else found

    def _why_unstamped(self, marked: Iterable[MarkedSamples]) -> str:
        counts = [len(each.names) for each in marked]
        if not counts:
            return self.reasons.get("median_latency_s", "no marked rounds were made")
        if not any(counts):
            return f"generate of {self.cell.backend} stamps no tokens"
        return f"calls stamped {counts[0]} times for {self.cell.new_tokens} tokens"

    def _stamped_rate(self, marked: MarkedSamples) -> float:
        """All tokens but the first over all the time they took."""
        tokens = self.cell.batch_size * (len(marked.names) - 1) * len(marked.mark_ns)
        return tokens / (float((marked.mark_ns[:, -1] - marked.mark_ns[:, 0]).sum()) / NS)
