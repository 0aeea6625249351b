# `make run` starts a server, `make test` runs every test. Both set up what they need first.
PYTHON ?= python3
# Three workers for two cores (see `tests/conftest.py`); `make test PYTEST_ARGS="-k dedup"` runs a part.
PYTEST_ARGS ?= -n auto
# What is compiled (see `setup.py`) is also tested as it stands in the source. Servers are of two processes then, as with
# `penstock serve --workers 2`: that both work does not take a pass each. Of the faults, those in which the processes of a
# server differ from a single one; of the console, what one process has to know of another.
PLAIN_TESTS ?= tests/edge tests/bridge tests/broker tests/stores tests/keys $(wildcard tests/faces/test_*.py) \
	tests/faces/emodb tests/faces/metrics tests/faces/mqcore tests/faces/mqs tests/faces/native tests/faces/sqs \
	tests/faces/console/test_sessions.py $(PLAIN_FAULTS) tests/docs/test_architecture.py
PLAIN_FAULTS = $(patsubst %,tests/faults/test_%.py,hangups hung_disk kill sharing) \
	tests/faults/test_disk.py::test_a_full_disk_stops_sends_but_not_receives_and_deletes \
	tests/faults/test_disk.py::test_health_is_red_on_a_disk_that_became_read_only_while_nothing_was_written
# What is particular to a database is tested once, compiled: only there can a type that does not hold be seen. Of the other
# stores nothing is compiled.
PLAIN_ARGS ?= -k "not postgres and not mariadb and not (stores and ([memory or [mqcore))"
PLAIN_WORKERS ?= 2
SOURCES := $(shell find src -type f ! -name '*.pyc')
# `--no-deps`: a file of requirements names everything, and pip would otherwise take the newest of what one of them asks
# for with an extra, and then miss its hash.
INSTALL = pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r
COMPILE = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header

.PHONY: run run-plain test test-plain test-programs coverage setup spark demo dist check audit bench soak fuzz format requirements clean

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

# From the source as it stands, without a compiler: for those who change it.
run-plain: .venv/.dependencies
	PYTHONPATH=src .venv/bin/python -m penstock serve

setup: .venv/.ready

# The data pipeline beside the server: Spark is half a gigabyte, and the server never needs it.
spark: .venv/.spark

# A day of orders through queues, lake and report, in a folder of its own.
demo: spark
	.venv/bin/penstock pipeline demo

# For machines without a checkout: a compiled wheel for those like this one, a plain one for all others, the source, and a
# bill of materials (CycloneDX).
dist: .venv/.dependencies build/compiled/.ready build/plain/.ready build/source/.ready
	rm -rf dist
	mkdir dist
	cp build/compiled/wheel/*.whl build/plain/wheel/*.whl build/source/*.tar.gz dist
	.venv/bin/python -m devtools.sbom dist

# Everything with the compiled package.
test: $(if $(filter-out -n auto,$(PYTEST_ARGS)),,test-plain) test-programs .venv/.ready build/.spark-classes
	PYTHONPATH="$(CURDIR)/build/compiled/package" .venv-dev/bin/pytest $(PYTEST_ARGS)

test-plain: test-programs .venv/.ready
	PENSTOCK_TEST_WORKERS=$(PLAIN_WORKERS) .venv-dev/bin/pytest $(PYTEST_ARGS) $(PLAIN_ARGS) $(PLAIN_TESTS)

# What the tests use beside the server and their tools: real programs, the real clients of the SQS API, and the programs
# that others read a lake with.
test-programs: .venv-dev/.ready .venv-clients/.ready .venv-clients-query/.ready .venv-lakes/.ready
	PATH="$(CURDIR)/.venv-dev/bin:$$PATH" tests/prepare.sh

# Spark's classes as a JVM keeps them: a session of the tests starts in half the time. They do without where this fails.
build/.spark-classes: .venv-dev/.ready devtools/jvm.py
	-.venv-dev/bin/python -m devtools.jvm
	@mkdir -p $(@D)
	@touch $@

# All tests with the share of lines and branches that they run, which takes longer. Nothing compiled: its lines cannot be
# seen.
coverage: test-programs .venv/.ready build/.spark-classes
	.venv-dev/bin/pytest $(PYTEST_ARGS) --cov --cov-report=term

check: .venv-dev/.ready
	.venv-dev/bin/ruff format --check .
	.venv-dev/bin/ruff check .
	.venv-dev/bin/mypy
	PATH="$(CURDIR)/.venv-dev/bin:$$PATH" .venv-dev/bin/lint-imports
	.venv-dev/bin/python -m devtools.audit

# What `make check` asks of the list that is kept, and then of the advisory service of PyPI, which needs a network and
# `uv`. What it finds goes into requirements/advisories.json.
audit: .venv-dev/.ready
	.venv-dev/bin/python -m devtools.audit
	for file in requirements/*.txt; do uvx pip-audit --disable-pip --require-hashes --requirement "$$file" || failed=yes; \
		done; [ -z "$$failed" ]

# With the compiled package, as it is installed.
bench: .venv-dev/.ready .venv-peers/.ready build/compiled/.ready
	bench/prepare.sh
	PYTHONPATH="$(CURDIR)/build/compiled/package" .venv-dev/bin/python -m bench $(BENCH_ARGS)

# Faults under load, with the compiled package as it is installed; see docs/soak.md. `SOAK_MINUTES` bounds it;
# `make soak SOAK_ARGS="--only kill --seed 123"` repeats a part.
SOAK_MINUTES ?= 60
soak: test-programs build/compiled/.ready
	-@$(MAKE) --no-print-directory .venv-fuzz/.ready
	PYTHONPATH="$(CURDIR)/build/compiled/package" .venv-dev/bin/python -m soak --minutes $(SOAK_MINUTES) $(SOAK_ARGS)

# Inputs that no client would send, chosen by coverage, for each part that reads what clients send; see `soak/fuzz`.
# `make fuzz FUZZ_ARGS="edge --cases 1000000"` runs one of them.
FUZZ_ARGS ?= --cases 100000
fuzz: .venv-fuzz/.ready
	PYTHONPATH="$(CURDIR)/src" .venv-fuzz/bin/python -m soak.fuzz --guided $(FUZZ_ARGS)

format: .venv-dev/.ready
	.venv-dev/bin/ruff check --fix .
	.venv-dev/bin/ruff format .

# The server's own environment, and one with the tools beside it: a test tool can never stand in
# for a dependency that the server lacks.
.venv/.dependencies: requirements/server.txt
	$(call make_environment,.venv)
	.venv/bin/$(INSTALL) $<
	touch $@

.venv/.ready: .venv/.dependencies build/compiled/.ready
	.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall build/compiled/wheel/*.whl
	touch $@

# mypy reads the types of what the server needs from the server's environment.
build/%/.ready: setup.py pyproject.toml $(SOURCES) devtools/build_package.sh .venv-build/.ready .venv/.dependencies
	@devtools/build_package.sh $*
	@touch $@

.venv-build/.ready: requirements/build.txt
	$(call make_environment,.venv-build)
	.venv-build/bin/$(INSTALL) $<
	touch $@

.venv/.spark: requirements/spark.txt .venv/.ready
	.venv/bin/$(INSTALL) $<
	touch $@

.venv-dev/.ready: requirements/dev.txt pyproject.toml
	$(call make_environment,.venv-dev)
	.venv-dev/bin/$(INSTALL) $<
	.venv-dev/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# Clients of the SQS API: an SDK of today with all that builds on it, and one that still speaks the query protocol. And
# other readers of a lake, with a server that speaks the API of S3. None of theirs may reach the server or its tools,
# whose versions they would decide.
.venv-clients/.ready .venv-clients-query/.ready .venv-lakes/.ready: .venv-%/.ready: requirements/%.txt
	$(call make_environment,.venv-$*)
	.venv-$*/bin/$(INSTALL) $<
	touch $@

# What the benchmarks compare with, and nothing of ours.
.venv-peers/.ready: requirements/peers.txt
	$(call make_environment,.venv-peers)
	.venv-peers/bin/$(INSTALL) $<
	touch $@

# A part of the soak, which does without where there is no wheel of atheris.
.venv-fuzz/.ready: requirements/fuzz.txt
	$(call make_environment,.venv-fuzz)
	.venv-fuzz/bin/$(INSTALL) $<
	touch $@

# Needs `uv`; only to change a dependency.
requirements:
	$(COMPILE) --upgrade requirements/server.in -o requirements/server.txt
	$(COMPILE) --upgrade requirements/build.in -o requirements/build.txt
	$(COMPILE) --upgrade requirements/spark.in -o requirements/spark.txt
	$(COMPILE) --upgrade requirements/dev.in -o requirements/dev.txt
	$(COMPILE) --upgrade requirements/peers.in -o requirements/peers.txt
	$(COMPILE) --upgrade requirements/clients.in -o requirements/clients.txt
	$(COMPILE) --upgrade requirements/clients-query.in -o requirements/clients-query.txt
	$(COMPILE) --upgrade requirements/fuzz.in -o requirements/fuzz.txt
	$(COMPILE) --upgrade requirements/lakes.in -o requirements/lakes.txt

clean:
	rm -rf build .venv .venv-build .venv-clients .venv-clients-query .venv-dev .venv-fuzz .venv-lakes .venv-peers .mypy_cache \
		.ruff_cache .import_linter_cache .hypothesis .coverage
