"""From what was seen of a runner to findings: one function a check, each with a message that says what to do.

Limits are wide: they tell a broken promise from a busy machine, not a good backend from a better one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

from harness import jobs
from harness.model import Backend, Cell
from harness.spelling import listed
from harness.testing.outside import Asked, Declared, Killed, Loaded, Paired, Sight
from harness.worker.api import RUNNERS_COUNTERS, Arrays
from harness.worker.items import count_items
from harness.worker.observations import (
    Compared,
    Counted,
    Freed,
    Observation,
    Reshaped,
    Started,
    Told,
    Visited,
    Waited,
    Worked,
)

PHASES = ("load", "prepare", "compile", "first_call")

HIDDEN_SHARE = 0.25
"""Of a call's time, that may pass after `wait`: taking outputs for the first time costs a little more than the second time."""

KEPT_RESULT_RATIO = 0.05
"""Of a second call on an input to the first: weights that are touched for the first time make first calls several times as long
(0.17 was seen on a busy machine), a kept result makes second ones next to nothing."""

SPARE_THREADS = 0.5
"""Beyond those asked for: the interpreter's and the framework's own housekeeping."""

STAGED_SHARE = 0.7
"""Of the cold start, that must be in some stage. What is not, is making the operation, and this side's own work."""

REPEAT_SHARE = 0.01
"""Of the difference between two inputs' outputs, by which those of one input may differ: sums in another order."""

FREED_SHARE = 0.5
"""Of the weights, that must be gone from the process after `close`: allocators keep some of what they were given back."""

LIGHT_BYTES = 16 << 20
"""Fewer weights than this cannot be told from what else comes and goes."""

NOT_COME_TO_IT = "the launch did not come to it"

S = TypeVar("S", bound=Observation | Sight)


@dataclass(frozen=True)
class Finding:
    """What one check came to."""

    check: str  # one of CHECKS
    passed: bool | None  # None: it could not be judged
    message: str  # what was seen, and where it failed what to do


@dataclass(frozen=True)
class Case:
    """A cell that one backend ran, and what was seen of it."""

    backend: Backend
    cell: Cell
    inputs: Arrays  # of one slot
    seen: Mapping[type[Any], Observation | Sight]
    ending: str | None = None  # why the launch was not all
    unseen: Mapping[type[Any], str] = field(default_factory=dict)  # what was not looked at -> why

    def see(self, kind: type[S]) -> S:
        """Raises Unjudged where it was not seen."""
        observation = self.seen.get(kind)
        if not isinstance(observation, kind):
            raise Unjudged(self.unseen.get(kind, NOT_COME_TO_IT))
        return observation


class Unjudged(Exception):  # noqa: N818 - no error: it carries the reason why a check has no verdict
    """A check that cannot be made here; the text says why."""


class Broken(Exception):  # noqa: N818 - a finding
    """A promise that is not kept; the text says what was seen and what to do."""


def judge(case: Case) -> list[Finding]:
    """A finding for each of CHECKS."""
    return [_finding(name, check, case) for name, check in CHECKS.items()]


def _finding(name: str, check: Callable[[Case], str], case: Case) -> Finding:
    try:
        return Finding(name, True, check(case))
    except Unjudged as reason:
        return Finding(name, None, str(reason))
    except Broken as broken:
        return Finding(name, False, str(broken))


# --- the checks -----------------------------------------------------------------------------------------------------


def _registration(case: Case) -> str:
    if faults := case.see(Declared).faults:
        raise Broken("; ".join(faults))
    return "what is declared is there"


def _light(case: Case) -> str:
    """The host has no framework, so a plugin that needs one to be imported costs all its backends."""
    loaded = case.see(Loaded)
    if loaded.error:
        raise Broken(f"{loaded.module} cannot be imported in a process of its own ({loaded.error}). Mend that first")
    runner = case.backend.runner.partition(":")[0]
    if loaded.heavy:
        raise Broken(
            f"importing {loaded.module} imports {listed(loaded.heavy)}. Import in {runner} what the stack has, and name that "
            "module as text alone"
        )
    return f"importing {loaded.module} brings along {listed(loaded.brought)}"


def _ends(case: Case) -> str:
    if case.ending:
        raise Broken(f"the launch ended before everything was seen: {case.ending}. Mend that first")
    return "the launch went to its end"


def _facts(case: Case) -> str:
    told = case.see(Told)
    found = jobs.differences(jobs.requested(case.cell, case.backend), told.effective)
    found += [f"{o.name}: declared and not reported" for o in case.backend.options if o.name not in told.effective]
    if not told.versions:
        found.append("versions: empty")
    if found:
        raise Broken(
            f"{'; '.join(found)}. Tell in facts() what the framework says is in effect, under these names, and make it so"
        )
    return "what was asked for is in effect, and told"


def _honesty(case: Case) -> str:
    asked = case.see(Asked)
    if asked.refusal:
        return f"asked for {asked.dtype}, which there is not, it refused: {asked.refusal}"
    told = asked.effective.get("dtype")
    if told == asked.dtype:
        raise Broken(
            f"asked for {asked.dtype}, which there is not, it ran and told that it was in effect. Tell in facts() what the "
            "framework has, as of a weight's dtype, never what the job says; or raise Unsupported in load()"
        )
    return f"asked for {asked.dtype}, which there is not, it told {told!r}"


def _phases(case: Case) -> str:
    started = case.see(Started)
    timed = {phase for phase, _, _ in started.stages}
    if unexplained := [phase for phase in PHASES if phase not in timed and phase not in started.reasons]:
        raise Broken(
            f"{', '.join(unexplained)}: neither stages nor a reason. Return stages, or say in not_applicable why there are none"
        )
    share = sum(ns for _, _, ns in started.stages) / started.elapsed_ns
    if share > 1:
        raise Broken(
            f"the stages take {share:.0%} of the cold start. They overlap: each nanosecond belongs to one stage"
        )
    if share < STAGED_SHARE:
        raise Broken(f"the stages take {share:.0%} of the cold start. Give a stage to what takes the rest")
    return f"the stages are {share:.0%} of the cold start"


def _items(case: Case) -> str:
    row = {name: array[:1] for name, array in case.inputs.items()}
    for inputs, items in ((case.inputs, case.see(Started).items), (row, case.see(Reshaped).items)):
        right = _right_items(case.cell, inputs)
        if not items or not items.items() <= right.items():
            raise Broken(
                f"a call on {_rows(inputs)} has items {items}. Tell what harness.worker.api says of {case.cell.operation}: {right}"
            )
    return f"{case.see(Started).items} of {_rows(case.inputs)}"


def _right_items(cell: Cell, inputs: Arrays) -> dict[str, int]:
    """Of one call of the cell's operation."""
    counted = count_items(inputs)
    made_of_each = {"decode": 1, "generate": cell.new_tokens or 0}.get(cell.operation)
    if made_of_each is None:
        return counted
    return {"tokens": made_of_each * counted["samples"], "samples": counted["samples"]}


def _rows(inputs: Arrays) -> str:
    """As "input_ids (2, 24)"."""
    return ", ".join(f"{name} {array.shape}" for name, array in sorted(inputs.items()))


def _wait(case: Case) -> str:
    """Work that `wait` left undone is waited for by the first taking of outputs, and not by the second."""
    waited = case.see(Waited)
    pairs = zip(waited.outputs_ns, waited.again_ns, strict=True)
    hidden_ns = max(median(first - again for first, again in pairs), 0)
    share = hidden_ns / (median(waited.call_ns) + hidden_ns)
    if share > HIDDEN_SHARE:
        raise Broken(
            f"{share:.0%} of a call's time ({hidden_ns / 1e6:.2f} ms) passed after wait(), when its outputs were taken. "
            "Return from wait() only when the device is done, as torch.cuda.synchronize and jax.block_until_ready do"
        )
    return f"{share:.0%} of a call's time passed after wait()"


def _computes(case: Case) -> str:
    visited = case.see(Visited)
    ratio = median(second / first for first, second in zip(visited.first_ns, visited.second_ns, strict=True))
    if ratio < KEPT_RESULT_RATIO:
        raise Broken(
            f"a second call on an input took {ratio:.0%} of the first. Compute in each call: a kept result is no measurement"
        )
    return f"a second call on an input took {ratio:.0%} of the first"


def _threads(case: Case) -> str:
    working, asked = case.see(Worked).threads, case.cell.threads
    if working > asked + SPARE_THREADS:
        raise Broken(
            f"{asked} threads were asked for, {working} have worked. Set the framework's threads from job.threads before it "
            "makes its pool, and read them back"
        )
    return f"{working} threads have worked of {asked}"


def _outputs(case: Case) -> str:
    compared = case.see(Compared)
    for problem in _output_problems(compared):
        raise Broken(problem)
    return f"{compared.described[0]}; equal for equal inputs, different for different ones"


def _output_problems(compared: Compared) -> Iterator[str]:
    if len(compared.described) != 1 or compared.repeat_difference is None or compared.input_difference is None:
        yield f"outputs change from call to call: {' / '.join(compared.described)}. Return the same arrays for all inputs"
        return
    if wrong := re.findall(r"float(?!32)\d+", compared.described[0]):
        yield f"outputs are {wrong[0]}. Return float32 where the model's are floating"
    if not compared.finite:
        yield "outputs have NaN or infinity. Look at dtype and masks"
    if not compared.kept:
        yield "outputs changed under later calls. Return copies from outputs()"
    if compared.input_difference == 0:
        yield "different inputs have equal outputs. Use in call() the input that begin() chose"
    elif compared.repeat_difference > REPEAT_SHARE * compared.input_difference:
        yield (
            f"equal inputs have outputs that differ by {compared.repeat_difference:.2g} (different inputs: "
            f"{compared.input_difference:.2g}). Switch dropout off, and carry no state from call to call"
        )


def _parity(case: Case) -> str:
    parity = case.see(Paired).parity
    if not parity.passed:
        raise Broken(
            f"{parity.message}. Compare layer by layer with what Transformers computes: padding, positions, activations and the "
            "epsilon of norms are where it usually parts"
        )
    # Of tokens there is no largest difference.
    return "outputs are the reference's" + ("" if parity.max_abs is None else f", to {parity.max_abs:.1g}")


def _compilations(case: Case) -> str:
    started, compared = case.see(Started), case.see(Compared)
    if compared.compilations != started.compilations:
        raise Broken(
            f"compilations() went from {started.compilations} to {compared.compilations} though no shape had changed. Count what "
            "the framework compiles, not calls; or compile all of it in compile()"
        )
    if not started.compilations and all(phase != "compile" for phase, _, _ in started.stages):
        return "it compiles nothing, and says so"
    reshaped = case.see(Reshaped)
    if reshaped.compilations_after <= reshaped.compilations_before:
        raise Broken(
            f"compilations() stood at {reshaped.compilations_after} while another shape was compiled and called. Count every "
            "compilation, capture and session that is made, of all operations of the runner"
        )
    return f"another shape moved it from {reshaped.compilations_before} to {reshaped.compilations_after}"


def _memory(case: Case) -> str:
    counted = case.see(Counted)
    if untold := [name for name in RUNNERS_COUNTERS if name not in counted.bytes or _is_untold(counted, name)]:
        raise Broken(f"memory() leaves out {', '.join(untold)}. Give bytes, or a text that says why they are not known")
    if negative := [name for name in RUNNERS_COUNTERS if (counted.bytes[name] or 0) < 0]:
        raise Broken(f"{', '.join(negative)}: below zero. Give bytes, or a text that says why they are not known")
    if counted.bytes["weights_bytes"] == 0:
        raise Broken("weights_bytes is 0. Count the weights, or say in a text why they cannot be counted")
    known = [name for name in RUNNERS_COUNTERS if counted.bytes[name] is not None]
    return f"known: {', '.join(known)}; the others have reasons"


def _is_untold(counted: Counted, name: str) -> bool:
    return counted.reasons.get(name) == "the runner does not tell it"


def _close(case: Case) -> str:
    freed, weights = case.see(Freed), case.see(Counted).bytes.get("weights_bytes")
    if case.cell.device != "cpu":
        raise Unjudged(f"what is freed of device {case.cell.device} does not show in the process")
    if weights is None or weights < LIGHT_BYTES:
        raise Unjudged(f"{weights} bytes of weights are too few to see; check with a heavier checkpoint")
    gone = max(freed.held_before_bytes - freed.held_after_bytes, 0)
    if gone < FREED_SHARE * weights:
        raise Broken(
            f"close() gave back {gone / 1e6:.0f} MB, the weights are {weights / 1e6:.0f} MB. Let go of model, session, inputs "
            "and outputs, and empty the framework's caches"
        )
    return f"close() gave back {gone / 1e6:.0f} MB, the weights are {weights / 1e6:.0f} MB"


def _kill(case: Case) -> str:
    left = {phase: found for phase, found in case.see(Killed).left.items() if found}
    if left:
        told = "; ".join(f"{phase}: {listed(found)}" for phase, found in left.items())
        raise Broken(
            f"killed in the midst of a phase, it left something behind ({told}). Start children as children: not in a session of "
            "their own, and with the environment that the worker has"
        )
    return f"killed in {listed(case.see(Killed).left)}, it left nothing behind"


CHECKS: Mapping[str, Callable[[Case], str]] = {
    "registration": _registration,
    "import": _light,
    "ends": _ends,
    "facts": _facts,
    "honesty": _honesty,
    "phases": _phases,
    "items": _items,
    "wait": _wait,
    "computes": _computes,
    "threads": _threads,
    "outputs": _outputs,
    "parity": _parity,
    "compilations": _compilations,
    "memory": _memory,
    "close": _close,
    "kill": _kill,
}
"""Check -> what judges it: returns what was seen, or raises Broken or Unjudged."""
