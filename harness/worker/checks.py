"""What a runner hands over, checked where a mistake would otherwise show up later and further away."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from harness.worker.api import Facts, Job, Runner


class ContractError(TypeError):
    """What a plugin hands over is not what `harness.worker.api` asks for. The host names the plugin."""


def build_runner(job: Job) -> Runner:
    """Import "module:Class" and build it. Raises ImportError, or ContractError for what is no runner."""
    module_name, _, class_name = job.runner.partition(":")
    module = importlib.import_module(module_name)
    if not hasattr(module, class_name):
        raise ImportError(f"module {module_name} has no class {class_name!r}, which the backend names as its runner")
    runner: Runner = _built(getattr(module, class_name), job)
    check_members(runner, Runner)
    return runner


def _built(runner_class: Callable[..., Any], job: Job) -> Any:
    """With the job, where the constructor takes one."""
    takes_job = "job" in inspect.signature(runner_class).parameters
    return runner_class(job=job) if takes_job else runner_class()


def check_members(candidate: object, protocol: type) -> None:
    """Raise ContractError naming every member of the protocol that the candidate lacks."""
    members = dict.fromkeys([*protocol.__annotations__, *vars(protocol)])
    missing = [name for name in members if not name.startswith("_") and not hasattr(candidate, name)]
    if missing:
        kind = protocol.__name__
        raise ContractError(
            f"{type(candidate).__name__} is no {kind}: it lacks {', '.join(missing)}; see {kind} in {protocol.__module__}"
        )


def facts_as_json(facts: Facts) -> dict[str, dict[str, Any]]:
    """Facts as they travel. Raises ContractError naming the first fact that is no JSON value."""
    if not isinstance(facts, Facts):
        raise ContractError(f"facts() returned {type(facts).__name__}, not harness.worker.api.Facts")
    parts = {"effective": facts.effective, "versions": facts.versions, "details": facts.details}
    return {part: _json_object(part, values) for part, values in parts.items()}


def _json_object(part: str, values: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in values.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ContractError(f"the fact {part}.{name} is no JSON value: {error}") from None
    return dict(values)
