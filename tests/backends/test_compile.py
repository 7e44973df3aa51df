"""torch.compile in the real pytorch stack."""

from __future__ import annotations

import pytest
from launches import Lab, Question, Told, largest_difference

pytestmark = pytest.mark.stacks

SMALLER_BERT = "random:bert?num_hidden_layers=1"

BERT = Question("compile", "random:bert", "feature-extraction")
GPT2 = Question("compile", "random:gpt2", "text-generation", options=(("dynamic", False), ("fullgraph", True)))
WARM = Question("compile", "random:bert", "feature-extraction", compile_cache="warm", cache_of=BERT)
OTHER = Question("compile", SMALLER_BERT, "feature-extraction", compile_cache="warm", cache_of=BERT)


@pytest.fixture
def bert(lab: Lab) -> Told:
    return lab.ask(BERT)


@pytest.fixture
def gpt2(lab: Lab) -> Told:
    lab.ask(WARM)
    return lab.ask(GPT2)


def libraries(told: Told) -> set[str]:
    """What the C++ compiler has made."""
    return {path.name for path in told.cached if path.suffix in (".so", ".gch")}


def test_compiled_code_agrees_with_eager(lab: Lab, bert: Told, gpt2: Told) -> None:
    eagers = [Question("eager", question.source, question.task) for question in (BERT, GPT2)]
    lab.ask_together(eagers)
    for compiled, eager in zip((bert, gpt2), eagers, strict=True):
        assert 0 < largest_difference(compiled.outputs, lab.ask(eager).outputs) < 1e-4


def test_compiling_is_told_apart_from_the_first_call_and_is_nearly_all_of_it(bert: Told) -> None:
    stages = dict(bert.phase_ns("compile"))
    assert list(stages) == ["wrap", "dynamo", "first_call"]
    assert stages["dynamo"] > 50_000_000
    assert 0 < stages["first_call"] < stages["dynamo"]


def test_the_stages_are_the_cold_start(bert: Told) -> None:
    timed_ns = sum(elapsed for phase in ("load", "compile") for _, elapsed in bert.phase_ns(phase))
    assert 0.9 * bert.report["cold_start_ns"] < timed_ns <= bert.report["cold_start_ns"]


def test_what_was_asked_for_is_in_effect(lab: Lab, gpt2: Told) -> None:
    assert (
        gpt2.report["effective"].items()
        >= {**lab.backends["compile"].expects, "dynamic": False, "fullgraph": True}.items()
    )


def test_what_was_left_to_pytorch_is_reported_too(bert: Told) -> None:
    assert bert.report["effective"].items() >= {"mode": "default", "dynamic": None, "fullgraph": False}.items()


def test_facts_tell_what_dynamo_and_inductor_did(bert: Told) -> None:
    details = bert.report["details"]
    assert (details["graphs"], details["graph_breaks"], details["recompilations"]) == (1, {}, [])
    assert details["cache_misses"] == {"autograd_cache_miss": 1, "fxgraph_cache_miss": 1}
    assert details["cache_hits"] == {"autograd_cache_hit": 0, "fxgraph_cache_hit": 0}
    assert details["inductor_compile_s"] > 0
    assert details["attention_kernels"] == ["aten::_scaled_dot_product_flash_attention_for_cpu"]


def test_no_launch_finds_what_another_compiled(bert: Told, gpt2: Told) -> None:
    assert bert.report["effective"]["compile_cache"] == gpt2.report["effective"]["compile_cache"] == "cold"


def test_a_launch_on_what_another_has_left_is_warm_and_compiles_nothing_again(lab: Lab, bert: Told) -> None:
    warm = lab.ask(WARM)
    assert warm.report["effective"]["compile_cache"] == "warm"
    assert warm.report["details"]["cache_hits"] == {"autograd_cache_hit": 1, "fxgraph_cache_hit": 1}
    assert warm.report["details"]["cache_misses"] == {"autograd_cache_miss": 0, "fxgraph_cache_miss": 0}
    assert libraries(warm) <= libraries(bert)
    assert dict(warm.phase_ns("compile"))["dynamo"] < dict(bert.phase_ns("compile"))["dynamo"]
    assert largest_difference(warm.outputs, bert.outputs) == 0


def test_a_cold_launch_after_a_warm_one_is_cold(lab: Lab, gpt2: Told) -> None:
    """GPT-2 is asked after it."""
    assert lab.ask(WARM).report["effective"]["compile_cache"] == "warm"
    assert gpt2.report["effective"]["compile_cache"] == "cold"


def test_a_cache_without_the_graph_makes_a_launch_neither_cold_nor_warm(lab: Lab) -> None:
    found = lab.ask(OTHER)
    assert found.report["effective"]["compile_cache"] == "stale"


def test_all_that_compilers_keep_is_in_the_folder_for_it(bert: Told) -> None:
    suffixes = {path.suffix for path in bert.cached}
    assert suffixes >= {".py", ".cpp", ".so"}
    assert ".gch" not in suffixes  # the executor has switched precompiling of headers off
    assert bert.left_elsewhere == ()
