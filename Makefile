# `make lab` is all a learner needs; `make help` lists the rest.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup lab update doctor progress review build lint check test test-fast test-rest test-all mistakes curves chapter slides record site clean browser constraints canary benchmarks

BIN := .venv/bin
# Tests that run side by side: each may need 3 GB, and about half of them mostly wait.
TESTS ?= $(shell awk '/^MemTotal/ {print ($$2 > 12e6 ? 3 : 2)}' /proc/meminfo 2>/dev/null || echo 2)
# Where it is set, every Python that a test starts would compile the course again.
unexport PYTHONDONTWRITEBYTECODE
QUICK = COURSEKIT_QUICK=1 $(BIN)/python -m pytest --no-loadscope-reorder -n

ifneq ($(filter chapter slides,$(MAKECMDGOALS)),)
ifndef name
$(error Which chapter? For example: make $(firstword $(MAKECMDGOALS)) name=ch27_topic)
endif
endif

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv with the exact tested versions (installs only what is missing; PYTHON= chooses the Python)
	@PYTHON="$(PYTHON)" NEXT="$(if $(filter setup,$(MAKECMDGOALS)),make lab)" bash scripts/setup.sh

lab: setup ## Open the course in JupyterLab (IN=de in German, IN=zh in Chinese; PORT=8890 ARGS="--ip=0.0.0.0" if you need them)
	@$(BIN)/coursekit lab $(if $(PORT),--port $(PORT)) $(if $(IN),--in $(IN)) $(ARGS)

update: setup ## Update your notebooks in work/ to the course's version, and keep what you wrote
	@$(BIN)/coursekit update

doctor: setup ## Check whether this machine is ready for the course
	@$(BIN)/coursekit doctor

progress: setup ## Show the points of every chapter, and which are yours
	@$(BIN)/coursekit progress

review: setup ## Answer three questions from earlier chapters that are due
	@$(BIN)/coursekit review

# not in the learners' zip: begin
build: setup ## Write notebooks/, solutions/ and the lists in README and docs from chapters/
	@$(BIN)/coursekit build

# PLW1514: without `encoding=`, another locale reads a file in another way.
lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff check --preview --select PLW1514 coursekit deploy tests/curves.py
	$(BIN)/ruff format --check .
	$(BIN)/coursekit build --check & $(BIN)/mypy && wait $$!

check: lint ## Lint, types, the rules of prose and layout, and whether a notebook or a list is stale (half a minute)
	$(BIN)/python -m pytest -q tests/rules

test: lint $(if $(name),,browser) ## What answers soon, about twelve minutes: some of each kind (name=ch01_tasks: all that concerns one chapter)
	$(QUICK) $(TESTS) -m "$(if $(name),not nightly,fast or soon)" $(if $(name),-k $(name)) --durations=20 --keep-failures=tests.log

test-fast: lint ## The quick tests, about a minute: no notebooks, no sandbox, no gradebook, no Ray, no browser
	$(QUICK) 2 -m fast

test-rest: setup browser ## What `make test` leaves out, but for what runs at night: with it, CI has run everything else
	$(QUICK) $(TESTS) -m rest --durations=20 --keep-failures=tests.log

test-all: lint browser ## Everything
	$(QUICK) $(TESTS) --keep-failures=tests.log

mistakes: setup ## Record the message at which each named wrong answer ends (name=ch01_tasks: of one chapter)
	$(QUICK) $(TESTS) tests/test_answers.py -k "test_check_tells $(if $(name),and $(name))" --write-mistakes

curves: setup ## Record the learning curves of our solutions, which `explain` draws beside a learner's (name=ch10_actor_learner: of one chapter)
	@$(BIN)/python -m tests.curves $(name)

canary: setup ## Find out what another Ray or Python breaks: make canary RAY=2.59.0 PYTHON=3.13, either or both (name= of one chapter)
	@$(BIN)/python -m tests.canary --ray "$(RAY)" --python "$(PYTHON)" --name "$(name)"

chapter: setup ## Start a new chapter from the templates: make chapter name=ch27_topic
	@$(BIN)/coursekit chapter $(name)

benchmarks: setup browser ## Measure what docs/benchmarks.md says, for hours on a machine that does nothing else (name=grading: one of benchmarks/)
	@$(BIN)/python benchmarks $(name)

constraints: ## Write the exact versions of all packages for every Python (ARGS=--upgrade: the newest releases)
	@bash scripts/uv.sh $(BIN)/python pip compile --quiet --universal --python-version 3.11 --extra dev --no-annotate $(ARGS) pyproject.toml -o constraints.txt
	@bash scripts/uv.sh $(BIN)/python pip compile --quiet --universal --python-version 3.11 --group site --no-annotate $(ARGS) -o site/requirements.txt

slides: setup ## Turn a chapter into slides that open offline: make slides name=ch01_tasks (RUN=1: with this machine's results; SHEET="A day": your run sheet; IN=de: in German)
	@$(BIN)/coursekit slides $(name) $(if $(RUN),--run) $(if $(IN),--in $(IN)) $(if $(SHEET),--sheet "$(SHEET)")

record: setup ## Run solved chapters in full mode, and keep their outputs for the site: make record name="ch01_tasks ch05_faults" (without a name: list those that have changed)
	@$(BIN)/coursekit record $(name)

site: ## Build the course as a web site in build/site/, without installing the course (SOLUTIONS=0 leaves them out)
	@PYTHON="$(PYTHON)" bash scripts/setup.sh site
	@SOLUTIONS="$(SOLUTIONS)" REPOSITORY="$(REPOSITORY)" .venv-site/bin/python -m coursekit.author.site

# not in the learners' zip: end
clean: ## Remove caches and build/ (not .venv: rm -rf .venv)
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name '.venv*' -prune -o -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -print | xargs rm -rf

# not in the learners' zip: begin
browser: setup
	@$(BIN)/python tests/browser.py
# not in the learners' zip: end
