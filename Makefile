# Train something:
#   make demo           trains examples/digits.py on two towers and on one device, and compares them
#   make search         searches for a network for handwritten digits on two towers, and trains it
#
# Work on the library:
#   make check          runs lint, type checks and quick tests of every package: run it first
#   make test           runs lint, builds the documentation, and runs all quick tests on three TensorFlows
#   make test-2.15      runs the part of these tests that needs TensorFlow 2.15: most of them
#   make test-newest    runs the part on the newest TensorFlow: the table of docs/conformance.md
#   make test-1.15      runs the part on TensorFlow 1.15, which needs a Python 3.7
#   make format         rewrites files with ruff
#   make lint           runs ruff and mypy, and changes nothing
#   make docs           builds the documentation as a site in build/site; warnings are errors
#
# Test more, as CI does:
#   make test-all       runs all of make test, slow tests, more on other versions, and test-contrib
#   make test-contrib   tests the packages that replaced parts of tf.contrib
#   make test-between   tests the contract on TensorFlow 2.0, 2.4, 2.8 and 2.11
#   make test-oldest    runs the conformance tests on TensorFlow 2.12
#   make test-thorough  runs more cases of the same properties on all versions, for hours
#   make nightly        runs thousands of random examples, new ones each time, and long trainings
#   make coverage       measures which lines the tests of the core run; pages are in build/coverage
#
# Measure and release:
#   make bench          measures replicate against other ways to train on several devices
#   make lock           writes constraints/locked: pins with hashes of all that CI installs
#   make release        builds a wheel, and runs the README's program and the tutorial with it
#   make clean          removes everything that these commands made
#
# Each command makes the virtualenv that it needs. Choose its directory and its Python with
#   make test VENV=.venv-3.10 PYTHON=python3.10

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help search demo docs check release test test-newest test-oldest test-1.15 test-2.15 test-contrib test-all test-thorough nightly coverage lint format bench lock clean

# At level 2, TensorFlow 2.15 still logs three failures of CUDA on a host that has no GPU.
export TF_CPP_MIN_LOG_LEVEL = 3
# Images of containers often set it. Then each process would compile all of TensorFlow once more,
# which takes longer than all else of its start.
export PYTHONDONTWRITEBYTECODE =

# One environment each for TensorFlow 2.15, the newest TensorFlow, the oldest TensorFlow 2 that is
# supported, and TensorFlow 1.
VENV ?= .venv
NEWEST := $(VENV)-2.21
OLDEST := $(VENV)-2.12
FIRST := $(VENV)-1.15
DOCS := $(VENV)-docs
RELEASE := $(VENV)-release
# With the packages that replaced parts of `tf.contrib`.
CONTRIB := $(VENV)-contrib
$(VENV)/%: TENSORFLOW = 2.15
$(NEWEST)/%: TENSORFLOW = 2.21
$(OLDEST)/%: TENSORFLOW = 2.12
$(FIRST)/%: TENSORFLOW = 1.15
$(DOCS)/% $(RELEASE)/%: TENSORFLOW = no
$(CONTRIB)/%: TENSORFLOW = 2.15

# Empty: the first of PYTHON_CANDIDATES that TensorFlow supports.
PYTHON ?=
PYTHON_CANDIDATES := python3 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 python3.7
PYTHON_CANDIDATES += $$(ls "$$(pyenv root 2>/dev/null)"/versions/*/bin/python3 2>/dev/null)
$(VENV)/% $(OLDEST)/% $(CONTRIB)/%: PYTHONS = (3, 9), (3, 10), (3, 11)
$(NEWEST)/% $(DOCS)/% $(RELEASE)/%: PYTHONS = (3, 10), (3, 11), (3, 12), (3, 13)
# With the Python of the other environments, if that is new enough.
$(DOCS)/% $(RELEASE)/%: PYTHON_CANDIDATES := $(PYTHON) $(PYTHON_CANDIDATES)
$(DOCS)/% $(RELEASE)/%: override PYTHON =
$(FIRST)/%: PYTHONS = (3, 7),
$(FIRST)/%: override PYTHON = $(PYTHON_3_7)

# Versions between: one for each Python that TensorFlow supported then.
BETWEEN := 2.0 2.4 2.8 2.11
$(VENV)-2.0/%: PYTHONS = (3, 7),
$(VENV)-2.4/%: PYTHONS = (3, 8),
$(VENV)-2.8/%: PYTHONS = (3, 9),
$(VENV)-2.11/%: PYTHONS = (3, 10),
$(foreach v,$(BETWEEN),$(eval $(VENV)-$(v)/%: TENSORFLOW = $(v)))
$(foreach v,$(BETWEEN),$(eval $(VENV)-$(v)/.made: constraints/tf-$(v).txt))

# TensorFlow 1.15 needs a Python 3.7, which few hosts have: on the path, or with pyenv.
ifneq (,$(filter test% nightly environments $(FIRST)/%,$(MAKECMDGOALS)))
ifndef PYTHON_3_7
PYTHON_3_7 := $(shell \
    version=$$(pyenv versions --bare 2>/dev/null | grep '^3\.7\.' | tail -n 1); \
    for candidate in python3.7 "$$(PYENV_VERSION=$$version pyenv which python3.7 2>/dev/null)"; do \
        if "$$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 7))' 2>/dev/null; \
        then echo "$$candidate"; break; fi; \
    done)
endif
endif
# Marks of the tests that `make test` and `make test-all` run; see tests/durations.py.
QUICK := not slow and not further and not thorough and not nightly
STEADY := not slow and not thorough and not nightly
ALL := not thorough and not nightly
OF_EXAMPLES := $(addprefix --ignore=tests/,benchmarks data examples moving nas_search revnet runs)
OF_CONFORMANCE = $(shell grep -rl mark.conformance tests)
# In TensorFlow 2.15, gradients of tiny convolutions by oneDNN damage memory, which ended the process
# of tests of the architecture search. Others need its kernels; see tests/conftest.py.
WITHOUT_ONEDNN := TF_ENABLE_ONEDNN_OPTS=0
# Files that `make test` runs on TensorFlow 1.15, and `make test-all` in addition, by package. Tests
# that belong to no package are in `tests` itself.
in = $(patsubst %,tests/$(1)/test_%.py,$(2))
CONTRACT_TESTS := $(call in,contract,contract contract_estimator contract_graph)
FIRST_TESTS := $(call in,benchmarks,ancestor) $(CONTRACT_TESTS) \
    $(call in,migration,contrib_distributions contrib_hooks contrib_real contrib_slim contrib_table \
    tensorflow_1 tf1)
BETWEEN_TESTS := $(CONTRACT_TESTS) $(call in,towers,called_once)
FIRST_MORE := \
    $(patsubst %,tests/test_%.py,cross_tower devices hooks loss_scale metrics normalization \
    public_api tower_optimizer) \
    $(call in,arguments,call_arguments estimators_model_fn) \
    $(call in,batch,sharded_training sharding) \
    $(call in,clusters,cluster_faults cluster_training) \
    $(call in,comparing,compare) \
    $(call in,compat,keras_class) \
    $(call in,contract,checkpoints export silent_defects) \
    $(call in,examples,digits) \
    $(call in,faults,cancelled_steps) \
    $(call in,reduction,reduction packing) \
    $(call in,optimizer,accumulation gradients same_graph scaled_training) \
    $(call in,layouts,registry) \
    $(call in,partition,drafts exact_options fuzz large_heads means order_of_reads \
    towers_without_rows) \
    $(call in,reports,report tower_monitor) \
    $(call in,towers,failing_towers nothing_left \
    prefetching references replicas specs summaries towers variables)
# For what `make test-all` runs first, too.
MARKS = $(QUICK)
FIRST_FILES = $(FIRST_TESTS)
test-all: MARKS = $(STEADY)
test-all: FIRST_FILES += $(FIRST_MORE)
# Files that take longest on 1.15.
FIRST_LONG := $(call in,conformance,conformance) $(call in,towers,called_once)

help:
	@sed -n '/^$$/q;s/^# \{0,1\}//p' Makefile

search: $(VENV)/.examples
	$(VENV)/bin/python -m examples.nas_search.demo

demo: $(VENV)/.examples
	$(VENV)/bin/python -m examples.digits

# The conformance table goes to the newest TensorFlow.
test: lint docs test-1.15 test-newest test-2.15

test-2.15: $(VENV)/.test
	$(VENV)/bin/python -m pytest -n 2 --dist loadgroup -m "$(QUICK)" --ignore=tests/conformance

# Warnings are errors, except with --quiet. The site loads nothing from other hosts, neither when it
# is built nor when it is read.
docs: $(DOCS)/.docs
	$(DOCS)/bin/mkdocs build --strict
	@! grep -rnE '<(script|link|img|iframe)[^>]+(src|href)="(https?:)?//' build/site --include=*.html

# Asks the package index for the newest files of each pinned release.
lock: $(RELEASE)/.release
	$(RELEASE)/bin/python -m tools.lock

release: $(VENV)/.test $(RELEASE)/.release
	$(VENV)/bin/python -m tools.release --builder $(RELEASE)/bin/python

test-newest: $(NEWEST)/.test
	TF_USE_LEGACY_KERAS=1 $(NEWEST)/bin/python -m pytest -n 2 -m "conformance and (table or smoke) and $(MARKS)" \
	    --unoptimized $(OF_CONFORMANCE)

ifneq (,$(PYTHON_3_7))
test-1.15: $(FIRST)/.test
	$(FIRST)/bin/python -m pytest -n 2 -m "$(MARKS)" $(FIRST_FILES)
else
test-1.15:
	@echo "*** NOT RUN: the tests on TensorFlow 1.15 need a Python 3.7, and none was found. ***" >&2
	@echo "*** NOR are programs that move from it, in tests/moving, compared with what they gave there. ***" >&2
	@echo "*** Install one, or name it: make $(or $(MAKECMDGOALS),test) PYTHON_3_7=/path/to/python3.7 ***" >&2
	@if [ -n "$(REQUIRE_1_15)" ]; then echo "*** REQUIRE_1_15 says that they must run. ***" >&2; exit 1; fi
endif

test-oldest: $(OLDEST)/.test
	$(OLDEST)/bin/python -m pytest -n 2 -m conformance

.PHONY: test-between $(BETWEEN:%=test-%)
test-between: $(BETWEEN:%=test-%)

$(BETWEEN:%=test-%): test-%: $(VENV)-%/.test
	$(VENV)-$*/bin/python -m pytest -n 2 -m "$(ALL)" $(BETWEEN_TESTS)

test-contrib: $(CONTRIB)/.contrib
	$(CONTRIB)/bin/python -m pytest -n 2 $(call in,migration,contrib_distributions contrib_gan)

# Installing mostly waits for downloads, so two run at a time.
.PHONY: environments
environments:
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.test $(NEWEST)/.test $(CONTRIB)/.contrib $(DOCS)/.docs \
	    $(if $(PYTHON_3_7),$(FIRST)/.test)

test-all: environments lint docs test-1.15 test-contrib test-newest
	$(VENV)/bin/python -m pytest -n 2 --dist loadgroup -m "$(ALL)" $(patsubst %,--ignore=tests/%,conformance nas_search)
	$(WITHOUT_ONEDNN) $(VENV)/bin/python -m pytest -n 2 --dist loadgroup -m "$(ALL)" tests/nas_search

test-thorough: $(VENV)/.test $(NEWEST)/.test test-oldest
	$(if $(PYTHON_3_7),$(FIRST)/bin/python -m pytest -n 2 -m "thorough and not nightly" $(FIRST_TESTS))
	$(if $(PYTHON_3_7),$(FIRST)/bin/python -m pytest -n 2 -m "slow and $(ALL)" $(FIRST_MORE))
	$(if $(PYTHON_3_7),$(FIRST)/bin/python -m pytest -n 2 -m "$(ALL)" $(FIRST_LONG))
	TF_USE_LEGACY_KERAS=1 $(NEWEST)/bin/python -m pytest -n 2 -m "conformance and not table and not smoke and not nightly"
	TF_USE_LEGACY_KERAS=1 $(NEWEST)/bin/python -m pytest -n 2 -m "conformance and $(ALL)" tests/conformance
	TF_USE_LEGACY_KERAS=1 $(NEWEST)/bin/python -m pytest -n 2 tests/clusters tests/faults
	$(if $(PYTHON_3_7),$(FIRST)/bin/python -m pytest -n 2 -m "not nightly" tests/layouts tests/partition)
	TF_USE_LEGACY_KERAS=1 $(NEWEST)/bin/python -m pytest -n 2 -m "not nightly" tests/layouts tests/partition
	$(VENV)/bin/python -m pytest -n 2 -m "$(ALL)" tests/conformance
	$(VENV)/bin/python -m pytest -n 2 --dist loadgroup -m "thorough and not nightly" --ignore=tests/chaos
	$(VENV)/bin/python -m pytest -n 0 -m "thorough and not nightly" tests/chaos
	@echo "Thousands of random examples, new ones each time: make nightly"

nightly: $(VENV)/.test $(NEWEST)/.test
	$(VENV)/bin/python -m pytest -n 2 -m nightly --timeout 0
	TF_USE_LEGACY_KERAS=1 $(NEWEST)/bin/python -m pytest -m nightly --timeout 0 tests/chaos
	$(if $(PYTHON_3_7),$(MAKE) --no-print-directory $(FIRST)/.test PYTHON_3_7=$(PYTHON_3_7))
	$(if $(PYTHON_3_7),$(FIRST)/bin/python -m pytest -m nightly --timeout 0 tests/chaos)

# Measures packages of the library. Runs their tests, and tests that train with all of them, or only:
#   COVERAGE_TESTS=tests/layouts/test_shapes.py make coverage
CORE := batch engines layouts optimizer partition reduction
COVERAGE_TESTS ?= $(CORE:%=tests/%) tests/contract tests/towers
coverage: $(VENV)/.test
	$(VENV)/bin/python -m pytest -n 2 --dist loadgroup -m "$(ALL)" $(CORE:%=--cov=replicate/%) \
	    --cov-report=term --cov-report=html $(COVERAGE_TESTS)

lint: $(VENV)/.test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

check: lint
	$(VENV)/bin/python -m pytest -n 2 -m smoke $(OF_EXAMPLES)

format: $(VENV)/.test
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(VENV)/.examples
	$(VENV)/bin/python -m benchmarks.towers

clean:
	rm -rf $(VENV) $(VENV)-[12].* $(DOCS) $(RELEASE) $(CONTRIB) build dist runs .coverage .coverage.* .pytest_cache .ruff_cache .mypy_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environments. Each stamp is written last, so that an installation that was cut short is
# repeated. If the packages to install change, the environment is emptied, with its stamps.
$(VENV)/.made: constraints/tf-2.15.txt constraints/locked/tf-2.15.txt
$(NEWEST)/.made: constraints/tf-2.21.txt constraints/locked/tf-2.21.txt
$(OLDEST)/.made: constraints/tf-2.12.txt
$(CONTRIB)/.made: constraints/tf-2.15.txt constraints/locked/contrib.txt
$(FIRST)/.made: constraints/tf-1.15.txt constraints/locked/tf-1.15.txt
$(DOCS)/.made: constraints/docs.txt constraints/locked/docs.txt
$(RELEASE)/.made: constraints/release.txt constraints/locked/release.txt

%/.made: setup.py
	@$(check_venv); $(find_python); \
	echo "Making $(@D) with $$python ($$("$$python" --version))"; \
	"$$python" -m venv --clear "$(@D)"
	@echo "$(CURDIR)" > $@

.PRECIOUS: %/.made %/.test %/.examples %/.docs %/.contrib %/.release
%/.test: %/.made
	@$(call install,$(@D),tf-$(TENSORFLOW),$(if $(filter $(TENSORFLOW),$(BETWEEN)),contract,test$(and_more)))
	@touch $@

%/.contrib: %/.made
	@$(call install,$(@D),contrib,contract$(comma)contrib)
	@touch $@

# No lock has its name, so that any Python will do for the examples.
%/.examples: %/.made
	@$(call install,$(@D),examples,examples$(and_more))
	@touch $@

%/.docs: %/.made
	@$(call install,$(@D),docs)
	@touch $@

%/.release: %/.made
	@$(call install,$(@D),release)
	@touch $@

# What an environment has besides, by its TensorFlow.
and_more = $(if $(filter 2.21,$(TENSORFLOW)),$(comma)keras2)$(if $(filter .test2.15,$(@F)$(TENSORFLOW)),$(comma)types$(comma)coverage$(comma)fuzz)
comma := ,

# Arguments: the environment, the name of its lock, and the extras of replicate-estimator; none: it
# is not installed. On the Python and platform that the lock is for, nothing is installed but what the
# lock has hashes of.
define install
lock=constraints/locked/$(2).txt; \
pip="$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile"; \
if [ -e "$$lock" ] && [ "$$(head -n 1 "$$lock")" = "$$($(1)/bin/python -c '$(this_platform)')" ]; then \
    echo "Installing $$lock; this takes a minute or two"; \
    $$pip --require-hashes --no-deps -r "$$lock" $(if $(3),&& $$pip --no-deps --no-build-isolation -e .); \
else \
    echo "Installing $(if $(3),replicate-estimator[$(3)]$(comma) TensorFlow $(TENSORFLOW) included,constraints/$(2).txt); \
this takes a minute or two"; \
    $$pip $(if $(3),-c constraints/tf-$(TENSORFLOW).txt -e '.[$(3)]',-r constraints/$(2).txt); \
fi
endef
define this_platform
import platform as p; \
print("# {} {}.{} on {}-{}".format(p.python_implementation(), *p.python_version_tuple()[:2], p.system(), p.machine()))
endef

# An environment of the user's own must not be emptied.
define check_venv
if [ -d "$(@D)" ] && [ -n "$$(ls -A "$(@D)")" ] && [ ! -e "$(@D)/.made" ]; then \
    echo "VENV is emptied before it is filled, but $(@D) was not made by this Makefile." >&2; \
    echo "Remove it, or name a new directory: make $(or $(MAKECMDGOALS),demo) VENV=.venv-2.15" >&2; \
    exit 1; \
fi; \
if [ -s "$(@D)/.made" ] && [ "$$(cat "$(@D)/.made")" != "$(CURDIR)" ]; then \
    echo "VENV is emptied before it is filled, but $(@D) is of $$(cat "$(@D)/.made")." >&2; \
    echo "Name another directory: make $(or $(MAKECMDGOALS),demo) VENV=.venv-2.15" >&2; \
    exit 1; \
fi
endef

# Sets $$python. A candidate is run, not just looked up: a version manager's shim may exist for a
# Python that is not there.
define find_python
is_supported='import sys; sys.exit(sys.version_info[:2] not in [$(PYTHONS)])'; \
python=; tried=; \
for candidate in $(or $(PYTHON),$(PYTHON_CANDIDATES)); do \
    version=$$("$$candidate" -c 'import platform; print(platform.python_version())' 2>/dev/null) \
        || version=missing; \
    tried="$$tried$${tried:+, }$$candidate ($$version)"; \
    if "$$candidate" -c "$$is_supported" 2>/dev/null; then python=$$candidate; break; fi; \
done; \
if [ -z "$$python" ]; then \
    echo "$(if $(filter no,$(TENSORFLOW)),$(@D),TensorFlow $(TENSORFLOW)) needs a Python of $(PYTHONS), but found: $$tried." >&2; \
    echo "Install one of them, or name it: make $(or $(MAKECMDGOALS),demo) PYTHON=/path/to/python3.11" >&2; \
    exit 1; \
fi
endef
