# The commands of this repository. Each makes the virtual environment `.venv` when it is missing, and installs
# again when pyproject.toml has changed. Another interpreter: `make test PYTHON=python3.12`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
READY := $(VENV)/.installed
# Set in many a container; every process that a test begins would then compile all files again.
unexport PYTHONDONTWRITEBYTECODE
# One more than there are cores: tests also wait, for disks and for processes of their own.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SIDE_BY_SIDE := --numprocesses $(WORKERS) --maxprocesses 4 --dist worksteal
# Threads beside theirs would wait for one another, and wait busily.
test test-slow test-oldest: export OMP_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-kills test-oldest lint format bench bench-gpu bench-methods bench-ways bench-storage bench-app bench-sweep bench-compare bench-scale bench-ray bench-htfllib results docs clean

help:  ## List these commands
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 15

demo: $(READY)  ## Train the quickstart, five CNNs and FedLoRA on handwritten digits, to its end
	$(BIN)/htfl-sim run

test: $(READY)  ## Run the tests
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-slow: $(READY)  ## Run every test, also those that take minutes
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m ''

test-kills: $(READY)  ## Kill a long run a hundred times, on one machine and on two, three on the clock thirty times each, and a steered one twenty times: minutes
	$(BIN)/python -m pytest -m slow -k 'hundred or thirty or twenty' --durations=0 tests/reliability

test-oldest:  ## Run the tests on the lowest versions that are declared, in an environment of their own
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python .ci/lowest > $(OLDEST)/lowest.txt
	$(OLDEST)/bin/python -m pip install --disable-pip-version-check --constraint $(OLDEST)/lowest.txt --editable '.[dev]'
	$(OLDEST)/bin/python -m pytest $(SIDE_BY_SIDE)

lint: $(READY)  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## Put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## Measure speed and memory on this machine
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.operations

bench-gpu: $(READY)  ## Measure speed and memory on one CUDA device, and write the figures into docs/performance.md
	$(BIN)/python -m benchmarks.gpu

bench-methods: $(READY)  ## Measure time and memory of every method against standalone, and steps of two networks against both alone
	$(BIN)/python -m benchmarks.methods
	$(BIN)/python -m benchmarks.networks

bench-ways: $(READY)  ## Measure bf16 and stacked clients against float32 and clients side by side
	$(BIN)/python -m benchmarks.ways

bench-storage: $(READY)  ## Measure what checkpoints cost, how fast sessions are listed, how soon one pauses
	$(BIN)/python -m benchmarks.storage

bench-app: $(READY)  ## Measure what the terminal app and CKA cost, and what watching costs a run
	$(BIN)/python -m benchmarks.app
	$(BIN)/python -m benchmarks.cka
	$(BIN)/python -m benchmarks.overhead

bench-sweep: $(READY)  ## Measure what a sweep adds to its points, and what two jobs gain: minutes
	$(BIN)/python -m benchmarks.sweep

bench-compare: $(READY)  ## Measure how long comparing a hundred sessions takes
	$(BIN)/python -m benchmarks.compare

bench-scale: $(READY)  ## Measure the cost of runs with 10,000 clients and ten participants a round, and of reading a long session of 100,000
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.long

bench-ray: $(READY)  ## Measure what clients on Ray cost on one machine, beside threads in process, and how evenly two nodes are used
	$(BIN)/python -m benchmarks.ray

bench-htfllib: $(READY)  ## Compare accuracy and seconds of a round with HtFLlib's, in a checkout HTFLLIB=FOLDER
	$(BIN)/python -m benchmarks.htfllib $(HTFLLIB)

results: $(READY)  ## Run the studies of docs/results.md and write its tables: hours on two cores; can be killed and goes on
	$(BIN)/python -m benchmarks.results

docs: $(VENV)/.docs-installed  ## Build the site into build/site; a link that leads nowhere fails
	$(BIN)/python -m zensical build --clean --strict
	@echo 'To read it: python3 -m http.server --directory build/site'

clean:  ## Remove the environment and every cache; sessions and data stay
	rm -rf $(VENV) $(OLDEST) build dist *.egg-info .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp comes last, so that an installation that was interrupted starts again.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.docs-installed: $(READY)
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[docs]'
	@touch $@
