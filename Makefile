# The commands of this repository. Each makes the virtual environment `.venv` when it is missing, and installs
# again when pyproject.toml has changed. Another interpreter: `make test PYTHON=python3.12`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
READY := $(VENV)/.installed
# Set in many a container; every process that a test begins would then compile all files again.
unexport PYTHONDONTWRITEBYTECODE
# A module of benchmarks/, and its options: `make bench WHAT=methods ARGS='--only fml'`.
WHAT ?= bench
# One more than there are cores: tests also wait, for disks and for processes of their own.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SIDE_BY_SIDE := --numprocesses $(WORKERS) --maxprocesses 4 --dist worksteal
# Threads beside theirs would wait for one another, and wait busily.
test test-rest test-slow test-oldest: export OMP_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-rest test-all test-slow test-kills test-oldest lint format bench results pictures docs clean

help:  ## List these commands
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 15

demo: $(READY)  ## Train the quickstart, five CNNs and FedLoRA on handwritten digits, to its end
	$(BIN)/htfl-sim run

test: $(READY)  ## Run the tests: a few minutes
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-rest: $(READY)
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m 'long and not slow'

test-all: test test-rest  ## Run also the tests marked `long`, as continuous integration does

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

bench: $(READY)  ## Measure this machine: WHAT=bench, methods, storage, app, scale, gpu, or htfllib (ARGS=FOLDER)
	$(BIN)/python -m benchmarks.$(WHAT) $(ARGS)

results: $(READY)  ## Run the studies of docs/results.md and write its tables: hours on two cores; can be killed and goes on
	$(BIN)/python -m benchmarks.results

pictures: $(READY)  ## Draw every picture of the pages from runs that are trained for it: minutes
	$(BIN)/python -m docsite.pictures

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
