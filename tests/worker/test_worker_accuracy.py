"""A worker runs texts that are none of its slots, keeps what a measure needs, and goes on as before."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness_fake.runner import last_hidden_state
from test_worker_launch import lead

from harness.protocol import Accuracy, AccuracyWritten, Job, Open, Outputs, OutputsWritten
from harness.worker.accuracy import embeddings, log_likelihoods

MakeJob = Callable[..., Job]


def texts(folder: Path, calls: int = 3) -> Path:
    """Inputs as a job's, of other tokens."""
    folder.mkdir()
    ids = np.random.default_rng(5).integers(0, 1000, (calls, 2, 4))
    mask = np.ones_like(ids)
    mask[:, 0, 2:] = 0
    np.save(folder / "input_ids.npy", ids)
    np.save(folder / "attention_mask.npy", mask)
    return folder


def test_every_text_is_run_once_and_kept_reduced(make_job: MakeJob, tmp_path: Path) -> None:
    job, folder = make_job(), texts(tmp_path / "texts")
    _, _, told, _ = lead(job, Open(), Accuracy(str(folder)))
    assert told == AccuracyWritten("accuracy.npz", None)
    ids, mask = np.load(folder / "input_ids.npy"), np.load(folder / "attention_mask.npy")
    with np.load(Path(job.folder) / "accuracy.npz") as kept:
        assert kept["embeddings"].shape == (6, 8)
        hidden = last_hidden_state({"input_ids": ids[1], "attention_mask": mask[1]})
        np.testing.assert_allclose(kept["embeddings"][2], hidden[0, :2].mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(kept["embeddings"][3], hidden[1].mean(axis=0), rtol=1e-6)


def test_slots_have_the_same_outputs_before_and_after(make_job: MakeJob, tmp_path: Path) -> None:
    job, folder = make_job(), texts(tmp_path / "texts")
    events = lead(job, Open(), Outputs("before"), Accuracy(str(folder)), Outputs("after"))
    assert [type(event) for event in events[2:5]] == [OutputsWritten, AccuracyWritten, OutputsWritten]
    before, after = (np.load(Path(job.folder) / f"outputs-{label}" / "slot-3.npz") for label in ("before", "after"))
    assert (before["last_hidden_state"] == after["last_hidden_state"]).all()


def test_a_backend_that_takes_no_other_inputs_says_so(make_job: MakeJob, tmp_path: Path) -> None:
    folder = texts(tmp_path / "texts")
    _, _, told, _ = lead(make_job("application_doubles:GivenArraysOnly"), Open(), Accuracy(str(folder)))
    assert isinstance(told, AccuracyWritten)
    assert told.file is None
    assert "it has no transfer()" in str(told.reason)


def test_a_text_that_is_not_there_is_a_failure(make_job: MakeJob, tmp_path: Path) -> None:
    last = lead(make_job(), Open(), Accuracy(str(tmp_path / "nowhere")))[-1]
    assert dataclasses.asdict(last)["type"] == "ValueError"


def test_the_likelihood_of_a_token_is_told_by_the_logits_before_it() -> None:
    logits = np.array([[[0, np.log(3)], [np.log(7), 0], [5, 5]]], np.float32)  # a quarter, seven eighths
    found = log_likelihoods({"input_ids": np.array([[1, 0, 0]])}, {"logits": logits})
    np.testing.assert_allclose(np.exp(found["log_likelihoods"]), [[0.25, 0.875]], rtol=1e-6)


def test_logits_too_large_to_be_exponentiated_have_likelihoods_all_the_same() -> None:
    logits = np.array([[[1e4, 1e4], [0, 0]]], np.float32)
    found = log_likelihoods({"input_ids": np.array([[0, 1]])}, {"logits": logits})
    np.testing.assert_allclose(found["log_likelihoods"], [[np.log(0.5)]])


def test_what_stands_at_padding_is_in_no_embedding() -> None:
    hidden = np.array([[[1.0, 2.0], [3.0, 4.0], [np.nan, np.inf]]], np.float32)
    kept = embeddings({"attention_mask": np.array([[1, 1, 0]])}, {"last_hidden_state": hidden})
    assert kept["embeddings"].tolist() == [[2.0, 3.0]]
