"""Answers of real stacks that are kept between sessions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from answers import UNREAD_S, Answers, described

from harness import cache

MACHINE = ("one",)


class Session:
    """Of tests, whose launches write what they are asked."""

    def __init__(self, folder: Path, machine: tuple[str | int, ...] = MACHINE) -> None:
        self.asked: list[str] = []
        self.answers = Answers(folder / "kept", folder / f"aside-{time.monotonic_ns()}", machine)

    def ask(self, question: str) -> str:
        def launch(folder: Path) -> None:
            self.asked.append(question)
            (folder / "told").write_text(question)

        return (self.answers.of(question, launch) / "told").read_text()


@pytest.fixture
def session(tmp_path: Path) -> Callable[..., Session]:
    return lambda *machine: Session(tmp_path, machine or MACHINE)


def test_what_is_asked_twice_is_launched_once(session: Callable[..., Session]) -> None:
    first = session()
    assert [first.ask("a"), first.ask("b"), first.ask("a")] == ["a", "b", "a"]
    assert first.asked == ["a", "b"]


def test_after_tests_that_passed_another_session_reads_the_answer(session: Callable[..., Session]) -> None:
    first, second = session(), session()
    first.ask("a")
    first.answers.end(have_tests_failed=False)
    assert second.ask("a") == "a"
    assert second.asked == []


def test_another_question_and_another_machine_are_asked_anew(session: Callable[..., Session]) -> None:
    first, second, elsewhere = session(), session(), session("another")
    first.ask("a")
    first.answers.end(have_tests_failed=False)
    second.ask("b")
    elsewhere.ask("a")
    assert (second.asked, elsewhere.asked) == (["b"], ["a"])


def test_after_tests_that_failed_nothing_is_kept_and_what_they_read_is_forgotten(
    session: Callable[..., Session],
) -> None:
    first, failing, last = session(), session(), session()
    first.ask("a")
    first.ask("unread")
    first.answers.end(have_tests_failed=False)
    failing.ask("a")
    failing.ask("b")
    failing.answers.end(have_tests_failed=True)
    for question in ("a", "b", "unread"):
        last.ask(question)
    assert last.asked == ["a", "b"]


def test_a_launch_that_raises_has_no_answer(session: Callable[..., Session]) -> None:
    def raises(folder: Path) -> None:
        (folder / "half").touch()
        raise AssertionError("no")

    first = session()
    with pytest.raises(AssertionError, match="no"):
        first.answers.of("a", raises)
    assert first.ask("a") == "a"
    assert not (first.answers.of("a", raises) / "half").exists()


def test_two_sessions_may_keep_the_same_answer(session: Callable[..., Session]) -> None:
    first, second = session(), session()
    first.ask("a")
    second.ask("a")
    first.answers.end(have_tests_failed=False)
    second.answers.end(have_tests_failed=False)
    assert [each.name for each in first.answers.root.iterdir() if "." in each.name] == []
    assert session().ask("a") == "a"


def test_what_nobody_read_in_two_weeks_goes(session: Callable[..., Session]) -> None:
    first, second, last = session(), session(), session()
    first.ask("read")
    first.ask("unread")
    first.answers.end(have_tests_failed=False)
    long_ago = time.time() - UNREAD_S - 60
    for place in first.answers.root.iterdir():
        os.utime(place, (long_ago, long_ago))
    second.ask("read")
    second.answers.end(have_tests_failed=False)
    last.ask("read")
    last.ask("unread")
    assert last.asked == ["unread"]


def test_a_file_is_what_is_in_it_and_a_checkpoint_its_name_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    first, second, other = (tmp_path / name for name in ("one.npz", "two.npz", "three.npz"))
    first.write_bytes(b"same")
    second.write_bytes(b"same")
    other.write_bytes(b"other")
    assert described(first, {}) == described(second, {}) != described(other, {})
    entries = [cache.room("checkpoints") / name / "content" for name in ("bert", "gpt2")]
    assert described(entries[0], {}) != described(entries[1], {})
    assert described(tmp_path, {tmp_path: "outputs"}) == "outputs"
    assert described(2, {}) == 2
