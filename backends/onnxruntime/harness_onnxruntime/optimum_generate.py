"""generate() as the library has it: optimum's ORTModelForCausalLM or ORTModelForSeq2SeqLM around sessions on the exported files.

Here PyTorch is in the measured process, as it is in the process of whoever calls generate(): Transformers' loop chooses tokens with
it and, searching beams, sorts the cache. It gets as many threads as a session. The sessions are ours, so that they have the options
and providers that prefill's and decode's have; optimum's own from_pretrained() would open others on the same files.

Whether inputs and outputs are bound is left to optimum. On a CPU it binds none, and binding is no quicker: 774 ms of processor time
against 750 (SmolLM2, 16 tokens after 64, one thread, medians of five calls, alternated).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from harness_pytorch.device import synchronise
from harness_pytorch.generation import TokenMarks
from optimum.onnxruntime import ORTModelForCausalLM, ORTModelForSeq2SeqLM
from transformers import AutoConfig, GenerationConfig, StoppingCriteriaList

from harness.worker.api import KV_CACHE_BYTES, Arrays, Counters, Mark, Stages, Stopwatch
from harness.worker.endings import CountedCalls, filled
from harness_onnxruntime.generation import Exported

PROMPT = ("input_ids", "attention_mask")
GREEDILY = {"do_sample": False, "top_k": None}


class Generate:
    """From a prompt to the last of its new tokens, in one call of the library."""

    calls_per_begin: int | None = None

    def __init__(self, exported: Exported, slots: Sequence[Arrays]) -> None:
        batch, prompt_tokens = slots[0]["input_ids"].shape
        self.items: Mapping[str, int] = {"tokens": batch * exported.new_tokens, "samples": batch}
        self._exported = exported
        self._slots = slots
        self._given = prompt_tokens if exported.start_token is None else 1  # tokens of a row that it has not chosen
        self._eos_token_ids = exported.job.eos_token_ids
        self._counted = CountedCalls(exported.new_tokens, may_end_early=bool(self._eos_token_ids))

    def compile(self) -> Stages:
        """Create the sessions, then what is around them, and place the prompts."""
        watch = Stopwatch()
        torch.set_num_threads(self._exported.job.threads)
        sessions = self._exported.open_files()
        self.session = sessions[-1]
        watch.lap("session")
        self._model = _model(self._exported, sessions)
        self._prompts = [self._placed(slot) for slot in self._slots]
        watch.lap("bind")
        return watch.laps

    def begin(self, slot: int) -> None:
        """Choose the prompt; where tokens are drawn, the next call on it draws the same each time."""
        self._prompt, self._slot = self._prompts[slot], slot
        torch.manual_seed(slot)

    def call(self, mark: Mark | None = None) -> None:
        """The call that is timed. Raises RuntimeError where the longest row has not as many tokens as it should."""
        marks = TokenMarks(mark, self._model.device, first_alone=bool(self._eos_token_ids)) if mark else None
        self._generated = self._generate(stopping_criteria=StoppingCriteriaList([marks]) if marks else None)

    def wait(self) -> None:
        """Until the device is done."""
        synchronise(self._model.device)

    def outputs(self) -> Arrays:
        """The new tokens: of a call made greedily where they are drawn. Scores of beams are of a call made for them."""
        told = self._generate(**GREEDILY) if self._exported.job.do_sample else self._generated
        chosen = told.sequences[:, self._given :].cpu().numpy()
        tokens = {"tokens": filled(chosen, self._exported.new_tokens, self._eos_token_ids)}
        if self._exported.job.num_beams == 1:
            return tokens
        return {**tokens, "sequences_scores": self._generate(output_scores=True).sequences_scores.cpu().numpy()}

    def details(self) -> Mapping[str, Any]:
        """What of the way it is run shows in no option."""
        return {
            "generate": f"optimum.onnxruntime.{type(self._model).__name__}",
            "generation_config": self._model.generation_config.to_diff_dict(),
            "generate_providers": self._model.providers,
            "io_binding": self._model.use_io_binding,
            "torch_threads": torch.get_num_threads(),
            "logits_computed": "of every position given",
        }

    def counters(self) -> Counters:
        """The cache as the last call left it: of all its beams, of both kinds of attention."""
        layers = self._generated.past_key_values
        return {KV_CACHE_BYTES: sum(tensor.nbytes for layer in layers for tensor in layer)}

    def release(self) -> None:
        """Let go of sessions, inputs and outputs."""
        self.__dict__.clear()

    def _generate(self, **settings: Any) -> Any:
        """What Transformers returns (a ModelOutput), its tokens counted."""
        generated = self._model.generate(**self._prompt, **settings)
        self._counted.check(self._slot, generated.sequences.shape[1] - self._given)
        return generated

    def _placed(self, slot: Arrays) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(slot[name]).to(self._model.device) for name in PROMPT}


def _model(exported: Exported, sessions: Sequence[Any]) -> ORTModelForCausalLM | ORTModelForSeq2SeqLM:
    config = AutoConfig.from_pretrained(exported.folder, local_files_only=True)
    settings = _generation_config(exported)
    if exported.start_token is None:
        return ORTModelForCausalLM(config=config, session=sessions[0], generation_config=settings)
    names = ("encoder_session", "decoder_session", "decoder_with_past_session")
    return ORTModelForSeq2SeqLM(config=config, generation_config=settings, **dict(zip(names, sessions, strict=True)))


def _generation_config(exported: Exported) -> GenerationConfig:
    """Made from nothing, so that no setting of the checkpoint's own generation_config.json takes part, and no token ends anything
    but those that the job names.

    Sampling draws by the model's own probabilities: Transformers would leave out all but the 50 likeliest.
    """
    job = exported.job
    sampling = {"temperature": 1.0, "top_k": 0, "top_p": 1.0} if job.do_sample else {}
    ending = {"eos_token_id": job.eos_token_ids, "pad_token_id": job.eos_token_ids[0]} if job.eos_token_ids else {}
    return GenerationConfig(
        max_new_tokens=exported.new_tokens,
        do_sample=job.do_sample,
        num_beams=job.num_beams,
        decoder_start_token_id=exported.start_token,
        return_dict_in_generate=True,
        **sampling,
        **ending,
    )
