"""`random:` sources: what they mean is spelled out, and what is made is what was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_checkpoint

from harness import checkpoints
from harness.checkpoints import Checkpoint, Maker
from harness.checkpoints.families import FAMILIES
from harness.model import HarnessError

Get = Callable[..., Checkpoint]


def maker(**changes: Any) -> Maker:
    """Does as it is told, as Transformers 5 would write it, but for the changes."""

    def make(spec: Path, folder: Path) -> None:
        config = json.loads(spec.read_text())["config"]
        if "rope_theta" in config:
            config["rope_parameters"] = {"rope_type": "default", "rope_theta": config.pop("rope_theta")}
        tiny_checkpoint.write(folder, tiny_checkpoint.files({**config, **changes, "transformers_version": "5.24.0"}))

    return make


# --- identity -------------------------------------------------------------------------------------------------------


def test_an_identity_spells_out_every_option_in_order() -> None:
    assert checkpoints.identify("random:bert?seed=3&hidden_size=32").identity == (
        "random:bert?hidden_act=gelu&hidden_size=32&initializer_range=0.2828&intermediate_size=256"
        "&max_position_embeddings=512&num_attention_heads=4&num_hidden_layers=2&seed=3&type_vocab_size=2&vocab_size=1024"
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("random:bert", "random:bert?"),
        ("random:bert", "random:bert?hidden_size=64&seed=0"),
        ("random:bert?seed=1&vocab_size=100", "random:bert?vocab_size=100&seed=1"),
        ("random:bert?vocab_size=100", "random:bert?vocab_size=0100"),
        ("random:llama?rope_theta=50", "random:llama?rope_theta=50.0"),
        ("random:llama?rope_theta=50", "random:llama?rope_theta=5e1"),
        ("random:resnet", "random:resnet?hidden_sizes=16,32&depths=1,1"),
    ],
)
def test_sources_that_mean_the_same_have_one_identity(one: str, other: str) -> None:
    assert checkpoints.identify(one).identity == checkpoints.identify(other).identity


@pytest.mark.parametrize("option", ["seed=1", "vocab_size=1025", "hidden_act=relu", "initializer_range=0.3"])
def test_every_option_is_part_of_the_identity(option: str) -> None:
    assert checkpoints.identify(f"random:bert?{option}").identity != checkpoints.identify("random:bert").identity


@pytest.mark.parametrize("source", [*FAMILIES, "bert?hidden_size=2&num_attention_heads=1", "bert?hidden_size=65536"])
def test_an_identity_is_itself_a_source(source: str) -> None:
    identity = checkpoints.identify(f"random:{source}").identity
    assert checkpoints.identify(identity).identity == identity


@pytest.mark.parametrize("family", FAMILIES)
def test_the_config_is_known_without_weights(family: str) -> None:
    config = checkpoints.identify(f"random:{family}").config
    assert config["model_type"] == family
    assert config["architectures"][0] == FAMILIES[family].architecture
    assert all(prefix or name in config["architectures"] for name, prefix in FAMILIES[family].classes)
    assert set(FAMILIES[family].options) - {"seed"} <= set(config)
    assert "seed" not in config


def test_null_and_false_reach_the_config_as_themselves() -> None:
    config = checkpoints.identify("random:mistral?sliding_window=null&tie_word_embeddings=true&rope_theta=50").config
    assert config["sliding_window"] is None
    assert config["tie_word_embeddings"] is True
    assert config["rope_parameters"] == {"rope_type": "default", "rope_theta": 50.0}


@pytest.mark.parametrize(("width", "expected"), [(64, 0.2), (768, 0.0577)])
def test_logits_have_one_size_whatever_the_width(width: int, expected: float) -> None:
    assert checkpoints.identify(f"random:bert?hidden_size={width}").config["initializer_range"] == expected


def test_a_written_initializer_range_is_taken_as_it_is() -> None:
    assert checkpoints.identify("random:gpt2?initializer_range=0.02").config["initializer_range"] == 0.02


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("random:", ["there is no family ''", "bert", "gpt2"]),
        ("random:brt", ["there is no family 'brt'", "did you mean 'bert'?"]),
        ("random:../bert", ["there is no family '../bert'"]),
        ("random:bert?hiden_size=8", ["there is no option 'hiden_size'", "did you mean 'hidden_size'?"]),
        ("random:gpt2?hidden_size=8", ["there is no option 'hidden_size'", "n_embd"]),
        ("random:bert?hidden_size", ["'hidden_size' is no option", "NAME=VALUE"]),
        ("random:bert?seed=1&seed=2", ["seed is given twice"]),
        ("random:bert?seed=1&", ["'' is no option"]),
        ("random:bert?hidden_size=0", ["hidden_size is '0'", "a whole number from 2 to"]),
        ("random:bert?hidden_size=-64", ["hidden_size is '-64'"]),
        ("random:bert?hidden_size=6.4", ["hidden_size is '6.4'", "a whole number"]),
        ("random:bert?hidden_size=null", ["hidden_size is 'null'"]),
        ("random:bert?hidden_size=٦٤", ["hidden_size is"]),
        ("random:bert?vocab_size=" + "9" * 5000, ["it must be a whole number from 32 to 1000000"]),
        ("random:bert?hidden_act=geluu", ["hidden_act is 'geluu'", "gelu or gelu_new"]),
        ("random:bert?initializer_range=nan", ["initializer_range is 'nan'", "a number above 0 and at most 2"]),
        ("random:bert?initializer_range=inf", ["initializer_range is 'inf'"]),
        ("random:llama?rope_theta=0", ["rope_theta is '0'"]),
        ("random:llama?tie_word_embeddings=yes", ["tie_word_embeddings is 'yes'", "true or false"]),
        ("random:bert?num_attention_heads=5", ["hidden_size=64 must be a multiple of num_attention_heads=5"]),
        ("random:llama?hidden_size=20", ["hidden_size=20 must be a multiple of 2 x num_attention_heads=4"]),
        ("random:llama?num_key_value_heads=3", ["num_attention_heads=4 must be a multiple of num_key_value_heads=3"]),
        ("random:vit?image_size=60", ["image_size=60 must be a multiple of patch_size=16"]),
        ("random:resnet?depths=1,1,1", ["hidden_sizes and depths must have as many numbers"]),
        ("random:resnet?depths=1,,1", ["depths is '1,,1'", "separated by commas"]),
        ("random:resnet?depths=1,1,1,1,1,1,1,1,1", ["one to eight"]),
    ],
)
def test_what_cannot_be_made_is_refused_with_what_is_allowed(source: str, words: list[str]) -> None:
    with pytest.raises(HarnessError) as error:
        checkpoints.identify(source)
    assert [word for word in words if word not in str(error.value)] == []


# --- weights --------------------------------------------------------------------------------------------------------


def test_the_maker_is_told_everything_once(get: Get, said: list[str]) -> None:
    seen: list[dict[str, Any]] = []

    def make(spec: Path, folder: Path) -> None:
        assert list(folder.iterdir()) == []
        seen.append(json.loads(spec.read_text()))
        maker()(spec, folder)

    first = get("random:gpt2?n_embd=16&seed=5", make)
    second = get("random:gpt2?seed=5&n_embd=16", make)
    assert first == second
    assert len(seen) == 1
    assert seen[0]["seed"] == 5
    assert seen[0]["classes"][0] == ["GPT2LMHeadModel", ""]
    assert seen[0]["config"]["n_embd"] == 16
    assert "seed" not in seen[0]["config"]
    assert said == ["making random:gpt2?n_embd=16&seed=5"]


def test_the_checkpoint_holds_its_files_and_nothing_else(get: Get) -> None:
    checkpoint = get("random:bert", maker())
    assert sorted(path.name for path in checkpoint.folder.iterdir()) == ["config.json", "model.safetensors"]
    assert (checkpoint.folder / "model.safetensors").read_bytes() == tiny_checkpoint.weights()
    assert checkpoint.licence is None


def test_both_generations_find_their_rotary_keys(get: Get) -> None:
    config = get("random:llama?rope_theta=50", maker()).config
    assert config["rope_theta"] == 50
    assert config["rope_parameters"]["rope_theta"] == 50


def test_keys_that_transformers_leaves_away_as_its_default_are_written_out(get: Get) -> None:
    def make(spec: Path, folder: Path) -> None:
        del spec
        tiny_checkpoint.write(folder, tiny_checkpoint.files({"model_type": "bert"}))

    assert get("random:bert", make).config["hidden_act"] == "gelu"


def test_another_value_than_asked_for_is_refused(get: Get) -> None:
    with pytest.raises(HarnessError, match="made hidden_size 65 of 64"):
        get("random:bert", maker(hidden_size=65))


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_a_maker_that_leaves_a_file_out_is_refused(get: Get, missing: str) -> None:
    def make(spec: Path, folder: Path) -> None:
        maker()(spec, folder)
        (folder / missing).unlink()

    with pytest.raises(HarnessError, match=f"the checkpoint maker left no {missing}"):
        get("random:bert", make)


def test_weights_that_were_cut_short_are_no_checkpoint(get: Get) -> None:
    def make(spec: Path, folder: Path) -> None:
        maker()(spec, folder)
        (folder / "model.safetensors").write_bytes(tiny_checkpoint.weights()[:-1])

    with pytest.raises(HarnessError, match="its header says"):
        get("random:bert", make)


def test_after_a_maker_that_failed_the_next_one_starts_afresh(get: Get) -> None:
    def fail(spec: Path, folder: Path) -> None:
        del spec
        (folder / "model.safetensors").write_bytes(b"half")
        raise HarnessError("the stack said no")

    with pytest.raises(HarnessError, match="the stack said no"):
        get("random:bert", fail)
    assert get("random:bert", maker()).config["model_type"] == "bert"
