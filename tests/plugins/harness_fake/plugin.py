"""The fake backend as the host sees it: two names for one runner, so that a group has something to compare. `fake` keeps
what it compiled, `fake_b` is declared as one that does not.

Every option is null by default, which means: call for 1 ms, and behave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.hookspecs import hookimpl
from harness.model import Backend, Cell, Option, Stack

PHASES = ("load", "prepare", "compile", "first_call", "outputs", "warmup", "steady", "memory", "close")
WRONGS = ("shape", "nan", "nan_after", "values", "after", "cached", "tokens", "near_tokens", "deaf_to_eos")

STACK = Stack(name="fake", lock="harness_fake:fake.lock", packages=("harness_fake",))

OPTIONS = (
    Option("call_ms", float, None, "how long one call takes (null: 1)"),
    Option("token_ms", float, None, "how long each further token of generate takes (null: 1)"),
    Option("stampless", bool, None, "generate stamps nothing"),
    Option("asynchronous", bool, None, "a call returns at once; wait() takes the time"),
    Option("load_ms", float, None, "how long loading takes"),
    Option("prepare_ms", float, None, "how long preparing takes; null: there is nothing to prepare"),
    Option("compile_ms", float, None, "how long compiling takes; null: there is nothing to compile"),
    Option("first_call_in_compile", bool, None, "compiling makes the first call, as torch.compile does"),
    Option("fail_in", str, None, "phase in which an exception is raised", PHASES),
    Option("unsupported_in", str, None, "phase in which Unsupported is raised", PHASES),
    Option("out_of_memory_in", str, None, "phase in which MemoryError is raised", PHASES),
    Option("exit_in", str, None, "phase in which sys.exit(3) is called", PHASES),
    Option("hang_in", str, None, "phase that never ends", PHASES),
    Option("kill_in", str, None, "phase in which the process kills itself with SIGKILL", PHASES),
    Option("devour_in", str, None, "phase in which the process takes a GiB of memory", PHASES),
    Option("child_devours_in", str, None, "phase in which a child does, and nobody minds its end", PHASES),
    Option("garbage", int, None, "kilobytes that each call prints to descriptor 1, half of them from C"),
    Option("recompile_at", int, None, "number of the call, from 1, that compiles again"),
    Option("recompile_always", bool, None, "every call compiles again"),
    Option("stop_at", int, None, "number of the call, from 1, in which the process is stopped (SIGSTOP) for 1.2 s"),
    Option("drift", float, None, "by what part of the first call each further call takes longer"),
    Option("wrong", str, None, "what is wrong with the outputs", WRONGS),
    Option("forget_compiled", bool, None, "leave nothing in the cache folder"),
    Option("report_threads", int, None, "thread count reported, whatever was asked for"),
    Option("report_dtype", str, None, "dtype reported, whatever was asked for"),
)


def supports(cell: Cell, model_config: Mapping[str, Any]) -> str | None:
    """Like a model with learned positions, it takes no more tokens than the model has positions."""
    positions = model_config.get("max_position_embeddings")
    if positions is not None and cell.sequence_length > positions:
        return f"sequence_length {cell.sequence_length} exceeds the model's {positions} positions"
    return None


def _backend(name: str, *, has_compile_cache: bool) -> Backend:
    return Backend(
        name=name,
        stack=STACK,
        runner="harness_fake.runner:FakeRunner",
        description="sleeps instead of computing",
        options=OPTIONS,
        operations=("forward", "prefill", "decode", "generate"),
        supports=supports,
        has_compile_cache=has_compile_cache,
    )


@hookimpl
def harness_register_backends() -> Iterable[Backend]:
    return [_backend("fake", has_compile_cache=True), _backend("fake_b", has_compile_cache=False)]
