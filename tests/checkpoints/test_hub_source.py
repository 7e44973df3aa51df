"""`hub:` sources: the real client, asking a small Hub on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiny_checkpoint
from hub_server import TOKEN, Hub, Model, served
from huggingface_hub import constants

from harness import checkpoints
from harness.checkpoints import Checkpoint, hub_client
from harness.model import HarnessError

Get = Callable[..., Checkpoint]

NAME = "tiny-org/Tiny.model_1"
EXTRAS = {"tokenizer.json": b"{}", "README.md": b"# Tiny", "pytorch_model.bin": b"pickled", "onnx/model.onnx": b"graph"}


@pytest.fixture
def model() -> Model:
    return Model({**tiny_checkpoint.files(), **EXTRAS}, card={"license": "apache-2.0"})


@pytest.fixture(autouse=True)
def hub(model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    for hub in served(monkeypatch, tmp_path):
        hub.models[NAME] = model
        yield hub


def pinned(model: Model) -> str:
    return f"hub:{NAME}@{model.commit}"


def failure(source: str, get: Get | None = None) -> str:
    with pytest.raises(HarnessError) as error:
        (get or checkpoints.identify)(source)
    assert "\n" not in str(error.value)
    return str(error.value)


# --- identity -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["", "@main", "@v1.0", "@refs/pr/7"])
def test_a_revision_is_pinned_to_its_commit(model: Model, revision: str) -> None:
    identity = checkpoints.identify(f"hub:{NAME}{revision}")
    assert identity.identity == pinned(model)
    assert identity.config == tiny_checkpoint.CONFIG
    assert identity.licence == "apache-2.0"


def test_planning_fetches_the_config_alone_and_of_a_commit_once(hub: Hub) -> None:
    checkpoints.identify(f"hub:{NAME}")
    checkpoints.identify(f"hub:{NAME}@v1.0")
    assert hub.asked_for() == ["config.json"]


def test_a_commit_needs_no_network(hub: Hub, model: Model) -> None:
    identity = checkpoints.identify(pinned(model).upper().replace("HUB:TINY-ORG/TINY.MODEL_1", f"hub:{NAME}"))
    assert (identity.identity, identity.config, identity.licence) == (pinned(model), {}, None)
    assert hub.requests == []


@pytest.mark.parametrize("first", ["planned", "fetched"])
def test_of_a_commit_that_was_asked_for_before_the_config_is_known(
    hub: Hub, model: Model, get: Get, first: str
) -> None:
    checkpoints.identify(f"hub:{NAME}") if first == "planned" else get(pinned(model))
    hub.requests.clear()
    identity = checkpoints.identify(pinned(model))
    assert (identity.config, identity.licence) == (tiny_checkpoint.CONFIG, "apache-2.0")
    assert hub.requests == []


def test_a_memory_that_was_spoilt_is_not_believed(cache_folder: Path) -> None:
    checkpoints.identify(f"hub:{NAME}")
    (memory,) = (cache_folder / "checkpoints" / "commits").iterdir()
    memory.write_text('{"config": 3, "licence": null}')
    assert checkpoints.identify(f"hub:{NAME}").config == tiny_checkpoint.CONFIG


def test_another_commit_is_another_checkpoint(model: Model) -> None:
    before = checkpoints.identify(f"hub:{NAME}").identity
    model.files |= tiny_checkpoint.files(value=1)
    assert checkpoints.identify(f"hub:{NAME}").identity != before


def test_the_config_is_mended_for_both_generations(model: Model) -> None:
    model.files |= tiny_checkpoint.files({"model_type": "llama", "rope_theta": 5.0})
    assert checkpoints.identify(f"hub:{NAME}").config["rope_parameters"]["rope_theta"] == 5


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ({"license": "other", "license_name": "tiny-licence"}, "tiny-licence"),
        ({"license": "other"}, None),
        ({"license": ["mit", "apache-2.0"]}, None),
        ({"language": "en"}, None),
        (None, None),
    ],
)
def test_the_licence_is_the_model_cards(model: Model, card: dict[str, object] | None, licence: str | None) -> None:
    model.card = card
    assert checkpoints.identify(f"hub:{NAME}").licence == licence


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("hub:", "'' is no model's name on the Hub; write hub:ORG/NAME or hub:ORG/NAME@REVISION"),
        ("hub:gpt2", "'gpt2' is no model's name"),
        ("hub:a/b/c", "'a/b/c' is no model's name"),
        ("hub:a/../b", "'a/../b' is no model's name"),
        ("hub:a/b--c", "is no model's name"),
        ("hub:a/b.git", "is no model's name"),
        ("hub:-a/b", "is no model's name"),
        ("hub:a/b c", "is no model's name"),
        ("hub:a/b@", "'' is no revision; write hub:a/b@REVISION"),
        ("hub:a/b@my branch", "'my branch' is no revision"),
    ],
)
def test_what_names_no_model_is_refused_without_asking(hub: Hub, source: str, words: str) -> None:
    assert words in failure(source)
    assert hub.requests == []


# --- files ----------------------------------------------------------------------------------------------------------


def test_only_the_files_of_the_checkpoint_are_fetched(hub: Hub, model: Model, get: Get, said: list[str]) -> None:
    checkpoint = get(f"hub:{NAME}")
    names = {path.name: path.read_bytes() for path in checkpoint.folder.iterdir()}
    assert names == {**tiny_checkpoint.files(), "tokenizer.json": b"{}"}
    assert (checkpoint.identity, checkpoint.licence) == (pinned(model), "apache-2.0")
    assert set(hub.asked_for()) == names.keys()
    assert said == [f"downloading model.safetensors of {pinned(model)} (0.0 MB)"]


def test_once_fetched_it_is_found_without_the_hub(hub: Hub, model: Model, get: Get) -> None:
    first = get(f"hub:{NAME}")
    hub.status = 500
    assert get(pinned(model)) == first


def test_weights_in_several_files_are_fetched_together(model: Model, get: Get) -> None:
    del model.files["model.safetensors"]
    index = json.dumps({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}).encode()
    parts = {"one.safetensors": tiny_checkpoint.weights(1), "two.safetensors": tiny_checkpoint.weights(2)}
    model.files |= {"model.safetensors.index.json": index, **parts}
    model.large = tuple(parts)
    names = {path.name: path.read_bytes() for path in get(f"hub:{NAME}").folder.iterdir()}
    assert names.items() >= {"model.safetensors.index.json": index, **parts}.items()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_bytes_that_are_not_those_of_the_commit_are_refused(model: Model, get: Get, name: str) -> None:
    files = tiny_checkpoint.files({**tiny_checkpoint.CONFIG, "vocab_size": 65}, value=9)
    model.spoilt[name] = files[name]
    assert len(model.spoilt[name]) == len(model.files[name])
    assert f"{name} came with other bytes than the Hub says" in failure(pinned(model), get)
    model.spoilt.clear()
    assert get(pinned(model)).config == tiny_checkpoint.CONFIG


def test_files_that_have_come_outlive_an_interrupted_download(
    hub: Hub, model: Model, get: Get, cache_folder: Path
) -> None:
    model.spoilt["tokenizer.json"] = b"[]"  # the last of them
    failure(pinned(model), get)
    model.spoilt.clear()
    hub.requests.clear()
    get(pinned(model))
    assert hub.asked_for() == ["tokenizer.json"]
    assert list((cache_folder / "checkpoints" / "downloads").iterdir()) == []


# --- who asks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("locked", ["private", "gated"])
def test_a_token_opens_what_is_locked(
    hub: Hub, model: Model, get: Get, monkeypatch: pytest.MonkeyPatch, locked: str
) -> None:
    model.locked = locked
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert get(f"hub:{NAME}").config == tiny_checkpoint.CONFIG
    asked = [request for request in hub.requests if NAME in request.path]
    assert {request.authorization for request in asked} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("locked", "words"),
    [("private", "no such model on the Hub, or not for you"), ("gated", "is gated; accept its terms")],
)
def test_without_a_token_what_is_locked_is_refused(model: Model, locked: str, words: str) -> None:
    model.locked = locked
    message = failure(f"hub:{NAME}")
    assert words in message
    assert "HF_TOKEN" in message


@pytest.mark.parametrize("token", ["hf_SeCrEt", "hf_SeCrEt\nSeCrEt", "hf_SeCrEt\x7f\x01", "hf_SeCrEtü"])
@pytest.mark.parametrize("status", [None, 401, 403, 500])
def test_a_token_is_told_to_nobody_else(
    hub: Hub,
    model: Model,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    token: str,
    status: int | None,
) -> None:
    model.locked, hub.status = "private", status
    monkeypatch.setenv("HF_TOKEN", token)
    told = failure(f"hub:{NAME}") + caplog.text + "".join(capfd.readouterr())
    assert "SeCrEt" not in told


# --- what goes wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("hub:tiny-org/tiny", "there is no such model on the Hub"),
        (f"hub:{NAME}@v2.0", "has no such revision"),
        (f"hub:{NAME}@{'0' * 40}", "has no such revision"),
    ],
)
def test_what_the_hub_does_not_have_is_refused(get: Get, source: str, words: str) -> None:
    assert words in failure(source, get)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (["model.safetensors"], "has its weights in pytorch_model.bin, which not every backend reads"),
        (["model.safetensors", "pytorch_model.bin"], "it has no model.safetensors"),
        (["config.json"], "it has no config.json"),
    ],
)
def test_a_model_without_a_checkpoint_that_can_be_read_is_refused_when_planned(
    hub: Hub, model: Model, missing: list[str], words: str
) -> None:
    for name in missing:
        del model.files[name]
    assert words in failure(f"hub:{NAME}@main")
    assert hub.asked_for() == []


def test_a_config_that_is_none_is_refused_when_planned(model: Model) -> None:
    model.files["config.json"] = b"{}"
    assert f"config.json of {pinned(model)} names no model_type" in failure(f"hub:{NAME}")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "does not accept the token"),
        (403, "does not let this token read it"),
        (404, "the Hub does not have it"),
        (429, "asks for fewer requests"),
        (500, "answered with status 500; try again later"),
    ],
)
def test_a_refusal_is_told_at_once(hub: Hub, status: int, words: str) -> None:
    hub.status = status
    assert words in failure(f"hub:{NAME}")
    assert sum("/api/models/" in request.path for request in hub.requests) == 1


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}"])
def test_an_answer_of_something_else_is_told(hub: Hub, body: bytes) -> None:
    hub.status, hub.body = 200, body
    assert "does not answer like a Hub; see HF_ENDPOINT" in failure(f"hub:{NAME}")


def test_an_answer_that_names_no_commit_is_refused(hub: Hub) -> None:
    hub.status, hub.body = 200, b'{"id": "a/b", "sha": "main"}'
    assert "the Hub names no commit of it but 'main'" in failure(f"hub:{NAME}")


def test_a_hub_that_is_gone_is_told_at_once_with_its_name_but_no_password(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.__exit__()
    host = hub.endpoint.removeprefix("http://")
    monkeypatch.setattr(constants, "ENDPOINT", f"http://me:SeCrEt@{host}")
    message = failure(f"hub:{NAME}")
    assert f"the connection to the Hub at {host} failed (ConnectError: Connection refused)" in message
    assert "SeCrEt" not in message


def test_a_hub_that_does_not_answer_is_waited_for_once(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_client, "TIMEOUT_S", 0.2)
    hub.is_silent = True
    assert "failed (ReadTimeout" in failure(f"hub:{NAME}")
    assert sum("/api/models/" in request.path for request in hub.requests) == 1


def test_where_the_hub_may_not_be_asked_it_says_so(
    hub: Hub, model: Model, get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    message = failure(f"hub:{NAME}")
    assert "HF_HUB_OFFLINE is set; unset it, or name a commit that was fetched before" in message
    assert "HF_HUB_OFFLINE is set" in failure(pinned(model), get)
    assert hub.requests == []


# --- in a process of its own ----------------------------------------------------------------------------------------


def test_endpoint_and_token_are_those_of_the_environment(hub: Hub, model: Model, tmp_path: Path) -> None:
    model.locked = "private"
    variables = {
        "HF_ENDPOINT": hub.endpoint,
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(tmp_path),
        "HF_HUB_DISABLE_XET": "1",
    }
    code = f"from harness import checkpoints as c; print(c.materialise(c.identify('hub:{NAME}'), None, print).folder)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    assert (Path(done.stdout.splitlines()[-1]) / "model.safetensors").read_bytes() == tiny_checkpoint.weights()
    assert done.stderr == ""


def test_the_client_is_imported_only_where_the_hub_is_asked(model: Model) -> None:
    code = (
        "import sys; import harness.cli; from harness import checkpoints;"
        f"checkpoints.identify('random:bert'); checkpoints.identify('{pinned(model)}');"
        "sys.exit('huggingface_hub' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
