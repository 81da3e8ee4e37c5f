# Everything a fresh checkout needs: Python 3.11+, git, a C and C++ compiler, make. Each target sets itself up.
PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
OUT := build
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TOOLS := $(VENV)/.kgen-all
DEV := $(VENV)/.kgen-dev

.PHONY: demo test verify-all lint bench golden clean

demo: $(TOOLS)
	$(BIN)/kgen render specs/gemm_bias_gelu.yaml -o $(OUT)
	$(BIN)/kgen verify specs/gemm_bias_gelu.yaml -j $(JOBS) --require compile,execute

test: lint
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not verify_all"

verify-all: lint
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal
	$(BIN)/kgen verify specs/ -j $(JOBS) --require compile,execute,hazards

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEV)
	$(BIN)/python -m benchmarks

# Rewrites the golden copies in tests/ after a deliberate change of templates, plans or messages.
golden: $(DEV)
	$(BIN)/python -m pytest -m "not verify_all" --rewrite-golden tests/golden tests/spec tests/plan

$(TOOLS): pyproject.toml setup.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kgen needs Python 3.11 or later: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	@echo "installing kgen and its tools from PyPI into $(VENV): about 1.2 GB, once"
	$(PIP) --upgrade pip
	$(PIP) --editable ".[all]"
	touch $@

$(DEV): $(TOOLS)
	$(PIP) --editable ".[all,dev]"
	touch $@

clean:
	rm -rf $(VENV) $(OUT) dist
