"""The lines that host and worker exchange."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.protocol import (
    COMMANDS,
    EVENTS,
    MAX_LINE_BYTES,
    Close,
    Closed,
    Command,
    Event,
    Failed,
    Hello,
    Imported,
    Job,
    Outputs,
    PhaseStarted,
    ProtocolError,
    Ready,
    decode_command,
    decode_event,
    encode,
)

NUMBERS = st.integers(-(2**63), 2**63 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
OF_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(),
    int: NUMBERS,
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    str | None: st.none() | st.text(),
    int | None: st.none() | NUMBERS,
    list[int]: st.lists(NUMBERS),
    list[tuple[str, str, int]]: st.lists(st.tuples(st.text(), st.text(), NUMBERS)),
    dict[str, str]: st.dictionaries(st.text(), st.text()),
    dict[str, int]: st.dictionaries(st.text(), NUMBERS),
    float | None: st.none() | st.floats(allow_nan=False, allow_infinity=False),
    list[str]: st.lists(st.text()),
    dict[str, list[int]]: st.dictionaries(st.text(), st.lists(NUMBERS)),
    dict[str, int | None]: st.dictionaries(st.text(), st.none() | NUMBERS),
    dict[str, Any]: st.dictionaries(st.text(), JSON),
    Mapping[str, Any]: st.dictionaries(st.text(), JSON),
}


def messages(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Any message of a kind, every field of its declared type."""
    hints = get_type_hints(kind)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    return st.builds(kind, **{name: messages(Job) if hint is Job else OF_TYPE[hint] for name, hint in fields.items()})


@given(st.one_of([messages(kind) for kind in get_args(Command)]))
def test_a_command_arrives_as_it_was_sent(command: Command) -> None:
    assert decode_command(encode(command)) == command


@given(st.one_of([messages(kind) for kind in get_args(Event)]))
def test_an_event_arrives_as_it_was_sent(event: Event) -> None:
    assert decode_event(encode(event)) == event


@given(st.one_of([messages(kind) for kind in (*get_args(Command), *get_args(Event))]))
def test_a_message_is_one_line_whatever_its_text(message: Command | Event) -> None:
    line = encode(message)
    assert line.endswith(b"\n")
    assert len(line.splitlines()) == 1


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_a_line_that_is_no_message_is_a_protocol_error_and_nothing_else(line: bytes) -> None:
    for decode in (decode_command, decode_event):
        with pytest.raises(ProtocolError):
            decode(line)


@given(st.sampled_from([*COMMANDS, *EVENTS]), st.dictionaries(st.sampled_from(["job", "stages", "index"]), JSON))
def test_a_message_with_the_wrong_fields_is_a_protocol_error(kind: str, fields: dict[str, Any]) -> None:
    line = json.dumps({**fields, "unheard_of": 1, "kind": kind}).encode()
    for decode in (decode_command, decode_event):
        with pytest.raises(ProtocolError):
            decode(line)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"kind": []}',
        b'{"kind": "import", "job": 5}',
        b'{"kind": "import", "job": {"runner": "module:Class"}}',
        b'{"kind": "memory", "calls": NaN}',
        b'{"kind": "memory", "calls": ' + b"1" * 5_000 + b"}",
    ],
    ids=["nested too deep", "no name", "no job", "half a job", "no number", "endless number"],
)
def test_a_broken_command_is_a_protocol_error(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_command(line)


def test_stages_that_are_none_are_a_protocol_error() -> None:
    ready = dataclasses.asdict(Ready([], {}, 1, 1, {}, 0, "", {}))
    for stages in (5, [5], [["load", "weights"]]):
        with pytest.raises(ProtocolError, match="phase, stage, nanoseconds"):
            decode_event(json.dumps({**ready, "kind": "ready", "stages": stages}).encode())


def test_commands_are_no_events_and_events_no_commands() -> None:
    with pytest.raises(ProtocolError, match="not a message"):
        decode_event(encode(Close()))
    with pytest.raises(ProtocolError, match="not a message"):
        decode_command(encode(Closed()))
    assert not set(COMMANDS) & set(EVENTS)


def test_a_protocol_error_shows_the_line_but_not_megabytes_of_it() -> None:
    with pytest.raises(ProtocolError, match="Loading checkpoint") as raised:
        decode_event(b"Loading checkpoint shards: " + b"#" * 1_000_000)
    assert len(str(raised.value)) < 300


def test_a_line_longer_than_the_limit_is_not_sent() -> None:
    with pytest.raises(ProtocolError, match=f"the limit is {MAX_LINE_BYTES}"):
        encode(PhaseStarted("x" * MAX_LINE_BYTES))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"bytes"])
def test_what_is_no_json_is_not_sent(value: object) -> None:
    with pytest.raises(ProtocolError, match="ready"):
        encode(Ready([], {}, 1, 1, {}, 0, "", {"effective": {"x": value}}))


def test_the_wire_form_is_what_a_person_can_type() -> None:
    assert encode(Outputs("before")) == b'{"kind": "outputs", "label": "before"}\n'
    assert decode_event(b'{"kind": "imported", "import_ns": 5}') == Imported(5)
    assert decode_event(b'{"kind":"hello","protocol_version":1,"pid":2,"python":"3.11.7"}') == Hello(1, 2, "3.11.7")


def test_every_kind_of_message_has_a_name_of_its_own() -> None:
    kinds = [*get_args(Command), *get_args(Event)]
    assert len({kind.kind for kind in kinds}) == len(kinds) == len(COMMANDS) + len(EVENTS)
    assert EVENTS["failed"] is Failed
