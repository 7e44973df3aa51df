"""Runs in the pytorch environment: the decode loop as anybody would write it, and the library's own generate(), timed plainly.

python decode_process.py CHECKPOINT INPUTS THREADS NEW_TOKENS

One line in, `decode SECONDS` or `generate SECONDS`, one median out: seconds of a step, or of a whole call.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from itertools import cycle

import numpy as np
import torch
from transformers import AutoModelForCausalLM, DynamicCache, GenerationConfig, PreTrainedModel


def decode(model: PreTrainedModel, prompt: torch.Tensor, new_tokens: int) -> list[float]:
    """Seconds of each step after the first token, which is chosen untimed."""
    steps, cache = [], DynamicCache(config=model.config)
    token = model(input_ids=prompt, cache=cache, use_cache=True).logits[:, -1:].argmax(-1)
    for _ in range(new_tokens - 1):
        started = time.perf_counter()
        token = model(input_ids=token, cache=cache, use_cache=True).logits[:, -1:].argmax(-1)
        steps.append(time.perf_counter() - started)
    return steps


def generate(model: PreTrainedModel, prompt: torch.Tensor, new_tokens: int) -> list[float]:
    """Seconds of one call."""
    config = GenerationConfig(max_new_tokens=new_tokens, do_sample=False, use_cache=True, pad_token_id=0)
    started = time.perf_counter()
    model.generate(input_ids=prompt, attention_mask=torch.ones_like(prompt), generation_config=config)
    return [time.perf_counter() - started]


WAYS: dict[str, Callable[[PreTrainedModel, torch.Tensor, int], list[float]]] = {"decode": decode, "generate": generate}


def main() -> None:
    checkpoint, inputs, threads, new_tokens = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, attn_implementation="eager", dtype=torch.float32).eval()
    model.generation_config = GenerationConfig()  # none of the checkpoint's habits: neither sampling nor an end
    prompts = cycle(torch.from_numpy(slot) for slot in np.load(f"{inputs}/input_ids.npy"))
    with torch.inference_mode():
        for way in WAYS.values():
            way(model, next(prompts), new_tokens)
        print("ready", flush=True)
        for line in sys.stdin:
            way, seconds = line.split()
            deadline, taken = time.perf_counter() + float(seconds), []
            while not taken or time.perf_counter() < deadline:
                taken += WAYS[way](model, next(prompts), new_tokens)
            print(statistics.median(taken), flush=True)


if __name__ == "__main__":
    main()
