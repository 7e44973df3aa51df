"""Models of audio in the real stacks. The judge is eager of the pytorch stack; it is held against the models' own classes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from launches import BATCH, HERE, SEQUENCE, SHORT_PROTOCOL, Lab, Question, largest_difference

from harness.model import Cell
from harness.tasks import APPLICATION_PARTS, TASKS

pytestmark = pytest.mark.stacks

SPEECH, FEATURES = "automatic-speech-recognition", "feature-extraction"
WAV2VEC2 = ("random:wav2vec2", SPEECH)
BASE_NORMS = ("random:wav2vec2?feat_extract_norm=group&do_stable_layer_norm=false&conv_bias=false", SPEECH)
WHISPER = ("random:whisper", SPEECH)
HEADLESS = ("random:wav2vec2", FEATURES)
EVERY = (WAV2VEC2, BASE_NORMS, WHISPER, HEADLESS)
CASES = {
    "eager": EVERY,
    "sdpa": (WAV2VEC2, WHISPER),
    "compile": (WAV2VEC2,),
    "onnxruntime": (WAV2VEC2, BASE_NORMS, WHISPER),
    "flax": (WAV2VEC2, WHISPER, HEADLESS),  # it refuses the base model's norms
}
SECONDS = {"random:whisper": 2}  # by its config; others take five where nobody asks for another length


def question(backend: str, source: str, task: str) -> Question:
    return Question(backend, source, task, padding="none")


@pytest.fixture(scope="module")
def asked(lab: Lab) -> Lab:
    """The lab with every case asked, in one process for each backend."""
    for backend, models in CASES.items():
        lab.ask_together([question(backend, *model) for model in models])
    return lab


@pytest.mark.parametrize(("backend", "model"), [(name, model) for name in CASES for model in CASES[name]])
def test_every_backend_agrees_with_eager(asked: Lab, backend: str, model: tuple[str, str]) -> None:
    told, eager = asked.ask(question(backend, *model)), asked.ask(question("eager", *model))
    compared = [
        {name: slot[name] for name in TASKS[model[1]].outputs} for slot in told.outputs
    ]  # Whisper's graph has more
    assert largest_difference(compared, eager.outputs) < 1e-4
    assert told.report["effective"].items() >= asked.backends[backend].expects.items()
    assert told.report["items"] == {"samples": BATCH, "audio_seconds": BATCH * SECONDS.get(model[0], 5)}


def test_eager_gives_what_the_models_own_classes_give(asked: Lab) -> None:
    questions = [question("eager", *model) for model in (WAV2VEC2, BASE_NORMS, WHISPER)]
    for each, plain in zip(questions, asked.over_inputs(HERE / "plain_speech.py", questions), strict=True):
        assert largest_difference(asked.ask(each).outputs, plain) == 0


def test_logits_are_of_stretches_of_audio_or_of_the_decoders_tokens(asked: Lab) -> None:
    shapes = {model: asked.ask(question("eager", *model)).outputs[0]["logits"].shape for model in (WAV2VEC2, WHISPER)}
    assert shapes == {WAV2VEC2: (BATCH, 249, 32), WHISPER: (BATCH, SEQUENCE, 1024)}


def test_outputs_of_no_two_slots_are_near_each_other(asked: Lab) -> None:
    """Else a backend that repeats what it gave before could not be told from one that computes."""
    for model in (WAV2VEC2, BASE_NORMS, WHISPER):
        first, second, _ = asked.ask(question("eager", *model)).outputs
        assert largest_difference([first], [second]) > 0.1


def test_what_flax_has_no_code_for_is_refused_from_the_config_alone(lab: Lab) -> None:
    source, task = BASE_NORMS
    config: dict[str, Any] = json.loads((lab.checkpoint(source) / "config.json").read_text())
    cell = Cell(model=source, checkpoint=source, task=task, threads=2, backend="flax")
    assert {name: backend.supports(cell, config) for name, backend in lab.backends.items() if name in CASES} == {
        **dict.fromkeys(CASES),
        "flax": "do_stable_layer_norm False: the Flax code of wav2vec2 runs True only",
    }


# --- raw audio to text ----------------------------------------------------------------------------------------------

HARNESS = Path(sys.executable).with_name("harness")
BACKENDS = ("eager", "flax")  # one of each generation of Transformers
EXTRACTOR = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "sampling_rate": 16_000, "do_normalize": True}
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>", "|")
LETTERS = [chr(ord("A") + index) for index in range(26)]


@pytest.fixture(scope="module")
def application(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Rows of a run, by backend, with what is told of the application in each row's only launch."""
    folder = tmp_path_factory.mktemp("speech")
    _write_speaker(lab.checkpoint(WAV2VEC2[0]), folder / "speaker")
    defaults = {"task": SPEECH, "operation": "application", "model": "path:speaker", "audio_seconds": 1}
    matrix = {"defaults": defaults, "matrix": {"backend": list(BACKENDS)}, "protocol": dict(SHORT_PROTOCOL)}
    (folder / "speech.yaml").write_text(yaml.safe_dump(matrix))
    _harness(folder, "run", "speech.yaml", "--executor", "venv", "--no-lease")
    rows = [json.loads(line) for line in _harness(folder, "export", "results", "--format", "jsonl").splitlines()]
    return {row["backend"]: {**row, "application": _told(folder, row)} for row in rows}


def _write_speaker(checkpoint: Path, folder: Path) -> None:
    """With what hears and what spells, which seeded checkpoints have none of."""
    shutil.copytree(checkpoint, folder)
    folder.chmod(0o755)
    vocabulary = {token: index for index, token in enumerate([*SPECIALS, *LETTERS, "'"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "preprocessor_config.json").write_text(json.dumps(EXTRACTOR))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Wav2Vec2CTCTokenizer"}))


def _harness(folder: Path, *words: str) -> str:
    done = subprocess.run([HARNESS, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _told(folder: Path, row: Mapping[str, Any]) -> dict[str, Any]:
    (file,) = folder.glob(f"results/launches/{row['key']}/*/launch.json")
    told: dict[str, Any] = json.loads(file.read_bytes())["details"]["application"]
    return told


def test_raw_audio_comes_out_as_the_same_text_in_both_generations(application: dict[str, dict[str, Any]]) -> None:
    told = [application[backend]["application"] for backend in BACKENDS]
    assert {each["reader"] for each in told} == {"Wav2Vec2FeatureExtractor"}
    eager, flax = (each["example"] for each in told)
    assert eager == flax
    assert set(eager) <= set("'\"|<unk> ").union(*LETTERS)
    assert len(eager) > 5


def test_an_application_of_audio_is_timed_part_by_part_and_told_in_seconds_heard(
    application: dict[str, dict[str, Any]],
) -> None:
    for row in application.values():
        assert (row["status"], row["parity_passed"], row["audio_seconds"]) == ("ok", True, 1)
        assert all(row[f"{part}_s"] > 0 for part in APPLICATION_PARTS)
        rates = json.loads(row["rates"])
        assert rates.keys() == {"samples/s", "audio_seconds/s"}
        assert rates["samples/s"] == rates["audio_seconds/s"] == row["throughput"]
