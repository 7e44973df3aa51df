#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: builds what is missing and runs the quick matrix on CUDA for all five backends, one table.
#
#   bash benchmarks/gpu_check.sh [RESULTS]
#
# In containers where a Docker engine with the NVIDIA runtime answers, else in virtual environments. Exit code: that of `harness run`,
# so 0 only where every backend ran on the GPU, agreed with eager, and did what was asked.
set -euo pipefail
cd "$(dirname "$0")/.."
results=${1:-results-gpu}

if ! nvidia-smi --query-gpu=index,name,uuid,driver_version,memory.total --format=csv,noheader; then
  echo "gpu_check: nvidia-smi finds no NVIDIA GPU here; install the driver, or run this elsewhere" >&2
  exit 2
fi

make --no-print-directory setup
executor=venv
if docker info --format '{{json .Runtimes}}' 2>/dev/null | grep --quiet nvidia; then
  executor=docker
  .venv/bin/harness build --device cuda
else
  echo "gpu_check: no Docker engine with the NVIDIA runtime answers; virtual environments do the same job"
fi

SECONDS=0
status=0
.venv/bin/harness run matrices/quick-cuda.yaml --executor "$executor" --results "$results" --fresh || status=$?
echo "gpu_check: the matrix took $SECONDS s with executor $executor; all rows: .venv/bin/harness export $results"
exit "$status"
