"""Texts as windows of a cell's shape, and what becomes of a worker's answer to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from harness import accuracy
from harness.accuracy import Windows, make_windows, texts
from harness.checkpoints import Checkpoint
from harness.model import Cell
from harness.worker.accuracy import REDUCTIONS
from harness.worker.arrays import read_inputs, write_npz

CONFIG = {"model_type": "bert", "vocab_size": 5000, "type_vocab_size": 2, "pad_token_id": 0}
CLS, SEP = 1, 2


def cell(task: str = "feature-extraction", **changes: Any) -> Cell:
    shape = {"batch_size": 8, "sequence_length": 32}
    return Cell(**{"model": "m", "checkpoint": "c", "task": task, "threads": 1, "backend": "eager", **shape, **changes})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """A word a token, [CLS] and [SEP] around a text; its file pads and cuts off, as many a checkpoint's does."""
    words = sorted({word for text in (texts.prose(), *texts.sentences()) for word in words_of(text)})
    vocabulary = {"[PAD]": 0, "[CLS]": CLS, "[SEP]": SEP, **{word: 3 + place for place, word in enumerate(words)}}
    made = Tokenizer(WordLevel(vocabulary, unk_token="[PAD]"))
    made.pre_tokenizer = Whitespace()
    specials = [("[CLS]", CLS), ("[SEP]", SEP)]
    made.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=specials)
    made.enable_truncation(max_length=5)
    made.enable_padding(length=40)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    return Checkpoint("path:sha256:0", folder, "0" * 64, CONFIG, None)


def words_of(text: str) -> list[str]:
    return [word for word, _ in Whitespace().pre_tokenize_str(text)]


def made(cell: Cell, checkpoint: Checkpoint, root: Path) -> Windows:
    found = make_windows(cell, checkpoint, root)
    assert isinstance(found, Windows), found
    return found


def rows(windows: Windows, name: str) -> npt.NDArray[Any]:
    """One below the other, those that only fill up too."""
    calls = read_inputs(windows.folder)[name]
    return calls.reshape(-1, calls.shape[-1])


# --- windows --------------------------------------------------------------------------------------------------------


def test_prose_is_cut_into_windows_that_follow_one_another_without_special_tokens(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    windows = made(cell("text-generation"), checkpoint, tmp_path)
    ids = rows(windows, "input_ids")[: windows.rows]
    tokenizer = Tokenizer.from_file(str(checkpoint.folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    text = tokenizer.encode(texts.prose(), add_special_tokens=False).ids
    assert ids.ravel().tolist() == text[: ids.size]
    assert windows.rows == accuracy.windows.MOST_WINDOWS
    assert rows(windows, "attention_mask")[: windows.rows].all()


def test_inputs_have_the_cells_shape_and_the_last_call_is_filled_up_with_rows_that_do_not_count(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    windows = made(cell(batch_size=32), checkpoint, tmp_path)
    arrays = read_inputs(windows.folder)
    assert {name: array.shape for name, array in arrays.items()} == dict.fromkeys(
        ("attention_mask", "input_ids", "token_type_ids"), (3, 32, 32)
    )
    assert windows.rows == 2 * len(texts.pairs()) < 96
    ids = rows(windows, "input_ids")
    assert (ids[windows.rows :] == ids[: 96 - windows.rows]).all()


def test_a_sentence_stands_alone_in_its_row_with_its_special_tokens_and_padding_behind(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    windows = made(cell(), checkpoint, tmp_path)
    ids, mask = rows(windows, "input_ids")[0], rows(windows, "attention_mask")[0]
    length = len(words_of(texts.sentences()[0])) + 2
    assert (ids[0], ids[length - 1]) == (CLS, SEP)
    assert mask.tolist() == [1] * length + [0] * (32 - length)


def test_a_text_shorter_than_one_window_is_one_padded_window(checkpoint: Checkpoint, tmp_path: Path) -> None:
    windows = made(cell("text-generation", batch_size=2, sequence_length=4000), checkpoint, tmp_path)
    assert windows.rows == 1
    assert 1500 < rows(windows, "attention_mask")[0].sum() < 4000


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"operation": "decode", "task": "text-generation"}, "accuracy is told by operation forward, not by decode"),
        ({"task": "fill-mask"}, "there is no measure of accuracy for task fill-mask"),
        ({"sequence_length": 8}, "sequence_length 8: the sentences that accuracy is told by have up to"),
        ({"task": "text-generation", "sequence_length": 1}, "a window of one token predicts nothing"),
    ],
)
def test_what_has_no_accuracy_says_why(
    checkpoint: Checkpoint, tmp_path: Path, asked: dict[str, Any], reason: str
) -> None:
    found = make_windows(cell(**asked), checkpoint, tmp_path)
    assert isinstance(found, str)
    assert reason in found


@pytest.mark.parametrize(
    ("identity", "config", "reason"),
    [
        ("random:bert?seed=0", CONFIG, "random weights say nothing about accuracy"),
        ("path:sha256:1", {"model_type": "vit", "num_channels": 3}, "the model takes none"),
        ("path:sha256:1", {**CONFIG, "vocab_size": 10}, "they are not of one checkpoint"),
    ],
)
def test_a_checkpoint_whose_weights_mean_nothing_here_says_why(
    checkpoint: Checkpoint, tmp_path: Path, identity: str, config: Mapping[str, Any], reason: str
) -> None:
    other = Checkpoint(identity, checkpoint.folder, "1" * 64, config, None)
    assert reason in str(make_windows(cell(), other, tmp_path))


def test_a_checkpoint_without_a_tokenizer_says_so(tmp_path: Path) -> None:
    bare = Checkpoint("path:sha256:0", tmp_path, "0" * 64, CONFIG, None)
    assert make_windows(cell(), bare, tmp_path) == "the checkpoint has no tokenizer.json to read text with"


# --- from outputs to a number ---------------------------------------------------------------------------------------


def reduced(task: str, windows: Windows, outputs: Mapping[str, npt.NDArray[Any]], folder: Path) -> Path:
    """What a worker would write of these outputs of all rows, in one call."""
    inputs = {name: rows(windows, name) for name in read_inputs(windows.folder)}
    file = folder / "accuracy.npz"
    write_npz(file, REDUCTIONS[task](inputs, outputs))
    return file


def test_what_a_worker_reduces_and_what_the_host_measures_are_for_the_same_tasks() -> None:
    assert set(REDUCTIONS) == set(accuracy.METRICS)


def test_a_model_that_knows_nothing_has_its_vocabulary_for_perplexity(checkpoint: Checkpoint, tmp_path: Path) -> None:
    windows = made(cell("text-generation"), checkpoint, tmp_path)
    logits = np.zeros((*rows(windows, "input_ids").shape, 5000), np.float32)
    record = accuracy.judge(
        windows, "text-generation", reduced("text-generation", windows, {"logits": logits}, tmp_path)
    )
    assert (record.metric, record.count) == ("perplexity", windows.rows * 31)
    assert record.value == pytest.approx(5000)


def test_a_model_that_knows_each_next_token_has_a_perplexity_of_one(checkpoint: Checkpoint, tmp_path: Path) -> None:
    windows = made(cell("text-generation", sequence_length=64), checkpoint, tmp_path)
    ids = rows(windows, "input_ids")
    logits = np.zeros((*ids.shape, 5000), np.float32)
    np.put_along_axis(logits[:, :-1], ids[:, 1:, np.newaxis], 60.0, axis=-1)
    record = accuracy.judge(
        windows, "text-generation", reduced("text-generation", windows, {"logits": logits}, tmp_path)
    )
    assert record.value == pytest.approx(1)


def test_padding_is_not_predicted_and_predicts_nothing(checkpoint: Checkpoint, tmp_path: Path) -> None:
    windows = made(cell("text-generation", batch_size=1, sequence_length=4000), checkpoint, tmp_path)
    length = int(rows(windows, "attention_mask")[0].sum())
    found = np.full((1, 3999), math.nan)
    found[:, : length - 1] = math.log(0.25)
    write_npz(tmp_path / "accuracy.npz", {"log_likelihoods": found})
    record = accuracy.judge(windows, "text-generation", tmp_path / "accuracy.npz")
    assert record.count == length - 1
    assert record.value == pytest.approx(4)


def test_sentences_are_ranked_by_the_angle_between_the_means_of_their_tokens(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    windows = made(cell(), checkpoint, tmp_path)
    mask = rows(windows, "attention_mask")
    angles = [math.pi / 4 * (1 - pair.grade / 5) for pair in texts.pairs() for _ in "12"]
    hidden = np.full((*mask.shape, 2), np.nan, np.float32)  # padding is nobody's result
    for row, angle in enumerate(angles):
        hidden[row, mask[row] == 1] = [math.cos(angle), math.sin(angle) * (-1) ** row]
    file = reduced("feature-extraction", windows, {"last_hidden_state": hidden}, tmp_path)
    record = accuracy.judge(windows, "feature-extraction", file)
    assert (record.metric, record.count) == ("spearman", len(texts.pairs()))
    assert record.value == pytest.approx(1)


@pytest.mark.parametrize(("bad", "told"), [(math.nan, "perplexity came to nan"), (-math.inf, "perplexity came to inf")])
def test_an_accuracy_that_is_no_number_is_a_reason_and_no_value(
    checkpoint: Checkpoint, tmp_path: Path, bad: float, told: str
) -> None:
    windows = made(cell("text-generation"), checkpoint, tmp_path)
    write_npz(tmp_path / "accuracy.npz", {"log_likelihoods": np.full((windows.rows, 31), bad)})
    record = accuracy.judge(windows, "text-generation", tmp_path / "accuracy.npz")
    assert (record.metric, record.value, record.reason) == ("perplexity", None, told)


def test_a_broken_file_is_a_reason_and_no_exception(checkpoint: Checkpoint, tmp_path: Path) -> None:
    windows = made(cell(), checkpoint, tmp_path)
    (tmp_path / "accuracy.npz").write_bytes(b"PK")
    record = accuracy.judge(windows, "feature-extraction", tmp_path / "accuracy.npz")
    assert record.value is None
    assert "cannot be read" in str(record.reason)


# --- the texts ------------------------------------------------------------------------------------------------------


def test_there_is_prose_for_perplexity_and_graded_pairs_of_short_sentences() -> None:
    assert 1500 <= len(texts.prose().split()) <= 1800
    assert len(texts.pairs()) >= 40
    assert {pair.grade for pair in texts.pairs()} >= {0, 1, 2, 3, 4, 5}
    assert all(0 <= pair.grade <= 5 and pair.one != pair.other for pair in texts.pairs())
    assert len(set(texts.sentences())) == 2 * len(texts.pairs())


def test_windows_are_of_the_texts_as_they_are_now(checkpoint: Checkpoint, tmp_path: Path) -> None:
    before = made(cell(), checkpoint, tmp_path).folder
    assert made(cell(), checkpoint, tmp_path).folder == before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "digest_of_texts", lambda: "of others")
        assert made(cell(), checkpoint, tmp_path).folder != before
