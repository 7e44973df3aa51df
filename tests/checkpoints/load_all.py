"""Runs in a stack: `load_all.py OUT FOLDER...` loads each checkpoint with every head it may be asked for, and calls it.

OUT.npz gets the outputs, each named `FOLDER's index/head/output`; OUT.json {"transformers": version, "left to chance": weights}.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

HEADS = {
    "bert": ("", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"),
    "distilbert": ("", "ForMaskedLM", "ForSequenceClassification", "ForQuestionAnswering"),
    "gpt2": ("", "ForCausalLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"),
    "llama": ("", "ForCausalLM", "ForSequenceClassification"),
    "mistral": ("", "ForCausalLM", "ForSequenceClassification"),
    "qwen2": ("", "ForCausalLM", "ForSequenceClassification"),
    "resnet": ("", "ForImageClassification"),
    "roberta": ("", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"),
    "t5": ("", "ForSeq2SeqLM", "ForTextEncoding"),
    "vit": ("", "ForImageClassification"),
    "wav2vec2": ("", "ForCTC"),
    "whisper": ("", "ForSpeechSeq2Seq"),
}


def inputs(config, head):
    random, family = np.random.RandomState(0), config["model_type"]
    if family == "wav2vec2":
        return {"input_values": torch.tensor(random.standard_normal((2, 16_000)), dtype=torch.float32)}
    if family in ("resnet", "vit"):
        return {"pixel_values": torch.tensor(random.random_sample((2, 3, 64, 64)) * 2 - 1, dtype=torch.float32)}
    ids = torch.tensor(random.randint(3, 1000, (2, 24)))
    if family == "whisper":
        shape = (2, config["num_mel_bins"], 2 * config["max_source_positions"])
        features = torch.tensor(random.standard_normal(shape), dtype=torch.float32)
        return {"input_features": features, "decoder_input_ids": ids[:, :5]}
    needs_decoder = family == "t5" and head != "ForTextEncoding"
    return {"input_ids": ids, "decoder_input_ids": ids[:, :5]} if needs_decoder else {"input_ids": ids}


def main(out, *folders):
    arrays, left = {}, {}
    for index, folder in enumerate(folders):
        config = json.loads(Path(folder, "config.json").read_text())
        family = config["model_type"]
        for head in HEADS[family]:
            model, told = getattr(transformers, f"AutoModel{head}").from_pretrained(folder, output_loading_info=True)
            with torch.inference_mode():
                outputs = model.eval()(**inputs(config, head))
            tensors = {name: value for name, value in outputs.items() if isinstance(value, torch.Tensor)}
            arrays |= {f"{index}/{head}/{name}": tensor.numpy() for name, tensor in tensors.items()}
            if told["missing_keys"] or told["mismatched_keys"]:
                left[f"{family} {head}"] = sorted(map(str, [*told["missing_keys"], *told["mismatched_keys"]]))
    np.savez(f"{out}.npz", **arrays)
    Path(f"{out}.json").write_text(json.dumps({"transformers": transformers.__version__, "left to chance": left}))


if __name__ == "__main__":
    main(*sys.argv[1:])
