"""Stacks are provided once each; one that cannot be made says whose it is, and is not tried again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.engine import EngineLostError
from harness.executors.base import Provided
from harness.model import Backend, HarnessError, Stack
from harness.stacks import StackError, Stacks

MINE = Backend("mine", Stack("mine", "m:m.lock", ("m",)), "m:R", "", offered_by="plugin 'mine' (harness-mine 1.0)")


class Provider:
    """Makes stacks, or fails to; the rest of an executor nobody asks here."""

    def __init__(self, error: HarnessError | None = None) -> None:
        self.error = error
        self.asked: list[tuple[str, str]] = []

    def provide(self, backend: Backend, progress: object, device: str = "cpu") -> Provided:
        self.asked.append((backend.name, device))
        if self.error:
            raise self.error
        return Provided(backend.stack.name, "hash", Path("python"), {})


def stacks(provider: Any) -> Stacks:
    return Stacks(provider, {"mine": MINE}, lambda _: None)


def test_a_stack_is_provided_once_for_each_device() -> None:
    provider = Provider()
    known = stacks(provider)
    assert known.provide(MINE) is known.provide(MINE)
    known.provide(MINE, "cuda")
    assert provider.asked == [("mine", "cpu"), ("mine", "cuda")]


def test_a_stack_that_cannot_be_made_names_its_plugin_and_is_not_tried_twice() -> None:
    provider = Provider(HarnessError("pip found no numpy==0"))
    known = stacks(provider)
    for _ in range(2):
        with pytest.raises(StackError) as error:
            known.provide(MINE)
        assert str(error.value) == ("plugin 'mine' (harness-mine 1.0): its stack cannot be made: pip found no numpy==0")
    assert provider.asked == [("mine", "cpu")]


def test_another_backend_of_the_same_stack_is_tried_by_itself() -> None:
    provider = Provider(HarnessError("no"))
    known = stacks(provider)
    for backend in (MINE, replace(MINE, name="other")):
        with pytest.raises(StackError):
            known.provide(backend)
    assert provider.asked == [("mine", "cpu"), ("other", "cpu")]


def test_an_engine_that_is_gone_is_nobody_s_stack() -> None:
    with pytest.raises(EngineLostError):
        stacks(Provider(EngineLostError("no engine answers"))).provide(MINE)
