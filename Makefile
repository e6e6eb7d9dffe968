# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
JOBS ?= 2

# On a Mac mlx brings its backend itself; elsewhere the CPU one is installed (BACKEND=cuda12 or cuda13 for a GPU).
BACKEND ?= $(if $(filter Darwin,$(shell uname -s)),,cpu)
comma := ,
RUN_EXTRAS := $(if $(BACKEND),[$(BACKEND)])
DEV_EXTRAS := [$(if $(BACKEND),$(BACKEND)$(comma))dev]

.PHONY: demo test lint docs check-docs bench bench-start bench-complete bench-cache bench-rates clean

demo: $(VENV)/.installed
	$(VENV)/bin/mlxctl run -P demo "What is the capital of France?"

test: $(VENV)/.installed-dev
	$(VENV)/bin/python -m pytest -n $(JOBS) --dist loadgroup

lint: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check mlxctl tests benchmarks .ci
	$(VENV)/bin/ruff format --check mlxctl tests benchmarks .ci
	$(VENV)/bin/mypy

docs: $(VENV)/.installed-dev
	$(VENV)/bin/python .ci/docs.py

check-docs: $(VENV)/.installed-dev
	$(VENV)/bin/python .ci/docs.py --check

bench: $(VENV)/.installed-dev
	$(VENV)/bin/python benchmarks/compare.py

bench-start: $(VENV)/.installed-dev
	$(VENV)/bin/python benchmarks/start.py

bench-cache: $(VENV)/.installed-dev
	$(VENV)/bin/python benchmarks/auto_cache.py
	$(VENV)/bin/python benchmarks/auto_store.py

bench-rates: $(VENV)/.installed-dev
	$(VENV)/bin/python benchmarks/overhead.py
	$(VENV)/bin/python benchmarks/bench_parity.py

bench-complete: $(VENV)/.installed-dev
	$(VENV)/bin/python benchmarks/complete.py

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet -c $(CONSTRAINTS) -e ".$(RUN_EXTRAS)"
	touch $@

$(VENV)/.installed-dev: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet -c $(CONSTRAINTS) -e ".$(DEV_EXTRAS)"
	touch $@
