# Nereid. `make demo` builds and runs the main job, `make test` passes the tests; `make help` lists the rest.
CC      ?= cc
CFLAGS  ?= -O2 -g
BUILD   ?= build
PREFIX  ?= /usr/local
WARN     = -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers
ALL_CFLAGS = -std=gnu11 $(WARN) $(CFLAGS) -Iinclude -Isrc -I$(BUILD)/gen -fPIC -fvisibility=hidden -MMD -MP -pthread
LIBS     = -lm -ldl -pthread

PARTS    = base syntax tile front interp cpu runtime
LIB_SRC  = $(sort $(foreach p,$(PARTS),$(wildcard src/$(p)/*.c)))
LIB_OBJ  = $(LIB_SRC:%.c=$(BUILD)/%.o)
CLI_OBJ  = $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard src/cli/*.c)))
# Text files that the library carries inside: each becomes $(BUILD)/gen/NAME.inc, a C string literal.
EMBED    = $(BUILD)/gen/prelude.py.inc $(patsubst src/cpu/support/%,$(BUILD)/gen/%.inc,$(wildcard src/cpu/support/*.h))

.PHONY: all lib unit test demo bench clean help
all: $(BUILD)/nereid $(BUILD)/libnereid.a
lib: $(BUILD)/libnereid.a

$(BUILD)/nereid: $(CLI_OBJ) $(BUILD)/libnereid.a
	$(CC) $(CFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libnereid.a: $(LIB_OBJ)
	rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/%.o: %.c | $(EMBED)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

define embed
	@mkdir -p $(@D)
	sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$$/\\n"/' $< > $@
endef
$(BUILD)/gen/prelude.py.inc: src/front/prelude.py
	$(embed)
$(BUILD)/gen/%.inc: src/cpu/support/%
	$(embed)

# Unit tests: tests/unit/test_X.c links with the library and cmocka.
UNIT     = $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/test_*.c))
$(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/libnereid.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libnereid.a -lcmocka $(LIBS)
$(BUILD)/tests/kernels/test_%: tests/kernels/test_%.c tests/kernels/harness.c tests/kernels/harness.h $(BUILD)/libnereid.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -DKERNELS_DIR='"$(CURDIR)/kernels"' -o $@ $< tests/kernels/harness.c $(BUILD)/libnereid.a -lcmocka $(LIBS)
KERNEL_TESTS = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/kernels/test_*.c))
unit: $(UNIT) $(KERNEL_TESTS)

test:
	@tests/run

# The main job: fused and unfused kernels and a matmul, checked and measured on this machine.
$(BUILD)/bench/%: bench/%.c $(BUILD)/libnereid.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -O2 -o $@ $< $(BUILD)/libnereid.a $(LIBS)
demo: $(BUILD)/nereid $(BUILD)/bench/cpu
	@$(BUILD)/bench/cpu --quick
bench: $(BUILD)/bench/cpu
	$(BUILD)/bench/cpu

help:
	@echo "make            the command build/nereid and build/libnereid.a"
	@echo "make demo       build, run and measure the main kernels on this machine"
	@echo "make test       every test; make unit only builds them"
	@echo "make bench      the figures of bench/RESULTS.md"
	@echo "make clean      remove build/"

clean:
	rm -rf $(BUILD)

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d)
