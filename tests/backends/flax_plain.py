"""`python -I flax_plain.py TASK CHECKPOINT INPUTS.npz FOLDER`: what a user's few lines give in Flax, nothing repaired."""

import sys

import numpy as np
from transformers import FlaxAutoModel, FlaxAutoModelForCausalLM

task, checkpoint, inputs_file, folder = sys.argv[1:]
kind, output = {
    "feature-extraction": (FlaxAutoModel, "last_hidden_state"),
    "text-generation": (FlaxAutoModelForCausalLM, "logits"),
}[task]
model = kind.from_pretrained(checkpoint)
inputs = dict(np.load(inputs_file))
for slot in range(len(inputs["input_ids"])):
    outputs = model(**{name: array[slot] for name, array in inputs.items()}, train=False)
    np.savez(f"{folder}/slot-{slot}.npz", **{output: np.asarray(outputs[output])})
