"""Makes a checkpoint of a GGUF file: a causal language model, its weights dequantised to float32, and its tokenizer.

Its spec, written by `harness.checkpoints.packages`, holds

    file    name of the GGUF file, which lies in the folder that gets the checkpoint
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel


def make(spec: Mapping[str, Any], folder: Path) -> None:
    """Write the checkpoint of a spec beside the GGUF file."""
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=spec["file"], dtype=torch.float32)
    _forget_quantisation(model)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(folder, gguf_file=spec["file"]).save_pretrained(folder)


def _forget_quantisation(model: PreTrainedModel) -> None:
    """The weights are plain numbers by now. Transformers remembers what they came from, and would write that into the config."""
    del model.config.quantization_config
    model.hf_quantizer = None
