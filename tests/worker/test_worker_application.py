"""An application: raw inputs to Python objects around a forward pass, part by part, in this process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from application_doubles import (
    TOKENIZE_S,
    TRANSFER_S,
    LoudnessExtractor,
    Spelling,
    Transformers,
    Unpaddable,
    WordTokenizer,
)
from harness_fake.runner import last_hidden_state
from worker_driver import LATENCY

from harness.protocol import (
    Close,
    Command,
    Event,
    Failed,
    Import,
    Job,
    Open,
    Outputs,
    OutputsWritten,
    PhaseStarted,
    Ready,
    Samples,
)
from harness.tasks import APPLICATION_PARTS
from harness.worker.conversation import converse

MakeJob = Callable[..., Job]

TEXTS = [["a bb ccc dddd eeeee", "ff g"], ["hhh ii", "j kk lll mmmm"]]
"""By slot and row; rows of four tokens."""
IDS = [[[1, 2, 3, 4], [2, 1, 0, 0]], [[3, 2, 0, 0], [1, 2, 3, 4]]]
MARKED = replace(LATENCY, mode="marked", calls=3)
CALL_MS, NS = 8, 1e9


def converse_over(job: Job, *commands: Command) -> list[Event]:
    """The last words of Import, of the commands, and of Close where none of them failed."""
    events: list[Event] = []
    converse(iter([Import(job), *commands, Close()]).__next__, events.append)
    return [event for event in events if not isinstance(event, PhaseStarted)]


def failure(job: Job) -> Failed:
    last = converse_over(job, Open())[-1]
    assert isinstance(last, Failed), last
    return last


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> Transformers:
    return install(monkeypatch)


def install(monkeypatch: pytest.MonkeyPatch, tokenizer: type[WordTokenizer] = WordTokenizer) -> Transformers:
    made = Transformers(tokenizer)
    monkeypatch.setitem(sys.modules, "transformers", made)
    for name in ("RAYON_NUM_THREADS", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "")  # what the job sets is taken back after the test
    return made


@pytest.fixture
def make_application(make_job: MakeJob) -> MakeJob:
    """Makes the job of an application over `TEXTS`; options of the fake backend as keywords."""

    def make(runner: str = "TakingRunner", **options: object) -> Job:
        job = replace(make_job(f"application_doubles:{runner}", **options), operation="application")
        give(job, {"type_vocab_size": 2}, text=np.array(TEXTS))
        return job

    return make


def give(job: Job, config: dict[str, object], **inputs: npt.NDArray[np.generic]) -> None:
    """Config and inputs, in place of those there."""
    (Path(job.checkpoint) / "config.json").write_text(json.dumps(config))
    for file in Path(job.inputs).iterdir():
        file.unlink()
    for name, array in inputs.items():
        np.save(Path(job.inputs) / f"{name}.npy", array)


def opened(job: Job, *commands: Command) -> Sequence[Event]:
    ready, *answers = converse_over(job, Open(), *commands)[1:-1]
    assert isinstance(ready, Ready), ready
    return [ready, *answers]


@pytest.mark.usefixtures("transformers")
def test_outputs_are_the_models_on_what_the_tokenizer_makes_of_each_slot(make_application: MakeJob) -> None:
    job = make_application(call_ms=0)
    _, written = opened(job, Outputs("before"))
    assert isinstance(written, OutputsWritten)
    assert written.slots == 2
    for slot, ids in enumerate(np.array(IDS)):
        expected = last_hidden_state({"input_ids": ids, "attention_mask": (ids > 0).astype(int)})
        with np.load(Path(job.folder) / f"outputs-before/slot-{slot}.npz") as outputs:
            np.testing.assert_array_equal(outputs["last_hidden_state"], expected)


@pytest.mark.usefixtures("transformers")
def test_outputs_of_padding_are_zero_whatever_the_model_makes_of_it(make_application: MakeJob) -> None:
    job = make_application(call_ms=0, wrong="values")  # one more everywhere, at padding too
    opened(job, Outputs("before"))
    with np.load(Path(job.folder) / "outputs-before/slot-0.npz") as outputs:
        hidden = outputs["last_hidden_state"]
    assert (hidden[1, 2:] == 0).all()
    assert (hidden[1, :2] != 0).all()


@pytest.mark.usefixtures("transformers")
def test_loading_the_tokenizer_is_a_stage_of_loading(make_application: MakeJob) -> None:
    (ready,) = opened(make_application(call_ms=0))
    assert isinstance(ready, Ready)
    assert [(phase, stage) for phase, stage, _ in ready.stages if phase == "load"] == [
        ("load", "weights"),
        ("load", "tokenizer"),
    ]
    assert ready.not_applicable["compile"] == "compile_ms is null"  # the runner's own reasons


@pytest.mark.usefixtures("transformers")
def test_items_are_counted_from_what_the_tokenizer_makes(make_application: MakeJob) -> None:
    (ready,) = opened(make_application(call_ms=0))
    assert isinstance(ready, Ready)
    assert ready.items == {"samples": 2, "tokens": 6, "positions": 8}


@pytest.mark.usefixtures("transformers")
def test_each_part_is_marked_when_it_is_over_and_all_of_them_are_the_call(make_application: MakeJob) -> None:
    job = make_application(call_ms=CALL_MS, asynchronous=True)  # the model's part ends with the device's work
    _, samples = opened(job, MARKED)
    assert isinstance(samples, Samples)
    assert tuple(samples.marks) == APPLICATION_PARTS
    assert samples.file is not None
    with np.load(Path(job.folder) / samples.file) as arrays:
        mark_ns, total_ns = arrays["mark_ns"], arrays["total_ns"]
    parts_ns = np.diff(mark_ns, axis=1, prepend=0)
    shortest_ns = np.array([TOKENIZE_S, TRANSFER_S, CALL_MS / 1000, 0.0]) * NS
    assert mark_ns.shape == (len(total_ns), 4)
    assert (parts_ns >= shortest_ns).all()
    assert (mark_ns[:, -1] <= total_ns).all()


@pytest.mark.parametrize("options", [{}, {"first_call_in_compile": True, "compile_ms": 1}])
@pytest.mark.usefixtures("transformers")
def test_one_of_the_objects_that_come_out_can_be_looked_at(
    make_application: MakeJob, options: dict[str, object]
) -> None:
    (ready,) = opened(make_application(call_ms=0, **options))
    assert isinstance(ready, Ready)
    told = ready.facts["details"]["application"]
    assert told["reader"] == "WordTokenizer"
    assert told["example"].startswith("[0.")
    assert ready.facts["details"]["hidden"] == 8  # the runner's own are kept


def test_transformers_imports_no_torch_that_the_runner_has_not(
    make_application: MakeJob, transformers: Transformers
) -> None:
    opened(make_application(call_ms=0))
    assert transformers.use_torch == ["0"]
    assert "USE_TORCH" not in os.environ


def test_transformers_may_use_the_torch_that_the_runner_has_imported(
    make_application: MakeJob, transformers: Transformers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)
    opened(make_application(call_ms=0))
    assert transformers.use_torch == [None]


@pytest.mark.usefixtures("transformers")
def test_tokenizers_compute_in_as_many_threads_as_the_job_has(make_application: MakeJob) -> None:
    opened(replace(make_application(call_ms=0), threads=3))
    assert (os.environ["RAYON_NUM_THREADS"], os.environ["TOKENIZERS_PARALLELISM"]) == ("3", "true")
    opened(make_application(call_ms=0))
    assert (os.environ["RAYON_NUM_THREADS"], os.environ["TOKENIZERS_PARALLELISM"]) == ("1", "false")


@pytest.mark.usefixtures("transformers")
def test_images_go_through_their_processor_and_come_out_as_classes(make_job: MakeJob) -> None:
    job = replace(make_job("application_doubles:ImageRunner"), operation="application", task="image-classification")
    dark_and_bright = np.zeros((1, 2, 8, 8, 3), np.uint8)
    dark_and_bright[:, 1] = 255
    give(job, {"num_channels": 3, "id2label": {"0": "bright", "1": "dark"}}, images=dark_and_bright)
    ready, _ = opened(job, Outputs("before"))
    assert isinstance(ready, Ready)
    assert [stage for phase, stage, _ in ready.stages if phase == "load"] == ["weights", "image_processor"]
    assert ready.items == {"images": 2}
    assert ready.facts["details"]["application"]["example"].startswith("{'label': 'dark', 'score': 0.73")
    with np.load(Path(job.folder) / "outputs-before/slot-0.npz") as outputs:
        assert outputs["logits"].tolist() == [[-0.5, 0.5], [0.5, -0.5]]


def speech(make_job: MakeJob) -> Job:
    """Over one slot of two rows, each three stretches long, that begin with what is said there."""
    made = make_job("application_doubles:AudioRunner")
    job = replace(made, operation="application", task="automatic-speech-recognition")
    audio = np.repeat(np.array([[[1, 2, 0], [2, 2, 1]]], np.float32), 4, axis=2)
    give(job, {"conv_dim": [8], "vocab_size": 3}, audio=audio)
    return job


def test_audio_goes_through_its_feature_extractor_and_comes_out_as_text(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Spelling)
    (ready,) = opened(speech(make_job))
    assert isinstance(ready, Ready)
    assert [stage for phase, stage, _ in ready.stages if phase == "load"] == ["weights", "feature_extractor"]
    told = ready.facts["details"]["application"]
    assert (told["reader"], told["example"]) == ("LoudnessExtractor", "'ab-'")


def test_audio_of_another_rate_is_refused_with_both(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Spelling)
    monkeypatch.setattr(LoudnessExtractor, "sampling_rate", 8_000)
    failed = failure(speech(make_job))
    assert (failed.reason, failed.message) == (
        "unsupported",
        "application latency: the checkpoint reads 8000 Hz, audio here has 16000",
    )


# --- what cannot be an application ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("transformers")
def test_a_forward_pass_that_takes_no_arrays_is_named_with_what_it_lacks(make_application: MakeJob) -> None:
    failed = failure(make_application("GivenArraysOnly"))
    assert failed.type == "ContractError"
    assert "is no Transferring: it lacks transfer" in failed.message


def test_a_stack_without_transformers_is_unsupported(
    make_application: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    failed = failure(make_application())
    assert (failed.reason, failed.stage) == ("unsupported", "import")
    assert failed.message == "application latency: this stack has no transformers, which reads raw inputs"


def test_a_tokenizer_that_can_pad_with_nothing_is_unsupported(
    make_application: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Unpaddable)
    failed = failure(make_application())
    assert (failed.reason, failed.stage) == ("unsupported", "load")
    assert failed.message == "application latency: the tokenizer has no token to pad with, nor one for the end"
