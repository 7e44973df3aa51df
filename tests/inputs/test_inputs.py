"""Inputs are seeded, fill their shape, fit the model, and differ from slot to slot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE, WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from harness import cgroups
from harness.checkpoints import Checkpoint
from harness.inputs import GENERATOR, Inputs, TooLargeError, make_inputs, making, words
from harness.model import Cell, HarnessError, InputSpec
from harness.worker.arrays import inputs_sha256, read_inputs

BERT = {
    "model_type": "bert",
    "vocab_size": 1000,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "pad_token_id": 0,
}
GPT2 = {"model_type": "gpt2", "vocab_size": 1000, "n_positions": 64, "bos_token_id": 5, "eos_token_id": [6, 7]}
VIT = {"model_type": "vit", "num_channels": 3, "image_size": 8}
RESNET = {"model_type": "resnet", "num_channels": 1}
T5 = {"model_type": "t5", "vocab_size": 1000, "is_encoder_decoder": True, "pad_token_id": 0, "eos_token_id": 1}
CLS, SEP, PAD, MASK = 1, 2, 0, 3


def cell(**changes: Any) -> Cell:
    fields = {"model": "path:tiny", "checkpoint": "path:sha256:0", "threads": 1, "backend": "eager"}
    return Cell(**{**fields, "batch_size": 2, "sequence_length": 16, **changes})


def checkpoint(folder: Path, config: Mapping[str, Any]) -> Checkpoint:
    return Checkpoint("path:sha256:0", folder, "0" * 64, config, None)


def tokenizer(largest_id: int = 999) -> Tokenizer:
    """A word a token, [CLS] and [SEP] around them; its file pads and cuts off, as many a checkpoint's does."""
    vocabulary = {"[PAD]": PAD, "[CLS]": CLS, "[SEP]": SEP, "[MASK]": MASK, "[UNK]": 4}
    vocabulary |= {word: 5 + index for index, word in enumerate(words.WORDS)}
    vocabulary["last"] = largest_id
    made = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    made.normalizer = Lowercase()
    made.pre_tokenizer = WhitespaceSplit()
    specials = [("[CLS]", CLS), ("[SEP]", SEP)]
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=specials
    )
    made.enable_padding(length=40)
    made.enable_truncation(max_length=5)
    return made


def arrays(made: Inputs) -> dict[str, npt.NDArray[Any]]:
    return read_inputs(made.folder)


@pytest.fixture
def with_tokenizer(tmp_path: Path) -> Checkpoint:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    tokenizer().save(str(folder / "tokenizer.json"))
    return checkpoint(folder, BERT)


# --- every kind -----------------------------------------------------------------------------------------------------


def test_the_digest_is_the_one_that_the_worker_computes(tmp_path: Path) -> None:
    made = make_inputs(cell(), checkpoint(tmp_path, BERT), tmp_path)
    assert made.sha256 == inputs_sha256(arrays(made))
    assert made.names == ("attention_mask", "input_ids", "token_type_ids") == tuple(arrays(made))


@pytest.mark.parametrize("config", [BERT, GPT2, T5, VIT])
def test_all_slots_differ_and_so_do_their_rows(tmp_path: Path, config: dict[str, Any]) -> None:
    made = arrays(make_inputs(cell(), checkpoint(tmp_path, config), tmp_path))
    varied = made.get("input_ids", made.get("pixel_values"))
    assert varied is not None
    assert varied.shape[:2] == (8, 2)
    assert len({row.tobytes() for slot in varied for row in slot}) == 16


def test_all_slots_differ_where_few_tokens_could_be_drawn(tmp_path: Path) -> None:
    few = {**GPT2, "vocab_size": 12}  # nine of them ordinary
    made = arrays(make_inputs(cell(batch_size=1, sequence_length=1), checkpoint(tmp_path, few), tmp_path))
    assert len(set(made["input_ids"].ravel())) == 8


def test_what_cannot_give_eight_different_slots_is_refused(tmp_path: Path) -> None:
    too_few = {**GPT2, "vocab_size": 10}
    with pytest.raises(HarnessError, match="no more than 7 different inputs"):
        make_inputs(cell(batch_size=1, sequence_length=1), checkpoint(tmp_path, too_few), tmp_path)


@pytest.mark.parametrize("batch_size", [10**15, 10**20])
def test_what_no_memory_holds_is_refused_and_leaves_nothing(tmp_path: Path, batch_size: int) -> None:
    with pytest.raises(HarnessError, match=f"batch_size {batch_size} and sequence_length 16 do not fit into memory"):
        make_inputs(cell(batch_size=batch_size), checkpoint(tmp_path, BERT), tmp_path / "inputs")
    assert [path for path in (tmp_path / "inputs").iterdir() if path.suffix != ".lock"] == []


def test_what_memory_cannot_hold_is_refused_before_any_of_it_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "memory_available_bytes", lambda: 2**30)
    monkeypatch.setattr(making, "_another", lambda *_: pytest.fail("a slot was drawn"))
    with pytest.raises(TooLargeError):
        make_inputs(cell(batch_size=10**7), checkpoint(tmp_path, BERT), tmp_path)


def test_a_seed_gives_the_same_bytes_on_every_machine(tmp_path: Path) -> None:
    """Golden: a change here needs another `GENERATOR`."""
    made = make_inputs(cell(), checkpoint(tmp_path, BERT), tmp_path)
    assert arrays(made)["input_ids"][0, 0, :6].tolist() == [611, 776, 788, 842, 844, 909]
    assert made.sha256[:16] == "d2a24aa75d800958"


def test_another_seed_gives_other_bytes(tmp_path: Path) -> None:
    made = {
        make_inputs(cell(inputs=InputSpec(seed=seed)), checkpoint(tmp_path, BERT), tmp_path).sha256
        for seed in (0, 1, 2)
    }
    assert len(made) == 3


def test_inputs_are_made_once_for_all_backends(tmp_path: Path) -> None:
    one = make_inputs(cell(), checkpoint(tmp_path, BERT), tmp_path)
    other = make_inputs(cell(backend="onnxruntime", threads=2), checkpoint(tmp_path, BERT), tmp_path)
    assert one == other


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 3},
        {"sequence_length": 17},
        {"task": "fill-mask"},
        {"inputs": InputSpec(seed=1)},
        {"inputs": InputSpec(slots=4)},
        {"padding": 0.5},
        {"padding": "sampled"},
    ],
)
def test_another_workload_has_inputs_of_its_own(tmp_path: Path, change: dict[str, Any]) -> None:
    one = make_inputs(cell(), checkpoint(tmp_path, BERT), tmp_path)
    assert make_inputs(cell(**change), checkpoint(tmp_path, BERT), tmp_path).folder != one.folder


def test_another_checkpoint_has_inputs_of_its_own(tmp_path: Path) -> None:
    one = make_inputs(cell(), checkpoint(tmp_path, BERT), tmp_path)
    other = replace(checkpoint(tmp_path, BERT), sha256="1" * 64)
    assert make_inputs(cell(), other, tmp_path).folder != one.folder


def test_they_lie_in_the_cache_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    assert make_inputs(cell(), checkpoint(tmp_path, BERT)).folder.is_relative_to(tmp_path / "cache" / "inputs")


def test_a_generator_that_this_harness_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="inputs of generator 1 were asked for, this harness is generator 2"):
        make_inputs(cell(inputs=InputSpec(generator=1)), checkpoint(tmp_path, BERT), tmp_path)


def test_a_cell_asks_for_the_generator_that_this_harness_is() -> None:
    assert InputSpec().generator == GENERATOR


# --- token ids without a tokenizer ----------------------------------------------------------------------------------


def test_drawn_ids_stay_in_the_vocabulary_and_off_the_special_ones(tmp_path: Path) -> None:
    small = {**GPT2, "vocab_size": 16}
    made = arrays(make_inputs(cell(sequence_length=64), checkpoint(tmp_path, small), tmp_path))
    assert set(made["input_ids"].ravel()) == set(range(16)) - {5, 6, 7}
    assert made["input_ids"].dtype == np.int64


def test_segments_are_given_where_the_model_has_them(tmp_path: Path) -> None:
    segments = arrays(make_inputs(cell(), checkpoint(tmp_path, BERT), tmp_path))["token_type_ids"]
    assert segments[0, 0].tolist() == [0] * 8 + [1] * 8


@pytest.mark.parametrize("config", [GPT2, {**BERT, "type_vocab_size": 1}])
def test_segments_are_not_given_where_the_model_has_none(tmp_path: Path, config: dict[str, Any]) -> None:
    assert make_inputs(cell(), checkpoint(tmp_path, config), tmp_path).names == ("attention_mask", "input_ids")


def test_an_encoder_decoder_gets_what_its_encoder_takes(tmp_path: Path) -> None:
    made = make_inputs(cell(), checkpoint(tmp_path, T5), tmp_path)
    assert made.names == ("attention_mask", "input_ids")
    assert arrays(made)["input_ids"].min() > 1  # not padding, nor the end


def test_a_vocabulary_of_special_tokens_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="are all special ones"):
        make_inputs(cell(), checkpoint(tmp_path, {**BERT, "vocab_size": 1}), tmp_path)


# --- text -----------------------------------------------------------------------------------------------------------


def test_text_fills_every_row_with_the_special_tokens_in_their_places(
    tmp_path: Path, with_tokenizer: Checkpoint
) -> None:
    made = arrays(make_inputs(cell(sequence_length=33), with_tokenizer, tmp_path))
    ids = made["input_ids"]
    assert ids.shape == (8, 2, 33)
    assert set(ids[..., 0].ravel()) == {CLS}
    assert set(ids[..., -1].ravel()) == {SEP}
    assert not {CLS, SEP, PAD} & set(ids[..., 1:-1].ravel())
    assert np.unique(ids).size > 50
    assert made["attention_mask"].all()
    assert not made["token_type_ids"].any()


def test_sentences_differ_in_length() -> None:
    text = words.sentences(np.random.RandomState(0), words=500)
    lengths = {len(sentence.split()) for sentence in text.replace("?", ".").replace("!", ".").split(".")}
    assert len(lengths) > 10


def test_a_length_without_room_for_text_is_refused(tmp_path: Path, with_tokenizer: Checkpoint) -> None:
    with pytest.raises(HarnessError, match="no room for text beside the 2 special ones"):
        make_inputs(cell(sequence_length=2), with_tokenizer, tmp_path)
    assert arrays(make_inputs(cell(sequence_length=3), with_tokenizer, tmp_path))["input_ids"].shape == (8, 2, 3)


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path, with_tokenizer: Checkpoint) -> None:
    smaller = replace(with_tokenizer, config={**BERT, "vocab_size": 50})
    with pytest.raises(HarnessError, match="the model has 50: they are not of one checkpoint"):
        make_inputs(cell(), smaller, tmp_path)


def test_a_tokenizer_that_cannot_be_read_is_refused(tmp_path: Path, with_tokenizer: Checkpoint) -> None:
    (with_tokenizer.folder / "tokenizer.json").write_text(json.dumps({"model": 1}))
    with pytest.raises(HarnessError, match="cannot be read as a tokenizer"):
        make_inputs(cell(), with_tokenizer, tmp_path)


@pytest.mark.parametrize(
    ("model", "words"),
    [(BPE(), "makes 0 tokens of"), (WordLevel({"x": 0}, unk_token="[UNK]"), "cannot encode English")],
)
def test_a_tokenizer_that_knows_no_english_is_refused(
    tmp_path: Path, with_tokenizer: Checkpoint, model: BPE | WordLevel, words: str
) -> None:
    Tokenizer(model).save(str(with_tokenizer.folder / "tokenizer.json"))
    with pytest.raises(HarnessError, match=words):
        make_inputs(cell(), with_tokenizer, tmp_path)


# --- tasks ----------------------------------------------------------------------------------------------------------


def test_a_question_and_a_text_share_a_row(tmp_path: Path, with_tokenizer: Checkpoint) -> None:
    made = arrays(make_inputs(cell(task="question-answering", sequence_length=40), with_tokenizer, tmp_path))
    ids, segments = made["input_ids"], made["token_type_ids"]
    assert ids.shape == (8, 2, 40)
    assert (np.sum(ids == SEP, axis=-1) == 2).all()
    assert ((segments == 1).sum(axis=-1) > (segments == 0).sum(axis=-1)).all()  # the text is the longer one
    assert (np.diff(segments, axis=-1) >= 0).all()


def test_one_token_of_each_row_is_to_be_filled_in(tmp_path: Path, with_tokenizer: Checkpoint) -> None:
    (with_tokenizer.folder / "tokenizer_config.json").write_text('{"mask_token": {"content": "[MASK]"}}')
    ids = arrays(make_inputs(cell(task="fill-mask", padding=0.5), with_tokenizer, tmp_path))["input_ids"]
    assert (np.sum(ids == MASK, axis=-1) == 1).all()
    assert set(ids[..., 0].ravel()) == {CLS}


def test_a_tokenizer_without_a_mask_token_fills_none_in(tmp_path: Path, with_tokenizer: Checkpoint) -> None:
    with pytest.raises(HarnessError, match=r"the tokenizer in .* has no mask token"):
        make_inputs(cell(task="fill-mask"), with_tokenizer, tmp_path)


def test_a_decoder_is_given_its_start_and_what_follows(tmp_path: Path) -> None:
    config = {**T5, "decoder_start_token_id": 9}
    made = arrays(make_inputs(cell(task="text2text-generation", padding=0.5), checkpoint(tmp_path, config), tmp_path))
    decoder = made["decoder_input_ids"]
    assert decoder.shape == made["input_ids"].shape
    assert set(decoder[..., 0].ravel()) == {9}
    assert decoder[..., 1:].min() > 1  # no padding
    assert (decoder[..., 1:9] != made["input_ids"][..., :8]).any()


def test_a_decoder_whose_beginning_nobody_names_is_refused(tmp_path: Path) -> None:
    config = {"model_type": "t5", "vocab_size": 1000, "is_encoder_decoder": True}
    with pytest.raises(HarnessError, match="names no decoder_start_token_id"):
        make_inputs(cell(task="text2text-generation"), checkpoint(tmp_path, config), tmp_path)


# --- padding --------------------------------------------------------------------------------------------------------


def real(made: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Tokens of each row, of shape (slots, batch)."""
    return made["attention_mask"].sum(axis=-1)


def test_without_padding_rows_are_full(tmp_path: Path) -> None:
    assert (real(arrays(make_inputs(cell(), checkpoint(tmp_path, BERT), tmp_path))) == 16).all()


def test_a_part_of_every_row_is_padding(tmp_path: Path) -> None:
    made = arrays(make_inputs(cell(padding=0.25), checkpoint(tmp_path, {**BERT, "pad_token_id": 7}), tmp_path))
    assert made["attention_mask"].tolist() == [[[1] * 12 + [0] * 4] * 2] * 8
    assert (made["input_ids"][..., 12:] == 7).all()
    assert (made["input_ids"][..., :12] != 7).all()
    assert made["token_type_ids"][0, 0].tolist() == [0] * 6 + [1] * 6 + [0] * 4


def test_sampled_rows_differ_and_slots_have_the_same_lengths_in_another_order(tmp_path: Path) -> None:
    rows = real(arrays(make_inputs(cell(batch_size=6, padding="sampled"), checkpoint(tmp_path, BERT), tmp_path)))
    assert {tuple(sorted(slot)) for slot in rows.tolist()} == {tuple(sorted(rows[0]))}
    assert len({tuple(slot) for slot in rows.tolist()}) > 1
    assert len(set(rows[0])) > 3
    assert 4 <= rows.min() < 8 < 12 < rows.max() < 16


def test_another_seed_samples_other_lengths(tmp_path: Path) -> None:
    def longest_first(seed: int) -> list[int]:
        asked = cell(batch_size=6, sequence_length=60, padding="sampled", inputs=InputSpec(seed=seed))
        return sorted(real(arrays(make_inputs(asked, checkpoint(tmp_path, BERT), tmp_path)))[0])

    assert longest_first(0) != longest_first(1)


def test_text_is_cut_off_to_its_row_and_padded_on_the_tokenizers_side(
    tmp_path: Path, with_tokenizer: Checkpoint
) -> None:
    (with_tokenizer.folder / "tokenizer_config.json").write_text('{"padding_side": "left"}')
    made = arrays(make_inputs(cell(padding=0.5), with_tokenizer, tmp_path))
    assert made["attention_mask"].tolist() == [[[0] * 8 + [1] * 8] * 2] * 8
    assert set(made["input_ids"][..., 8].ravel()) == {CLS}
    assert set(made["input_ids"][..., -1].ravel()) == {SEP}
    assert not made["input_ids"][..., :8].any()


@pytest.mark.parametrize("operation", ["prefill", "decode", "generate"])
def test_what_a_decoder_is_to_continue_is_padded_on_the_left_whatever_the_tokenizer_says(
    tmp_path: Path, operation: str
) -> None:
    config = {**GPT2, "type_vocab_size": 2}
    asked = cell(padding=0.25, task="text-generation", operation=operation, new_tokens=4)
    made = arrays(make_inputs(asked, checkpoint(tmp_path, config), tmp_path))
    assert made.keys() == {"input_ids", "attention_mask"}
    assert made["attention_mask"].tolist() == [[[0] * 4 + [1] * 12] * 2] * 8


def test_operations_of_generation_share_their_prompts_and_forward_does_not(tmp_path: Path) -> None:
    def digest(operation: str) -> str:
        asked = cell(padding=0.25, task="text-generation", operation=operation, new_tokens=4)
        return make_inputs(asked, checkpoint(tmp_path, GPT2), tmp_path).sha256

    prompts = {digest(operation) for operation in ("prefill", "decode", "generate")}
    assert len(prompts) == 1
    assert digest("forward") not in prompts


def test_the_prompt_of_an_encoder_decoder_stays_on_its_tokenizers_side_and_its_decoder_begins_anew(
    tmp_path: Path,
) -> None:
    asked = cell(padding=0.25, task="text2text-generation", operation="generate", new_tokens=4)
    made = arrays(make_inputs(asked, checkpoint(tmp_path, T5), tmp_path))
    assert made.keys() == {"input_ids", "attention_mask"}
    assert made["attention_mask"].tolist() == [[[1] * 12 + [0] * 4] * 2] * 8


def test_a_padding_side_that_is_none_is_refused(tmp_path: Path, with_tokenizer: Checkpoint) -> None:
    (with_tokenizer.folder / "tokenizer_config.json").write_text('{"padding_side": "middle"}')
    with pytest.raises(HarnessError, match="padding_side is 'middle', it must be right or left"):
        make_inputs(cell(padding=0.5), with_tokenizer, tmp_path)


def test_a_model_without_a_padding_token_is_padded_with_its_end(tmp_path: Path) -> None:
    ids = arrays(make_inputs(cell(padding=0.5), checkpoint(tmp_path, GPT2), tmp_path))["input_ids"]
    assert set(ids[..., 8:].ravel()) == {6}


def test_padding_that_leaves_no_room_for_text_is_refused(tmp_path: Path, with_tokenizer: Checkpoint) -> None:
    with pytest.raises(HarnessError, match="the shortest row has 2 tokens, and no room for text beside the 2 special"):
        make_inputs(cell(padding=0.9), with_tokenizer, tmp_path)


# --- images ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (VIT, (8, 2, 3, 8, 8)),
        ({**VIT, "image_size": [4, 6]}, (8, 2, 3, 4, 6)),
        (RESNET, (8, 2, 1, 224, 224)),
    ],
)
def test_images_have_the_models_size(tmp_path: Path, config: dict[str, Any], shape: tuple[int, ...]) -> None:
    pixels = arrays(make_inputs(cell(), checkpoint(tmp_path, config), tmp_path))["pixel_values"]
    assert (pixels.shape, pixels.dtype) == (shape, np.float32)
    assert -1 <= pixels.min() < -0.9 < 0.9 < pixels.max() <= 1


def test_images_have_the_size_asked_for_where_the_model_takes_any(tmp_path: Path) -> None:
    pixels = arrays(make_inputs(cell(image_size=10), checkpoint(tmp_path, RESNET), tmp_path))["pixel_values"]
    assert pixels.shape == (8, 2, 1, 10, 10)


def test_a_model_without_such_inputs_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="path:tiny: sequence_length 65"):
        make_inputs(cell(sequence_length=65), checkpoint(tmp_path, BERT), tmp_path)
