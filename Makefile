# Every target makes the virtual environment it needs on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=

.PHONY: demo test check chaos races fuzz mocks bench format lint types imports cores clean

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/lembas demo $(ARGS)

test: $(STAMP)
	$(BIN)/python -m pytest $(or $(ARGS),-n 4 --dist worksteal)

# exactly what CI runs
check: mocks format lint types imports test

# 50 sessions at work while hub, zygotes, workers, terminals, link and instance are killed, stopped and restarted at each
# moment of a turn; some minutes. `make chaos SEED=7`: in the order of that seed
chaos: $(STAMP)
	LEMBASD_CHAOS=whole LEMBASD_CHAOS_SEED=$(SEED) $(BIN)/python -m pytest -q -s tests/process/test_chaos.py

# two terminals and the instance answer one card in the same moment, 200 times; a minute
races: $(STAMP)
	LEMBASD_CARD_RACES=200 $(BIN)/python -m pytest -q -s tests/process/test_card_races.py

# 100,000 odd messages to one hub; ten minutes to half an hour
fuzz: $(STAMP)
	LEMBASD_FUZZ=100000 $(BIN)/python -m pytest -q -s tests/process/test_fuzz.py

# servers of others' that tests hold the engine against: a mock of models', and one that does everything MCP has;
# without npm those tests are left out
mocks:
	@if command -v npm > /dev/null && ! test -d .mocks/node_modules/@modelcontextprotocol; then \
		npm install --silent --no-fund --no-audit --prefix .mocks \
			@copilotkit/aimock@1 @modelcontextprotocol/server-everything@2026.8 || true; fi

format: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports --no-cache

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) .mocks .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov
