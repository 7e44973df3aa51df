"""`python -I continue_text.py OUT.json CHECKPOINT TEXT`: token ids of a text, and what a causal language model puts next."""

import json
import sys
from pathlib import Path

import torch
import transformers

out, checkpoint, text = sys.argv[1:]
ids = transformers.AutoTokenizer.from_pretrained(checkpoint)(text)["input_ids"]
model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint).eval()
with torch.inference_mode():
    logits = model(torch.tensor([ids])).logits[0, -1]
told = {"transformers": transformers.__version__, "ids": ids, "next": int(logits.argmax()), "logits": logits.tolist()}
Path(out).write_text(json.dumps(told))
