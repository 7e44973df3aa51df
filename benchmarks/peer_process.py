"""Runs in an environment of optimum-benchmark's own: its latency of the model, as its report gives it, in seconds.

python peer_process.py CHECKPOINT BATCH_SIZE SEQUENCE_LENGTH THREADS
"""

from __future__ import annotations

import sys

from optimum_benchmark import Benchmark, BenchmarkConfig, InferenceConfig, ProcessConfig, PyTorchConfig


def main() -> None:
    checkpoint, batch_size, sequence_length, threads = sys.argv[1], *map(int, sys.argv[2:])
    backend = PyTorchConfig(
        model=checkpoint,
        task="feature-extraction",
        library="transformers",
        device="cpu",
        attn_implementation="eager",
        intra_op_num_threads=threads,
        inter_op_num_threads=1,
        no_weights=False,
    )
    scenario = InferenceConfig(
        latency=True,
        memory=False,
        energy=False,
        input_shapes={"batch_size": batch_size, "sequence_length": sequence_length},
    )
    config = BenchmarkConfig(name="peer", launcher=ProcessConfig(), scenario=scenario, backend=backend)
    report = Benchmark.launch(config)
    print(f"median {report.forward.latency.p50}", flush=True)


if __name__ == "__main__":
    main()
