"""`python -I plain_rows.py NEW_TOKENS NUM_BEAMS {CHECKPOINT INPUTS.npz FOLDER}...`: what follows each row, taken by itself.

A row is rid of its padding and continued with no cache, no mask and no positions: each step computes all of it anew. What others
make of whole batches with caches and padding has to be the same. Of the first checkpoint, what beam search finds, too.
"""

import sys

import numpy as np
import torch
import transformers

new_tokens, num_beams, *arguments = sys.argv[1:]
torch.set_num_threads(1)
searching = transformers.GenerationConfig(
    max_new_tokens=int(new_tokens), num_beams=int(num_beams), return_dict_in_generate=True, output_scores=True
)


def continued(model, row):
    """Logits after the prompt, and the tokens that greedy decoding chooses."""
    is_pair = model.config.is_encoder_decoder
    said = torch.tensor([[model.config.decoder_start_token_id]]) if is_pair else row
    given, steps = said.shape[1], []
    for _ in range(int(new_tokens)):
        ids = {"input_ids": row, "decoder_input_ids": said} if is_pair else {"input_ids": said}
        steps.append(model(**ids, use_cache=False).logits[:, -1])
        said = torch.cat([said, steps[-1].argmax(-1, keepdim=True)], dim=-1)
    return {"logits": steps[0][0].numpy(), "tokens": said[0, given:].numpy()}


def searched(model, row):
    """The best beam of a decoder, and its score."""
    found = model.generate(row, attention_mask=torch.ones_like(row), generation_config=searching)
    return {"beam_tokens": found.sequences[0, row.shape[1] :].numpy(), "beam_scores": found.sequences_scores[0].numpy()}


def told(model, row, is_searched):
    with torch.no_grad():
        return continued(model, row) | (searched(model, row) if is_searched else {})


for place, (checkpoint, inputs_file, folder) in enumerate(zip(*[iter(arguments)] * 3, strict=True)):
    is_pair = transformers.AutoConfig.from_pretrained(checkpoint).is_encoder_decoder
    kind = transformers.AutoModelForSeq2SeqLM if is_pair else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(checkpoint, attn_implementation="eager").eval()
    model.generation_config = transformers.GenerationConfig()
    inputs = dict(np.load(inputs_file))
    for slot, (ids, mask) in enumerate(zip(inputs["input_ids"], inputs["attention_mask"], strict=True)):
        rows = [torch.from_numpy(row[real == 1][None]) for row, real in zip(ids, mask, strict=True)]
        each = [told(model, row, is_searched=place == 0) for row in rows]
        np.savez(f"{folder}/slot-{slot}.npz", **{name: np.stack([row[name] for row in each]) for name in each[0]})
