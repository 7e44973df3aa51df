"""`python -I plain_transformers.py CHECKPOINT TASK INPUTS.npz FOLDER THREADS`: what a user's few lines give."""

import sys

import numpy as np
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForTextEncoding

checkpoint, task, inputs_file, folder, threads = sys.argv[1:]
torch.set_num_threads(int(threads))
kind, output = {
    "feature-extraction": (AutoModel, "last_hidden_state"),
    "text-generation": (AutoModelForCausalLM, "logits"),
}[task]
if AutoConfig.from_pretrained(checkpoint).is_encoder_decoder:
    kind = AutoModelForTextEncoding
model = kind.from_pretrained(checkpoint, attn_implementation="eager").eval()
inputs = dict(np.load(inputs_file))
for slot in range(len(next(iter(inputs.values())))):
    with torch.no_grad():
        outputs = model(**{name: torch.from_numpy(array[slot]) for name, array in inputs.items()})
    np.savez(f"{folder}/slot-{slot}.npz", **{output: outputs[output].numpy()})
