"""`python -I make_many.py`, in a stack: makes the checkpoint of each line `["SPEC.json", "DIR"]` on stdin, and answers with a line.

As `python -I -m harness_pytorch.make_checkpoint SPEC.json DIR` would, with PyTorch imported once.
"""

import json
import sys
from pathlib import Path

from harness_pytorch.make_checkpoint import KINDS

for line in sys.stdin:
    spec_json, folder = json.loads(line)
    spec = json.loads(Path(spec_json).read_bytes())
    KINDS[spec["kind"]](spec, Path(folder))
    sys.stdout.write("made\n")
    sys.stdout.flush()
