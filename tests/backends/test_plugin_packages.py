"""Plugins that `make setup` does not install, each a package of its own with a stack that no other could share."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from launches import SHORT_PROTOCOL, Lab
from plugin_sizes import SIZES_BEGIN, sizes_table

from harness import plugins
from harness.model import Backend, Cell, OptionValue
from harness.spelling import listed
from harness.store import ResultStore
from harness.support import refusal
from harness.testing import assert_conforms, check_backend, weighty_checkpoint

ROOT = Path(__file__).parents[2]
HARNESS = Path(sys.executable).with_name("harness")
NAMES = ("bettertransformer", "openvino", "torchax")
FRAMEWORKS = ("jax", "openvino", "optimum", "torch", "torchax", "transformers")
BERT = {"model_type": "bert", "vocab_size": 9, "architectures": ["BertForMaskedLM"]}
GPT2 = {"model_type": "gpt2", "vocab_size": 9, "architectures": ["GPT2LMHeadModel"]}
BART = {"model_type": "bart", "vocab_size": 9, "is_encoder_decoder": True}

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch, name: str) -> Backend:
    """The backend as `--plugin harness_NAME.plugin` finds it."""
    monkeypatch.syspath_prepend(ROOT / "backends" / name)
    return plugins.load((f"harness_{name}.plugin",)).backends[name]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages as pip installs them: from copies, as building leaves files beside the sources."""
    folder = tmp_path_factory.mktemp("installed")
    copies = [shutil.copytree(ROOT / "backends" / name, folder / "sources" / name) for name in NAMES]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder / "site"]
    subprocess.run([*pip, *copies], check=True, timeout=300)
    return folder / "site"


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch, installed: Path) -> Mapping[str, Backend]:
    """All backends, those of the packages among them; processes that are started see them too."""
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setenv("PYTHONPATH", str(installed))
    return plugins.load().backends


def harness(installed: Path, *arguments: object, cwd: Path = ROOT) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [HARNESS, *map(str, arguments)], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def reason(backend: Backend, model_config: Mapping[str, Any], **axes: Any) -> str | None:
    options: dict[str, OptionValue] = {option.name: option.default for option in backend.options}
    cell = Cell(model="m", checkpoint="c", threads=2, backend=backend.name, options=options, **axes)
    return refusal(cell, backend, model_config) or backend.supports(cell, model_config)


# --- as the host sees them ------------------------------------------------------------------------------------------


def test_a_plugin_runs_an_encoder_on_the_cpu_in_float32(named: Backend) -> None:
    assert reason(named, BERT) is None
    assert reason(named, BERT, task="fill-mask") is None
    assert reason(named, BERT, dtype="float16") == f"dtype float16: on cpu {named.name} runs float32"


def test_a_model_that_a_plugin_leaves_out_is_refused_with_its_name(named: Backend) -> None:
    assert f"{named.name}" in str(reason(named, BART)).lower()


def test_a_decoder_is_for_torchax_only(named: Backend) -> None:
    assert (reason(named, GPT2, task="text-generation") is None) == (named.name == "torchax")


def test_bettertransformer_takes_the_encoders_that_have_a_fused_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "backends" / "bettertransformer")
    backend = plugins.load(("harness_bettertransformer.plugin",)).backends["bettertransformer"]
    assert reason(backend, GPT2) == f"model type gpt2: bettertransformer runs {listed(backend.model_types)}"
    assert reason(backend, {}) is None


def test_a_plugin_imports_no_framework_on_the_host(name: str) -> None:
    code = f"import sys, harness_{name}.plugin; print([each for each in {FRAMEWORKS} if each in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "backends" / name)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_docs_tell_how_large_each_plugin_is() -> None:
    page = (ROOT / "docs" / "reference" / "plugins.md").read_text()
    told = page.partition(SIZES_BEGIN)[2].partition("\n\n")[0].strip()
    assert told == sizes_table(ROOT / "backends", NAMES)


# --- installed ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_installed_plugins_are_in_the_quick_matrix_with_their_options(installed: Path) -> None:
    cells = json.loads(harness(installed, "plan", "matrices/quick.yaml", "--format", "json"))
    planned = {cell["backend"]: cell for cell in cells if cell["status"] == "run"}
    assert planned.keys() >= {"eager", *NAMES}
    assert planned["openvino"]["options"] == {"inference_precision": None, "performance_hint": None}


@pytest.mark.stacks
def test_a_plugin_keeps_its_promises(lab: Lab, offered: Mapping[str, Backend], name: str) -> None:
    """One launch is killed too, where a child is at work."""
    kill_in = ("prepare",) if name == "openvino" else ()
    findings = check_backend(
        offered[name],
        lab.executor,
        weighty_checkpoint(lab.executor, lab.backends),
        plugin=f"harness_{name}.plugin",
        reference=lab.backends["eager"],
        kill_in=kill_in,
    )
    assert_conforms(findings)
    assert {finding.check for finding in findings if finding.passed is None} == (set() if kill_in else {"kill"}), (
        findings
    )


@pytest.fixture(scope="module")
def results(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the quick matrix at batch 1, shortened, with rows that end in padding and with an option."""
    folder = tmp_path_factory.mktemp("quick")
    matrix = yaml.safe_load((ROOT / "matrices" / "quick.yaml").read_text())
    matrix["protocol"] |= SHORT_PROTOCOL
    matrix["defaults"] |= {"padding": 0.25, "threads": 1}
    matrix["matrix"] |= {"batch_size": [1], "openvino": {"performance_hint": ["throughput"]}}
    (folder / "quick.yaml").write_text(yaml.safe_dump(matrix))
    only = f"backend in {NAMES}"
    harness(installed, "run", "quick.yaml", "--executor", "venv", "--no-lease", "--only", only, cwd=folder)
    return folder / "results"


@pytest.fixture(scope="module")
def rows(installed: Path, results: Path) -> dict[str, dict[str, str]]:
    """Exported, by backend."""
    found = csv.DictReader(io.StringIO(harness(installed, "export", results)))
    return {row["backend"]: row for row in found}


@pytest.mark.stacks
def test_in_the_quick_matrix_plugins_are_ok_and_computed_their_own_answer(rows: dict[str, dict[str, str]]) -> None:
    assert rows.keys() == {*NAMES}
    assert {row["status"] for row in rows.values()} == {"ok"}
    for name in NAMES:
        assert 0 < float(rows[name]["parity_max_abs"]) < 1e-4


@pytest.mark.stacks
def test_what_is_in_effect_is_read_back(results: Path) -> None:
    stored = ResultStore.existing(results).history()
    effective = {each.config.backend: each.metadata.effective for each in stored}
    assert effective["openvino"].items() >= {"inference_precision": "f32", "performance_hint": "throughput"}.items()
    assert effective["bettertransformer"].items() >= {"transformed": True, "fused_layer_called": True}.items()
