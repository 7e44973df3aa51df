"""Each check of the kit is passed by a runner that keeps its promises, and failed by one that breaks that one alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from harness_fake import plugin
from here_executor import HereExecutor

from harness.checkpoints import Checkpoint
from harness.model import Backend, HarnessError, OptionValue
from harness.plugins import load
from harness.testing import CHECKS, Finding, assert_conforms, check_backend, check_installed, checking, conforms

OFFERED = next(iter(plugin.harness_register_backends()))
FAKE = replace(OFFERED, stack=replace(OFFERED.stack, packages=("harness_fake", "wrong_runners")))
COMPILING: dict[str, OptionValue] = {"load_ms": 100.0, "compile_ms": 5.0, "call_ms": 4.0}
INTERPRETING: dict[str, OptionValue] = {"load_ms": 100.0, "call_ms": 4.0}


def named(runner: str) -> Backend:
    return replace(FAKE, runner=f"wrong_runners:{runner}")


def check(
    checkpoint: Checkpoint,
    runner: str,
    options: dict[str, OptionValue] | None = None,
    timeout_s: float = 60,
    kill_in: Sequence[str] = (),
    **more: Any,
) -> dict[str, Finding]:
    options = COMPILING if options is None else options
    findings = check_backend(
        named(runner), HereExecutor(), checkpoint, options=options, timeout_s=timeout_s, kill_in=kill_in, **more
    )
    assert [finding.check for finding in findings] == list(CHECKS)
    return {finding.check: finding for finding in findings}


def failed(findings: dict[str, Finding]) -> set[str]:
    return {name for name, finding in findings.items() if finding.passed is False}


@pytest.mark.parametrize(
    ("runner", "options"),
    [
        ("Honest", COMPILING),
        ("Honest", {**INTERPRETING, "asynchronous": True}),
        ("Mapping", COMPILING),
    ],
)
def test_a_runner_that_keeps_its_promises_passes(
    checkpoint: Checkpoint, runner: str, options: dict[str, OptionValue]
) -> None:
    findings = check(
        checkpoint, runner, options, plugin="harness_fake.plugin", reference=FAKE, kill_in=("load", "steady")
    )
    assert {name for name, finding in findings.items() if not finding.passed} == set(), findings


@pytest.mark.parametrize(
    ("runner", "options", "broken", "advice"),
    [
        ("Hasty", {**COMPILING, "asynchronous": True}, "wait", "Return from wait() only when the device is done"),
        ("ResultKeeper", COMPILING, "computes", "Compute in each call"),
        ("ManyThreads", COMPILING, "threads", "Set the framework's threads from job.threads"),
        ("Honest", {**COMPILING, "wrong": "cached"}, "outputs", "Use in call() the input that begin() chose"),
        ("BufferReuser", COMPILING, "outputs", "Return copies from outputs()"),
        ("Miscounter", COMPILING, "items", "'samples': 2, 'tokens': 48"),
        ("StuckCounter", COMPILING, "compilations", "stood at 1 while another shape was compiled"),
        ("Honest", {**COMPILING, "report_threads": 2}, "facts", "threads: asked for 1, in effect 2"),
        ("Leaky", COMPILING, "close", "Let go of model, session, inputs and outputs"),
        ("LeakyMapping", COMPILING, "close", "close() gave back 0 MB, the weights are 67 MB"),
        ("Echo", COMPILING, "honesty", "asked for float13, which there is not, it ran and told that it was in effect"),
        ("Nobody", COMPILING, "registration", "wrong_runners has no class 'Nobody'"),
    ],
)
def test_a_broken_promise_fails_its_check_and_no_other(
    checkpoint: Checkpoint, runner: str, options: dict[str, OptionValue], broken: str, advice: str
) -> None:
    findings = check(checkpoint, runner, options)
    assert failed(findings) == ({broken} if broken != "registration" else {broken, "ends"})  # it cannot be imported
    assert advice in findings[broken].message


def test_a_child_that_outlives_a_killed_launch_is_found(checkpoint: Checkpoint) -> None:
    findings = check(checkpoint, "Runaway", kill_in=("load",))
    assert failed(findings) == {"kill"}
    assert re.search(r"\(load: process \d+ \(.*time.sleep\(20\)", findings["kill"].message)


def test_outputs_that_are_not_the_reference_s_fail_parity(checkpoint: Checkpoint) -> None:
    findings = check(checkpoint, "Honest", {**COMPILING, "wrong": "values"}, reference=FAKE)
    assert failed(findings) == {"parity"}
    assert "Compare layer by layer" in findings["parity"].message


def test_without_reference_module_and_phases_their_checks_have_no_verdict(checkpoint: Checkpoint) -> None:
    findings = check(checkpoint, "Honest")
    unjudged = {name: finding.message for name, finding in findings.items() if finding.passed is None}
    assert unjudged == {
        "import": "which module offers the backend was not told",
        "parity": "there is no eager to compare with: install harness-pytorch",
        "kill": "no launch was killed: no phase was named",
    }


def test_a_reference_that_cannot_be_made_leaves_parity_without_a_verdict(checkpoint: Checkpoint) -> None:
    cuda_alone = replace(FAKE, dtypes={"cuda": ("float32",)})
    findings = check(checkpoint, "Honest", reference=cuda_alone)
    assert findings["parity"] == Finding("parity", None, "fake makes no reference here: device cpu: fake runs on cuda")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fail_in": "compile"}, "failed in compile: RuntimeError: told to fail in compile"),
        ({"exit_in": "load"}, "crashed in load: crashed: the worker exited with code 3 in load"),
        ({"unsupported_in": "load"}, "unsupported in load: Unsupported: told to be unsupported in load"),
        ({"hang_in": "first_call"}, "timeout in first_call"),
    ],
)
def test_a_launch_that_ends_early_is_one_failure_and_what_it_did_not_come_to_has_no_verdict(
    checkpoint: Checkpoint, options: dict[str, OptionValue], said: str
) -> None:
    findings = check(checkpoint, "Honest", {**COMPILING, **options}, timeout_s=3)
    assert failed(findings) == {"ends"}
    assert said in findings["ends"].message
    assert findings["facts"] == Finding("facts", None, "the launch did not come to it")


def test_what_was_seen_before_an_early_end_is_judged_all_the_same(checkpoint: Checkpoint) -> None:
    findings = check(checkpoint, "Miscounter", {**COMPILING, "fail_in": "close", "report_dtype": "int4"})
    assert failed(findings) == {"ends", "facts", "items"}


def test_a_runner_that_is_none_is_said_to_be_none(checkpoint: Checkpoint) -> None:
    findings = check(checkpoint, "MIB")
    assert failed(findings) == {"ends"}


def test_an_installed_backend_is_checked_with_its_plugin_and_the_model_that_is_named(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(["harness_fake.plugin"])
    monkeypatch.setattr(checking, "identify", lambda source: source)
    monkeypatch.setattr(checking, "materialise", lambda *_: checkpoint)
    findings = check_installed("fake", loaded, HereExecutor(), model="path:made-up", options=COMPILING, kill_in=())
    verdicts = {finding.check: finding.passed for finding in findings}
    assert verdicts["import"]
    assert not conforms(findings)  # the fake echoes the dtype
    assert verdicts["honesty"] is False


def test_a_cell_that_the_backend_refuses_is_not_checked(checkpoint: Checkpoint) -> None:
    too_short = replace(checkpoint, config={**checkpoint.config, "max_position_embeddings": 8})
    with pytest.raises(HarnessError, match="fake cannot be checked with path:made-up: sequence_length 24"):
        check_backend(FAKE, HereExecutor(), too_short)


def test_a_supports_that_raises_is_what_is_to_be_mended(checkpoint: Checkpoint) -> None:
    moody = replace(FAKE, supports=lambda cell, config: f"{cell.batch_size / 0}{config}")
    with pytest.raises(HarnessError, match=r"supports\(\) of the backend 'fake' raised ZeroDivisionError: .*; mend it"):
        check_backend(moody, HereExecutor(), checkpoint)


def test_a_test_of_a_backend_fails_with_every_message() -> None:
    findings = [Finding("wait", False, "it did not"), Finding("items", True, "right"), Finding("close", False, "leaks")]
    with pytest.raises(AssertionError, match=r"^wait: it did not\nclose: leaks$"):
        assert_conforms(findings)
    assert_conforms([Finding("threads", None, "one processor")])


@pytest.mark.parametrize(
    ("operation", "items"),
    [
        ("prefill", "'samples': 2, 'tokens': 48"),
        ("decode", "'tokens': 2, 'samples': 2"),
        ("generate", "'tokens': 8, 'samples': 2"),
    ],
)
def test_operations_of_generation_are_led_counted_and_compared_too(
    checkpoint: Checkpoint, operation: str, items: str
) -> None:
    findings = check_backend(
        FAKE,
        HereExecutor(),
        checkpoint,
        operation=operation,
        task="text-generation",
        options=COMPILING,
        reference=FAKE,
        kill_in=(),
    )
    verdicts = {finding.check: finding for finding in findings}
    for name in ("ends", "items", "computes", "parity", "compilations"):  # two inputs may end in one of its 20 words
        assert verdicts[name].passed, verdicts[name]
    assert items in verdicts["items"].message
