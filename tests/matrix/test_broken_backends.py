"""A matrix that asks for a backend whose plugin is broken is refused with what is broken; one that does not is none the wiser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from small_backends import EAGER, ORT

from harness.matrix.schema import read_document
from harness.matrix.source import read
from harness.model import HarnessError

Write = Callable[[str], Path]

REASON = "plugin 'flax' (harness-flax 0.1.0) cannot be imported (ImportError: no jax); reinstall or remove it"
BACKENDS = {"eager": EAGER, "onnxruntime": ORT}


def why_missing(name: str) -> str | None:
    return REASON if name == "flax" else None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("matrix: {backend: [eager, flax]}\n", "m.yaml:1:27: matrix.backend[1]"),
        ("defaults: {backend: flax}\nmatrix: {}\n", "m.yaml:1:12: defaults.backend"),
        ("matrix: {flax: {level: [1]}}\n", "m.yaml:1:10: matrix.flax"),
        ("matrix: {include: [{backend: flax}]}\n", "m.yaml:1:21: matrix.include[0].backend"),
        ("matrix: {}\nprotocol: {reference: flax}\n", "m.yaml:2:12: protocol.reference"),
    ],
)
def test_a_broken_backend_is_refused_where_it_stands_with_what_is_broken(write: Write, text: str, place: str) -> None:
    with pytest.raises(HarnessError) as error:
        read_document(read(write(text)), BACKENDS, why_missing)
    assert str(error.value) == f"{place} asks for 'flax', which cannot be used: {REASON}"


def test_a_misspelt_name_is_a_misspelt_name_all_the_same(write: Write) -> None:
    with pytest.raises(HarnessError, match="did you mean 'eager'"):
        read_document(read(write("matrix: {backend: [eagr]}\n")), BACKENDS, why_missing)


def test_a_matrix_that_names_no_broken_backend_is_read(write: Write) -> None:
    document = read_document(read(write("matrix: {backend: [eager]}\n")), BACKENDS, why_missing)
    assert [setting.value for setting in document.axes["backend"]] == ["eager"]
