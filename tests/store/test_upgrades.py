"""Files of older schemas are read as what they meant when they were written, and stay as they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.model import SCHEMA_VERSION, HarnessError, LaunchRecord, Result, Status
from harness.store import ResultStore, records
from harness.store.upgrades import _UPGRADES
from store.factories import a_result

GOLDEN = Path(__file__).with_name("golden")
SCHEMAS = range(1, SCHEMA_VERSION + 1)


def golden(version: int, name: str) -> Path:
    """As a harness of that schema wrote it."""
    return GOLDEN / f"schema_{version}" / name


@pytest.mark.parametrize("version", SCHEMAS)
def test_a_history_of_every_schema_is_read_and_goes_on_without_a_change(tmp_path: Path, version: int) -> None:
    shutil.copytree(GOLDEN / f"schema_{version}", tmp_path, dirs_exist_ok=True)
    before = (tmp_path / "history.jsonl").read_bytes()
    store = ResultStore.open(tmp_path)
    (old,) = store.history()
    assert (old.schema_version, old.status, old.config.batch_size) == (SCHEMA_VERSION, Status.OK, 8)
    assert old.measurements.median_latency_s == 0.134
    store.add(a_result())
    assert (tmp_path / "history.jsonl").read_bytes().startswith(before)
    assert len(ResultStore.existing(tmp_path).history()) == 2


@pytest.mark.parametrize("version", SCHEMAS)
def test_a_launch_of_every_schema_is_read(version: int) -> None:
    launch = records.read(LaunchRecord, golden(version, "launch.json"))
    assert (launch.schema_version, launch.rounds[0].calls) == (SCHEMA_VERSION, 20)


@pytest.mark.parametrize("version", SCHEMAS)
def test_keys_and_hashes_stay_what_they_were(version: int) -> None:
    stored = json.loads(golden(version, "history.jsonl").read_bytes())
    (result,) = ResultStore.existing(GOLDEN / f"schema_{version}").history()
    parts = golden(version, "parts.jsonl")
    run = json.loads(parts.read_bytes().splitlines()[0]) if parts.exists() else stored
    assert result.key == stored["key"]
    assert result.metadata.hashes.model_dump() == {"key": stored["key"], **run["metadata"]["hashes"]}


def test_every_older_schema_has_an_upgrade() -> None:
    assert list(_UPGRADES) == list(range(1, SCHEMA_VERSION))


def test_version_1_gets_the_settings_that_were_in_effect_and_a_reason_for_what_it_did_not_measure() -> None:
    result = records.parse(Result, golden(1, "history.jsonl").read_bytes(), "golden")
    protocol, numbers = result.metadata.protocol, result.measurements
    assert (protocol.blocks, protocol.most_blocks, protocol.repeats, protocol.monitor) == (2, 2, 0, False)
    assert (numbers.blocks, numbers.p99_s) == (2, None)
    assert "schema version 1" in numbers.reasons["p99_s"]
    assert numbers.reasons["compile_s"] == "eager compiles nothing"


def test_version_2_stamped_nothing_told_no_accuracy_and_says_so_of_what_comes_of_them() -> None:
    result = records.parse(Result, golden(2, "history.jsonl").read_bytes(), "golden")
    protocol, numbers = result.metadata.protocol, result.measurements
    assert (protocol.marked_rounds, protocol.accuracy, protocol.passes) == (0, False, 2)
    numbers_of_3 = ("ttft_s", "tokens_equal", "kv_cache_bytes", "model_s", "accuracy_value")
    assert {numbers.reasons[name] for name in numbers_of_3} == {"not measured yet (schema version 2)"}


def test_version_3_let_no_text_end_early_and_says_so_of_what_it_did_not_count() -> None:
    stored = json.loads(golden(3, "history.jsonl").read_bytes())
    stored["measurements"]["monitoring"] = {"cpu_utilisation_mean": 0.9}
    result = records.parse(Result, json.dumps(stored).encode(), "golden")
    numbers, cell = result.measurements, result.config
    assert (cell.stop_at_eos, cell.audio_seconds, numbers.produced_tokens) == (False, None, None)
    assert numbers.monitoring is not None
    for reason in (numbers.reasons["produced_tokens"], numbers.monitoring.reasons["launches"]):
        assert reason == "not measured yet (schema version 3)"
    assert result.key == cell.key


def test_a_launch_of_version_1_says_that_nobody_looked_on() -> None:
    assert "no monitor" in str(records.read(LaunchRecord, golden(1, "launch.json")).monitor_reason)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metadata": 7}, "lacks what its schema has"),
        ({"metadata": {}}, "lacks what its schema has"),
        ({"novelty": 1}, "novelty"),
        ({"schema_version": 0}, "which never was"),
        ({"schema_version": SCHEMA_VERSION + 1}, "upgrade the harness"),
    ],
)
def test_one_that_is_not_what_its_version_says_is_refused_in_a_sentence(change: dict[str, Any], said: str) -> None:
    damaged = json.loads(golden(1, "history.jsonl").read_bytes()) | change
    with pytest.raises(HarnessError, match=said) as refusal:
        records.parse(Result, json.dumps(damaged).encode(), "history.jsonl, line 1")
    assert "history.jsonl, line 1" in str(refusal.value)
