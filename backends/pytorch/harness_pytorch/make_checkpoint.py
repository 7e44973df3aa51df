"""Makes a checkpoint: `python -I -m harness_pytorch.make_checkpoint SPEC.json DIR`.

DIR gets config.json and model.safetensors, with a tokenizer's files where there is one. The `kind` of a spec says of what:

    random    of nothing: seeded random weights, see `random_weights`
    gguf      of a GGUF file that lies in DIR, see `gguf_conversion`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from harness_pytorch import gguf_conversion, random_weights

KINDS = {"random": random_weights.make, "gguf": gguf_conversion.make}

if __name__ == "__main__":
    spec = json.loads(Path(sys.argv[1]).read_bytes())
    KINDS[spec["kind"]](spec, Path(sys.argv[2]))
