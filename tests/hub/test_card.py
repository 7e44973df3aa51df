"""The dataset's card: what `datasets` needs, and nothing that people wrote is lost."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from huggingface_hub import DatasetCard

from harness.hub.card import card
from harness.hub.rows import Form, columns
from harness.model import HarnessError

PATHS = ["summarized_results/benchmark_run_1.jsonl", "full_results/benchmark_run_1.jsonl", "latest/a/b/c/d.json"]


def metadata(text: str) -> dict[str, Any]:
    told: dict[str, Any] = yaml.safe_load(text.split("---\n")[1])
    return told


def by_name(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {entry["config_name"]: entry for entry in entries}


def test_each_kind_of_files_is_a_config_and_the_first_is_the_default() -> None:
    configs = metadata(card(None, PATHS))["configs"]
    assert [(each["config_name"], each["data_files"][0]["path"]) for each in configs] == [
        ("summarized", "summarized_results/*.jsonl"),
        ("full", "full_results/*.jsonl"),
        ("latest", "latest/**/*.json"),
    ]
    assert [each.get("default") for each in configs] == [True, None, None]


def test_a_config_without_files_is_left_out() -> None:
    assert set(by_name(metadata(card(None, PATHS[1:2]))["configs"])) == {"full"}


def test_every_column_has_a_type() -> None:
    infos = by_name(metadata(card(None, PATHS))["dataset_info"])
    for name, form in (("summarized", Form.SUMMARIZED), ("full", Form.FULL), ("latest", Form.SUMMARIZED)):
        assert [each["name"] for each in infos[name]["features"]] == list(columns(form))


def test_a_card_of_ours_is_left_as_it_is() -> None:
    once = card(None, PATHS)
    assert card(once, PATHS) == once


def test_what_people_wrote_stays() -> None:
    written = (
        "---\nlicense: mit\ntags: [a]\nconfigs:\n- config_name: mine\n  data_files: mine.csv\n  default: true\n"
        "dataset_info:\n  config_name: mine\n  features: []\n---\n# Our team\n\nRead this.\n"
    )
    told = card(written, PATHS)
    assert told.endswith("\n# Our team\n\nRead this.\n")
    data = metadata(told)
    assert (data["license"], data["tags"]) == ("mit", ["a"])
    assert set(by_name(data["configs"])) == {"summarized", "full", "latest", "mine"}
    assert [each["config_name"] for each in data["configs"] if each.get("default")] == ["mine"]
    assert by_name(data["dataset_info"])["mine"] == {"config_name": "mine", "features": []}


def test_columns_of_a_newer_harness_stay() -> None:
    once = DatasetCard(card(None, PATHS))
    once.data["dataset_info"][0]["features"].append({"name": "newer", "dtype": "string"})
    told = by_name(metadata(card(str(once), PATHS))["dataset_info"])
    assert told["summarized"]["features"][-1] == {"name": "newer", "dtype": "string"}


@pytest.mark.parametrize("written", ["", "# Only text\n"])
def test_a_card_without_metadata_gets_some(written: str, caplog: pytest.LogCaptureFixture) -> None:
    assert set(by_name(metadata(card(written, PATHS))["configs"])) == {"summarized", "full", "latest"}
    assert card(written, PATHS).endswith(written)
    assert caplog.text == ""


@pytest.mark.parametrize("head", ["a: [", "- 1"])
def test_metadata_that_cannot_be_read_is_refused(head: str) -> None:
    with pytest.raises(HarnessError, match=r"README\.md cannot be read as YAML: mend it there"):
        card(f"---\n{head}\n---\ntext", PATHS)
