"""`python -I plain_generation.py NEW_TOKENS NUM_BEAMS {CHECKPOINT INPUTS.npz FOLDER}...`: what a user's few lines generate.

Of each slot: the logits of the prompt's last position, the likeliest continuation, and the one that a search of NUM_BEAMS beams
finds, with its score. Nothing ends a row early.
"""

import sys

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationConfig

torch.set_num_threads(1)  # quicker than two where others compute, too
new_tokens, num_beams, *arguments = sys.argv[1:]
settings = {"max_new_tokens": int(new_tokens), "return_dict_in_generate": True}
greedy = GenerationConfig(**settings, output_logits=True)
beams = GenerationConfig(**settings, output_scores=True, num_beams=int(num_beams))
for checkpoint, inputs_file, folder in zip(*[iter(arguments)] * 3, strict=True):
    config = AutoConfig.from_pretrained(checkpoint)
    auto_class = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = auto_class.from_pretrained(checkpoint, attn_implementation="eager").eval()
    model.generation_config = GenerationConfig(decoder_start_token_id=model.generation_config.decoder_start_token_id)
    inputs = dict(np.load(inputs_file))
    given = 1 if config.is_encoder_decoder else inputs["input_ids"].shape[-1]
    for slot in range(len(inputs["input_ids"])):
        prompt = {name: torch.from_numpy(inputs[name][slot]) for name in ("input_ids", "attention_mask")}
        likeliest = model.generate(**prompt, generation_config=greedy)
        found = model.generate(**prompt, generation_config=beams)
        np.savez(
            f"{folder}/slot-{slot}.npz",
            logits=likeliest.logits[0].numpy(),
            tokens=likeliest.sequences[:, given:].numpy(),
            beam_tokens=found.sequences[:, given:].numpy(),
            beam_scores=found.sequences_scores.numpy(),
        )
