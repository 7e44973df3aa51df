"""Prefill, decode and generate: a prompt read, one token more, and Transformers' own loop over both.

Prefill and decode are calls of the model as a loop written by hand makes them, with a cache that grows (`DynamicCache`, the model's
own choice) or one made beforehand (`compiling_generation`). Only the logits of the last position are computed, where the model can
leave out the others. Timed in decode are the step and the choice of its token, which stays on the device. Nothing looks at
end-of-sequence.

Generate is one call of `model.generate`. Its configuration is made here, and the checkpoint's own is put aside: `generate` would
fill what is left open from it, penalties, sampling and the end-of-sequence that cuts texts short among it. Where texts are to be
cut short, the job says by which tokens.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteria, StoppingCriteriaList

from harness.worker.api import FIRST_TOKEN, KV_CACHE_BYTES, TOKEN, Arrays, Counters, Mark, Stages, Unsupported
from harness.worker.endings import CountedCalls, filled
from harness_pytorch.device import Tensors, synchronise
from harness_pytorch.prompts import make_prompts, start_token

CACHES = {"DynamicCache": "dynamic", "StaticCache": "static"}
"""The fact `cache`, by Transformers' classes."""


@dataclass(frozen=True)
class Workload:
    """What an operation on prompts is made from."""

    model: PreTrainedModel
    slots: Sequence[Tensors]
    items: Mapping[str, int]  # of the prompts
    device: torch.device
    new_tokens: int | None
    do_sample: bool
    num_beams: int
    eos_token_ids: Sequence[int]  # of generate: each ends its row; empty: nothing does

    @property
    def batch(self) -> int:
        """Rows of a slot."""
        return len(self.slots[0]["input_ids"])


class Generation:
    """What the three operations share."""

    calls_per_begin: int | None = None
    items: Mapping[str, int]

    def __init__(self, workload: Workload, cache: Any = None) -> None:
        """`cache`: one made beforehand, for every call; None: each call is given a new one. Raises Unsupported."""
        model = workload.model
        if not model.can_generate():
            raise Unsupported(f"Transformers cannot generate with {type(model).__name__}")
        self._model: Callable[..., Any] = model
        self._device = workload.device
        self._prompts = make_prompts(model, workload.slots, workload.new_tokens or 0, is_static=cache is not None)
        self._beforehand = cache
        self._filled: Any = None
        parameters = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"  # Transformers 5 and 4
        self._always = {"use_cache": True} | ({"logits_to_keep": 1} if "logits_to_keep" in parameters else {})

    def compile(self) -> Stages:
        """Nothing."""
        return ()

    def begin(self, slot: int) -> None:
        """Choose the prompt. What the last call has filled is let go, so that no two caches stand side by side."""
        self._prompt = self._prompts[slot]
        self._filled = None
        if self._beforehand is not None:
            self._beforehand.reset()

    def wait(self) -> None:
        """Until the device is done."""
        synchronise(self._device)

    def facts(self) -> dict[str, Any]:
        """The cache that the last call filled."""
        filled = getattr(self._filled, "self_attention_cache", self._filled)
        name = type(filled).__name__
        return {"cache": CACHES.get(name, name)}

    def counters(self) -> Counters:
        """Bytes of keys and values of all layers, an encoder-decoder's of both kinds of attention, as they are allocated now."""
        tensors = _keys_and_values(self._filled)
        if any(tensor is None for tensor in tensors):
            return {KV_CACHE_BYTES: "not every layer of the model keeps keys and values"}
        return {KV_CACHE_BYTES: sum(tensor.numel() * tensor.element_size() for tensor in tensors)}

    def ran_in_inference_mode(self) -> bool:
        """Told by what the last call chose from: tensors made in inference mode know it for ever."""
        return self._logits.is_inference()

    def release(self) -> None:
        """Let go of model, prompts and caches."""
        self.__dict__.clear()

    def _read(self) -> None:
        """The prompt, into an empty cache."""
        self._step = 0
        self._carried = self._prompt.carried(self._run(self._prompt.first(), self._beforehand))

    def _go_on(self) -> None:
        """The token chosen last."""
        self._step += 1
        self._run({**self._prompt.next(self._token, self._step), **self._carried}, self._filled)

    def _run(self, arguments: Mapping[str, Any], cache: Any) -> Any:
        outputs = self._model(**arguments, **self._always, **{self._cache_name: cache})
        self._filled, self._logits = outputs[self._cache_name], outputs.logits[:, -1]
        return outputs

    def _choose(self) -> None:
        """The likeliest token of each row."""
        self._token = self._logits.argmax(-1, keepdim=True)


class Prefill(Generation):
    """A prompt to the logits of its last position."""

    def __init__(self, workload: Workload, cache: Any = None) -> None:
        super().__init__(workload, cache)
        self.items = workload.items
        self.calls_per_begin = None if cache is None else 1

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - one forward pass has no instants of its own
        """The call that is timed."""
        with torch.inference_mode():
            self._read()

    def outputs(self) -> Arrays:
        """Logits of (batch, vocabulary), float32."""
        return {"logits": _on_host(self._logits)}


class Decode(Generation):
    """One token more in each row. `begin` reads the prompt."""

    def __init__(self, workload: Workload, cache: Any = None) -> None:
        super().__init__(workload, cache)
        self.items = {"tokens": workload.batch, "samples": workload.batch}
        self.calls_per_begin = _wanted(workload) - 1

    def begin(self, slot: int) -> None:
        """The prompt, and the first token; both are over when this returns."""
        super().begin(slot)
        with torch.inference_mode():
            self._read()
            self._choose()
        self.wait()

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - as of prefill
        """The call that is timed."""
        with torch.inference_mode():
            self._go_on()
            self._choose()

    def outputs(self) -> Arrays:
        """Tokens of (batch,), int64, and the logits they were chosen from, of (batch, vocabulary), float32."""
        return {"tokens": self._token[:, 0].cpu().numpy().copy(), "logits": _on_host(self._logits)}


class Generate(Generation):
    """Transformers' generate."""

    _model: PreTrainedModel

    def __init__(self, workload: Workload, **settings: Any) -> None:
        """`settings`: of the generation's configuration, beyond those of the workload."""
        super().__init__(workload)
        self._wanted = _wanted(workload)
        self._samples, self._beams = workload.do_sample, workload.num_beams
        self._eos_token_ids = list(workload.eos_token_ids)
        self._counted = CountedCalls(self._wanted, may_end_early=bool(self._eos_token_ids))
        self._settings = settings | _put_aside(self._model)
        self._config = self._configured(do_sample=self._samples)
        self.items = {"tokens": workload.batch * self._wanted, "samples": workload.batch}

    def begin(self, slot: int) -> None:
        """Choose the prompt; where tokens are drawn, every call on it draws the same."""
        super().begin(slot)
        self._slot = slot
        if self._samples:
            torch.manual_seed(slot)

    def call(self, mark: Mark | None = None) -> None:
        """The call that is timed. Raises RuntimeError where the longest row has not as many tokens as it should."""
        marks = TokenMarks(mark, self._device, first_alone=bool(self._eos_token_ids)) if mark else None
        made = self._generated(self._config, [marks] if marks else [])
        self._sequences, self._filled = made.sequences, made[self._cache_name]
        self._counted.check(self._slot, self._chosen(made.sequences).shape[1])

    def outputs(self) -> Arrays:
        """Tokens of (batch, new tokens), int64; of beam search their scores too, (batch,) float32.

        Drawn tokens have no counterpart to be held against: a greedy call is made for them. Beam search is asked for scores in a
        call of its own, as it keeps the scores of every step for them.
        """
        greedy = self._generated(self._configured(do_sample=False)).sequences if self._samples else self._sequences
        chosen = self._chosen(greedy).cpu().numpy().copy()
        tokens = {"tokens": filled(chosen, self._wanted, self._eos_token_ids)}
        if self._beams == 1:
            return tokens
        scored = self._generated(self._configured(do_sample=False, output_scores=True))
        return {**tokens, "sequences_scores": _on_host(scored.sequences_scores)}

    def ran_in_inference_mode(self) -> bool:
        """As the others, by the tokens."""
        return bool(self._sequences.is_inference())

    def _configured(self, **settings: Any) -> GenerationConfig:
        """Every setting whose default could be another: sampling by the model's own probabilities, beams by their mean."""
        if self._eos_token_ids:
            settings |= {"eos_token_id": self._eos_token_ids, "pad_token_id": self._eos_token_ids[0]}
        if settings["do_sample"]:
            settings |= {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
        if self._beams > 1:
            settings |= {"num_beams": self._beams, "length_penalty": 1.0, "early_stopping": False}
        always = {"max_new_tokens": self._wanted, "use_cache": True, "return_dict_in_generate": True}
        return GenerationConfig(**always, **self._settings, **settings)

    def _generated(self, config: GenerationConfig, criteria: Sequence[StoppingCriteria] = ()) -> Any:
        with torch.inference_mode():
            return self._model.generate(
                **self._prompt.whole, generation_config=config, stopping_criteria=StoppingCriteriaList(criteria)
            )

    def _chosen(self, sequences: torch.Tensor) -> torch.Tensor:
        return sequences[:, self._prompt.given :]


class TokenMarks(StoppingCriteria):
    """Asked after each token whether to stop: it never does, and marks the token once the device is done with it.

    `first_alone`: no other is marked.
    """

    def __init__(self, mark: Mark, device: torch.device, *, first_alone: bool) -> None:
        self._mark = mark
        self._device = device
        self._names = chain([FIRST_TOKEN], () if first_alone else repeat(TOKEN))

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> Any:  # noqa: ARG002 - Transformers' signature
        """For each row: not yet."""
        if name := next(self._names, None):
            synchronise(self._device)
            self._mark(name)
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def _wanted(workload: Workload) -> int:
    assert workload.new_tokens is not None, "the core gives decode and generate their number of tokens"
    return workload.new_tokens


def _put_aside(model: PreTrainedModel) -> dict[str, int]:
    """Leave nothing of the checkpoint's generation_config.json in effect, but the token that a decoder begins with."""
    kept = {"decoder_start_token_id": start_token(model)} if model.config.is_encoder_decoder else {}
    model.generation_config = GenerationConfig(**kept)
    return kept


def _keys_and_values(cache: Any) -> list[Any]:
    """Tensors of all layers; None in place of what a layer has not."""
    names = ("self_attention_cache", "cross_attention_cache")
    parts = [getattr(cache, name) for name in names] if hasattr(cache, names[0]) else [cache]
    layers = [layer for part in parts for layer in part.layers]
    return [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]


def _on_host(tensor: torch.Tensor) -> Any:
    return tensor.to("cpu", torch.float32, copy=True).numpy()


OPERATIONS: Mapping[str, Callable[[Workload], Prefill | Decode | Generate]] = {
    "prefill": Prefill,
    "decode": Decode,
    "generate": Generate,
}
"""By the names of `harness.tasks`."""
