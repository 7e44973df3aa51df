"""`python -I plain_speech.py {CHECKPOINT INPUTS.npz FOLDER}...`: what a user's few lines give, by the models' own classes."""

import sys

import numpy as np
import torch
import transformers

CLASSES = {"wav2vec2": transformers.Wav2Vec2ForCTC, "whisper": transformers.WhisperForConditionalGeneration}

torch.set_num_threads(1)
for checkpoint, inputs_file, folder in zip(*[iter(sys.argv[1:])] * 3, strict=True):
    kind = CLASSES[transformers.AutoConfig.from_pretrained(checkpoint).model_type]
    model = kind.from_pretrained(checkpoint, attn_implementation="eager").eval()
    inputs = dict(np.load(inputs_file))
    for slot in range(len(next(iter(inputs.values())))):
        with torch.no_grad():
            outputs = model(**{name: torch.from_numpy(array[slot]) for name, array in inputs.items()})
        np.savez(f"{folder}/slot-{slot}.npz", logits=outputs.logits.numpy())
