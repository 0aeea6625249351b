# `make run` starts a server, `make test` runs every test. Both set up what they need first.
PYTHON ?= python3
# Three workers for two cores (see `tests/conftest.py`); `make test PYTEST_ARGS="-k dedup"` runs a part.
PYTEST_ARGS ?= -n auto
COMPILE = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header

.PHONY: run test coverage setup spark demo wheel check bench format requirements clean

# The version is asked for first, in words that any Python 3 understands. `--clear`: what an older Python or an
# interrupted try has left in the folder must not survive there.
define make_environment
	@command -v $(PYTHON) >/dev/null || { echo "Penstock needs Python 3.11 or later, and there is no $(PYTHON) here;" \
		"name one: make $(or $(MAKECMDGOALS),run) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info < (3, 11) and sys.exit("Penstock needs Python 3.11 or later, and $(PYTHON)" \
		" is " + sys.version.split()[0] + "; name another: make $(or $(MAKECMDGOALS),run) PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv --clear $(1)
endef

run: setup
	.venv/bin/penstock serve

setup: .venv/.ready

# The data pipeline beside the server: Spark is half a gigabyte, and the server never needs it.
spark: .venv/.spark

# A day of orders through queues, lake and report, in a folder of its own.
demo: spark
	.venv/bin/penstock pipeline demo

# For machines without a checkout: one file in dist/.
wheel: setup
	.venv/bin/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

test: .venv-dev/.ready .venv/.ready
	PATH="$(CURDIR)/.venv-dev/bin:$$PATH" tests/prepare.sh
	.venv-dev/bin/pytest $(PYTEST_ARGS)

# The same tests with the share of lines and branches that they run, which takes longer.
coverage: .venv-dev/.ready .venv/.ready
	PATH="$(CURDIR)/.venv-dev/bin:$$PATH" tests/prepare.sh
	.venv-dev/bin/pytest $(PYTEST_ARGS) --cov --cov-report=term

check: .venv-dev/.ready
	.venv-dev/bin/ruff format --check .
	.venv-dev/bin/ruff check .
	.venv-dev/bin/mypy
	PATH="$(CURDIR)/.venv-dev/bin:$$PATH" .venv-dev/bin/lint-imports

bench: .venv-dev/.ready .venv-peers/.ready
	bench/prepare.sh
	.venv-dev/bin/python -m bench $(BENCH_ARGS)

format: .venv-dev/.ready
	.venv-dev/bin/ruff check --fix .
	.venv-dev/bin/ruff format .

# The server's own environment, and one with the tools beside it: a test tool can never stand in
# for a dependency that the server lacks.
.venv/.ready: requirements/server.txt pyproject.toml
	$(call make_environment,.venv)
	.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

.venv/.spark: requirements/spark.txt .venv/.ready
	.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	touch $@

.venv-dev/.ready: requirements/dev.txt pyproject.toml
	$(call make_environment,.venv-dev)
	.venv-dev/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	.venv-dev/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# What the benchmarks compare with, and nothing of ours.
.venv-peers/.ready: requirements/peers.txt
	$(call make_environment,.venv-peers)
	.venv-peers/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	touch $@

# Needs `uv`; only to change a dependency.
requirements:
	$(COMPILE) --upgrade requirements/server.in -o requirements/server.txt
	$(COMPILE) --upgrade requirements/spark.in -o requirements/spark.txt
	$(COMPILE) --upgrade requirements/dev.in -o requirements/dev.txt
	$(COMPILE) --upgrade requirements/peers.in -o requirements/peers.txt

clean:
	rm -rf .venv .venv-dev .venv-peers .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
