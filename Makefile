# Everything runs in .venv; nothing outside this folder is touched.

PYTHON ?= python3
ARGS ?=

venv := .venv
python := $(venv)/bin/python
pip := $(python) -m pip --quiet --quiet
# The resolver behind `make lock`.
uv := uv==0.13.8
# What `make sbom` and `make audit` run.
cyclonedx := cyclonedx-bom==7.5.0
# Another environment that has it, for tests.
CYCLONEDX ?=
pip_audit := pip-audit==2.10.1
# Installs a tool into an environment of its own, which is gone afterwards.
with_tool = set -e; tools=$$(mktemp -d); trap 'rm -rf "$$tools"' EXIT; \
	$(PYTHON) -m venv "$$tools"; "$$tools/bin/python" -m pip --quiet --quiet install
compile = pip compile --quiet --universal --python-version 3.11 --no-python-downloads \
	--generate-hashes --no-emit-index-url --custom-compile-command "make lock" $(ARGS)

# The interpreter that setup takes, or has taken; whether everybody can read it; whether it is new enough.
in_use = $(if $(wildcard $(python)),$(python),$(PYTHON))
define is_readable
import os, sys
from pathlib import Path
files = [Path(os.path.realpath(one)) for one in (sys.executable, os.__file__)]
sys.exit(not all(one.stat().st_mode & (4 if one in files else 1) for file in files for one in (file, *file.parents)))
endef
export is_readable
export is_new := import sys; sys.exit(sys.version_info < (3, 11))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Without bytecode on the disk, as it is where Keywright is installed, each start would compile it all again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup check-python setup-dev setup-prove serve quick test test-rest test-all lint format texts bench drill prove lock sbom \
	audit clients release clean

help:
	@echo 'Keywright, a license server.  The targets:'
	@echo
	@echo '  make serve       start a server with demo data; Ctrl-C stops it'
	@echo '  make setup       make .venv with what the server needs (the others do this by themselves)'
	@echo
	@echo '  make quick       test rules, parsing and storage on SQLite (30 s); without their slow tests and PostgreSQL'
	@echo '  make test        test all but what is below; on PostgreSQL: locks, upserts, orders, and a few calls of each interface'
	@echo '  make test-rest   test what make test leaves out (10 min): more on PostgreSQL, faults,'
	@echo '                   histories, loss of power, fuzzing, the pages in a browser, deploy/, attacks, a short soak'
	@echo '  make test-all    run all tests, and show the slowest twenty'
	@echo '  make lint        check style, types and who imports whom'
	@echo '  make format      put the code into the one format, and mend what can be mended by itself'
	@echo '  make texts       collect the texts of the pages for their translators; ARGS="--add fr" begins a language'
	@echo '  make bench       measure how fast it is on this machine'
	@echo '  make drill       let a PostgreSQL cluster fail under load, and look for what was lost'
	@echo '  make prove       hold every promise to its word, for hours, and write docs/explanation/never-wrong.md'
	@echo '  make setup-dev   make .venv with what these need, too'
	@echo
	@echo '  make lock        renew the pinned dependencies from pyproject.toml; ARGS=--upgrade takes newer ones'
	@echo '  make clients     build the packages of the client libraries in dist/clients'
	@echo '  make release     build all that is published in dist/release; MINISIGN_KEY=file signs it'
	@echo '  make sbom        write what Keywright is made of to dist/keywright.cdx.json (CycloneDX)'
	@echo '  make audit       ask whether flaws of the pinned dependencies are known; needs the network'
	@echo '  make clean       remove .venv and everything else that can be made again'
	@echo
	@echo 'ARGS is passed on:      make test ARGS="-k limit -x"    make serve ARGS="--port 9000"'
	@echo 'PYTHON names another:   make setup PYTHON=python3.13   (3.11 or newer; after make clean)'

setup: check-python $(venv)/.ready
	@:

# Root sets a server up for another user, who can read nothing below /root, where pyenv and uv put interpreters.
check-python:
	@[ "$$(id -u)" -eq 0 ] && command -v $(in_use) >/dev/null || exit 0; $(in_use) -c "$$is_readable" && exit 0; \
	echo "The server's own user could not read $$($(in_use) -c 'import os, sys; print(os.path.realpath(sys.executable))'):" >&2; \
	echo 'a folder above it is only for root. Take an interpreter of the system:' >&2; \
	for one in /usr/bin/python3 /usr/bin/python3.?? /usr/local/bin/python3; do \
		if [ -x $$one ] && $$one -c "$$is_new" && $$one -c "$$is_readable"; then \
			echo "  make clean && make setup PYTHON=$$one" >&2; exit 1; \
		fi; \
	done; \
	echo '  apt install python3 python3-venv   (it must be 3.11 or newer)' >&2; exit 1

setup-dev: $(venv)/.ready-dev
	@:

setup-prove: $(venv)/.ready-prove
	@:

serve: $(venv)/.ready
	@exec $(venv)/bin/keywright serve --demo $(ARGS)

quick: setup-dev
	@$(python) -m pytest -n 2 --dist worksteal --tier quick $(ARGS)

# Four processes for two cores: some of them always wait. A file is run by one: its fixtures are made once.
test: setup-dev
	@$(python) -m pytest -n 4 --dist loadfile --no-loadscope-reorder --tier ordinary $(ARGS)

# Seven for two cores: these wait most of the time, for a server that starts, for a disk, for a lease that ends.
test-rest: setup-dev
	@$(python) -m pytest -n 7 --dist worksteal --tier rest --durations 20 $(ARGS)

test-all: setup-dev
	@$(python) -m pytest -n 3 --dist worksteal --durations 20 $(ARGS)

lint: setup-dev
	$(venv)/bin/ruff check
	$(venv)/bin/ruff format --check
	$(venv)/bin/mypy
	$(venv)/bin/lint-imports --no-logo

format: setup-dev
	$(venv)/bin/ruff check --fix-only
	$(venv)/bin/ruff format

texts: setup-dev
	@$(python) -m tools.texts $(ARGS)

bench: setup-dev
	@$(python) -m benchmarks $(ARGS)

drill: setup-dev
	@$(python) -m drill $(ARGS)

prove: setup-prove
	@$(python) -m proofs $(ARGS)

lock:
	@echo 'Renewing requirements*.lock and tests/packages/requirements.lock ...'
	@$(with_tool) '$(uv)'; \
	"$$tools/bin/uv" $(compile) --group build --output-file requirements.lock pyproject.toml; \
	"$$tools/bin/uv" $(compile) --group dev --constraint requirements.lock \
		--output-file requirements-dev.lock pyproject.toml; \
	"$$tools/bin/uv" $(compile) --group prove --constraint requirements-dev.lock \
		--output-file requirements-prove.lock pyproject.toml; \
	"$$tools/bin/uv" $(compile) --group packages --output-file tests/packages/requirements.lock

clients: setup-dev
	@$(python) -m tools.clients $(ARGS)

# A signature needs minisign; without a key, it is left out, and this says so.
release: export MINISIGN_KEY := $(MINISIGN_KEY)
release: setup-dev sbom
	@$(python) -m tools.release $(ARGS)

# The lock says which files, for every platform, and not which needs which; nor what version Keywright has.
sbom:
	@mkdir -p dist
	@$(if $(CYCLONEDX),set -e; tools=$$(mktemp -d); trap 'rm -rf "$$tools"' EXIT,$(with_tool) '$(cyclonedx)'); \
	version=$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' src/keywright/__init__.py); \
	sed "s/^dynamic = .*/version = \"$$version\"/" pyproject.toml >"$$tools/pyproject.toml"; \
	PYTHONWARNINGS=ignore "$(or $(CYCLONEDX),$$tools/bin/cyclonedx-py)" requirements requirements.lock --pyproject "$$tools/pyproject.toml" \
		--output-reproducible --output-file dist/keywright.cdx.json
	@echo 'Written: dist/keywright.cdx.json'

# Strict: what cannot be looked up is not taken for harmless.
audit:
	@$(with_tool) '$(pip_audit)'; \
	"$$tools/bin/pip-audit" --requirement requirements.lock --require-hashes --disable-pip --strict $(ARGS)

clean:
	rm -rf $(venv) dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache \
		.pytest_cache .ruff_cache .schemathesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The marks in .venv: each is written last, so that what was interrupted is done again.

$(venv)/.made:
	@command -v $(PYTHON) >/dev/null || \
		{ echo 'Keywright needs Python 3.11 or newer, and there is no $(PYTHON) here.' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Keywright needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
		echo 'Name another one:  make setup PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo '$(PYTHON) cannot make virtual environments: its venv module is missing.' >&2; \
		echo 'On Debian and Ubuntu:  apt install python3-venv' >&2; exit 1; }
	@echo 'Making the Python environment in $(venv) ...'
	@$(PYTHON) -m venv --clear $(venv)
	@touch $@

$(venv)/.ready: requirements.lock
$(venv)/.ready-dev: requirements-dev.lock
$(venv)/.ready-prove: requirements-prove.lock
$(venv)/.ready $(venv)/.ready-dev $(venv)/.ready-prove: pyproject.toml | $(venv)/.made
	@echo 'Installing what $(filter %.lock,$^) names (less than a minute) ...'
	@$(pip) install --no-compile --require-hashes -r $(filter %.lock,$^)
	@$(pip) install --no-deps --no-build-isolation -e . -e ./converter
	@# The first start need not compile. pip would do it with one core; a few files of others are not for this Python.
	@$(python) -W ignore -m compileall -qq -j 0 $(venv)/lib || true
	@$(python) -m compileall -q src converter
	@touch $@
