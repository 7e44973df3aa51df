"""What a launch answers of an operation of generation, with the fake backend in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from harness_fake.generation import spoken
from worker_driver import LATENCY

from harness.protocol import (
    Close,
    Event,
    Import,
    Job,
    Memory,
    MemoryRead,
    Open,
    Outputs,
    PhaseStarted,
    Ready,
    Samples,
)
from harness.worker.arrays import read_inputs, slots_of
from harness.worker.conversation import converse

NEW_TOKENS = 3
MARKED = replace(LATENCY, mode="marked", calls=4)


@pytest.fixture
def make_generation(make_job: Callable[..., Job]) -> Callable[..., Job]:
    def make(operation: str, **options: object) -> Job:
        job = make_job(call_ms=1.0, token_ms=1.0, **options)
        return replace(job, task="text-generation", operation=operation, new_tokens=NEW_TOKENS)

    return make


def lead(job: Job, *commands: object) -> list[Event]:
    """The last words of the commands."""
    events: list[Event] = []
    converse(iter([Import(job), Open(), *commands, Close()]).__next__, events.append)
    said = [event for event in events if not isinstance(event, PhaseStarted)]
    assert len(said) == len(commands) + 3, said[-1]
    return said[1:-1]


def test_the_outputs_of_a_decode_are_all_its_tokens_of_every_slot(make_generation: Callable[..., Job]) -> None:
    job = make_generation("decode")
    ready, _ = lead(job, Outputs("before"))
    assert isinstance(ready, Ready)
    assert ready.items == {"tokens": 2, "samples": 2}
    assert [stage for phase, stage, _ in ready.stages if phase == "first_call"] == ["begin", "call"]
    for index, slot in enumerate(slots_of(read_inputs(Path(job.inputs)))):
        with np.load(Path(job.folder, "outputs-before", f"slot-{index}.npz")) as written:
            tokens, logits = spoken(slot, NEW_TOKENS)
            assert written["tokens"].tolist() == tokens.tolist()
            assert written["top_logits"][..., 0].tolist() == logits.max(axis=-1).tolist()


def test_a_marked_round_writes_when_each_call_stamped_what(make_generation: Callable[..., Job]) -> None:
    job = make_generation("generate")
    _, samples = lead(job, MARKED)
    assert isinstance(samples, Samples)
    assert (samples.mode, samples.marks) == ("marked", ["first_token", "token", "token"])
    with np.load(Path(job.folder, str(samples.file))) as written:
        assert written["mark_ns"].shape == (4, NEW_TOKENS)
        assert (np.diff(written["mark_ns"], axis=1) >= 1_000_000).all()
        assert (written["mark_ns"][:, 0] >= 1_000_000).all()


def test_a_marked_round_of_calls_that_stamp_nothing_says_so(make_generation: Callable[..., Job]) -> None:
    _, samples = lead(make_generation("generate", stampless=True), MARKED)
    assert isinstance(samples, Samples)
    assert (samples.calls, samples.marks) == (4, [])


def test_the_memory_of_a_decode_is_read_when_its_cache_is_as_long_as_it_gets(
    make_generation: Callable[..., Job],
) -> None:
    _, memory = lead(make_generation("decode"), Memory(calls=1))
    assert isinstance(memory, MemoryRead)
    assert memory.bytes["kv_cache_bytes"] == 64 * 2 * (4 + NEW_TOKENS - 1)
