"""The docker command that builds: which one, and what becomes of its output."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from harness.images.client import Client, Outcome, find_client
from harness.model import HarnessError
from images.doubles import BUILDKIT, Commands

NO_BUILDX = 'echo "ERROR: BuildKit is enabled but the buildx component is missing or broken." >&2\nexit 1\n'


def test_the_first_command_that_knows_buildkit_is_taken(commands: Callable[[int], Commands]) -> None:
    path = commands(3)
    path.write(NO_BUILDX, 0)
    able = path.write(BUILDKIT, 1)
    path.write(BUILDKIT, 2)
    assert find_client("unix:///a.sock") == Client(able, "unix:///a.sock")


def test_where_none_knows_buildkit_each_is_named_with_the_remedy(commands: Callable[[int], Commands]) -> None:
    first = commands(1).write(NO_BUILDX)
    with pytest.raises(HarnessError, match=rf"none of {first} can: install Docker's buildx plugin"):
        find_client("unix:///a.sock")


def test_where_there_is_no_command_that_is_what_is_said(commands: Callable[[int], Commands]) -> None:
    commands(1)
    with pytest.raises(HarnessError, match="there is no command `docker`"):
        find_client("unix:///a.sock")


def test_a_command_reached_by_two_names_is_asked_once(commands: Callable[[int], Commands]) -> None:
    path = commands(2)
    first = path.write(f'echo asked >> "{path.folders[0]}/log"\n{NO_BUILDX}')
    (path.folders[1] / "docker").symlink_to(first)
    with pytest.raises(HarnessError):
        find_client("unix:///a.sock")
    assert (path.folders[0] / "log").read_text() == "asked\n"


def test_the_command_talks_to_our_engine_with_buildkit_on(commands: Callable[[int], Commands]) -> None:
    script = commands(1).write('echo "$DOCKER_HOST $DOCKER_BUILDKIT $BUILDX_BUILDER $1"; exit 3\n')
    outcome = Client(script, "unix:///ours.sock").run(["build"])
    assert outcome == Outcome(3, ("unix:///ours.sock 1 default build",))


def test_lines_are_heard_as_they_come_errors_among_them(commands: Callable[[int], Commands]) -> None:
    script = commands(1).write("echo one; echo two >&2\n")
    heard: list[str] = []
    Client(script, "").run([], heard.append)
    assert heard == ["one", "two"]


def test_interrupting_ends_the_command(commands: Callable[[int], Commands]) -> None:
    script = commands(1).write("echo $$; exec /bin/sleep 60\n")
    pids: list[int] = []

    def interrupt(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        Client(script, "").run([], interrupt)
    assert time.monotonic() - started < 30
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("#5 x", "ERROR: it is full", "last"), "ERROR: it is full"),
        (("one", "last", ""), "last"),
        ((), "exit code 1"),
    ],
)
def test_why_a_command_failed_is_its_most_telling_line(lines: tuple[str, ...], why: str) -> None:
    assert Outcome(1, lines).why == why
