"""Runs in the pytorch environment: the same model and inputs, timed by torch.utils.benchmark. One line in, one median out.

python timer_process.py CHECKPOINT INPUTS THREADS
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch.utils.benchmark import Timer
from transformers import AutoModel


def main() -> None:
    checkpoint, inputs, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    model = AutoModel.from_pretrained(checkpoint, attn_implementation="eager", dtype=torch.float32).eval()
    slot = {file.stem: torch.from_numpy(np.load(file)[0]) for file in sorted(inputs.glob("*.npy"))}
    with torch.inference_mode():
        timer = Timer("model(**slot)", globals={"model": model, "slot": slot}, num_threads=threads)
        timer.timeit(3)
        print("ready", flush=True)
        for line in sys.stdin:
            print(timer.blocked_autorange(min_run_time=float(line)).median, flush=True)


if __name__ == "__main__":
    main()
