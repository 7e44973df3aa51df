"""What images start from: which base is chosen, how one is made here, and what is said where there is none."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from harness.engine import Engine
from harness.images.base import LOCAL, OFFICIAL, Base, bootstrap_command, choose, import_arguments
from harness.images.client import Client, Outcome
from harness.model import HarnessError
from images.doubles import Commands, Images, Spoken


def probed(**told: Any) -> Outcome:
    facts = {"python": "3.11.9", "libc": ["glibc", "2.36"], "machine": "x86_64", **told}
    return Outcome(0, ("WARNING: something about platforms", json.dumps(facts)))


class Case:
    """An engine with some bases, a client, and what was noted."""

    def __init__(self, *present: str, **answers: Outcome) -> None:
        self.images = Images()
        for name in present:
            self.images.add(name, f"sha256:{name}")
        self.client = Spoken({"run": probed(), **answers})
        self.notes: list[str] = []

    def choose(self, **options: bool) -> Base:
        return choose(cast(Engine, self.images), cast(Client, self.client), self.notes.append, **options)


def test_the_official_image_is_taken_where_the_engine_has_it() -> None:
    base = Case(OFFICIAL, LOCAL).choose()
    assert base == Base(OFFICIAL, f"sha256:{OFFICIAL}", (3, 11), (2, 36), "x86_64")


def test_a_base_made_here_stands_in_and_it_is_said() -> None:
    case = Case(LOCAL)
    assert case.choose().name == LOCAL
    assert case.notes == [f"base {LOCAL}, made here: the engine has no {OFFICIAL}"]
    assert [asked[0] for asked in case.client.asked] == ["run"]


def test_a_local_base_that_was_asked_for_is_taken_before_the_official_image() -> None:
    assert Case(OFFICIAL, LOCAL).choose(local=True).name == LOCAL


def test_the_official_image_is_pulled_where_there_is_no_base() -> None:
    case = Case()
    case.client.doing = {"pull": lambda: case.images.add(OFFICIAL, "sha256:pulled")}
    assert case.choose().id == "sha256:pulled"
    assert case.notes == [f"pulling the base {OFFICIAL}"]


def test_where_no_registry_is_reached_the_local_base_is_offered() -> None:
    case = Case(pull=Outcome(1, ("Error response from daemon: Get: dial tcp: lookup registry: no such host",)))
    with pytest.raises(HarnessError, match=r"cannot be pulled \(Error.*no such host\); `harness build --local-base`"):
        case.choose()


def test_offline_nothing_is_pulled() -> None:
    case = Case()
    with pytest.raises(HarnessError, match="--offline forbids"):
        case.choose(offline=True)
    assert case.client.asked == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Outcome(127, ("exec: python3: not found",)), r"does not start python3 \(exec: python3: not found\)"),
        (probed(libc=["", ""]), "has no glibc"),
    ],
)
def test_a_base_that_cannot_serve_is_refused(answer: Outcome, said: str) -> None:
    with pytest.raises(HarnessError, match=said):
        Case(OFFICIAL, run=answer).choose()


def test_without_mmdebstrap_a_local_base_is_refused_with_the_remedy(commands: Callable[[int], Commands]) -> None:
    commands(1)
    with pytest.raises(HarnessError, match="apt-get install mmdebstrap"):
        Case().choose(local=True)


def test_what_mmdebstrap_says_reaches_the_user(commands: Callable[[int], Commands]) -> None:
    commands(1).write(
        'echo "I: trying"; echo "E: cannot reach the mirror" >&2; echo "E: more" >&2; exit 25\n', 0, "mmdebstrap"
    )
    with pytest.raises(HarnessError, match="mmdebstrap cannot make a base: E: cannot reach the mirror"):
        Case().choose(local=True)


def test_a_local_base_is_imported_under_a_name_of_ours(commands: Callable[[int], Commands]) -> None:
    commands(1).write('for last; do :; done; echo root > "$last"\n', 0, "mmdebstrap")
    case = Case()
    with pytest.raises(HarnessError, match="is gone"):  # as this engine does not import it
        case.choose(local=True)
    (asked,) = case.client.asked
    assert asked == import_arguments(Path(asked[-2]))
    assert asked[-1] == LOCAL != OFFICIAL


def test_the_hosts_certificates_go_into_a_local_base() -> None:
    command = bootstrap_command(Path("root.tar"), Path("/a folder/bundle.crt"))
    (hook,) = [word.partition("=")[2] for word in command if word.startswith("--customize-hook=")]
    assert shlex.split(hook) == ["upload", "/a folder/bundle.crt", "/etc/ssl/certs/ca-certificates.crt"]
    assert not [word for word in bootstrap_command(Path("root.tar"), None) if "hook" in word]
