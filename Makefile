# Two commands matter: `make book` and `make test`. Each makes the environment first, once. `make check` is for the
# inner loop.
PYTHON ?= python3
BIN := .venv/bin
CODE := lvqrej companion tests benchmarks book/_ext
NOTEBOOKS := $(wildcard notebooks/*.md)
# Cells are read in a column of about 76 characters.
CELL_FORMAT := --line-length 76
SITE := _build/html/index.html
PYTEST := $(BIN)/python -m pytest -q

# One thread per process: two processes share two cores, and results do not depend on the number of cores.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1
# Our own modules are compiled once, not by every kernel.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help book test check lint types unit notebooks site env times lab bench figures check-figures print reproduce soak mutants fresh lowest dist lock format test-binder clean
.DEFAULT_GOAL := help

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 15

book: env ## execute the notebooks that have changed, build the site, print its path
	@$(BIN)/jupyter-book build . --warningiserror --keep-going --quiet
	@echo "The book: $(CURDIR)/$(SITE)"

# Every notebook is executed twice: by the book, and by the test that a second run says the same. Code and book are tested
# side by side, so that no processor waits.
test: ## everything that has to hold, from installation to every page in a browser; tells the time of each part
	@sh tests/parts.sh "$(MAKE)" env lint types,unit+book,notebooks,site

check: lint types ## for the inner loop, less than a minute: lint, types, the fast tests
	$(PYTEST) -n 2 --dist loadfile -m "not slow and not thorough" tests/package tests/companion tests/book --ignore tests/book/site

lint: env _build/notebooks/made
	$(BIN)/ruff check $(CODE) _build/notebooks
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff format --check $(CELL_FORMAT) _build/notebooks

types: env
	$(BIN)/mypy

# Whole files go to a process each, those that take longest first.
unit: env
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder --cov --cov-report=term --doctest-modules lvqrej companion tests --ignore tests/book/site --durations 10

# Times, memory and the folder of figures differ from run to run (tests/book/differs.ini); nothing else may.
notebooks: $(if $(BUILT),env,book)
	@rm -rf _build/again
	LVQREJ_EXPORT=$(CURDIR)/_build/again LVQREJ_EXPORT_URI=/_build/executed/0123456789abcdef/figures \
	  $(PYTEST) -n 2 --dist loadfile --nbval --nbval-sanitize-with tests/book/differs.ini --nbval-cell-timeout 300 --durations 10 -p no:cacheprovider -W default _build/outputs

site: $(if $(BUILT),env,book)
	$(PYTEST) -n 2 tests/book/site --durations 5

times: ## put the times of the last `make test` on the status page
	cp _build/test_times.csv book/test_times.csv

_build/notebooks/made: $(NOTEBOOKS) .venv/installed
	@rm -rf _build/notebooks && mkdir -p _build/notebooks
	@$(BIN)/python -c 'import jupytext, pathlib; [jupytext.write(jupytext.read(source), \
	  pathlib.Path("_build/notebooks", source.stem + ".ipynb")) for source in map(pathlib.Path, "$(NOTEBOOKS)".split())]'
	@touch $@

env: .venv/installed ## make .venv from requirements.txt, if it is not there or no longer current

# The pins are complete (tests/book/test_house.py): nothing is looked up, and two processes can share them.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
.venv/installed: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "This project needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing). Name another one: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip uninstall -qq --yes setuptools # of Python 3.11: while one process replaced it, the other would read it
	@sed -n 'p;n' requirements.txt > .venv/odd.txt; sed -n 'n;p' requirements.txt > .venv/even.txt
	$(INSTALL) --requirement .venv/odd.txt & odd=$$!; \
	  $(INSTALL) --requirement .venv/even.txt --editable .; even=$$?; wait $$odd && exit $$even
	@touch $@

lab: env ## open the notebooks in JupyterLab, as notebooks
	$(BIN)/jupytext-config set-default-viewer markdown myst
	$(BIN)/jupyter lab notebooks

bench: env ## measure speed, side by side, as ratios
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

# The site's own exports lie in _build/html/figures; these need no site.
figures: env ## every figure and table as SVG, PDF, PNG and CSV in _build/figures; CHAPTER=07-relative-similarity makes one chapter's
	$(BIN)/python book/_ext/regenerate.py $(CHAPTER)

check-figures: env ## make the figures again and compare with the run before: the same bytes
	$(BIN)/python book/_ext/regenerate.py --check $(CHAPTER)

print: env ## the whole book as one PDF, and its cheat sheet (needs Chromium), _build/*.pdf
	$(BIN)/jupyter-book build . --builder singlehtml --warningiserror --keep-going --quiet
	$(BIN)/python book/_ext/print_book.py _build/singlehtml _build/explaining-rejects.pdf

reproduce: env ## the paper's experiments, about an hour; resumes after an interruption
	$(BIN)/python -m companion.reproduce --jobs 2

soak: env ## 100,000 random counterfactuals with a summary; SEED=1 draws others
	$(BIN)/python tests/soak.py --cases 100000 --seed $(or $(SEED),0)

fresh: env ## the tests of package and companion with random examples that no run has seen
	LVQREJ_EXAMPLES=$(or $(EXAMPLES),fresh) $(PYTEST) -n 2 --dist loadfile tests/package tests/companion

lowest: ## the tests of the package with the lowest versions that it allows (needs uv)
	uv venv --quiet --clear --python $(PYTHON) _build/lowest
	uv pip install --quiet --python _build/lowest/bin/python --resolution lowest-direct --editable '.[paper,scale,test]'
	_build/lowest/bin/python -m pytest -q -n 2 --dist loadfile -W default tests/package

dist: env ## wheel and sdist in dist/, checked, installed and run in clean environments
	rm -rf dist
	LVQREJ_DIST=$(CURDIR)/dist $(PYTEST) tests/book/test_dist.py

# The counts are what the status page shows: book/mutants.csv.
mutants: env ## small errors, one at a time, in a copy: which of them do the tests notice? (about 45 minutes)
	@mkdir -p _build
	$(BIN)/python tests/mutants.py --jobs 2 --table _build/mutants.csv --counts _build/mutant_counts.csv

test-binder: env ## build what Binder builds, open a chapter in a browser, run it
	$(BIN)/python -m pytest tests/binder

lock: ## pin the complete environment anew (needs uv)
	uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --no-header \
	  --no-emit-index-url --no-annotate --quiet --upgrade --output-file requirements.txt
	sed -i '1i # Complete exact pins for Python 3.11 to 3.13, made from pyproject.toml by `make lock`.' requirements.txt

format: env ## format code and notebooks
	$(BIN)/ruff check --fix --quiet $(CODE); $(BIN)/ruff format $(CODE)
	$(BIN)/jupytext --quiet --pipe '$(BIN)/ruff format $(CELL_FORMAT) --stdin-filename cell.py -' $(NOTEBOOKS)

clean: ## remove everything that was built, but not the environment
	rm -rf _build dist .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
