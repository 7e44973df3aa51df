"""Checkpoints that the real maker makes mean the same to both generations of Transformers, each in its real stack."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from harness_onnxruntime import plugin as onnxruntime
from harness_pytorch import plugin as pytorch

from harness import cache, checkpoints
from harness.checkpoints import Checkpoint, Maker
from harness.checkpoints.families import FAMILIES
from harness.executors.venv import VenvExecutor
from harness.stacks import Stacks

pytestmark = pytest.mark.stacks

ENVIRONMENTS = cache.room("environments")  # the user's own: before any test has a cache of its own
SOURCES = (
    "random:bert",
    "random:distilbert",
    "random:gpt2",
    "random:llama?rope_theta=50&tie_word_embeddings=true",  # a theta that a generation may miss shows here
    "random:mistral?sliding_window=null",
    "random:qwen2",
    "random:resnet",
    "random:roberta",
    "random:t5",
    "random:vit",
    "random:wav2vec2",
    "random:whisper",
)


LANGUAGE_MODELS = tuple(each for each in SOURCES if not each.endswith((":resnet", ":vit", ":wav2vec2", ":whisper")))


@dataclass(frozen=True)
class Loaded:
    """What one generation made of all checkpoints."""

    outputs: Mapping[str, npt.NDArray[Any]]  # by "source's index/head/output"
    report: Mapping[str, Any]

    def of(self, source: str) -> dict[str, npt.NDArray[Any]]:
        return {name: array for name, array in self.outputs.items() if name.startswith(f"{SOURCES.index(source)}/")}


def offered() -> dict[str, Any]:
    plugins = (pytorch, onnxruntime)
    return {backend.name: backend for plugin in plugins for backend in plugin.harness_register_backends()}


@pytest.fixture(scope="module")
def stacks() -> Stacks:
    return Stacks(VenvExecutor(ENVIRONMENTS), offered(), lambda _: None)


class OneMaker:
    """The real maker in one process for all checkpoints. Each is made in one of its own elsewhere: what comes is the same."""

    def __init__(self, python: Path) -> None:
        command = [str(python), "-I", str(Path(__file__).with_name("make_many.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __call__(self, spec_json: Path, out_dir: Path) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps([str(spec_json), str(out_dir)])}\n")
        assert self._process.stdout.readline() == "made\n"

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def maker(stacks: Stacks) -> Iterator[OneMaker]:
    maker = OneMaker(stacks.provide(offered()["eager"]).python)
    yield maker
    maker.close()


def make(source: str, maker: Maker, folder: Path) -> Checkpoint:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(folder))
        return checkpoints.materialise(checkpoints.identify(source), maker, lambda _: None)


@pytest.fixture(scope="module")
def made(maker: OneMaker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checkpoint]:
    folder = tmp_path_factory.mktemp("made")
    return {source: make(source, maker, folder) for source in SOURCES}


@pytest.fixture(scope="module")
def generations(
    stacks: Stacks, made: Mapping[str, Checkpoint], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Loaded, Loaded]:
    """Transformers 5 and 4.57."""

    def load(backend: str) -> Loaded:
        python = stacks.provide(offered()[backend]).python
        out = tmp_path_factory.mktemp(backend) / "told"
        folders = [str(checkpoint.folder) for checkpoint in made.values()]
        command = [str(python), "-I", str(Path(__file__).with_name("load_all.py")), str(out), *folders]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        return Loaded(dict(np.load(f"{out}.npz")), json.loads(Path(f"{out}.json").read_text()))

    return load("eager"), load("onnxruntime")


def test_the_two_stacks_are_of_two_generations(generations: tuple[Loaded, Loaded]) -> None:
    assert [loaded.report["transformers"][0] for loaded in generations] == ["5", "4"]


@pytest.mark.parametrize("source", SOURCES)
def test_both_generations_compute_the_same(source: str, generations: tuple[Loaded, Loaded]) -> None:
    five, four = (loaded.of(source) for loaded in generations)
    assert five.keys() == four.keys()
    assert len(five) >= 2
    for name in five:
        np.testing.assert_allclose(four[name], five[name], atol=1e-5, err_msg=name)


def test_no_weight_of_any_head_is_left_to_chance(generations: tuple[Loaded, Loaded]) -> None:
    assert [loaded.report["left to chance"] for loaded in generations] == [{}, {}]


def test_every_family_is_among_them() -> None:
    assert {source.partition("?")[0] for source in SOURCES} == {f"random:{family}" for family in FAMILIES}


@pytest.mark.parametrize("source", LANGUAGE_MODELS)
def test_logits_are_large_enough_to_compare(source: str, generations: tuple[Loaded, Loaded]) -> None:
    (logits,) = (array for name, array in generations[0].of(source).items() if name.endswith("LM/logits"))
    assert 0.9 < logits.std() < 2
    assert np.abs(logits[0, 0] - logits[0, 1]).max() > 1  # of two tokens


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral", "qwen2"])
def test_a_decoder_does_not_say_one_token_for_ever(family: str, generations: tuple[Loaded, Loaded]) -> None:
    (source,) = (source for source in SOURCES if source.startswith(f"random:{family}"))
    (logits,) = (array for name, array in generations[0].of(source).items() if name.endswith("CausalLM/logits"))
    assert len(set(logits.argmax(-1).ravel())) > 4


@pytest.mark.parametrize("source", SOURCES)
def test_hidden_states_are_large_enough_to_compare(source: str, generations: tuple[Loaded, Loaded]) -> None:
    name = "ForTextEncoding/last_hidden_state" if source == "random:t5" else "//last_hidden_state"
    (states,) = (array for key, array in generations[0].of(source).items() if key.endswith(name))
    assert 0.9 < states.std() < 3
    assert np.abs(states[0] - states[1]).max() > 0.5  # of two inputs


def test_the_same_options_give_the_same_bytes_in_another_process(
    stacks: Stacks, maker: OneMaker, made: Mapping[str, Checkpoint], tmp_path: Path
) -> None:
    again = make("random:bert", stacks.make_checkpoint, tmp_path / "again")
    other = make("random:bert?seed=1", maker, tmp_path / "other")
    assert again.sha256 == made["random:bert"].sha256 != other.sha256
