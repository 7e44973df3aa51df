"""`harness new-backend` and `harness check-backend`, as users type them."""

from __future__ import annotations

import json
import shutil

import pytest
from run_bench import Bench

from harness.testing import CHECKS


def test_a_new_backend_is_written_and_the_next_steps_are_told(bench: Bench) -> None:
    done = bench.harness("new-backend", "mine", "--into", "packages")
    assert done.returncode == 0, done.stderr
    assert (bench.folder / "packages" / "harness-mine" / "harness_mine" / "plugin.py").is_file()
    assert "python -m pip install --editable packages/harness-mine\n  harness check-backend mine\n" in done.stdout


@pytest.mark.parametrize(
    ("name", "said"), [("fake", "there is a backend 'fake' already"), ("a b", "write small letters"), ("if", "'if'")]
)
def test_a_name_that_cannot_be_one_is_one_sentence_and_exit_code_2(bench: Bench, name: str, said: str) -> None:
    done = bench.harness("new-backend", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(bench.folder.glob("harness-*"))


@pytest.fixture
def longer_model(bench: Bench) -> str:
    """As the bench's, with positions enough for the kit."""
    folder = bench.folder / "longer"
    shutil.copytree(bench.folder / "model", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
    return f"path:{folder}"


def test_a_backend_that_breaks_promises_is_told_so_check_by_check(bench: Bench, longer_model: str) -> None:
    done = bench.harness("check-backend", "fake", "--model", longer_model, "--format", "json")
    assert done.returncode == 1, done.stderr
    findings = {each["check"]: each for each in json.loads(done.stdout)}
    assert list(findings) == list(CHECKS)
    assert findings["registration"]["passed"]
    assert findings["kill"]["passed"]
    assert findings["honesty"]["passed"] is False  # the fake echoes the dtype
    assert findings["close"]["passed"] is None


def test_a_backend_that_cannot_be_checked_is_one_sentence(bench: Bench) -> None:
    for arguments, said in (
        (["fke"], "there is no backend 'fke'; did you mean 'fake'?"),
        (["fake", "--model", f"path:{bench.folder / 'model'}"], "sequence_length 24: the model has positions for 16"),
    ):
        done = bench.harness("check-backend", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr.splitlines()[-1]
