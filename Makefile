# Needs Python >= 3.11 and make; everything else is installed into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check

# the workers of the tests keep all cores busy, and threads of theirs would wait for each other
docs test test-oldest coverage fuzz: export OMP_NUM_THREADS = 1
docs test test-oldest coverage fuzz: export OPENBLAS_NUM_THREADS = 1

.PHONY: demo docs test test-all test-oldest coverage fuzz dist lint bench clean

demo: $(VENV)/.demo
	$(BIN)/kq demo --output demo.png

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -n auto --dist worksteal

# The ordinary tests, those that kill processes, and those in a browser (Chromium, if there is one),
# in which every page of the site is opened.
test-all: test docs
	$(BIN)/python -m pytest -m 'kill or browser'

# The site: its gallery and the examples of all docstrings run; pages are in docs/_build/html.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going -b html -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python -m sphinx --fail-on-warning -q -b doctest -d docs/_build/doctrees docs docs/_build/doctest

coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --cov --cov-report=term:skip-covered

# 20 000 random cases; fuzz.jsonl has them, with the seed that repeats each, and a run goes on from it.
fuzz: $(VENV)/.dev
	$(BIN)/python tests/fuzz/run.py --cases 20000 --log fuzz.jsonl

# Wheel and sdist of the last commit, tried in empty environments.
dist: $(VENV)/.dev
	$(BIN)/python tests/check_dist.py dist

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/programmes.py
	$(BIN)/python benchmarks/mkl.py
	$(BIN)/python benchmarks/absent.py
	$(BIN)/python benchmarks/per_sample.py
	$(BIN)/python benchmarks/mhks.py
	$(BIN)/python benchmarks/mkc.py
	$(BIN)/python benchmarks/completion.py
	$(BIN)/python benchmarks/quilt.py
	$(BIN)/python benchmarks/experiments.py

# The same tests against the oldest dependencies that are supported.
test-oldest: .venv-oldest/.installed
	.venv-oldest/bin/python -m pytest -n auto

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[demo]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[docs]'
	touch $@

.venv-oldest/.installed: pyproject.toml tests/oldest.txt
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint tests/oldest.txt --editable '.[test]'
	touch $@

clean:
	rm -rf .venv .venv-oldest .pytest_cache .mypy_cache .ruff_cache docs/_build docs/api docs/gallery demo.png
