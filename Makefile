# Everything runs in .venv, which each target makes and fills by itself: nothing to activate, nothing to install
# before. Works with GNU make 3.81 (macOS). PYTHON=/path/to/python3 chooses another interpreter for a new .venv.

VENV := .venv
PY := $(VENV)/bin/python
PYTHON ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# A stamp is written only after its step succeeded, so an interrupted one is done again.
MADE := $(VENV)/.made
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
INSTALLED_BENCH := $(VENV)/.installed-bench
INSTALLED_BEAM := $(VENV)/.installed-beam

.PHONY: help demo test test-slow test-beam run-test-beam check format bench clean
# Two pips in one environment damage it: `make -j` must not run two installations at once.
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED)  ## build, load by name and train on the embedded images, in under 90 s
	$(VENV)/bin/tfrds demo

test: $(INSTALLED_DEV)  ## run the tests, with coverage
	$(PY) -m pytest -n auto --maxprocesses=4 --dist=loadfile --cov --cov-report=term

test-slow: $(INSTALLED_DEV)  ## run the slow tests only
	$(PY) -m pytest -m slow

# An environment of its own: Beam holds protobuf and pyarrow back.
test-beam:  ## run the tests of Apache Beam, in .venv-beam
	$(MAKE) VENV=.venv-beam run-test-beam

run-test-beam: $(INSTALLED_BEAM)
	$(PY) -m pytest tests/test_beam.py

check: $(INSTALLED_DEV)  ## lint, formatting and types: what CI and pre-commit run
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(INSTALLED_DEV)  ## format the code and apply the linter's safe fixes
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

bench: $(INSTALLED_BENCH)  ## compare with other pipelines and the machine's limits (fetches real data first)
	$(PY) benchmarks/get_data.py --photos 4000 --large-photos 240
	$(PY) benchmarks/bench.py

clean:  ## remove build products and caches; .venv, .venv-beam and benchmarks/data stay
	rm -rf build dist *.egg-info .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache
	find tfrds tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# python_requires of setup.cfg, said here too: pip's resolver hides it behind minutes of search.
SUPPORTED := (3, 11) <= sys.version_info < (3, 14)

# An environment made by hand is used as it is, never removed. One whose making was interrupted still has the .making
# mark and is made anew. ensurepip is imported because Debian and Ubuntu ship a venv module that fails without it.
$(MADE):
	@if [ -d $(VENV) ] && [ ! -e $(VENV)/.making ]; then \
	  if $(PY) -c 'import pip, sys; sys.exit(not $(SUPPORTED))'; then touch $@; exit 0; fi; \
	  echo "$(VENV) has no pip or not Python 3.11, 3.12 or 3.13, which tfrds needs. Remove $(VENV) first." >&2; \
	  exit 1; \
	fi; \
	for python in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	  if $$python -c 'import ensurepip, sys, venv; sys.exit(not $(SUPPORTED))' >/dev/null 2>&1; then \
	    echo "Making $(VENV) with $$($$python --version)"; \
	    rm -rf $(VENV) && mkdir -p $(VENV) && touch $(VENV)/.making && \
	    $$python -m venv $(VENV) && mv $(VENV)/.making $@; exit $$?; \
	  fi; \
	done; \
	echo "tfrds needs Python 3.11, 3.12 or 3.13 with its venv module; none was found." >&2; \
	echo "Found: python3 is $$(python3 --version 2>&1)." >&2; \
	echo "Debian, Ubuntu: apt-get install python3-venv. macOS: install one from python.org or Homebrew." >&2; \
	echo "Or name one: make PYTHON=/path/to/python3.12 ..." >&2; \
	exit 1

$(INSTALLED): setup.cfg pyproject.toml $(MADE)
	$(PY) -m pip install -e .
	@touch $@

$(INSTALLED_DEV): setup.cfg pyproject.toml $(MADE)
	$(PY) -m pip install -e ".[dev]"
	@touch $(INSTALLED) $@

$(INSTALLED_BENCH): setup.cfg pyproject.toml $(MADE)
	$(PY) -m pip install -e ".[dev,bench]"
	@touch $(INSTALLED) $(INSTALLED_DEV) $@

$(INSTALLED_BEAM): setup.cfg pyproject.toml $(MADE)
	$(PY) -m pip install -e ".[beam]" "pytest>=8.3"
	@touch $(INSTALLED) $@
