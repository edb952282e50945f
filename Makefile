# Two commands do all the set-up: `make demo` and `make test`. The environment is .venv, made on first use.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
# One thread per numerical library: steadier on small machines, and faster for these sizes.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# Compiled files are kept, also where the environment asks for none: rewriting the tests costs ten seconds a process.
export PYTHONDONTWRITEBYTECODE :=
# Processes that share the tests, file by file: fixtures and compiled models serve a whole file.
WORKERS ?= 2
# What `make bench` runs: the other files of benchmarks/ are studies, parts of these, or run by `make bench-scale`.
BENCHMARKS := accuracy cells cold_start engines exact_grr mle observe one_road private_groups small_settings structured throughput

.PHONY: demo test test-portable scale-env test-spark docs figures site-check fuzz fuzz-numbers matrix calibrate studies notebooks lint bench bench-weak bench-scale wheel-check release-check clean help

help:  ## Show the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(VENV)/.ready  ## Fit a real survey and print its posterior, then cross-check it.
	$(BIN)/ldpbayes fit data/rr_nigeria.toml --seed 1
	$(BIN)/ldpbayes crosscheck data/rr_nigeria.toml --seed 1

test: $(VENV)/.ready  ## Run the tests (the slow calibrations and notebooks have their own targets).
	$(BIN)/python -m pytest -m "not calibrate and not notebook" -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 10

test-portable: $(VENV)/.ready  ## Run the tests that compare numbers under the narrowest instruction set that can be forced (x86 only).
	$(BIN)/python tools/portable.py -n $(WORKERS) --dist loadfile --no-loadscope-reorder

fuzz: $(VENV)/.ready  ## Read many mutated files (FUZZ_EXAMPLES, 20,000 where not set), and make every malformed call.
	FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-20000} $(BIN)/python -m pytest tests/test_fuzz.py tests/test_malformed.py

fuzz-numbers: $(VENV)/.ready  ## Compare random fits with references in plain NumPy for MINUTES (10 where not set), from fresh seeds.
	$(BIN)/python tests/support/fuzz_numbers.py --seconds $$(( 60 * $${MINUTES:-10} )) $(if $(SEED),--seed $(SEED))

# Studies of the papers, the most informative first; MINUTES=10 gives each of them ten minutes.
STUDIES := privacy tradeoff risk populations subset cohorts decoders waves fakes
matrix: $(VENV)/.ready  ## Try every world with every action, and print what is served and what is refused, and why.
	$(BIN)/python tests/support/matrix.py

studies: $(VENV)/.ready  ## Continue the papers' studies from docs/studies, and that of priors (MINUTES=10: so long for each).
	for study in $(STUDIES); do \
	  $(BIN)/python -m studies $$study --jobs 2 $(if $(MINUTES),--minutes $(MINUTES)) || exit 1; \
	done
	$(BIN)/python -m studies.draw
	$(if $(MINUTES),,$(BIN)/python -m studies priors --setting paper --output out/studies --jobs 2)
	$(if $(MINUTES),,$(BIN)/python -m studies convergence --setting paper --output out/studies --jobs 2)

calibrate: $(VENV)/.ready  ## Run the slow statistical calibrations, hours; a run that was cut off goes on, on the same code.
	$(BIN)/python -m pytest -m calibrate -n $(WORKERS) --dist worksteal --durations 40 --continued=.calibrated || [ $$? -eq 5 ]  # 5: all of them passed before

notebooks: $(VENV)/.ready  ## Execute the notebooks, in a temporary copy.
	$(BIN)/python -m pytest -m notebook

docs: $(VENV)/.docs  ## Build the site into docs/_build.
	$(BIN)/python -m sphinx -W --keep-going -j 2 -b html docs docs/_build

figures: $(VENV)/.ready  ## Draw the figures of the gallery, the README and the studies again.
	$(BIN)/python tools/draw_gallery.py
	$(BIN)/python -m studies.draw
	$(BIN)/python -m studies.draw_convergence
	$(BIN)/python -m studies.draw_coverage
	$(BIN)/python -m studies.draw_theory

site-check: docs  ## Open every page of the site in Chromium at two widths, and follow its links.
	$(BIN)/python tools/check_site.py docs/_build

scale-env: $(VENV)/.scale  ## Install what the tests of Spark need: pyspark (half a gigabyte), and how to get Java.

test-spark: $(VENV)/.scale  ## Run the tests of Spark; `make test` runs them too once `make scale-env` has been made.
	$(BIN)/python -m pytest tests/scanning/test_spark.py

lint: $(VENV)/.ready  ## Check style and types.
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/python tools/type_readme.py

bench: $(VENV)/.ready  ## Run the benchmarks beside other ways to compute the same.
	for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py || exit 1; done

bench-weak: $(VENV)/.ready  ## Compare interval ends of 280 weak regressions with references that share no code with the package.
	$(BIN)/python benchmarks/weak_regressions.py

bench-scale: $(VENV)/.ready  ## Print every number that reports at scale are asked to reach (SCALE="--full": 10^8 reports, 10 GB on disk meanwhile).
	$(BIN)/python benchmarks/asked.py $(SCALE)

$(VENV)/.ready: pyproject.toml constraints.txt tools/find_python.sh
	@python=$$(bash tools/find_python.sh) && { [ -x $(BIN)/python ] || "$$python" -m venv $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test]"
	@touch $@

$(VENV)/.scale: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[spark]"
	@touch $@
	@command -v java >/dev/null || echo "Spark needs Java 17: apt-get install --no-install-recommends openjdk-17-jre-headless"

$(VENV)/.docs: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	@touch $@

wheel-check:  ## Build the wheel and install it in a clean environment: size, the README's example and types, time to import.
	bash tools/check_wheel.sh

release-check:  ## What a CI's matrix runs: every Python found, oldest and newest versions, AVX2 only (ENVIRONMENTS="oldest avx2").
	bash tools/release_check.sh

clean:  ## Remove the environment and caches.
	rm -rf $(VENV) .pytest_cache .hypothesis .ruff_cache build docs/_build docs/tutorials docs/reference/generated *.egg-info
