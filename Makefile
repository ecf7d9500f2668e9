# One line of intent for each target; the work is in tools/ and in the package itself.
#   PG_CONFIG=…   another installed PostgreSQL than the embedded 18        PG=15|16|17|19   one that is fetched
#   MACHINE=…     what wheels are for: x86_64, aarch64
#   QUICK=1       small benchmarks; TINY=1 smaller than tells anything     PYTHON=…      a Python for the virtual environment
#   YES=1         destroy without being asked

.PHONY: all install uninstall installcheck help setup wheels site demo test test-quick test-bare test-all test-memory fuzz lint bench-tables bench-drop bench-list bench-tenants bench-fleets bench-pooled bench-restores bench-cycle bench-rows bench-sorts bench-shards bench-joins bench-citus bench-kernels bench-tpch bench-tpcds bench-hits bench-columns bench-billion bench-majors bench-calibrate bench-regressions clean destroy
BIN := .venv/bin
PG_CONFIG ?=
PG ?=
QUICK ?=
YES ?=
MACHINE ?=
MINOR ?=
export PG_CONFIG PG QUICK YES MACHINE MINOR

all: ## both extensions, compiled for the PostgreSQL of PG_CONFIG (default: pg_config in PATH)
	@tools/extensions.sh all

install: ## … and installed into it
	@tools/extensions.sh install

uninstall: ## … and removed from it
	@tools/extensions.sh uninstall

installcheck: ## the extensions' own tests, on a running server that has them (PGHOST, PGPORT, PGUSER)
	@tools/extensions.sh installcheck

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s%s\n", $$1, $$2 }' Makefile

setup: ## the virtual environment with everything in it
	@tools/setup.sh

wheels: setup ## what pip installs, in dist/: the program with libraries for 15 to 19, and the sources (MACHINE=aarch64: cross-compiled)
	@tools/wheels.sh

site: setup ## the documentation as a site with search, in build/site, and man pages, in build/man; a warning is an error
	@tools/site.sh

demo: setup ## what pgbillion does, beside PostgreSQL's own commands, in a server of its own, with a report
	@$(BIN)/pgbillion demo

test: setup ## every test, after installing what some need (as root on Debian), on the embedded PostgreSQL 18, or that of PG_CONFIG=… or PG=15|16|17|19 (MINOR=lowest: the first that wheels are for)
	@tools/test.sh

test-quick: setup ## some tests of every feature, on one server, within 3 minutes
	@tools/test.sh quick

test-bare: setup ## … with every other PostgreSQL, strace and MariaDB hidden, as on a fresh machine (as root)
	@tools/test-bare.sh

fuzz: setup ## generated tests with new seeds for MINUTES=60, CAMPAIGNS=… of them; goes on where it was, and ends with a table of all runs
	@$(BIN)/python tools/fuzz.py

test-all: setup ## … on 15, 16, 17, 18 and 19, one after the other, with a line for each at the end
	@tools/test-all.sh

test-memory: setup ## tests under KIND=valgrind|sanitizers, with a server built for that from SOURCE=/path/to/postgresql-18.6
	@$(BIN)/python tools/memory.py

lint: setup ## ruff, mypy --strict, the layout of the C, and the extensions compiled with all warnings as errors
	@$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy && tools/indent.sh --check && tools/compile.sh 15 16 17 18 19

bench-tables: setup ## method bulk compared with method sql and the file system's own rate
	@$(BIN)/python bench/tables.py

bench-drop: setup ## dropping in bulk compared with DROP TABLE and the rate of removing files
	@$(BIN)/python bench/drop.py

bench-list: setup ## the first page and all names compared with the \dt of psql
	@$(BIN)/python bench/list.py

bench-tenants: setup ## schemas cloned, migrated and compared, beside PostgreSQL's commands fed to psql
	@$(BIN)/python bench/tenants.py

bench-fleets: setup ## all tenants taken into another database, compared with pg_dump and pg_restore
	@$(BIN)/python bench/fleets.py

bench-pooled: setup ## memory of pooled sessions that visit all tables, with and without a limit; CHART=FILE.svg draws it
	@$(BIN)/python bench/pooled.py

bench-restores: setup ## one tenant from a base backup and WAL, compared with restoring the whole backup
	@$(BIN)/python bench/restores.py

bench-cycle: setup ## 30,000 tables created, filled, read, dropped under three durability profiles, and by MariaDB
	@$(BIN)/python bench/cycle.py

bench-rows: setup ## vectorized aggregation of plain heap compared with PostgreSQL's own and with DuckDB's
	@$(BIN)/python bench/rows.py

bench-sorts: setup ## sorts and window functions compared with PostgreSQL's own, in memory and in files
	@$(BIN)/python bench/sorts.py

bench-columns: setup ## columnar indexes compared with PostgreSQL's plans, vectors over the heap, and DuckDB
	@$(BIN)/python bench/columns.py

bench-billion: setup ## a billion rows, kept for further runs: the source's query with columnar indexes in memory
	@$(BIN)/python bench/billion.py

bench-shards: setup ## an aggregate over four shards compared with postgres_fdw and one server, and the cost of breadth
	@$(BIN)/python bench/shards.py

bench-joins: setup ## eager aggregation compared with PostgreSQL's joins, here and over four shards
	@$(BIN)/python bench/joins.py

bench-citus: setup ## vectors under Citus, compared with pgbillion_fdw, in a PostgreSQL with Citus named by PG_CONFIG=
	@$(BIN)/python bench/citus.py

bench-kernels: setup ## kernels over columns as an index would store them: rows per second of one CPU core
	@$(BIN)/python bench/kernels.py

bench-tpch: setup ## 22 queries derived from TPC-H compared with PostgreSQL's own plans, one process and two
	@$(BIN)/python bench/tpch.py

bench-tpcds: setup ## 99 queries derived from TPC-DS: PostgreSQL's own plans, vectors over the heap, columnar indexes, DuckDB (QUERIES=q5,q93 PARTITIONS=12 STATISTICS=none PLANS=…)
	@$(BIN)/python bench/tpcds.py

bench-regressions: setup ## queries by chance over the tables of bench-tpcds: which of them pgbillion makes slower (QUERIES=1000 SEED=0 PARTITIONS=12 PLANS=…, SCHEMA=films or SCHEMA=small over other tables)
	@$(BIN)/python bench/regressions.py

bench-hits: setup ## queries of web analytics over a wide table compared with PostgreSQL's own plans
	@$(BIN)/python bench/hits.py

bench-majors: setup ## most of these on 18 and 19 (or FIRST=…, SECOND=…), alternating, and a table of both
	@$(BIN)/python bench/majors.py

bench-calibrate: setup ## constants of the planner as they would be on this machine, and whether it chooses the faster plans
	@$(BIN)/python bench/calibrate.py

clean: ## remove what was built here and the caches; servers, data and reports stay
	@tools/clean.sh

destroy: ## remove the embedded server, its databases, runs and reports too; asks first (YES=1 does not)
	@tools/destroy.sh
