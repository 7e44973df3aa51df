"""Raw inputs of applications: texts that encode to the rows they were cut from, and images as bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from test_inputs import BERT, MASK, VIT, arrays, cell, checkpoint, tokenizer
from tokenizers import Tokenizer

from harness.checkpoints import Checkpoint
from harness.inputs import make_inputs
from harness.model import HarnessError


@pytest.fixture
def read(tmp_path: Path) -> Checkpoint:
    """A checkpoint whose tokenizer knows its mask token in any text."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    made = tokenizer()
    made.add_special_tokens(["[MASK]"])
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"mask_token": "[MASK]"}')
    return checkpoint(folder, BERT)


def raw(read: Checkpoint, root: Path, **changes: Any) -> dict[str, npt.NDArray[Any]]:
    return arrays(make_inputs(cell(operation="application", **changes), read, root))


def plain_tokenizer(read: Checkpoint) -> Tokenizer:
    found = Tokenizer.from_file(str(read.folder / "tokenizer.json"))
    found.no_padding()
    found.no_truncation()
    return found


def test_a_text_encodes_to_the_row_that_the_forward_pass_is_given(read: Checkpoint, tmp_path: Path) -> None:
    texts = raw(read, tmp_path)["text"]
    encoded = [[plain_tokenizer(read).encode(text).ids for text in slot] for slot in texts.tolist()]
    np.testing.assert_array_equal(encoded, arrays(make_inputs(cell(), read, tmp_path))["input_ids"])


def test_texts_are_stored_as_text_and_need_no_pickle(read: Checkpoint, tmp_path: Path) -> None:
    made = raw(read, tmp_path)
    assert list(made) == ["text"]
    assert (made["text"].dtype.kind, made["text"].shape) == ("U", (8, 2))
    assert len(set(made["text"].ravel())) == 16


def test_texts_encode_to_rows_as_long_as_the_padding_says(read: Checkpoint, tmp_path: Path) -> None:
    texts = raw(read, tmp_path, padding="sampled", batch_size=4, sequence_length=32)["text"]
    forward = arrays(make_inputs(cell(padding="sampled", batch_size=4, sequence_length=32), read, tmp_path))
    lengths = [[len(plain_tokenizer(read).encode(text).ids) for text in slot] for slot in texts.tolist()]
    assert lengths == forward["attention_mask"].sum(-1).tolist()


def test_a_question_and_its_text_fill_a_row_together(read: Checkpoint, tmp_path: Path) -> None:
    made = raw(read, tmp_path, task="question-answering")
    assert list(made) == ["text", "text_pair"]
    for question, text in zip(made["text"].ravel().tolist(), made["text_pair"].ravel().tolist(), strict=True):
        assert question.endswith("?")
        assert len(plain_tokenizer(read).encode(question, text).ids) == 16


def test_one_token_of_each_text_is_the_mask(read: Checkpoint, tmp_path: Path) -> None:
    for text in raw(read, tmp_path, task="fill-mask")["text"].ravel().tolist():
        assert text.count("[MASK]") == 1
        ids = plain_tokenizer(read).encode(text).ids
        assert len(ids) == 16
        assert ids.count(MASK) == 1


def test_a_mask_that_the_tokenizer_does_not_find_in_a_text_is_refused(tmp_path: Path) -> None:
    tokenizer().save(str(tmp_path / "tokenizer.json"))  # lower case is all that it reads
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"mask_token": "[MASK]"}))
    with pytest.raises(HarnessError, match="makes other rows than of 16 tokens of texts that were cut to that length"):
        raw(checkpoint(tmp_path, BERT), tmp_path / "inputs", task="fill-mask")


def test_raw_and_encoded_inputs_lie_apart(read: Checkpoint, tmp_path: Path) -> None:
    one = make_inputs(cell(), read, tmp_path)
    assert make_inputs(cell(operation="application"), read, tmp_path).folder != one.folder


def test_a_seed_gives_the_same_texts(read: Checkpoint, tmp_path: Path) -> None:
    """Golden: a change here needs another `GENERATOR`."""
    text = raw(read, tmp_path)["text"][0, 0]
    assert text == "Sea cook sentence wrong wild! Mean say sad ever ship direction without green fly,"


def test_raw_images_are_bytes_larger_than_what_the_model_takes(tmp_path: Path) -> None:
    images = raw(checkpoint(tmp_path, VIT), tmp_path, task="image-classification")["images"]
    assert (images.dtype, images.shape) == (np.uint8, (8, 2, 480, 640, 3))
    assert (images.min(), images.max()) == (0, 255)
    assert len({slot.tobytes() for slot in images}) == 8
