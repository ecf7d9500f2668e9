# What both extensions' Makefiles share. They set EXTENSION, then include this.
# PGXS build against the PostgreSQL of PG_CONFIG: in the extension's folder, or, for several majors side by side,
# in any empty folder by `make -f …/extensions/EXTENSION/Makefile`.

home := $(patsubst %/,%,$(dir $(abspath $(firstword $(MAKEFILE_LIST)))))
shared := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))/shared
VPATH ?= $(home)
version := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(home)/$(EXTENSION).control)

sources := $(wildcard $(home)/src/*.c $(home)/src/*/*.c $(home)/src/*/*/*.c)
headers := $(wildcard $(shared)/*.h $(home)/src/*.h $(home)/src/*/*.h $(home)/src/*/*/*.h)
MODULE_big = $(EXTENSION)
OBJS = $(patsubst $(home)/%.c,%.o,$(sources))
DATA = $(patsubst $(home)/%,%,$(wildcard $(home)/sql/$(EXTENSION)--*.sql))
REGRESS = $(patsubst $(home)/test/sql/%.sql,%,$(wildcard $(home)/test/sql/*.sql))
REGRESS_OPTS = --inputdir=$(home)/test

PG_CPPFLAGS = -I$(home)/src -I$(shared) -DPGBILLION_VERSION='"$(version)"' $(EXTENSION_CPPFLAGS)

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# The embedded server was built by a newer compiler than many users have.
override CFLAGS := $(filter-out -Wmissing-variable-declarations,$(CFLAGS))

# Servers load libraries with one table of symbols for all of them, and before 16 PGXS hides none.
ifeq ($(PORTNAME), linux)
SHLIB_LINK += -Wl,--version-script=$(shared)/exports.map
endif

$(shell mkdir -p $(dir $(OBJS)))
$(OBJS): $(headers) $(home)/$(EXTENSION).control
