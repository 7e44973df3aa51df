"""`path:` sources: content decides, the user's folder is never touched."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_checkpoint
from tiny_checkpoint import make_nothing

from harness import cache, checkpoints
from harness.checkpoints import Checkpoint, paths
from harness.model import HarnessError

Get = Callable[..., Checkpoint]

SHARDED = {
    "config.json": tiny_checkpoint.files()["config.json"],
    "model.safetensors.index.json": json.dumps(
        {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    ).encode(),
    "one.safetensors": tiny_checkpoint.weights(1),
    "two.safetensors": tiny_checkpoint.weights(2),
}


def without(*names: str, **more: bytes) -> dict[str, bytes]:
    return {name: data for name, data in {**tiny_checkpoint.files(), **more}.items() if name not in names}


def index(weight_map: object) -> dict[str, bytes]:
    data = json.dumps({"weight_map": weight_map}).encode()
    return without("model.safetensors", **{"model.safetensors.index.json": data})


# --- identity -------------------------------------------------------------------------------------------------------


def test_equal_content_is_one_checkpoint_wherever_it_lies(tmp_path: Path) -> None:
    here = checkpoints.identify(f"path:{tiny_checkpoint.write(tmp_path / 'here')}")
    there = checkpoints.identify(f"path:{tiny_checkpoint.write(tmp_path / 'there and über')}")
    assert here.identity == there.identity
    assert here.identity.startswith("path:sha256:")
    assert here.config == tiny_checkpoint.CONFIG


def test_a_path_may_be_relative_or_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_checkpoint.write(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    identities = {
        checkpoints.identify(f"path:{text}").identity for text in ("model", "./model/", "~/model", "model/../model")
    }
    assert len(identities) == 1


def test_a_change_that_keeps_size_and_times_is_seen(tmp_path: Path) -> None:
    folder = tiny_checkpoint.write(tmp_path / "model")
    before = checkpoints.identify(f"path:{folder}").identity
    status = (folder / "model.safetensors").stat()
    (folder / "model.safetensors").write_bytes(tiny_checkpoint.weights(7))
    os.utime(folder / "model.safetensors", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert checkpoints.identify(f"path:{folder}").identity != before


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read to be hashed."""
    names: list[str] = []
    real = cache.sha256_of

    def counted(path: Path) -> str:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(cache, "sha256_of", counted)
    return names


def test_a_second_plan_reads_only_what_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hashed: list[str]
) -> None:
    monkeypatch.setattr(paths, "_SETTLED_NS", 0)
    folder = tiny_checkpoint.write(tmp_path / "model")
    first = checkpoints.identify(f"path:{folder}").identity
    assert sorted(hashed) == ["config.json", "model.safetensors"]
    assert checkpoints.identify(f"path:{folder}").identity == first
    assert len(hashed) == 2
    (folder / "model.safetensors").write_bytes(tiny_checkpoint.weights(7))
    assert checkpoints.identify(f"path:{folder}").identity != first
    assert hashed[2:] == ["model.safetensors"]


def test_digests_of_files_that_changed_just_now_are_not_relied_upon(tmp_path: Path, hashed: list[str]) -> None:
    folder = tiny_checkpoint.write(tmp_path / "model")
    checkpoints.identify(f"path:{folder}")
    checkpoints.identify(f"path:{folder}")
    assert len(hashed) == 4


def test_remembered_digests_that_were_spoilt_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_folder: Path
) -> None:
    monkeypatch.setattr(paths, "_SETTLED_NS", 0)
    folder = tiny_checkpoint.write(tmp_path / "model")
    first = checkpoints.identify(f"path:{folder}").identity
    (memory,) = (cache_folder / "checkpoints" / "digests").iterdir()
    memory.write_text("[")
    assert checkpoints.identify(f"path:{folder}").identity == first


def test_a_plan_needs_no_cache_that_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file"))
    assert checkpoints.identify(f"path:{tiny_checkpoint.write(tmp_path / 'model')}").identity.startswith("path:sha256:")


# --- the folder -----------------------------------------------------------------------------------------------------


def test_only_the_files_of_the_checkpoint_are_taken(get: Get, tmp_path: Path) -> None:
    more = {"optimizer.pt": b"", "modeling_mine.py": b"", "vocab.txt": b"a", "tokenizer_config.json": b"{}"}
    folder = tiny_checkpoint.write(tmp_path / "model", {**tiny_checkpoint.files(), **more})
    plain = get(f"path:{folder}")
    assert sorted(path.name for path in plain.folder.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    (folder / "optimizer.pt").write_bytes(b"further trained")
    assert checkpoints.identify(f"path:{folder}").identity == plain.identity


def test_weights_in_several_files_are_taken_together(get: Get, tmp_path: Path) -> None:
    checkpoint = get(f"path:{tiny_checkpoint.write(tmp_path / 'model', SHARDED)}")
    assert {path.name: path.read_bytes() for path in checkpoint.folder.iterdir()} == SHARDED


def test_what_must_be_mended_is_mended_in_the_copy_alone(get: Get, tmp_path: Path) -> None:
    config = {
        **tiny_checkpoint.CONFIG,
        "model_type": "llama",
        "rope_parameters": {"rope_type": "default", "rope_theta": 5.0},
    }
    content = {**tiny_checkpoint.files(config), "tokenizer_config.json": b'{"tokenizer_class": "TokenizersBackend"}'}
    folder = tiny_checkpoint.write(tmp_path / "model", content)
    checkpoint = get(f"path:{folder}")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == content
    assert checkpoint.config["rope_theta"] == checkpoints.identify(f"path:{folder}").config["rope_theta"] == 5
    tokenizer = json.loads((checkpoint.folder / "tokenizer_config.json").read_bytes())
    assert tokenizer == {"tokenizer_class": "PreTrainedTokenizerFast"}


def test_the_users_files_keep_their_modes_and_weights_are_not_copied(get: Get, tmp_path: Path) -> None:
    folder = tiny_checkpoint.write(tmp_path / "model")
    for path in folder.iterdir():
        path.chmod(0o640)
    checkpoint = get(f"path:{folder}")
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o640}
    assert (folder / "model.safetensors").samefile(checkpoint.folder / "model.safetensors")
    assert not (folder / "config.json").samefile(checkpoint.folder / "config.json")


def test_links_as_model_caches_have_them_are_followed(get: Get, tmp_path: Path) -> None:
    real = tiny_checkpoint.write(tmp_path / "blobs")
    folder = tmp_path / "snapshot"
    folder.mkdir()
    for path in real.iterdir():
        (folder / path.name).symlink_to(path)
    checkpoint = get(f"path:{folder}")
    assert not any(path.is_symlink() for path in checkpoint.folder.iterdir())


def test_weights_overwritten_after_the_copy_are_noticed(get: Get, tmp_path: Path) -> None:
    """The copy shares its bytes with the user's file; a second run of the old content must not take the new."""
    folder = tiny_checkpoint.write(tmp_path / "model")
    first = get(f"path:{folder}")
    (folder / "model.safetensors").write_bytes(tiny_checkpoint.weights(7))
    second = get(f"path:{folder}")
    again = get(f"path:{tiny_checkpoint.write(tmp_path / 'as before')}")
    assert second.sha256 != first.sha256 == again.sha256
    assert (again.folder / "model.safetensors").read_bytes() == tiny_checkpoint.weights(0)


def test_a_checkpoint_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    folder = tiny_checkpoint.write(tmp_path / "model")
    identity = checkpoints.identify(f"path:{folder}")
    (folder / "model.safetensors").write_bytes(tiny_checkpoint.weights(7))
    with pytest.raises(HarnessError, match="has changed since it was planned"):
        checkpoints.materialise(identity, make_nothing, print)


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        (b"---\nlicense: apache-2.0\n---\n# Model", "apache-2.0"),
        (b"---\nlicense: [mit, other]\n---\n", None),
        (b"---\nlicense: {\n---\n", None),
        (b"# Model\n---\nlicense: mit\n---\n", None),
        (b"\xff", None),
    ],
)
def test_the_licence_is_the_model_cards(get: Get, tmp_path: Path, card: bytes, licence: str | None) -> None:
    folder = tiny_checkpoint.write(tmp_path / "model", {**tiny_checkpoint.files(), "README.md": card})
    assert checkpoints.identify(f"path:{folder}").licence == licence
    assert get(f"path:{folder}").licence == licence


# --- what is no checkpoint ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (without("config.json"), "it has no config.json"),
        (without("config.json", "model.safetensors"), "it has no config.json"),
        (without("model.safetensors"), "it has no model.safetensors"),
        (
            without("model.safetensors", **{"pytorch_model.bin": b""}),
            "pytorch_model.bin, which not every backend reads",
        ),
        (without(**{"config.json": b'{"model_type": '}), "config.json is not JSON: Expecting value in line 1"),
        (without(**{"config.json": b"\xff\xfe"}), "config.json is not JSON"),
        (without(**{"config.json": b"[]"}), "config.json holds no JSON object but list"),
        (without(**{"config.json": b"{}"}), "config.json names no model_type"),
        (without(**{"model.safetensors": b""}), "is no safetensors file"),
        (without(**{"model.safetensors": b"version https://git-lfs.example/spec/v1\n"}), "a pointer to one, perhaps"),
        (without(**{"model.safetensors": tiny_checkpoint.weights()[:-1]}), "its header says"),
        (without(**{"model.safetensors": tiny_checkpoint.weights() + b"0"}), "its header says"),
        (index({"a": "one.safetensors"}), "names one.safetensors, which is not there"),
        (index({"a": "../one.safetensors"}), "no safetensors file of the same folder"),
        (index({"a": "one.bin"}), "no safetensors file of the same folder"),
        (index({"a": 1}), "no safetensors file of the same folder"),
        (index([]), "has no weight_map"),
        (
            without(
                **{"config.json": b'{"model_type": "llama", "rope_theta": 1, "rope_parameters": {"rope_theta": 2}}'}
            ),
            "make them equal",
        ),
    ],
)
def test_a_folder_without_a_whole_checkpoint_is_refused_when_planned(
    tmp_path: Path, content: dict[str, bytes], words: str
) -> None:
    folder = tiny_checkpoint.write(tmp_path / "model", content)
    with pytest.raises(HarnessError) as error:
        checkpoints.identify(f"path:{folder}")
    assert words in str(error.value)
    assert str(folder) in str(error.value) or "rope_parameters" in str(error.value)


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="there is no folder"):
        checkpoints.identify(f"path:{tmp_path / 'missing'}")
    with pytest.raises(HarnessError, match="is a file; name the folder that holds it"):
        checkpoints.identify(f"path:{tiny_checkpoint.write(tmp_path / 'model') / 'config.json'}")
