# Everything a fresh checkout needs: Python 3.11+, git, a C compiler, make. Each target sets itself up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.kgen-installed
OUT := build

.PHONY: demo test verify-all lint bench golden clean

demo: $(STAMP)
	$(BIN)/kgen render specs/gemm_bias_gelu.yaml -o $(OUT)
	$(BIN)/kgen verify specs/gemm_bias_gelu.yaml

test: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not verify_all"

verify-all: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --dist worksteal
	$(BIN)/kgen verify specs/ -j 2

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check kgen tests benchmarks
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# Rewrites the golden copies in tests/ after a deliberate change of templates, plans or messages.
golden: $(STAMP)
	$(BIN)/python -m pytest -m "not verify_all" --rewrite-golden tests/golden tests/spec tests/plan

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[all,dev]"
	touch $@

clean:
	rm -rf $(VENV) $(OUT) dist
