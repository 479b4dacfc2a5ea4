# Two commands matter: `make book` and `make test`. Each makes the environment first, once.
PYTHON ?= python3
BIN := .venv/bin
CODE := lvqrej companion tests benchmarks book/_ext
NOTEBOOKS := $(wildcard notebooks/*.md)
# Cells are read in a column of about 76 characters.
CELL_FORMAT := --line-length 76
SITE := _build/html/index.html

# One thread per process: two processes share two cores, and results do not depend on the number of cores.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1

.PHONY: help book test lint unit notebooks site env lab bench figures check-figures print reproduce soak lock format test-binder clean
.DEFAULT_GOAL := help

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

book: env ## execute every notebook, build the site, print its path
	$(BIN)/jupyter-book build . --warningiserror --keep-going
	@echo "The book: $(CURDIR)/$(SITE)"

test: lint unit notebooks site ## everything that has to hold: lint, types, unit, theory, doctests, notebooks, site

lint: env _build/notebooks/made
	$(BIN)/ruff check $(CODE) _build/notebooks
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff format --check $(CELL_FORMAT) _build/notebooks
	$(BIN)/mypy

unit: env
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term --doctest-modules lvqrej companion tests --ignore tests/book/site --ignore tests/binder --durations 10

notebooks: env _build/notebooks/made
	$(BIN)/python -m pytest -n 2 --dist loadfile --nbval-lax --nbval-cell-timeout 60 --durations 10 -p no:cacheprovider -W default _build/notebooks

site: book
	$(BIN)/python -m pytest -n 2 tests/book/site --durations 5

_build/notebooks/made: $(NOTEBOOKS) .venv/installed
	@rm -rf _build/notebooks && mkdir -p _build/notebooks
	$(BIN)/python -c 'import jupytext, pathlib; [jupytext.write(jupytext.read(source), \
	  pathlib.Path("_build/notebooks", source.stem + ".ipynb")) for source in map(pathlib.Path, "$(NOTEBOOKS)".split())]'
	@touch $@

env: .venv/installed ## make .venv from requirements.txt, if it is not there or no longer current

.venv/installed: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "This project needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing). Name another one: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

lab: env ## open the notebooks in JupyterLab, as notebooks
	$(BIN)/jupytext-config set-default-viewer markdown myst
	$(BIN)/jupyter lab notebooks

bench: env ## measure speed, side by side, as ratios
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

# The site's own exports lie in _build/html/figures; these need no site.
figures: env ## every figure and table as SVG, PDF, PNG and CSV in _build/figures; CHAPTER=05-relative-similarity makes one chapter's
	$(BIN)/python book/_ext/regenerate.py $(CHAPTER)

check-figures: env ## make the figures again and compare with the run before: the same bytes
	$(BIN)/python book/_ext/regenerate.py --check $(CHAPTER)

print: env ## the whole book as one PDF (needs Chromium), _build/explaining-rejects.pdf
	$(BIN)/jupyter-book build . --builder singlehtml --warningiserror --keep-going
	$(BIN)/python book/_ext/print_book.py _build/singlehtml _build/explaining-rejects.pdf

reproduce: env ## the paper's experiments, about an hour; resumes after an interruption
	$(BIN)/python -m companion.reproduce --jobs 2

soak: env ## 100,000 random counterfactuals with a summary
	$(BIN)/python tests/soak.py --cases 100000

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
