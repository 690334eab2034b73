# Needs only Python 3.11+ (with venv), pip, make and git. `make help` lists the targets.

VENV := .venv
BIN := $(VENV)/bin

# The interpreter for a new environment: make demo PYTHON=/path/to/python3
CAN_MAKE_VENV := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3.14 python3 python; do \
	"$$p" -c '$(CAN_MAKE_VENV)' 2>/dev/null && { echo "$$p"; break; }; done)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: demo test fuzz faults cluster coverage size lint types bench docs docs-serve dist clean help

demo: $(VENV)/.installed-all ## a first tour: table and polymargin-demo.html
	$(BIN)/polymargin demo

PYTEST_ARGS ?= -n 2
test: $(VENV)/.installed-test ## the test suite on two cores
	$(BIN)/python -m pytest -q $(PYTEST_ARGS)

FUZZ_SECONDS ?= 600
fuzz: $(VENV)/.installed-fuzz ## fuzz every reader, model files, options and estimators; FUZZ_SECONDS
	$(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)
	$(BIN)/python -m fuzz --inputs $$((4 * $(FUZZ_SECONDS))) fits

faults: $(VENV)/.installed-test ## kills, full disks, little memory; FAULTS sets the kills per command
	FAULTS=$${FAULTS:-50} $(BIN)/python -m pytest -q tests/faults
	$(MAKE) cluster

cluster: $(VENV)/.installed-test ## training on a cluster of processes; POLYMARGIN_KILLS workers are killed
	POLYMARGIN_KILLS=$${POLYMARGIN_KILLS:-20} $(BIN)/python -m pytest -q tests/cluster

coverage: $(VENV)/.installed-test ## line coverage of the suite, table and htmlcov/
	$(BIN)/python -m pytest -q $(PYTEST_ARGS) --cov --cov-report=term --cov-report=html

size: ## lines of code, functions and complexity per layer
	@$(PYTHON) tools/source_size.py

lint: $(VENV)/.installed-lint ## style, common errors and format (ruff)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

types: $(VENV)/.installed-lint ## type check (mypy)
	$(BIN)/python -m mypy

bench: $(VENV)/.installed-all ## benchmarks; BENCH_ARGS is handed on
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

docs: $(VENV)/.installed-docs ## the documentation, into site/; pages with code are executed
	$(BIN)/python -m sphinx -W --keep-going -b html -d build/doctrees docs site
	$(BIN)/python tools/check_site.py site

PORT ?= 8000
docs-serve: docs ## the documentation on http://localhost:8000 (PORT)
	$(BIN)/python -m http.server --directory site --bind 127.0.0.1 $(PORT)

dist: $(VENV)/.installed-release ## sdist and wheel into dist/, checked
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

clean: ## remove what was built, but not the environment .venv
	rm -rf build dist site docs/generated docs/gallery docs/sg_execution_times.rst jupyter_execute htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile | \
	while IFS=: read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

# The package, editable, with the extra named by the stamp. Redone only when pyproject.toml changes.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/pip
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

$(BIN)/pip:
	@test -n "$(PYTHON)" || { echo "polymargin needs Python 3.11 or newer with the venv module;" \
		"none was found. Name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c '$(CAN_MAKE_VENV)' || { echo "$(PYTHON) will not do: polymargin needs" \
		"Python 3.11 or newer with the venv module (PYTHON=/path/to/python3)" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
