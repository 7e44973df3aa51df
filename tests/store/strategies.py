"""Any record of harness/model.py, made from its fields' types: a new field is covered the day it is added."""

from __future__ import annotations

import math
import types
import typing
from datetime import UTC
from typing import Annotated, Any

from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from harness.model import SCHEMA_VERSION, Record

TEXT = st.text(max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
NAMED = {
    "schema_version": st.just(SCHEMA_VERSION),
    "key": st.text("0123456789abcdef", min_size=64, max_size=64),
    "launch_id": st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True),
    "timestamp": st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat()),
}
"""Fields whose values are narrower than their types."""


def records(kind: type[Record]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{name: _field(name, info) for name, info in kind.model_fields.items()})


def _field(name: str, info: FieldInfo) -> st.SearchStrategy[Any]:
    if name in NAMED:
        return NAMED[name]
    if info.metadata:
        return st.from_type(Annotated[(info.annotation, *info.metadata)]).filter(math.isfinite)
    return _values(info.annotation)


def _values(annotation: Any) -> st.SearchStrategy[Any]:
    parts = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if annotation is Any:
        return JSON
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return records(annotation)
    if origin is Annotated:
        return _field("", FieldInfo.from_annotation(annotation))
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(_values, parts))
    if origin is list:
        return st.lists(_values(parts[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(TEXT, _values(parts[1]), max_size=3)
    plain = {str: TEXT, float: NUMBERS}
    return plain[annotation] if annotation in plain else st.from_type(annotation)
