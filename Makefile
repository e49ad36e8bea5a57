# make demo   record a failing program, replay its frame without the program
# make test   lint, types, tests
# make bench  the benchmarks; they print their tables
# PYTHON=python3.12 make test   with another Python (3.10 to 3.13)

PYTHON ?= python3
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check format bench clean distclean

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: $(STAMP)
	bash demo/run.sh $(CURDIR)/$(BIN)/python

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: check
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

bench: $(STAMP)
	set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script; done

clean:
	rm -rf .demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find replay tests demo benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
	find tests docs -name '*.actual' -delete

distclean: clean
	rm -rf $(VENV)
