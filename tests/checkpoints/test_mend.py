"""One checkpoint means the same to Transformers 4.57 and 5."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.checkpoints.mend import mend_folder, mended_config, mended_tokenizer_config
from harness.model import HarnessError

BY_5 = {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}
BY_4 = {"rope_theta": 50.0, "rope_scaling": None}


def test_a_theta_that_5_wrote_is_found_by_4() -> None:
    assert mended_config(BY_5) == {**BY_5, "rope_theta": 50.0}


def test_a_theta_that_4_wrote_is_found_by_5() -> None:
    assert mended_config(BY_4) == {**BY_4, "rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}


def test_a_scaling_that_5_wrote_is_found_by_4() -> None:
    parameters = {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0, "partial_rotary_factor": 0.5}
    assert mended_config({"rope_parameters": parameters}) == {
        "rope_parameters": parameters,
        "rope_theta": 50.0,
        "partial_rotary_factor": 0.5,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    }


@pytest.mark.parametrize("kind", ["rope_type", "type"])
def test_a_scaling_that_4_wrote_is_found_by_5(kind: str) -> None:
    config = {"rope_theta": 50.0, "partial_rotary_factor": 0.5, "rope_scaling": {kind: "linear", "factor": 2.0}}
    parameters = mended_config(config)["rope_parameters"]
    expected = {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0, "partial_rotary_factor": 0.5}
    assert {name: parameters[name] for name in expected} == expected


def test_two_thetas_by_kind_of_layer_are_found_by_4() -> None:
    parameters = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    mended = mended_config({"rope_parameters": parameters})
    assert (mended["rope_theta"], mended["rope_local_base_freq"]) == (1e6, 1e4)


def test_two_thetas_that_4_wrote_are_left_for_5_to_sort() -> None:
    config = {"rope_theta": 1e6, "rope_local_base_freq": 1e4}
    assert mended_config(config) == config


def test_models_inside_a_model_are_mended_too() -> None:
    assert mended_config({"text_config": BY_5})["text_config"]["rope_theta"] == 50.0


def test_a_config_without_rotary_keys_is_left_alone() -> None:
    config = {"model_type": "bert", "rope_parameters": None}
    assert mended_config(config) == config


@pytest.mark.parametrize("config", [BY_4, BY_5, {"model_type": "bert"}])
def test_mending_twice_changes_nothing_more(config: dict[str, Any]) -> None:
    assert mended_config(mended_config(config)) == mended_config(config)


def test_a_config_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(HarnessError, match=r"rope_theta=10000\.0 and, in rope_parameters, 50\.0"):
        mended_config({**BY_5, "rope_theta": 10000.0})


def test_the_tokenizer_class_of_5_gets_the_name_that_both_know() -> None:
    assert mended_tokenizer_config({"tokenizer_class": "TokenizersBackend", "pad_token": "x"}) == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "x",
    }


def test_a_list_of_extra_tokens_gets_the_key_that_both_know() -> None:
    assert mended_tokenizer_config({"extra_special_tokens": ["<a>"]}) == {"additional_special_tokens": ["<a>"]}


@pytest.mark.parametrize(
    "config", [{"tokenizer_class": "BertTokenizer"}, {"extra_special_tokens": {"image_token": "<i>"}}]
)
def test_other_tokenizers_are_left_alone(config: dict[str, Any]) -> None:
    assert mended_tokenizer_config(config) == config


def test_a_file_that_needs_no_mending_keeps_its_bytes(tmp_path: Path) -> None:
    written = b'{ "model_type":"bert" }'
    (tmp_path / "config.json").write_bytes(written)
    (tmp_path / "tokenizer_config.json").write_bytes(written)
    mend_folder(tmp_path)
    assert (tmp_path / "config.json").read_bytes() == written
    assert (tmp_path / "tokenizer_config.json").read_bytes() == written


def test_a_file_that_needs_mending_is_rewritten(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**BY_5, "name": "über"}))
    mend_folder(tmp_path)
    assert json.loads((tmp_path / "config.json").read_bytes()) == {**BY_5, "name": "über", "rope_theta": 50.0}
