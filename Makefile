# The two commands of the README are `make quickstart` and `make test`; both rest on `make setup`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PLUGINS := backends/pytorch backends/onnxruntime backends/flax

.PHONY: help setup quickstart test test-fast lint locks clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Create .venv with the command `harness` in it

$(VENV)/.ready: pyproject.toml $(PLUGINS:%=%/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: $(PYTHON) is older than Python 3.11; name another with PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@# Quiet about what setuptools says of every editable installation, too.
	PYTHONWARNINGS='ignore:Editable installation' \
	  $(BIN)/python -m pip install --quiet --group dev --editable . $(PLUGINS:%=--editable %)
	@touch $@

quickstart: setup ## Run the quick matrix on a real model and print the table
	$(BIN)/harness run matrices/quick.yaml --results results --fresh

test: setup ## Pass all tests, real stacks and containers among them
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

test-fast: setup ## The tests that need no framework, no container and no whole run: under a minute
	$(BIN)/python -m pytest -m 'not stacks and not docker and not slow' --numprocesses 4 --dist worksteal

lint: setup ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean: ## Remove .venv; the harness's own cache (environments, checkpoints) stays
	rm -rf $(VENV)
