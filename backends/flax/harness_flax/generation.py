"""Generation: reading a prompt, decoding by the cache, and Transformers' own generate(), all compiled ahead of time.

A cache of Flax is of fixed length: room for the prompt and all tokens to come is made when the prompt is read, as generate() makes
it, and every step attends to all of it, by a mask. What the first call is given, and what follows from a step for the next, the
model says itself, by the two functions that its generate() asks too (`prepare_inputs_for_generation`: where a prompt is padded
on the left, positions are counted from its first real token; `update_inputs_for_generation`). So code and weights that are
repaired for a forward pass are repaired here: the same model is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from transformers import FlaxPreTrainedModel, GenerationConfig

from harness.worker.api import KV_CACHE_BYTES, Arrays, Counters, Mark, Stages, Unsupported
from harness.worker.endings import CountedCalls
from harness.worker.items import count_items
from harness_flax.programs import Function, Loaded, OneProgram, Program, Values, compile_ahead
from harness_flax.repairs import Weights

State = dict[str, Any]
"""`token`, int32 of (batch, 1): the one chosen last. `carried`: what the next call of the model is given beside it, its cache
under `past_key_values`."""


@dataclass(frozen=True)
class CachedModel:
    """A model led from token to token, always the likeliest. Its functions are to be traced."""

    model: FlaxPreTrainedModel
    cache_length: int  # tokens

    def read(self, weights: Weights, prompt: Values) -> dict[str, Any]:
        """To the first token: `logits`, (batch, vocabulary), of the last position, and the `state` after it, its cache filled."""
        return self._advance(weights, *self._start(weights, prompt))

    def step(self, weights: Weights, state: State) -> dict[str, Any]:
        """One token more: the same two."""
        return self._advance(weights, state["token"], state["carried"])

    def _start(self, weights: Weights, prompt: Values) -> tuple[jax.Array, State]:
        """The decoder's first tokens, and what it is given beside them: an empty cache, and what an encoder makes of the prompt."""
        model, tokens, mask = self.model, prompt["input_ids"], prompt["attention_mask"]
        encoded = {}
        if model.config.is_encoder_decoder:
            encoded = {"encoder_outputs": model.encode(tokens, attention_mask=mask, params=weights)}
            tokens = jnp.full((len(tokens), 1), model.config.decoder_start_token_id, jnp.int32)
        return tokens, model.prepare_inputs_for_generation(tokens, self.cache_length, attention_mask=mask, **encoded)

    def _advance(self, weights: Weights, tokens: jax.Array, carried: State) -> dict[str, Any]:
        model = self.model
        decode = model.decode if model.config.is_encoder_decoder else model
        made = decode(tokens, params=weights, **carried)
        logits = made.logits[:, -1]
        token = jnp.argmax(logits, axis=-1).astype(jnp.int32)[:, None]
        return {
            "logits": logits,
            "state": {"token": token, "carried": model.update_inputs_for_generation(made, carried)},
        }


def cache_bytes(state: State) -> int:
    """Bytes of the keys and values of all layers. The number beside them, that says how far they are filled, does not count."""
    leaves = jax.tree.leaves(state["carried"]["past_key_values"])
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves if leaf.ndim)


class Prefill(OneProgram):
    """From a prompt to the logits of its last position. Each call fills a cache of its own, as long as the prompt."""

    def __init__(self, loaded: Loaded, slots: Sequence[Arrays]) -> None:
        read = CachedModel(loaded.definition.model, _tokens_read(loaded, slots)).read
        super().__init__(loaded, read, [loaded.on_device(slot) for slot in slots], count_items(slots[0]))

    def outputs(self) -> Arrays:
        """`logits`: of the last position, a float32 copy of (batch, vocabulary) on the host."""
        return {"logits": np.array(self._last["logits"], np.float32)}

    def counters(self) -> Counters:
        """Of the cache that the last call has left."""
        return {KV_CACHE_BYTES: cache_bytes(self._last["state"])}


class Decode(OneProgram):
    """One token more, by the cache. Each step overwrites the cache of the one before, which it was given for that: no copies."""

    def __init__(self, loaded: Loaded, slots: Sequence[Arrays]) -> None:
        new_tokens = loaded.job.new_tokens or 0
        self._model = CachedModel(loaded.definition.model, _tokens_read(loaded, slots) + new_tokens)
        values = [loaded.on_device(slot) for slot in slots]
        super().__init__(loaded, self._model.read, values, _tokens_made(slots, 1))
        self.calls_per_begin = new_tokens - 1

    def compile(self) -> Stages:
        """The program that reads the prompt, which `begin` calls, then the one of a step, which is timed. Each has its stages."""
        self._reading = self._compiled(self._model.read)
        state = self._reading.compiled.out_info["state"]
        self.program = compile_ahead(self._loaded.log, self._model.step, self._loaded.weights, state, donated=(1,))
        self.was_cached = self._reading.was_cached and self.program.was_cached
        return [*_named("prefill", self._reading.stages), *_named("decode", self.program.stages)]

    def begin(self, slot: int) -> None:
        """Untimed: read the prompt and choose the first token."""
        self._last = jax.block_until_ready(self._reading.compiled(self._loaded.weights, self._slots[slot]))
        self._calls = 0

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - one step has no instants inside
        """One step. Returns before the device is done."""
        self._last = self.program.compiled(self._loaded.weights, self._last["state"])
        self._calls += 1

    def call_and_wait(self) -> None:
        """A step that nobody times; after a new beginning, where the cache has no room for another."""
        if self._calls == self.calls_per_begin:
            self.begin(0)
        super().call_and_wait()

    def outputs(self) -> Arrays:
        """`tokens`, int64 of (batch,), chosen last; `logits`, float32 of (batch, vocabulary), that they were chosen from."""
        tokens = np.array(self._last["state"]["token"], np.int64)[:, 0]
        return {"tokens": tokens, "logits": np.array(self._last["logits"], np.float32)}

    def counters(self) -> Counters:
        """Of the one cache, which steps fill and do not lengthen."""
        return {KV_CACHE_BYTES: cache_bytes(self._last["state"])}


class Generate(OneProgram):
    """Transformers' own generate(), jitted.

    It is one program from the prompt to the last token: between them is no instant that could be stamped.
    """

    def __init__(self, loaded: Loaded, slots: Sequence[Arrays]) -> None:
        if len(loaded.job.eos_token_ids) > 1:
            raise Unsupported(
                f"Flax's generate ends texts by one token: the checkpoint names {loaded.job.eos_token_ids}"
            )
        self._new_tokens, self._rows = loaded.job.new_tokens or 0, len(slots[0]["input_ids"])
        self._counted = CountedCalls(self._rows * self._new_tokens, may_end_early=bool(loaded.job.eos_token_ids))
        self._model = CachedModel(loaded.definition.model, _tokens_read(loaded, slots) + self._new_tokens)
        # Each slot draws its own numbers, the same ones in every call: what was drawn can be drawn again.
        values = [
            {**loaded.on_device(slot), "seed": jax.device_put(np.uint32(seed))} for seed, slot in enumerate(slots)
        ]
        function = _generate_function(loaded, do_sample=loaded.job.do_sample)
        super().__init__(loaded, function, values, _tokens_made(slots, self._new_tokens))

    def begin(self, slot: int) -> None:
        """Choose the prompt."""
        super().begin(slot)
        self._slot = slot

    def wait(self) -> None:
        """Until the device is done. Raises RuntimeError where the number of tokens, of all rows, is not the one it should be."""
        super().wait()
        self._counted.check(self._slot, int(self._last["made"]))

    def outputs(self) -> Arrays:
        """`tokens`, int64 of (batch, new tokens); of beams also `sequences_scores`, float32 of (batch,), as PyTorch's generate has
        them: the mean of the tokens' log-probabilities.

        Where tokens are drawn, those of the same call drawing none: drawn ones can be held to no reference.
        """
        made = self._greedy.compiled(self._loaded.weights, self._inputs) if self._loaded.job.do_sample else self._last
        tokens = {"tokens": np.array(made["tokens"], np.int64)}
        if "scores" not in made:
            return tokens
        # Flax divides the sums of those beams only that have met an end of text before the last token: none here, as the plugin
        # declares no beam search that may meet one.
        return {**tokens, "sequences_scores": np.array(made["scores"], np.float32) / self._new_tokens}

    def counters(self) -> Counters:
        """Of the cache inside the program: it is nowhere else."""
        return {KV_CACHE_BYTES: self._cache_bytes}

    @property
    def evaluated(self) -> jax.stages.Traced:
        """Of a call that draws tokens, the one that draws none."""
        return self._greedy.traced if self._loaded.job.do_sample else self.program.traced

    @cached_property
    def _cache_bytes(self) -> int:
        """By the shapes that it is made in, once for each beam."""
        read = jax.eval_shape(self._model.read, self._loaded.weights, self._slots[0])
        return cache_bytes(read["state"]) * self._loaded.job.num_beams

    @cached_property
    def _greedy(self) -> Program:
        return self._compiled(_generate_function(self._loaded, do_sample=False))


def _generate_function(loaded: Loaded, *, do_sample: bool) -> Function:
    """generate() as a function of weights and inputs: `tokens`, how many were `made`, and of beams `scores`."""
    model, new_tokens = loaded.definition.model, loaded.job.new_tokens or 0
    settings = _settings(loaded, do_sample=do_sample)

    def generate(weights: Weights, inputs: Values) -> dict[str, Any]:
        found = model.generate(
            inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            params=weights,
            generation_config=settings,
            prng_key=jax.random.PRNGKey(inputs["seed"]),
        )
        tokens = found.sequences[:, -new_tokens:]
        scores = {"scores": found.scores} if "scores" in found else {}
        return {"tokens": tokens, "made": _made(loaded, tokens), **scores}

    return generate


def _made(loaded: Loaded, tokens: jax.Array) -> jax.Array:
    """How many tokens of all rows; where one ends texts, up to and including the first such of each."""
    ends = tokens == _end_token(loaded)
    if not loaded.job.eos_token_ids:
        return jnp.sum(~ends)
    return jnp.sum(jnp.cumsum(ends, axis=1) - ends == 0)


def _end_token(loaded: Loaded) -> int:
    """What ends a text, and stands for a token not made: the job's. Where nothing is to, one more than the last token of the
    vocabulary: no model chooses it, so none stops early, and what was not made shows."""
    named = loaded.job.eos_token_ids
    return named[0] if named else int(loaded.definition.model.config.vocab_size)


def _settings(loaded: Loaded, *, do_sample: bool) -> GenerationConfig:
    """From scratch, so that nothing plays a part that a checkpoint says of generation: what is drawn is drawn from the whole
    vocabulary, by the model's own probabilities. Nor is a shortest length asked for: for one Flax changes logits.
    """
    config, end_token = loaded.definition.model.config, _end_token(loaded)
    return GenerationConfig(
        max_new_tokens=loaded.job.new_tokens,
        min_length=None,
        do_sample=do_sample,
        num_beams=loaded.job.num_beams,
        eos_token_id=end_token,
        pad_token_id=end_token,
        decoder_start_token_id=getattr(config, "decoder_start_token_id", None),
        **({"top_k": 0} if do_sample else {}),
    )


def _tokens_read(loaded: Loaded, slots: Sequence[Arrays]) -> int:
    """By the decoder before it chooses the first: the prompt, or where an encoder reads that, one to start from."""
    is_encoder_decoder: bool = loaded.definition.model.config.is_encoder_decoder
    return 1 if is_encoder_decoder else int(slots[0]["input_ids"].shape[1])


def _tokens_made(slots: Sequence[Arrays], tokens: int) -> Mapping[str, int]:
    """The items of a call that makes so many of each row."""
    rows = len(slots[0]["input_ids"])
    return {"tokens": rows * tokens, "samples": rows}


def _named(program: str, stages: Stages) -> Stages:
    return [(f"{program}.{stage}", elapsed_ns) for stage, elapsed_ns in stages]
