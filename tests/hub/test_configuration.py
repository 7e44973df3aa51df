"""Whether results are uploaded, and where: only with a dataset and a token, both given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.hub.configuration import Off, Target, load_env_file, target
from harness.model import HarnessError

NAMES = ("HF_DATASET_REPO", "HF_TOKEN", "HF_ENDPOINT", "BENCHMARK_RESULTS_DIR")


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each name is put back as it was, whatever a test does to it."""
    for name in (*NAMES, "OTHER"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_dataset_and_token_together_are_a_target() -> None:
    given = {"HF_DATASET_REPO": "org/name", "HF_TOKEN": "hf_x"}
    assert target(None, given) == Target("org/name", "hf_x")
    assert target("other/name", given) == Target("other/name", "hf_x")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "no dataset is given (--repo or HF_DATASET_REPO) and no token is given (HF_TOKEN)"),
        ({"HF_TOKEN": "hf_x"}, "no dataset is given (--repo or HF_DATASET_REPO)"),
        ({"HF_DATASET_REPO": "org/name"}, "no token is given (HF_TOKEN)"),
        ({"HF_DATASET_REPO": "org/name", "HF_TOKEN": " \n"}, "no token is given (HF_TOKEN)"),
    ],
)
def test_where_one_is_missing_uploads_are_off_and_the_reason_says_which(given: dict[str, str], reason: str) -> None:
    assert target(None, given) == Off(reason)


def test_a_login_that_is_saved_on_the_machine_was_not_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_saved")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    assert isinstance(target("org/name", {}), Off)


@pytest.mark.parametrize("name", ["name", "a/b/c", "a b/c", "org/"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(
        HarnessError, match="is no dataset's name on the Hub; give --repo or HF_DATASET_REPO as ORG/NAME"
    ):
        target(name, {"HF_TOKEN": "hf_x"})


@pytest.mark.parametrize("token", ["hf_SeCrEt\nSeCrEt", "hf_SeCrEt\x7f\x01", "hf_SeCrEtü", "hf SeCrEt"])
def test_a_token_that_no_request_can_carry_is_refused_without_being_told(token: str) -> None:
    with pytest.raises(HarnessError, match="set HF_TOKEN anew") as error:
        target("org/name", {"HF_TOKEN": token})
    assert "SeCrEt" not in str(error.value)


def test_the_token_is_not_in_what_a_target_is_shown_as() -> None:
    assert "hf_x" not in f"{Target('org/name', 'hf_x')!r} {Target('org/name', 'hf_x')}"


def test_a_file_gives_what_the_environment_does_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "# ours\nHF_DATASET_REPO=file/name\nexport HF_TOKEN='hf_${HOME}'\nBENCHMARK_RESULTS_DIR=\nOTHER=other\n"
    )
    monkeypatch.setenv("HF_DATASET_REPO", "environment/name")
    load_env_file(tmp_path)
    assert target(None, os.environ) == Target("environment/name", "hf_${HOME}")
    assert "OTHER" not in os.environ
    assert "BENCHMARK_RESULTS_DIR" not in os.environ


def test_no_file_is_no_mistake(tmp_path: Path) -> None:
    load_env_file(tmp_path)
    assert not any(name in os.environ for name in NAMES)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"HF_TOKEN=\xff\xfe")
    with pytest.raises(HarnessError, match=r"\.env cannot be read"):
        load_env_file(tmp_path)
