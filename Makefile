# Nereid. `make demo` builds and runs the main job, `make test` passes the tests; `make help` lists the rest.
CC      ?= cc
CFLAGS  ?= -O2
BUILD   ?= build
PREFIX  ?= /usr/local
WARN     = -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers
ALL_CFLAGS = -std=gnu11 $(WARN) $(CFLAGS) -Iinclude -Isrc -Itests -I$(BUILD)/gen -fPIC -fvisibility=hidden -MMD -MP -pthread
LIBS     = -lm -ldl -pthread

# What this build is made with stands in a file that is written when it changes; all objects depend on it. SAME_FLAGS=1
# takes what stands there: scripts that need one thing more of a build do not make it anew.
FLAGS    = $(BUILD)/flags.mk
define FLAGS_TEXT
CC := $(CC)
CFLAGS := $(CFLAGS)
endef
ifdef SAME_FLAGS
-include $(FLAGS)
endif
ifneq ($(filter-out clean help test demo format lint sanitize uninstall,$(or $(MAKECMDGOALS),all)),)
ifneq ($(file <$(FLAGS)),$(FLAGS_TEXT))
ifneq ($(findstring n,$(firstword -$(MAKEFLAGS)))$(findstring q,$(firstword -$(MAKEFLAGS))),)
$(FLAGS): .FORCE ; @:
else
$(shell mkdir -p $(BUILD))
$(file >$(FLAGS),$(FLAGS_TEXT))
endif
endif
endif

# Commands are shown with V=1; without it, one line for each file that is made.
Q        = $(if $(V),,@printf '  %s\n' '$@';)

PARTS    = base prof syntax tile rt front interp cpu layout gpu runtime measure graph fuse aot
LIB_SRC  = $(filter-out src/rt/alone.c,$(sort $(foreach p,$(PARTS),$(wildcard src/$(p)/*.c src/$(p)/*/*.c))))
LIB_OBJ  = $(LIB_SRC:%.c=$(BUILD)/%.o)
CLI_OBJ  = $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard src/cli/*.c)))
# Text files that the library carries inside: each becomes $(BUILD)/gen/NAME.inc, a C string literal.
SUPPORT  = $(patsubst src/cpu/support/%,$(BUILD)/gen/%.inc,$(wildcard src/cpu/support/*.h))
# What tensor programs know of PyTorch; classes come after those that they are made of.
LIBRARY  = $(patsubst %,src/graph/read/library/%.py,torch module activation attention complex convolution fft foreign index linalg loss norm optim \
  pool product recurrent reduce scan shape lazy)
EMBED    = $(BUILD)/gen/prelude.py.inc $(BUILD)/gen/library.inc $(BUILD)/gen/grad.py.inc $(BUILD)/gen/mathfn.h.inc $(BUILD)/gen/span.h.inc $(BUILD)/gen/roofline.py.inc $(BUILD)/gen/triton_helper.py.inc $(BUILD)/gen/page.html.inc $(BUILD)/gen/flame.js.inc $(SUPPORT)

.PHONY: .FORCE all lib rt manuals unit test gpu-tests demo bench clean help shared examples python install uninstall lint format sanitize compile_commands.json
all: $(BUILD)/nereid $(BUILD)/libnereid.a shared rt $(BUILD)/lib/libnereid-prof.so
lib: $(BUILD)/libnereid.a
rt: $(BUILD)/lib/libnereid-rt.so $(BUILD)/lib/libnereid-rt.a

$(BUILD)/nereid: $(CLI_OBJ) $(BUILD)/libnereid.a
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libnereid.a: $(LIB_OBJ)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/%.o: %.c $(FLAGS) | $(EMBED)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

define embed
	@mkdir -p $(@D)
	@sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$$/\\n"/' $< > $@
endef
$(BUILD)/gen/prelude.py.inc: src/front/library/prelude.py
	$(embed)
$(BUILD)/gen/library.inc: $(LIBRARY)
	@mkdir -p $(@D)
	@for f in $^; do echo "{\"$${f##*/}\","; sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$$/\\n"/' $$f; echo "},"; done > $@
$(BUILD)/gen/grad.py.inc: src/graph/read/grad.py
	$(embed)
$(BUILD)/gen/mathfn.h.inc $(BUILD)/gen/span.h.inc: $(BUILD)/gen/%.inc: src/base/%
	$(embed)
$(BUILD)/gen/roofline.py.inc: kernels/roofline.py
	$(embed)
$(BUILD)/gen/triton_helper.py.inc: src/cli/triton_helper.py
	$(embed)
$(BUILD)/gen/page.html.inc $(BUILD)/gen/flame.js.inc: $(BUILD)/gen/%.inc: src/prof/view/%
	$(embed)
$(SUPPORT): $(BUILD)/gen/%.inc: src/cpu/support/%
	$(embed)

# What runs code that was built ahead of time, without compilers: src/rt, and of base and tile what the list names
# (CMakeLists.txt reads it, too).
RT_SRC   = $(sort $(wildcard src/rt/*.c src/rt/cuda/*.c)) $(strip $(file <packaging/rt-sources.txt))
RT_OBJ   = $(RT_SRC:%.c=$(BUILD)/rt/%.o)
$(BUILD)/rt/%.o: %.c $(FLAGS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -Os -ffunction-sections -fdata-sections -c -o $@ $<
$(BUILD)/lib/libnereid-rt.so: $(RT_OBJ)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -shared -Wl,-soname,libnereid-rt.so.$(SO_VERSION) -Wl,--gc-sections -Wl,-z,defs -o $@ $^ $(LIBS)
	@ln -sf libnereid-rt.so $(@D)/libnereid-rt.so.$(SO_VERSION)
$(BUILD)/lib/libnereid-rt.a: $(RT_OBJ)
	@mkdir -p $(@D)
	@$(LD) -r -o $(BUILD)/lib/nereid-rt.o $^
	@$(OBJCOPY) --localize-hidden $(BUILD)/lib/nereid-rt.o
	@rm -f $@ && $(AR) rcs $@ $(BUILD)/lib/nereid-rt.o

# The same as one C file, which `nereid build --runtime-source` writes. Names that its files share get a prefix.
NM      ?= nm
$(BUILD)/gen/nereid_rt.c: $(RT_OBJ) packaging/amalgamate
	@mkdir -p $(@D)
	@{ printf '/* libnereid-rt of Nereid %s, all sources in one: cc -O2 -c nereid_rt.c; link with -lm -ldl -pthread. */\n#define _GNU_SOURCE\n' '$(VERSION)' && \
	  $(NM) $(RT_OBJ) | awk '$$2 ~ /[TDBRC]/ && $$3 !~ /^nereid_/ {print "#define " $$3 " nereid_rt_" $$3}' | sort -u && \
	  packaging/amalgamate $(RT_SRC); } > $@
$(BUILD)/gen/nereid_rt.c.inc: $(BUILD)/gen/nereid_rt.c
	$(embed)
$(BUILD)/gen/nereid.h.inc: include/nereid.h
	$(embed)
$(BUILD)/src/cli/build.o: $(BUILD)/gen/nereid_rt.c.inc $(BUILD)/gen/nereid.h.inc

# Unit tests: tests/unit/PART/test_X.c links with the library and cmocka.
UNIT     = $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(wildcard tests/unit/*/test_*.c))
$(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/libnereid.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libnereid.a -lcmocka $(LIBS)
KERNEL_KIT = $(BUILD)/tests/kernels/harness.o $(BUILD)/tests/fakes/malloc.o
$(BUILD)/tests/kernels/%: private ALL_CFLAGS += -DKERNELS_DIR='"$(CURDIR)/kernels"'
$(BUILD)/tests/kernels/test_%: tests/kernels/test_%.c $(BUILD)/libnereid.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $< $(KERNEL_KIT) $(BUILD)/libnereid.a -lcmocka $(LIBS)
KERNEL_TESTS = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/kernels/test_*.c))
$(KERNEL_TESTS): $(KERNEL_KIT)
unit: $(UNIT) $(KERNEL_TESTS)
# The CUDA device is tested against a driver of its own making.
FAKE_CUDA = $(BUILD)/tests/lib/libfake_cuda.so
$(FAKE_CUDA): tests/fakes/cuda.c $(FLAGS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -shared -o $@ $<
FAKE_CUDA_TESTS = $(addprefix $(BUILD)/tests/unit/,runtime/test_cuda runtime/test_cuda_c runtime/test_cuda_reports runtime/test_graph_replay runtime/test_cuda_maps measure/test_prof measure/test_instrument_cuda \
  measure/test_tune_cuda aot/test_bundle aot/test_values fuse/test_cublas fuse/test_cudnn) $(BUILD)/tests/kernels/test_allocations
$(FAKE_CUDA_TESTS): $(FAKE_CUDA) tests/fakes/cuda.h
$(FAKE_CUDA_TESTS): private ALL_CFLAGS += -DFAKE_CUDA='"$(abspath $(FAKE_CUDA))"'
# So is what records CUDA, against a CUPTI; and the injected library, in programs that it is put into.
FAKE_CUPTI = $(BUILD)/tests/lib/libfake_cupti.so
$(FAKE_CUPTI): tests/fakes/cupti.c $(FLAGS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -shared -o $@ $<
FAKE_CUPTI_TESTS = $(addprefix $(BUILD)/tests/unit/,prof/test_cupti prof/test_inject measure/test_prof)
$(FAKE_CUPTI_TESTS): $(FAKE_CUPTI) tests/fakes/cupti.h
$(FAKE_CUPTI_TESTS): private ALL_CFLAGS += -DFAKE_CUPTI='"$(abspath $(FAKE_CUPTI))"'
# And products by a library, against one that counts its calls.
FAKE_BLAS = $(BUILD)/tests/lib/libfake_blas.so
$(FAKE_BLAS): tests/fakes/blas.c $(FLAGS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -shared -o $@ $<
FAKE_CUBLAS = $(BUILD)/tests/lib/libfake_cublas.so
$(FAKE_CUBLAS): tests/fakes/cublas.c $(BUILD)/libnereid.a $(FLAGS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -shared -o $@ $< $(BUILD)/libnereid.a -lm -ldl -pthread
$(BUILD)/tests/unit/fuse/test_cublas: $(FAKE_CUBLAS) tests/fakes/cublas.h
$(BUILD)/tests/unit/fuse/test_cublas: private ALL_CFLAGS += -DFAKE_CUBLAS='"$(abspath $(FAKE_CUBLAS))"'
FAKE_CUDNN = $(BUILD)/tests/lib/libfake_cudnn.so
$(FAKE_CUDNN): tests/fakes/cudnn.c tests/fakes/cudnn.h $(BUILD)/libnereid.a $(FLAGS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -shared -o $@ $< $(BUILD)/libnereid.a -lm -ldl -pthread
$(BUILD)/tests/unit/fuse/test_cudnn: $(FAKE_CUDNN) tests/fakes/cudnn.h
$(BUILD)/tests/unit/fuse/test_cudnn: private ALL_CFLAGS += -DFAKE_CUDNN='"$(abspath $(FAKE_CUDNN))"'
FAKE_BLAS_TESTS = $(BUILD)/tests/unit/fuse/test_products $(BUILD)/tests/unit/fuse/test_choose
$(FAKE_BLAS_TESTS): $(FAKE_BLAS) tests/fakes/blas.h
$(FAKE_BLAS_TESTS): private ALL_CFLAGS += -DFAKE_BLAS='"$(abspath $(FAKE_BLAS))"'
$(BUILD)/tests/unit/prof/test_inject: $(BUILD)/lib/libnereid-prof.so
$(BUILD)/tests/unit/prof/test_inject: private ALL_CFLAGS += -DPROF_LIBRARY='"$(abspath $(BUILD)/lib/libnereid-prof.so)"'
$(BUILD)/tests/unit/runtime/test_two_copies: $(BUILD)/lib/libnereid.so
$(BUILD)/tests/unit/runtime/test_two_copies: private ALL_CFLAGS += -DNEREID_LIBRARY='"$(abspath $(BUILD)/lib/libnereid.so)"'
# The support text is always compiled so (src/cpu/cc.c): its integers wrap.
$(BUILD)/tests/unit/cpu/test_support_%: private ALL_CFLAGS += -fwrapv -fno-strict-aliasing
# AMX is emulated, but what is around it needs AVX-512: the test looks whether the processor has that.
ifneq ($(findstring x86_64,$(shell $(CC) -dumpmachine)),)
$(BUILD)/tests/unit/cpu/test_support_amx: private ALL_CFLAGS += -march=icelake-server
endif

test:
	@tests/run

# What tests/gpu/run runs on a machine with a GPU, which may have neither cmocka nor a compiler: all of it lies in $(BUILD).
gpu-tests: all unit examples $(BUILD)/tests/random_kernels $(patsubst tests/gpu/%.c,$(BUILD)/tests/gpu/%,$(wildcard tests/gpu/cases_*.c))
	@mkdir -p $(BUILD)/tests/lib
	cp -L $$($(CC) -print-file-name=libcmocka.so.0) $(BUILD)/tests/lib/
RANDOM_OBJ = $(patsubst %.c,$(BUILD)/%.o,tests/fuzz/random_kernels.c tests/fakes/malloc.c $(wildcard tests/fuzz/gen_*.c))
$(BUILD)/tests/random_kernels: $(RANDOM_OBJ) $(BUILD)/lib/libnereid.so
	$(Q)$(CC) $(CFLAGS) -o $@ $(RANDOM_OBJ) -L$(BUILD)/lib -lnereid -Wl,-rpath,'$$ORIGIN/../lib' -lm
$(BUILD)/tests/random_graphs: $(BUILD)/tests/fuzz/random_graphs.o $(BUILD)/lib/libnereid.so
	$(Q)$(CC) $(CFLAGS) -o $@ $(BUILD)/tests/fuzz/random_graphs.o -L$(BUILD)/lib -lnereid -Wl,-rpath,'$$ORIGIN/../lib' -lm
$(BUILD)/tests/gpu/%: tests/gpu/%.c $(BUILD)/libnereid.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -o $@ $< $(BUILD)/libnereid.a -lcmocka $(LIBS)

# The main job: fused and unfused kernels and a matmul, checked and measured on this machine.
$(BUILD)/bench/%: bench/%.c $(BUILD)/libnereid.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -O2 -o $@ $< $(BUILD)/libnereid.a $(LIBS)
demo:
	@tests/setup demo
	@$(if $(V),,printf 'building ...\n';) $(MAKE) $(if $(V),,-s Q=@) -j$$(nproc) $(BUILD)/nereid $(BUILD)/bench/demo
	@$(BUILD)/bench/demo --quick
bench: $(BUILD)/bench/demo
	$(BUILD)/bench/demo

# The programs of examples/, as a user of the library would build them.
EXAMPLES = $(patsubst examples/%.c,$(BUILD)/examples/%,$(wildcard examples/*.c))
$(BUILD)/examples/%: examples/%.c include/nereid.h $(BUILD)/libnereid.a
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(WARN) $(CFLAGS) -Iinclude -MMD -MP -pthread -o $@ $< $(BUILD)/libnereid.a $(LIBS)
examples: $(EXAMPLES)

# What is installed. The shared library exports what nereid.h declares; so does the static one, whose inner names are made
# local (build/libnereid.a keeps them, for the tests).
VERSION  = $(shell sed -n 's/^.define NEREID_VERSION "\(.*\)"/\1/p' include/nereid.h)
SO_VERSION = $(basename $(VERSION))
LD      ?= ld
OBJCOPY ?= objcopy
STRIP   ?= strip
shared: $(BUILD)/lib/libnereid.so
$(BUILD)/lib/libnereid.so: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -shared -Wl,-soname,libnereid.so.$(SO_VERSION) -o $@ $^ $(LIBS)
	@ln -sf libnereid.so $(@D)/libnereid.so.$(SO_VERSION)
$(BUILD)/lib/libnereid.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	@$(LD) -r -o $(BUILD)/lib/nereid.o $^
	@$(OBJCOPY) --localize-hidden $(BUILD)/lib/nereid.o
	@rm -f $@ && $(AR) rcs $@ $(BUILD)/lib/nereid.o

# What `nereid prof -- PROGRAM` puts into the program: exports its entry points and the functions that it stands before.
INJECT_OBJ = $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard src/inject/*.c)))
$(BUILD)/lib/libnereid-prof.so: $(INJECT_OBJ) $(BUILD)/libnereid.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -shared -Wl,-soname,libnereid-prof.so -Wl,--exclude-libs,ALL -o $@ $(INJECT_OBJ) $(BUILD)/libnereid.a $(LIBS)

# The Python package, to be imported with PYTHONPATH=$(BUILD)/python: the extension beside links to python/nereid. Its
# one file serves CPython 3.10 and later. `pip install .` makes the same by setup.py.
PYTHON  ?= python3
PYTHON_OBJ = $(patsubst python/%.c,$(BUILD)/python/%.o,$(sort $(wildcard python/native/*.c)))
PYTHON_INCLUDE = $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')
$(BUILD)/python/native/%.o: python/native/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -I$(PYTHON_INCLUDE) -c -o $@ $<
$(BUILD)/python/nereid/_native.abi3.so: $(PYTHON_OBJ) $(BUILD)/lib/libnereid.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -shared -Wl,--exclude-libs,ALL -o $@ $^ $(LIBS)
python: $(BUILD)/python/nereid/_native.abi3.so
	@ln -sfn $(CURDIR)/python/nereid/* $(BUILD)/python/nereid/

# LIBDIR may be /usr/lib/x86_64-linux-gnu and the like. STRIP=true strips nothing.
LIBDIR  ?= $(PREFIX)/lib
ROOT     = "$(DESTDIR)$(PREFIX)"
LIB      = "$(DESTDIR)$(LIBDIR)"
SHARE    = $(ROOT)/share
FILL     = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|'
MANUALS  = $(BUILD)/manuals/nereid.1
# Made of what the command says to --help; NEREID_HERE is one that runs here, where this one is for another machine.
NEREID_HERE ?= $(BUILD)/nereid
manuals: $(MANUALS)
$(MANUALS): packaging/manuals $(BUILD)/nereid
	@packaging/manuals $(NEREID_HERE) $(@D)
INSTALLED_LIBS = libnereid libnereid-rt
install: $(BUILD)/nereid $(BUILD)/lib/libnereid.so $(BUILD)/lib/libnereid.a $(BUILD)/lib/libnereid-prof.so rt manuals
	install -d $(ROOT)/bin $(ROOT)/include $(LIB)/pkgconfig $(LIB)/cmake/nereid $(SHARE)/man/man1 \
	  $(SHARE)/doc/nereid $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	install -m 755 $(BUILD)/nereid $(ROOT)/bin/nereid
	$(STRIP) $(ROOT)/bin/nereid
	install -m 644 include/nereid.h $(ROOT)/include/nereid.h
	for lib in $(INSTALLED_LIBS); do \
	  install -m 644 $(BUILD)/lib/$$lib.a $(LIB)/$$lib.a && \
	  install -m 755 $(BUILD)/lib/$$lib.so $(LIB)/$$lib.so.$(VERSION) && \
	  $(STRIP) --strip-debug $(LIB)/$$lib.a $(LIB)/$$lib.so.$(VERSION) && \
	  ln -sf $$lib.so.$(VERSION) $(LIB)/$$lib.so.$(SO_VERSION) && \
	  ln -sf $$lib.so.$(SO_VERSION) $(LIB)/$$lib.so && \
	  $(FILL) packaging/$${lib#lib}.pc.in > $(LIB)/pkgconfig/$${lib#lib}.pc || exit 1; done
	install -d $(ROOT)/lib # where the command looks for it, whatever LIBDIR is
	install -m 755 $(BUILD)/lib/libnereid-prof.so $(ROOT)/lib/libnereid-prof.so
	$(STRIP) --strip-debug $(ROOT)/lib/libnereid-prof.so
	$(FILL) packaging/nereid-config.cmake.in > $(LIB)/cmake/nereid/nereid-config.cmake
	$(FILL) packaging/nereid-config-version.cmake.in > $(LIB)/cmake/nereid/nereid-config-version.cmake
	install -m 644 packaging/nereid-build.cmake $(LIB)/cmake/nereid/nereid-build.cmake
	install -m 644 $(BUILD)/manuals/*.1 $(SHARE)/man/man1/
	install -m 644 $(BUILD)/manuals/nereid.bash $(SHARE)/bash-completion/completions/nereid
	install -m 644 $(BUILD)/manuals/_nereid $(SHARE)/zsh/site-functions/_nereid
	install -m 644 $(BUILD)/manuals/nereid.fish $(SHARE)/fish/vendor_completions.d/nereid.fish
	install -m 644 LICENSE README.md CHANGELOG.md docs/guide/*.md docs/reference/*.md $(SHARE)/doc/nereid/

uninstall:
	rm -f $(ROOT)/bin/nereid $(ROOT)/include/nereid.h $(ROOT)/lib/libnereid-prof.so $(SHARE)/man/man1/nereid.1 $(SHARE)/man/man1/nereid-*.1
	rm -f $(foreach l,$(INSTALLED_LIBS),$(LIB)/$(l).a $(LIB)/$(l).so $(LIB)/$(l).so.* $(LIB)/pkgconfig/$(l:lib%=%).pc)
	rm -f $(SHARE)/bash-completion/completions/nereid $(SHARE)/zsh/site-functions/_nereid $(SHARE)/fish/vendor_completions.d/nereid.fish
	rm -rf $(LIB)/cmake/nereid $(SHARE)/doc/nereid

# ---- for who works on it (CONTRIBUTING.md) ----

CLANG_FORMAT ?= $(firstword $(wildcard /usr/bin/clang-format-14) clang-format)
TEXTS    = $(shell git ls-files '*.c' '*.h' | grep -v '/unicode/')
# clang-format 14 breaks one line of a macro at a time: until nothing changes.
format:
	@for i in 1 2 3 4 5 6 7 8 9; do $(CLANG_FORMAT) -n -Werror $(TEXTS) 2>/dev/null && exit 0; $(CLANG_FORMAT) -i $(TEXTS); done
lint:
	@tests/house/check_format
	@tests/house/check_folders
	@tests/house/check_functions
sanitize:
	@$(MAKE) BUILD=$(BUILD)/sanitized CFLAGS='-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined' all unit
compile_commands.json:
	@python3 -c 'import json, os, subprocess; \
	lines = subprocess.check_output(["$(MAKE)", "-Bn", "V=1", "all", "unit"], text=True).splitlines(); \
	rows = [(l, [w for w in l.split() if w.endswith(".c")]) for l in lines if " -o " in l and ".c" in l]; \
	json.dump([{"directory": os.getcwd(), "command": l, "file": f[0]} for l, f in rows if f], open("$@", "w"), indent=1)'

help:
	@echo "make            the command build/nereid, the libraries, and what profiles other programs; V=1 shows the commands"
	@echo "make demo       build, run and measure the main kernels on this machine"
	@echo "make test       every test, as CI runs it; tests/run --fast: one compiler, no sanitizers"
	@echo "make unit       only builds the C tests, below build/tests"
	@echo "make gpu-tests  what tests/gpu/run needs, in build/, to be carried to a machine with a GPU"
	@echo "make examples   the programs of examples/"
	@echo "make python     the Python package, in build/python; pip install . installs it"
	@echo "make install    into PREFIX ($(PREFIX)) and LIBDIR, below DESTDIR when set; make uninstall takes it away"
	@echo "make rt         build/lib/libnereid-rt.*, what runs kernels that were built ahead of time; make manuals: man pages"
	@echo "make shared     build/lib/libnereid.so; make lib: build/libnereid.a"
	@echo "make bench      the figures of bench/results"
	@echo "make lint       the format of all C text, and faults that can be read off it; make format writes it anew"
	@echo "make sanitize   all and unit into build/sanitized, with ASan and UBSan"
	@echo "make compile_commands.json   for clangd and its like"
	@echo "make clean      remove build/"

clean:
	rm -rf $(BUILD)

-include $(wildcard $(foreach d,src tests rt/src,$(BUILD)/$(d)/*/*.d $(BUILD)/$(d)/*/*/*.d) $(BUILD)/bench/*.d $(BUILD)/examples/*.d $(BUILD)/python/native/*.d)
