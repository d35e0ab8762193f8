# make search  finds a network for handwritten digits on two towers, and trains what it found
# make demo    trains examples/digits.py on two towers and on one device, and compares them
# make test    lint, formatting and all tests, ending with pytest's summary
# make lint    ruff, changing nothing        make format  ruff, rewriting the files
# make bench   replicate against its peers   make clean   removes what these targets made
#
# Each makes the virtualenv it needs; choose where and of which Python with
#   make test VENV=.venv-3.10 PYTHON=python3.10

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help search demo test lint format bench clean

export TF_CPP_MIN_LOG_LEVEL = 2

VENV ?= .venv
# Empty: the first of PYTHON_CANDIDATES that TensorFlow supports.
PYTHON ?=
PYTHON_CANDIDATES := python3 python3.11 python3.10 python3.9
CONSTRAINTS := constraints/tf-2.15.txt
PIP_INSTALL = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

# At level 2, TensorFlow 2.15 still logs three failures of CUDA on a host that has no GPU.
search demo: export TF_CPP_MIN_LOG_LEVEL = 3
search: $(VENV)/.examples
	$(VENV)/bin/python -m examples.nas_search.demo

demo: $(VENV)/.examples
	$(VENV)/bin/python examples/digits.py

test: lint
	$(VENV)/bin/python -m pytest

lint: $(VENV)/.test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(VENV)/.test
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(VENV)/.examples
	$(VENV)/bin/python benchmarks/towers.py

clean:
	rm -rf .venv build dist runs .pytest_cache .ruff_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment. Each stamp is written last, so that an installation that was cut short is
# repeated. A change of what is to be installed empties the environment, stamps included.
$(VENV)/.made: setup.py $(CONSTRAINTS)
	@$(check_venv); $(find_python); \
	echo "Making $(VENV) with $$python ($$("$$python" --version))"; \
	"$$python" -m venv --clear "$(VENV)"
	@touch $@

$(VENV)/.examples $(VENV)/.test: $(VENV)/.%: $(VENV)/.made
	@echo "Installing replicate-estimator[$*], TensorFlow 2.15 included; this takes a minute or two"
	@$(PIP_INSTALL) -c $(CONSTRAINTS) -e '.[$*]'
	@touch $@

# An environment of the user's own must not be emptied.
define check_venv
if [ -d "$(VENV)" ] && [ -n "$$(ls -A "$(VENV)")" ] && [ ! -e "$(VENV)/.made" ]; then \
    echo "VENV is emptied before it is filled, but $(VENV) was not made by this Makefile." >&2; \
    echo "Remove it, or name a new directory: make $(or $(MAKECMDGOALS),demo) VENV=.venv-2.15" >&2; \
    exit 1; \
fi
endef

# Sets $$python. A candidate is run, not just looked up: a version manager's shim may exist for a
# Python that is not there.
define find_python
is_supported='import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 11))'; \
python=; tried=; \
for candidate in $(or $(PYTHON),$(PYTHON_CANDIDATES)); do \
    version=$$("$$candidate" -c 'import platform; print(platform.python_version())' 2>/dev/null) \
        || version=missing; \
    tried="$$tried$${tried:+, }$$candidate ($$version)"; \
    if "$$candidate" -c "$$is_supported" 2>/dev/null; then python=$$candidate; break; fi; \
done; \
if [ -z "$$python" ]; then \
    echo "TensorFlow 2.15 needs Python 3.9, 3.10 or 3.11, but found: $$tried." >&2; \
    echo "Install one of them, or name it: make $(or $(MAKECMDGOALS),demo) PYTHON=/path/to/python3.11" >&2; \
    exit 1; \
fi
endef
