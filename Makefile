# The commands of this project: `make help` lists them. Nothing but Python 3.11 or later, make and
# a network for packages is needed; everything is installed into .venv and run from there.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# The first interpreter that is new enough; `make PYTHON=/path/to/python3.12 demo` overrides it.
PYTHON ?= $(firstword $(foreach python,python3 python3.14 python3.13 python3.12 python3.11,\
  $(shell $(python) -c 'import sys; print("$(python)" * (sys.version_info >= (3, 11)))' 2>/dev/null)))

BIN := .venv/bin
# Each is written when an installation is complete, so that nothing is installed twice: what the
# demo needs, what `make test` and `make docs` need, and the tables that only the longer tests read.
DEMO := .venv/.demo
INSTALLED := .venv/.installed
TABLES := .venv/.tables

# uv takes seconds where pip takes minutes. Where it can neither be found nor be brought into .venv,
# or knows no index of pip's own settings, pip does the same.
UV ?= $(or $(shell command -v uv),$(BIN)/uv)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# $(call install,EXTRAS): the package and its extras, at the versions that constraints.txt pins.
comma := ,
install = [ -x "$(UV)" ] || $(PIP) -c constraints.txt uv || true; \
  [ -x "$(UV)" ] && $(UV) pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[$(1)]' \
    || $(PIP) -c constraints.txt -e '.[$(1)]'

# The demo keeps its runs, tables and ledger in this folder and touches no other Dagster instance.
export DAGSTER_HOME := $(CURDIR)/.dagster
export DAGSTER_DISABLE_TELEMETRY := 1
# Each process begins sooner where what others compiled is kept, whatever the caller's environment says.
export PYTHONDONTWRITEBYTECODE :=
INSTANCE := .dagster/dagster.yaml

# Of `make dev`.
PORT ?= 3000
UI := http://127.0.0.1:$(PORT)

# The installations of `make lowest` and `make newest`, which touch no other.
LOWEST := .venv-lowest
NEWEST := .venv-newest

PYTEST := $(BIN)/python -m pytest --durations=15 --durations-min=1
# Each worker imports jax and dagster anew: more than four take more memory than they save time.
WORKERS ?= logical

# The tests of each tier; `few` is a profile of hypothesis.
QUICK := -n $(WORKERS) --maxprocesses 4 --dist loadgroup -m "not slow and not gate" --hypothesis-profile=few
ALL := -n $(WORKERS) --maxprocesses 4 --dist loadgroup -m "not gate"

.PHONY: help demo dev docs test test-all processors processors-quick lowest newest gate torture mutants lint format \
  bench bench-errors bench-scaling bench-kernels bench-ledger bench-previous screenshots constraints clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

demo dev: export VIRTUAL_ENV := $(CURDIR)/.venv
# Dagster warns of a parameter that Dagster itself passes.
demo dev: export PYTHONWARNINGS := ignore:Parameter `execution_type`

demo: $(DEMO) $(INSTANCE) ## install, materialize the demo release, say what came of it
	$(BIN)/dg launch --job health_survey_release
	@printf '%-18s%s\n' 'The UI' 'make dev, then open $(UI)'

# The first look should show a release that lives; a demo that cannot be made is no reason for none.
dev: $(DEMO) $(INSTANCE) ## open Dagster's UI on the releases, the demo made; PORT=3001 for another port
	@$(BIN)/python -m assets.materialized health_survey || { \
	  echo 'Making the demo release first, which takes a minute ...'; \
	  $(BIN)/dg launch --job health_survey_release > .dagster/demo.log 2>&1 \
	    || echo 'The demo release failed: its run in the UI, and .dagster/demo.log, say why.'; }
	@echo 'The demo will be at $(UI)/locations/__repository__@jam_dagster/asset-groups/health_survey'
	@echo 'Ctrl-C ends it.'
	@$(BIN)/dg dev --port $(PORT)

docs: export NO_MKDOCS_2_WARNING := 1
docs: $(INSTALLED) ## the documentation, into site/: open site/index.html
	$(BIN)/python -m mkdocs build --quiet

# Each test has the mark of its tier in its own file: see tests/tiers.py.
test: $(INSTALLED) ## the quick tests, under three minutes on two cores
	$(PYTEST) $(QUICK)

test-all: $(TABLES) ## every test but those of the gate, a quarter of an hour on two quiet cores
	$(PYTEST) $(ALL)

# What pins the last digits of a sum fails here, and not first on a user's machine. It is no second
# machine: the kernels in C, the C library and the system are still those of this one.
processors: $(TABLES) ## tests of fits once more, with the arithmetic of older processors; half an hour
	$(BIN)/python -m tests.processors $(ALL)

processors-quick: $(TABLES) ## the quick ones among them; part of .ci/run
	$(BIN)/python -m tests.processors $(QUICK)

# What a user installs is as old as pyproject.toml allows; what only the tests use is new.
lowest: $(LOWEST)/bin/python $(UV) ## the quick tests and the laws of the noise, with the lowest versions that pyproject.toml allows
	$(UV) pip compile --quiet --upgrade --resolution lowest-direct \
	  --python $(LOWEST)/bin/python --extra production pyproject.toml --output-file $(LOWEST)/lowest.txt
	$(UV) pip install --quiet --python $(LOWEST)/bin/python -c $(LOWEST)/lowest.txt -e '.[dev]'
	$(LOWEST)/bin/python -m pytest $(QUICK)
	$(LOWEST)/bin/python -m pytest tests/privacy/noise -m "slow and not gate"

# Dagster's packages of one version are not always published at once, and `dg` is the last. So the
# first installation has Dagster's newest version without `dg`, and the second the newest `dg` with
# the libraries that Dagster's newest version allows, in a project of the newest `create-dagster`.
newest: $(NEWEST)/bin/python $(UV) ## import the package and run its commands beside Dagster's newest version
	$(UV) pip uninstall --quiet --python $(NEWEST)/bin/python dagster-dg-cli
	$(UV) pip install --quiet --upgrade --python $(NEWEST)/bin/python dagster dagster-dg-core -e .
	$(NEWEST)/bin/python -m tests.beside_dagster
	$(UV) pip freeze --python $(NEWEST)/bin/python | grep -E '^(click|rich|typer)==' > $(NEWEST)/held.txt
	$(UV) pip install --quiet --upgrade --python $(NEWEST)/bin/python -c $(NEWEST)/held.txt -e '.[ui]'
	rm -rf $(NEWEST)/project
	$(UV) tool run --quiet --upgrade create-dagster project $(NEWEST)/project/shop --no-uv-sync
	$(UV) pip install --quiet --python $(NEWEST)/bin/python --no-deps -e $(NEWEST)/project/shop
	$(NEWEST)/bin/python -m tests.beside_dagster $(NEWEST)/project/shop

# Hypothesis tries the same examples every time in the targets above, in `test` a quarter of those in
# `test-all`; here twenty times as many, at random.
gate: $(TABLES) ## the longest: every test on random examples, then torture and mutants; hours
	@$(call install,dev$(comma)tables$(comma)workers$(comma)spark)
	$(PYTEST) -n $(WORKERS) --maxprocesses 4 --dist loadgroup --hypothesis-profile=gate
	$(MAKE) torture mutants

torture: $(INSTALLED) ## kill releases at every point of their runs, and look at what they paid; minutes
	$(BIN)/python -m tests.torture --sqlite 210 --dagster 10 --files 20 --steps 4 --postgresql 50

mutants: $(INSTALLED) ## plant known privacy bugs one by one, and fail if the tests miss any; minutes
	$(BIN)/python -m tests.mutants

lint: $(INSTALLED) ## style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED) ## rewrite the files in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED) ## whole runs on the papers' splits below JAM_DATA: time, memory, error
	$(BIN)/python -m benchmarks.performance --noise numpy exact --out out/performance.csv

bench-errors: $(INSTALLED) ## errors of ten seeds beside those of plain mirror descent, hours
	$(BIN)/jam-dagster benchmark run benchmarks/errors.yaml --jobs 2 --out out/errors.parquet
	$(BIN)/python -m benchmarks.error_study out/errors.parquet accelerated mirror_descent

bench-scaling: $(INSTALLED) ## cost against rows, attributes, rounds and size limit, hours
	$(BIN)/python -m benchmarks.scaling --out out/scaling.csv --plot docs/images/growth.svg

PREVIOUS := $(BIN)/python -m benchmarks.previous_release --out docs/measurements/previous-release.csv

bench-previous: $(INSTALLED) ## releases that are drawn on the one before, beside starting afresh
	$(PREVIOUS)
	$(PREVIOUS) --first sample --strategy afresh previous mixed-0.2 mixed-0.5 --drift none slow \
	  --epsilon 0.01 0.1 --plot docs/images/previous_release.png

bench-kernels: $(INSTALLED) ## the inner loops, each by itself
	$(BIN)/python -m pytest benchmarks/test_kernels.py --benchmark-columns=min,median,max,rounds

bench-ledger: $(INSTALLED) ## the ledger's time for a draw, after 100 draws and after 10,000
	$(BIN)/python -m benchmarks.ledger_draws

screenshots: $(INSTALLED) ## picture Dagster's UI and the pages of the demo into docs/images, with Chromium
	$(BIN)/python -m tests.browser.screenshots docs/images

constraints: $(INSTALLED) ## write the newest versions that fit to constraints.txt; the next command installs them
	$(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --all-extras \
	  --no-annotate --no-header pyproject.toml --output-file .venv/newest.txt
	{ sed -n '/^#/p' constraints.txt; cat .venv/newest.txt; } > .venv/constraints.txt
	mv .venv/constraints.txt constraints.txt

clean: ## remove the installation, the demo's instance and every cache
	rm -rf .venv $(LOWEST) $(NEWEST) .dagster .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python $(LOWEST)/bin/python $(NEWEST)/bin/python:
	@if [ -z "$(PYTHON)" ]; then \
	  echo "No Python 3.11 or later was found: install one, or name it: make PYTHON=/path/to/python3 ..." >&2; \
	  exit 1; \
	fi
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or later is needed, this is " + sys.version)'
	$(PYTHON) -m venv $(@:/bin/python=) || { rm -rf $(@:/bin/python=); exit 1; }

# No rule for a uv that the machine has.
$(BIN)/uv: | .venv/bin/python
	$(PIP) -c constraints.txt uv

REQUIRED := pyproject.toml constraints.txt hatch_build.py $(wildcard jam_dagster/*/*/*.c)

$(DEMO): $(REQUIRED) | .venv/bin/python
	@$(call install,ui)
	@touch $@

$(INSTALLED): $(REQUIRED) | .venv/bin/python
	@$(call install,dev)
	@touch $(DEMO) $@

$(TABLES): $(REQUIRED) | .venv/bin/python
	@$(call install,dev$(comma)tables)
	@touch $(DEMO) $(INSTALLED) $@

# Two processes that start together on a new instance would corrupt its database: `instance info`
# creates it alone first. Pools are unlimited, and freshness untold, unless the instance says
# otherwise; and the UI asks for an e-mail address once.
$(INSTANCE): | $(DEMO)
	@mkdir -p .dagster/.nux
	@echo 'seen: 1' > .dagster/.nux/nux.yaml
	@printf '%s\n' 'telemetry: {enabled: false}' \
	  'concurrency: {pools: {default_limit: 1}, runs: {tag_concurrency_limits: [{key: dagster/backfill, limit: 1}]}}' \
	  'run_monitoring: {enabled: true, free_slots_after_run_end_seconds: 60}' \
	  'freshness: {enabled: true}' > $@
	@$(BIN)/dagster instance info > /dev/null
