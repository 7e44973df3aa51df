"""Whole runs that upload: to a small Hub on this machine, with the real client, in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_server import TOKEN, Dataset, Fault, Hub
from run_bench import Bench

REPO = "tiny-org/results"


@pytest.fixture
def hub(bench: Bench) -> Iterator[Hub]:
    """Dataset and token are given by a file in the working directory, as users do it."""
    with Hub() as hub:
        hub.datasets[REPO] = Dataset({".gitattributes": b""})
        bench.variables |= dict.fromkeys(("HF_DATASET_REPO", "HF_TOKEN", "HF_ENDPOINT"), "")  # none of the user's
        bench.variables |= {"HF_HOME": str(bench.folder / "hf"), "HF_HUB_DISABLE_XET": "1"}
        give(bench, HF_DATASET_REPO=REPO, HF_TOKEN=TOKEN, HF_ENDPOINT=hub.endpoint)
        yield hub


@pytest.fixture
def stored(hub: Hub) -> Dataset:
    return hub.datasets[REPO]


def give(bench: Bench, **variables: str) -> None:
    (bench.folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))


def rows(stored: Dataset, folder: str) -> list[Any]:
    files = [data for path, data in stored.files.items() if path.startswith(f"{folder}/")]
    return [json.loads(line) for data in files for line in data.splitlines()]


def assert_nowhere(token: str, *folders: Path) -> None:
    """In no file but the one that gives it."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.name != ".env"]
    assert files
    assert [path for path in files if token.encode() in path.read_bytes()] == []


def test_a_run_uploads_what_it_has_measured_and_failed_and_shows_the_token_nowhere(
    bench: Bench, stored: Dataset
) -> None:
    bench.write_matrix(fake_b={"fail_in": "load"}, protocol={"blocks": 1})
    run = bench.run("--push")
    assert run.returncode == 1, run.stderr
    assert f"Uploads are on: to the dataset {REPO}, when the run has ended." in run.stderr
    for folder in ("summarized_results", "full_results", "latest"):
        assert [row["metadata"]["status"] for row in rows(stored, folder)].count("failed") == 1
    assert len(stored.messages) == 1
    (ok,) = [row for row in rows(stored, "full_results") if row["metadata"]["success"]]
    assert len(ok["measurements"]["e2e_latency"]) == ok["measurements"]["samples"] > 0
    assert TOKEN not in run.stdout + run.stderr
    assert_nowhere(TOKEN, bench.results, bench.cache / "inputs", bench.folder)


def test_uploads_after_each_cell_are_commits_of_their_own(bench: Bench, stored: Dataset) -> None:
    bench.write_matrix(protocol={"blocks": 1})
    assert bench.run("--push-each-cell").returncode == 0
    assert len(stored.messages) == 2
    assert len(rows(stored, "summarized_results")) == 2


def test_an_upload_that_fails_changes_nothing_of_the_run_and_sync_finishes_it(
    bench: Bench, hub: Hub, stored: Dataset
) -> None:
    bench.write_matrix(protocol={"blocks": 1})
    hub.faults.append(Fault("/commit/", status=403))
    run = bench.run("--push")
    assert run.returncode == 0, run.stderr
    assert "Not uploaded: tiny-org/results: the Hub does not let this token write there" in run.stderr
    assert stored.messages == []
    assert "Uploaded to the dataset tiny-org/results" in bench.harness("sync").stdout
    assert "had everything already" in bench.harness("sync").stdout
    assert len(rows(stored, "summarized_results")) == 2


@pytest.mark.parametrize(
    ("arguments", "given", "reason"),
    [
        ([], {"HF_DATASET_REPO": REPO, "HF_TOKEN": TOKEN}, "--push is not given"),
        (["--push"], {"HF_DATASET_REPO": REPO}, "no token is given (HF_TOKEN)"),
        (["--push"], {"HF_TOKEN": TOKEN}, "no dataset is given (--repo or HF_DATASET_REPO)"),
    ],
)
def test_a_run_that_does_not_upload_says_why(
    bench: Bench, stored: Dataset, arguments: list[str], given: dict[str, str], reason: str
) -> None:
    give(bench, **given)
    bench.write_matrix(protocol={"blocks": 1})
    run = bench.run(*arguments)
    assert run.returncode == 0, run.stderr
    assert f"Uploads are off: {reason}." in run.stderr
    assert stored.messages == []


def test_push_makes_the_dataset_it_is_asked_to(bench: Bench, hub: Hub) -> None:
    bench.write_matrix(protocol={"blocks": 1})
    assert bench.run().returncode == 0
    push = bench.harness("push", "results", "--repo", "tiny-org/new", "--summarized", "--create", "--private")
    assert push.returncode == 0, push.stderr
    made = hub.datasets["tiny-org/new"]
    assert made.private
    assert len(rows(made, "summarized_results")) == 2
    assert rows(made, "full_results") == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--repo", "no name"], "is no dataset's name"),
        (["--full", "--summarized"], "exclude one another"),
        (["--private"], "--create"),
        (["--repo", "tiny-org/none"], "there is no such dataset"),
    ],
)
def test_a_push_that_cannot_be_is_refused_in_a_sentence(
    bench: Bench, stored: Dataset, arguments: list[str], words: str
) -> None:
    bench.write_matrix(protocol={"blocks": 1})
    assert bench.run().returncode == 0
    push = bench.harness("push", "results", *arguments)
    assert push.returncode == 2
    assert words in push.stderr
    assert len(push.stderr.splitlines()) == 1
    assert stored.messages == []


def test_nothing_is_pushed_without_a_token(bench: Bench) -> None:
    bench.variables["HF_TOKEN"] = ""
    bench.results.mkdir()
    (bench.results / "history.jsonl").touch()
    push = bench.harness("push", "results", "--repo", REPO)
    assert (push.returncode, push.stdout) == (2, "")
    assert "no token is given (HF_TOKEN)" in push.stderr
