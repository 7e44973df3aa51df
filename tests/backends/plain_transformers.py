"""`python -I plain_transformers.py {CHECKPOINT INPUTS.npz FOLDER TASK THREADS}...`: what a user's few lines give."""

import sys

import numpy as np
import torch
import transformers

HEADS = {
    "feature-extraction": ("AutoModel", ["last_hidden_state"]),
    "text-classification": ("AutoModelForSequenceClassification", ["logits"]),
    "token-classification": ("AutoModelForTokenClassification", ["logits"]),
    "fill-mask": ("AutoModelForMaskedLM", ["logits"]),
    "question-answering": ("AutoModelForQuestionAnswering", ["start_logits", "end_logits"]),
    "text-generation": ("AutoModelForCausalLM", ["logits"]),
    "text2text-generation": ("AutoModelForSeq2SeqLM", ["logits"]),
    "image-classification": ("AutoModelForImageClassification", ["logits"]),
}

for checkpoint, inputs_file, folder, task, threads in zip(*[iter(sys.argv[1:])] * 5, strict=True):
    torch.set_num_threads(int(threads))
    kind, names = HEADS[task]
    if transformers.AutoConfig.from_pretrained(checkpoint).is_encoder_decoder and task == "feature-extraction":
        kind = "AutoModelForTextEncoding"
    model = getattr(transformers, kind).from_pretrained(checkpoint, attn_implementation="eager").eval()
    inputs = dict(np.load(inputs_file))
    for slot in range(len(next(iter(inputs.values())))):
        with torch.no_grad():
            outputs = model(**{name: torch.from_numpy(array[slot]) for name, array in inputs.items()})
        np.savez(f"{folder}/slot-{slot}.npz", **{name: outputs[name].numpy() for name in names})
