# SPDX-License-Identifier: BSD-2-Clause
#
# auxkit: one Makefile. Everything that is made lands under $(BUILD).
# `make help` lists the targets. tools/deps declares the packages, tools/probe
# decides by link probes which libraries are used.

ifeq ($(SAN),1)
BUILD ?= build/san
SAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined \
	-fno-omit-frame-pointer
endif
# CROSS=aarch64-linux-gnu- builds for arm64, with the libraries of tools/sysroot, or
# SYSROOT's; SYSROOT= takes those that this machine has (dpkg --add-architecture).
ifdef CROSS
BUILD ?= build/$(firstword $(subst -, ,$(CROSS)))
ifeq ($(origin SYSROOT),undefined)
SYSROOT := $(shell tools/sysroot $(patsubst aarch64,arm64,$(firstword $(subst -, ,$(CROSS)))))
ifeq ($(SYSROOT),)
$(error no libraries to build for $(CROSS:-=): tools/sysroot says why)
endif
export SYSROOT
endif
cross_tool = $(notdir $(shell for t in $(CROSS)$(1) $(CROSS)$(1)-14 $(CROSS)$(1)-12; do \
	command -v $$t && exit; done; echo $(CROSS)$(1)))
with_sysroot = $(1)$(if $(SYSROOT),$(if $(findstring --sysroot,$(1)),, --sysroot=$(SYSROOT)))
override CC := $(call with_sysroot,$(if $(filter default,$(origin CC)),$(call \
	cross_tool,gcc),$(CC)))
override CXX := $(call with_sysroot,$(if $(filter default,$(origin CXX)),$(call \
	cross_tool,g++),$(CXX)))
AR := $(CROSS)ar
OBJCOPY := $(CROSS)objcopy
STRIP := $(CROSS)strip
endif
BUILD ?= build
OBJCOPY ?= objcopy
STRIP ?= strip
# What is built for, by the compiler: x86_64, aarch64.
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
Q := $(if $(V),,@)
say = $(if $(V),,@echo "  $(1)	$(2)")

CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wvla -Wwrite-strings -Wundef $(if $(WERROR),-Werror)

# Each library found sets HAVE_x, CFLAGS_x and LIBS_x. Probed again whenever a
# package was installed; WITHOUT="IPT CAPSTONE" builds as if they were absent, and
# LINK=shared links none of them as an archive.
.DEFAULT_GOAL := all
empty :=
HAVE_MK := $(BUILD)/have$(subst $(empty) ,,$(WITHOUT))$(LINK:%=-%).mk
BOOTSTRAP := help clean check check-quick check-kernel check-arm64 golden demo lint bench \
	bench-kernel cover campaign deps deps-guest install install-lib uninstall dist deb reproducible
ifneq ($(filter-out $(BOOTSTRAP),$(or $(MAKECMDGOALS),all)),)
include $(HAVE_MK)
endif

$(HAVE_MK): tools/probe $(wildcard /var/lib/dpkg/status)
	@mkdir -p $(@D)
	@CC="$(CC)" WITHOUT="$(WITHOUT)" LINK="$(LINK)" SYSROOT="$(SYSROOT)" MACHINE="$(MACHINE)" tools/probe >$@.tmp
	@grep -q '^HAVE :=.*ELF' $@.tmp || { rm -f $@ $@.tmp; \
		echo "libelf is missing and nothing works without it: tools/deps install build" >&2; exit 1; }
	@mv $@.tmp $@

# Where it was built is in no file that is installed: another directory gives the same.
PLACE := $(if $(COVER_FLAGS),,'-ffile-prefix-map=$(CURDIR)=.')
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I. -Iinclude $(WARN) \
	$(foreach x,$(HAVE),$(CFLAGS_$(x))) $(CPPFLAGS) $(CFLAGS) $(SAN_FLAGS) $(COVER_FLAGS)
ALL_LDFLAGS := $(LDFLAGS) $(SAN_FLAGS) $(COVER_FLAGS)
DEPFLAGS := -MMD -MP

# Other flags or another compiler: everything is compiled again.
ifneq ($(origin HAVE),undefined)
FLAGS := $(strip $(CC) $(ALL_CFLAGS) $(PLACE) $(ALL_LDFLAGS) $(LINK))
ifneq ($(FLAGS),$(strip $(file <$(BUILD)/flags)))
$(shell mkdir -p $(BUILD))
$(file >$(BUILD)/flags,$(FLAGS))
endif
endif

# Directories say what belongs to what; a decoder whose library is missing is left
# out as a directory. lib: libauxdecode; program: auxdecode; pic: inside qemu.
obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
with = $(filter $(1),$(HAVE))
SHARED_C := $(wildcard include/*/*.c)
LIB_C := $(wildcard $(addsuffix /*.c,$(filter-out $(if $(call with,IPT),,%/libipt) \
	$(if $(call with,OPENCSD),,%/opencsd),$(wildcard decode/lib/*))))
DECODE_C := $(LIB_C) $(wildcard decode/*.c $(addsuffix /*.c,$(filter-out decode/lib \
	decode/plugin,$(wildcard decode/*))))
QEMU_C := $(wildcard capture/qemu/*.c)
CAPTURE_C := $(wildcard capture/*.c $(addsuffix /*.c,$(filter-out capture/qemu,$(wildcard capture/*))))
# What follows programs on the processor itself: a code cache for x86-64 alone, and
# single steps.
X86_C := capture/native/% capture/soft/step_native% capture/soft/step_ptwrite.c capture/soft/step_x86.c
A64_C := capture/soft/no_native.c capture/soft/step_a64.c
CAPTURE_C := $(filter-out $(if $(filter x86_64,$(MACHINE)),$(A64_C),$(X86_C)),$(CAPTURE_C))
# The part that draws on a terminal, or what says that it is not there.
DECODE_C := $(filter-out $(if $(call with,NCURSES),decode/tui/no_screen.c,\
	$(addprefix decode/tui/,screen.c ui.c view_%)),$(DECODE_C))
SHARED := $(call obj,$(SHARED_C))
CAPTURE := $(call obj,$(CAPTURE_C))
DECODE := $(call obj,$(DECODE_C))

CAPTURE_LIBS = $(LIBS_IBERTY) $(LIBS_DW) $(LIBS_ELF) $(LIBS_ZSTD) -ldl -lpthread
DECODE_LIBS = $(LIBS_IBERTY) $(LIBS_IPT) $(LIBS_OPENCSD) $(LIBS_JSON) \
	$(LIBS_LZMA) $(LIBS_Z) $(LIBS_SQLITE) $(LIBS_DW) $(LIBS_ELF) $(LIBS_ZSTD) \
	-ldl -lpthread

# What the program needs beside what the library does.
PROGRAM_LIBS = $(DECODE_LIBS) $(LIBS_NCURSES) -lm

# What a program that is linked with -static needs, libraries of libraries too.
STATIC_LIBS = $(foreach x,IBERTY IPT OPENCSD JSON SQLITE DW ELF LZMA ZSTD Z,$(STATIC_$(x))) \
	-ldl -lpthread -lm

COMPLETIONS := $(foreach p,auxcap auxdecode,$(foreach s,bash zsh fish,$(BUILD)/completion/$(p).$(s)))
PROGRAMS := $(BUILD)/auxcap $(BUILD)/auxdecode $(BUILD)/auxkit-qemu.so $(COMPLETIONS) $(BUILD)/man/made

# Reference decoders, which auxdecode loads when a trace needs them (decode/plugin).
# Where each line is checked or counted they are parts of the program.
APART := $(if $(SAN_FLAGS)$(COVER_FLAGS),,$(if $(call with,IPT),libipt) \
	$(if $(call with,OPENCSD),opencsd))
PLUGINS := $(APART:%=$(BUILD)/auxdecode-%.so)
PROGRAM := $(filter-out $(APART:%=$(BUILD)/obj/decode/lib/%/%),$(DECODE)) \
	$(if $(APART),$(call obj,$(wildcard decode/plugin/*.c)))

.DELETE_ON_ERROR:
.PHONY: all
# A library that was made once stays as new as the headers and programs beside it, for
# `make install` installs what is there.
all: $(PROGRAMS) $(if $(wildcard $(BUILD)/libauxdecode.so),lib)
	@echo "have: $(HAVE)"

$(BUILD)/auxcap: $(CAPTURE) $(BUILD)/libshared.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(CAPTURE_LIBS)

# Of what few commands need archives are linked, where there are: it starts sooner.
PROGRAM_ARCHIVES = $(LIBS_IBERTY) $(foreach x,JSON SQLITE DW ELF LZMA ZSTD Z,$(ARCHIVE_$(x)))
$(BUILD)/auxdecode: $(PROGRAM) $(BUILD)/libshared.a | $(PLUGINS)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(if $(APART),$(PROGRAM_ARCHIVES) -ldl -lpthread -lm \
		$(LIBS_NCURSES),$(PROGRAM_LIBS))

# The same with libraries, as packages have it: for tests that make calls of auxdecode fail
# and not those of libraries.
$(BUILD)/auxdecode-shared: $(PROGRAM) $(BUILD)/libshared.a | $(PLUGINS)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PROGRAM_LIBS) -ldl

# With the C++ library as an archive, of which OpenCSD needs little.
$(BUILD)/auxdecode-libipt.so: LIBS := $(LIBS_IPT)
$(BUILD)/auxdecode-opencsd.so: LIBS := $(if $(LINK),$(LIBS_OPENCSD),\
	$(patsubst -lstdc++,-l:libstdc++.a,$(LIBS_OPENCSD)))
define plugin
$(BUILD)/auxdecode-$(1).so: $(patsubst %.c,$(BUILD)/lib/%.o,$(wildcard decode/lib/$(1)/*.c)) \
		$(BUILD)/lib/libshared.a decode/plugin/plugin.map
	$$(call say,LD,$$@)
	$$(Q)$$(CC) $$(ALL_LDFLAGS) -shared -Wl,--defsym=aux_decoder_plugin=aux_decoder_$(1) \
		-Wl,--version-script=decode/plugin/plugin.map -Wl,-z,defs -o $$@ \
		$$(filter %.o %.a,$$^) $$(LIBS) -lpthread
endef
$(foreach x,$(APART),$(eval $(call plugin,$(x))))

# Words that shells complete: each program tells its own.
RUN := $(if $(CROSS),qemu-$(MACHINE) $(if $(SYSROOT),-L $(SYSROOT)))
completion = $(Q)mkdir -p $(@D) && $(RUN) $< --completion $(subst .,,$(suffix $@)) >$@
$(BUILD)/completion/auxcap.%: $(BUILD)/auxcap
	$(completion)
$(BUILD)/completion/auxdecode.%: $(BUILD)/auxdecode
	$(completion)

# A page for each command.
$(BUILD)/man/made: $(BUILD)/auxdecode decode/auxdecode.1 tools/manpages
	$(Q)tools/manpages '$(RUN) $<' $(@D) && touch $@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(PLACE) $(DEPFLAGS) -c -o $@ $<
$(BUILD)/obj/tests/%.o: PLACE :=

# The parts of a page or picture, which the assembler takes in (common/embed.h).
$(BUILD)/obj/decode/report/page.o: $(wildcard decode/report/web/*)
$(BUILD)/obj/decode/sink/flame_svg.o: $(wildcard decode/sink/web/*)
$(BUILD)/obj/decode/coverage/annotate_print.o: $(wildcard decode/coverage/web/*)
$(BUILD)/obj/decode/gdb/monitor.o: decode/gdb/auxkit.py

# Runs inside qemu: position independent, never sanitized.
pic = $(patsubst %.c,$(BUILD)/pic/%.o,$(1))
$(BUILD)/pic/%.o: %.c $(BUILD)/flags
	$(call say,CC,$< (qemu))
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -I. -Iinclude $(WARN) $(PLACE) $(CPPFLAGS) $(CFLAGS) -fPIC \
		$(DEPFLAGS) -c -o $@ $<
$(BUILD)/pic/libcommon.a: $(call pic,$(wildcard include/common/*.c))
$(BUILD)/auxkit-qemu.so: $(call pic,$(QEMU_C)) $(BUILD)/pic/libcommon.a
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) -shared -o $@ $^ -lpthread

# libauxdecode: position independent. Of the static one all names but those of
# the map are made local, too.
LIB_ABI := 0
LIB_MAP := decode/lib/api/libauxdecode.map
LIB_O := $(patsubst %.c,$(BUILD)/lib/%.o,$(LIB_C) $(SHARED_C))
LIBS_MADE := $(BUILD)/libauxdecode.so $(BUILD)/libauxdecode.a $(BUILD)/libauxdecode.pc
.PHONY: lib
lib: $(LIBS_MADE)
$(BUILD)/lib/%.o: %.c $(BUILD)/flags
	$(call say,CC,$< (PIC))
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(PLACE) -fPIC -fno-semantic-interposition $(DEPFLAGS) -c -o $@ $<
$(BUILD)/libauxdecode.so: $(LIB_O) $(LIB_MAP)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -Wl,-soname,libauxdecode.so.$(LIB_ABI) \
		-Wl,--version-script=$(LIB_MAP) $(if $(SAN),,-Wl,-z,defs) -o $@ \
		$(LIB_O) $(DECODE_LIBS)
$(BUILD)/libauxdecode.a: $(LIB_O) $(LIB_MAP)
	$(call say,AR,$@)
	$(Q)sed -n 's/^\t\(aux_.*\);$$/\1/p' $(LIB_MAP) >$(BUILD)/lib/names
	$(Q)$(CC) -r -nostdlib -o $(BUILD)/lib/auxdecode.o $(LIB_O)
	$(Q)$(OBJCOPY) --keep-global-symbols=$(BUILD)/lib/names $(BUILD)/lib/auxdecode.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(BUILD)/lib/auxdecode.o
$(BUILD)/libauxdecode.pc: decode/lib/api/libauxdecode.pc.in $(HAVE_MK) Makefile
	$(Q)sed 's,@VERSION@,$(VERSION),; s,@LIBS@,$(strip $(STATIC_LIBS)),' $< >$@

# Archives, so that a test or tool links only what it calls.
$(BUILD)/libcapture.a: $(filter-out %/auxcap.o,$(CAPTURE))
$(BUILD)/libdecode.a: $(filter-out %/auxdecode.o,$(DECODE))
$(BUILD)/libshared.a: $(SHARED)
$(BUILD)/lib/libshared.a: $(patsubst %.c,$(BUILD)/lib/%.o,$(SHARED_C) $(wildcard decode/lib/packet/*.c))
%.a:
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# `/* host: x86_64 */`: a file of tests is for that machine alone.
for_others = $(if $(1),$(shell grep -L '^/\* host: $(MACHINE) ' $$(grep -l '^/\* host: ' $(1) /dev/null) /dev/null))

# Unit tests: `/* links: capture */` or `/* links: decode */` says with what, and
# `/* needs: IPT */` without which libraries there is no test.
UNIT := $(wildcard tests/unit/test_*.c)
UNIT := $(filter-out $(call for_others,$(UNIT)),$(UNIT))
UNIT := $(filter-out $(shell grep -lE '^/\* needs:.* ($(subst $(empty) ,|,none $(filter-out \
	$(HAVE),CAPSTONE IPT OPENCSD))) ' $(UNIT)),$(UNIT))
links = $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(if $(UNIT),\
	$(shell grep -lE '^/\* links:.*\<$(1)\>' $(UNIT))))
UNIT_BIN := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT))
$(call links,capture): $(BUILD)/libcapture.a
$(call links,decode): $(BUILD)/libdecode.a
$(UNIT_BIN): $(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/libshared.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) $(filter-out %/libshared.a,\
		$(filter %.a,$^)) $(BUILD)/libshared.a $(PROGRAM_LIBS) $(LIBS_CAPSTONE)

# Fuzz targets: fuzz_NAME.c, under libFuzzer or over a corpus with replay.c.
FUZZ := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
REPLAY_BIN := $(if $(wildcard tests/fuzz/replay.c),$(FUZZ:%=$(BUILD)/tests/replay_%))
$(REPLAY_BIN): $(BUILD)/tests/replay_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o \
		$(BUILD)/obj/tests/fuzz/replay.o $(BUILD)/libdecode.a $(BUILD)/libcapture.a \
		$(BUILD)/libshared.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PROGRAM_LIBS)

# Programs to be traced, each with the flags that its `/* build: */` line names.
# Plain code: neither sanitized nor instrumented.
TRACED := $(patsubst tests/programs/%,$(BUILD)/tests/programs/%,\
	$(basename $(wildcard tests/programs/*.c tests/programs/*.S tests/programs/*.cc)))
TRACED := $(filter-out $(patsubst tests/programs/%,$(BUILD)/tests/programs/%,$(basename \
	$(call for_others,$(wildcard tests/programs/*.c tests/programs/*.S tests/programs/*.cc)))),$(TRACED))
build_flags = $$(sed -n 's,^/\* build: \(.*\) \*/$$,\1,p' $<)
compile_traced = -D_GNU_SOURCE -O1 -g -Wall -Wextra -o $@ $< $(build_flags)
$(BUILD)/tests/programs/%: tests/programs/%.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(compile_traced)
$(BUILD)/tests/programs/%: tests/programs/%.S
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(compile_traced)
$(BUILD)/tests/programs/%: tests/programs/%.cc
	$(call say,CXX,$<)
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=gnu++17 $(compile_traced)

# The same for aarch64, where a cross compiler is: those named here, and their
# own. Found at run time through its sysroot.
A64_CC := $(shell command -v aarch64-linux-gnu-gcc-12 || \
	command -v aarch64-linux-gnu-gcc)
A64_DIR := $(BUILD)/tests/programs/aarch64
A64_OWN := $(basename $(notdir $(wildcard tests/programs/aarch64/*.[cS])))
A64_SHARED := hello_static threads forkexec crash dlopen dlobj vdso jit
ifneq ($(A64_CC),)
TRACED += $(addprefix $(A64_DIR)/,$(A64_OWN) $(A64_SHARED) hello_dynamic atomics_lse)
endif
$(A64_SHARED:%=$(A64_DIR)/%): $(A64_DIR)/%: tests/programs/%.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(A64_CC) -std=gnu11 $(compile_traced)
$(A64_DIR)/%: tests/programs/aarch64/%.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(A64_CC) -std=gnu11 $(compile_traced)
$(A64_DIR)/%: tests/programs/aarch64/%.S
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(A64_CC) $(compile_traced)
$(A64_DIR)/hello_dynamic: tests/programs/hello_static.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(A64_CC) -std=gnu11 -O1 -g -o $@ $<
$(A64_DIR)/atomics_lse: tests/programs/aarch64/atomics.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(A64_CC) -std=gnu11 $(compile_traced) -march=armv8.1-a
$(BUILD)/tests/programs/feature $(A64_DIR)/feature: tests/programs/feature.h
$(BUILD)/tests/programs/jitter $(BUILD)/tests/programs/attached: tests/programs/reader.h
$(filter $(BUILD)/tests/programs/stack_%,$(TRACED)): \
	$(wildcard tests/programs/stack_*.h)

# Tools written in C: one file each; those that read recordings link decode.
TOOLS := $(patsubst tools/%.c,$(BUILD)/%,$(wildcard tools/*.c))
ifeq ($(filter IPT,$(HAVE)),)
TOOLS := $(filter-out %/bench_libipt,$(TOOLS))
endif
ifeq ($(filter OPENCSD,$(HAVE)),)
TOOLS := $(filter-out %/bench_opencsd,$(TOOLS))
endif
# The peer is the library as packaged.
$(BUILD)/bench_opencsd: LIBS_OPENCSD := -lopencsd_c_api -lopencsd
$(TOOLS): $(BUILD)/%: $(BUILD)/obj/tools/%.o $(BUILD)/libdecode.a $(BUILD)/libshared.a
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(PROGRAM_LIBS)

.PHONY: tests-build tools-build unit-build
unit-build: $(UNIT_BIN)
tools-build: all $(TOOLS)
tests-build: tools-build lib $(UNIT_BIN) $(REPLAY_BIN) $(TRACED) $(BUILD)/auxdecode-shared

# What follows runs on a machine with only git and make: tools/deps first.
submake = $(Q)$(MAKE) --no-print-directory \
	$(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))
ENV = BUILD="$(BUILD)" SAN="$(SAN)" V="$(V)" CC="$(CC)"

.PHONY: check check-quick check-kernel check-arm64 check-newest golden demo bench bench-kernel lint cover deps
deps:
	$(Q)tools/deps install build run test cross
.PHONY: deps-guest
deps-guest:
	$(Q)tools/deps install guest
check: deps deps-guest
	$(submake) tests-build
	$(Q)$(ENV) tests/run
# On a real kernel, in QEMU, with the simulated PMUs of tools/pmu_sim; then on the
# newest one that Debian has.
check-kernel: deps deps-guest
	$(submake) tests-build
	$(Q)export $(ENV) TIMEOUT=1800; GUEST_KERNEL=6.1 tests/run t_guest; first=$$?; \
		GUEST_KERNEL=newest tests/run t_guest && exit $$first
# With the newest perf that Debian has in the place of the installed one; and with its
# newest compilers and libraries.
check-newest: deps deps-guest
	$(submake) tests-build
	$(Q)$(ENV) tools/newest check
	$(Q)tools/newest build
# What makes sense on arm64, there or by qemu-user on the cross build: tests/arm64.
check-arm64: deps
	$(Q)[ "$$(uname -m)" = aarch64 ] || tools/deps install cross
	$(submake) tests-build
	$(Q)$(ENV) tests/arm64
check-quick: deps
	$(submake) tests-build
	$(Q)$(ENV) tests/run --quick
# make golden T=name: writes the expected output anew; review the diff.
golden: deps
	$(submake) tests-build
	$(Q)$(ENV) tests/t_golden.sh --update "$(if $(filter command%,$(origin T)),$(T))"
demo:
	$(Q)tools/deps install build run
	$(submake) all $(BUILD)/truthcmp
	$(Q)$(ENV) tools/demo
bench: deps
	$(submake) tests-build
	$(Q)$(ENV) tools/bench
bench-kernel: deps deps-guest
	$(submake) tests-build
	$(Q)$(ENV) tools/bench-kernel
lint:
	$(Q)tools/deps install build test lint
	$(submake) all
	$(Q)$(ENV) tools/lint
cover: deps
	$(submake) BUILD=$(BUILD)/cover COVER_FLAGS=--coverage CFLAGS="-O0 -g" tests-build
	$(Q)-BUILD="$(BUILD)/cover" tests/run --quick >$(BUILD)/cover/check.log 2>&1
	$(Q)BUILD="$(BUILD)/cover" tools/cover

# Fuzz targets under libFuzzer: what they link is compiled once for all of them.
# make fuzz F=reader T=60: seconds of one; seeds are fixtures/corpus/F.
F ?= reader
T ?= 60
# clang does not define the macro by itself.
FUZZ_FLAGS := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined \
	-DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
FUZZ_BIN := $(FUZZ:%=$(BUILD)/fuzz_%)
fuzz_obj = $(patsubst %.c,$(BUILD)/fuzzobj/%.o,$(1))
$(BUILD)/fuzzobj/%.o: %.c $(BUILD)/flags
	$(call say,CLANG,$<)
	@mkdir -p $(@D)
	$(Q)clang $(filter-out $(COVER_FLAGS) $(SAN_FLAGS),$(ALL_CFLAGS)) -O1 $(FUZZ_FLAGS) \
		$(DEPFLAGS) -c -o $@ $<
$(BUILD)/fuzzobj/libdecode.a: $(call fuzz_obj,$(filter-out decode/auxdecode.c,$(DECODE_C)))
$(BUILD)/fuzzobj/libcapture.a: $(call fuzz_obj,$(filter-out capture/auxcap.c,$(CAPTURE_C)))
$(BUILD)/fuzzobj/libshared.a: $(call fuzz_obj,$(SHARED_C))
$(FUZZ_BIN): $(BUILD)/fuzz_%: $(BUILD)/fuzzobj/tests/fuzz/fuzz_%.o $(BUILD)/fuzzobj/libdecode.a \
		$(BUILD)/fuzzobj/libcapture.a $(BUILD)/fuzzobj/libshared.a
	$(call say,LD,$@)
	$(Q)clang -fsanitize=fuzzer,address,undefined -fsanitize-link-c++-runtime -o $@ $^ $(PROGRAM_LIBS)
.PHONY: fuzz fuzz-build
fuzz-build: $(FUZZ_BIN)
fuzz:
	$(Q)tools/deps install build fuzz
	$(submake) $(BUILD)/fuzz_$(F)
	$(Q)mkdir -p $(BUILD)/fuzz/$(F) fixtures/corpus/$(F)
	$(Q)LSAN_OPTIONS=suppressions=tests/lsan.supp:print_suppressions=0 \
		$(BUILD)/fuzz_$(F) -max_total_time=$(T) -rss_limit_mb=2048 \
		-artifact_prefix=fixtures/corpus/$(F)/ $(BUILD)/fuzz/$(F) fixtures/corpus/$(F)

# All of them one after the other, and whole commands on changed recordings:
# make campaign HOURS=8, SECONDS=600, or N=1000 inputs each.
.PHONY: campaign
campaign: deps
	$(Q)tools/deps install fuzz
	$(submake) all tests-build fuzz-build
	$(submake) BUILD=$(BUILD)/san SAN=1 all
	$(Q)BUILD="$(BUILD)" tests/campaign.py $(if $(HOURS),--hours $(HOURS)) \
		$(if $(filter command%,$(origin SECONDS)),--seconds $(SECONDS)) \
		$(if $(filter command%,$(origin N)),-n $(N)) $(if $(ONLY),--only "$(ONLY)") \
		$(if $(SEED),--seed $(SEED))

# What make built is copied, nothing is compiled: root installs what a user made. The
# library is there after make lib. uninstall removes the same.
VERSION = $(shell sed -n 's/.*AUXKIT_VERSION "\(.*\)"/\1/p' include/common/version.h)
LIBDIR ?= $(PREFIX)/lib
DOCDIR ?= $(PREFIX)/share/doc/auxkit
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
SHARE := $(DESTDIR)$(PREFIX)/share
SO_NAME = libauxdecode.so.$(LIB_ABI)
SO_FILE = libauxdecode.so.$(VERSION)
stripped = $(if $(INSTALL_STRIP),$(STRIP) $(2) $(DESTDIR)$(1))
.PHONY: install install-lib uninstall
# make -j lib install: the library first, and then it is there
install: $(if $(or $(wildcard $(BUILD)/libauxdecode.so),$(filter lib,$(MAKECMDGOALS))),install-lib) \
	| $(filter lib,$(MAKECMDGOALS))
	@for f in auxcap auxdecode auxkit-qemu.so completion/auxcap.bash man/made; do \
		[ -e $(BUILD)/$$f ] || { echo "$(BUILD)/$$f is missing: make first" >&2; exit 1; }; done
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/libexec/auxkit \
		$(SHARE)/man/man1 $(SHARE)/man/man7 $(DESTDIR)$(DOCDIR) $(SHARE)/bash-completion/completions \
		$(DESTDIR)$(ZSHDIR) $(SHARE)/fish/vendor_completions.d
	install -m 755 $(BUILD)/auxcap $(BUILD)/auxdecode $(DESTDIR)$(PREFIX)/bin
	$(call stripped,$(PREFIX)/bin/auxcap)
	$(call stripped,$(PREFIX)/bin/auxdecode)
	install -m 644 $(BUILD)/auxkit-qemu.so $(wildcard $(BUILD)/auxdecode-*.so) \
		$(DESTDIR)$(PREFIX)/libexec/auxkit
	$(call stripped,$(PREFIX)/libexec/auxkit/*.so,--strip-unneeded)
	install -m 644 capture/auxcap.1 decode/auxdecode.1 $(BUILD)/man/*.1 $(SHARE)/man/man1
	install -m 644 decode/*.7 $(SHARE)/man/man7
	install -m 644 README.md LICENSE $(DESTDIR)$(DOCDIR)
	for p in auxcap auxdecode; do c=$(BUILD)/completion/$$p; \
		install -m 644 $$c.bash $(SHARE)/bash-completion/completions/$$p && \
		install -m 644 $$c.zsh $(DESTDIR)$(ZSHDIR)/_$$p && \
		install -m 644 $$c.fish $(SHARE)/fish/vendor_completions.d/$$p.fish || exit 1; done
	@[ -e $(BUILD)/libauxdecode.so ] || echo "not installed: libauxdecode (make lib, then make install)"
# man aux_decode_open: each function leads to the page that has it
MAN3_NAMES = $(shell sed -n 's/^\.F[no] "\{0,1\}\(aux_[a-z0-9_]*\).*/\1/p' include/aux/*.3 | sort -u)
man3_page = $(if $(filter aux_cursor_%,$1),aux_cursor,$(if $(filter aux_self_%,$1),aux_self,libauxdecode))
install-lib: | $(filter lib,$(MAKECMDGOALS))
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(SHARE)/man/man3 \
		$(DESTDIR)$(PREFIX)/include/aux $(DESTDIR)$(DOCDIR)/examples
	install -m 644 $(BUILD)/libauxdecode.a $(DESTDIR)$(LIBDIR)
	$(call stripped,$(LIBDIR)/libauxdecode.a,--strip-debug)
	install -m 644 $(BUILD)/libauxdecode.so $(DESTDIR)$(LIBDIR)/$(SO_FILE)
	$(call stripped,$(LIBDIR)/$(SO_FILE),--strip-unneeded)
	ln -sf $(SO_FILE) $(DESTDIR)$(LIBDIR)/$(SO_NAME)
	ln -sf $(SO_NAME) $(DESTDIR)$(LIBDIR)/libauxdecode.so
	sed 's,@PREFIX@,$(PREFIX),; s,@LIBDIR@,$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR)),' \
		$(BUILD)/libauxdecode.pc >$(DESTDIR)$(LIBDIR)/pkgconfig/libauxdecode.pc
	chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/libauxdecode.pc
	install -m 644 include/aux/*.h $(DESTDIR)$(PREFIX)/include/aux
	install -m 644 include/aux/*.3 $(SHARE)/man/man3
	@$(foreach f,$(MAN3_NAMES),echo '.so man3/$(call man3_page,$f).3' | \
		install -m 644 /dev/stdin $(SHARE)/man/man3/$f.3 &&) true
	install -m 644 tools/examples/*.c $(DESTDIR)$(DOCDIR)/examples
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/auxcap $(DESTDIR)$(PREFIX)/bin/auxdecode \
		$(SHARE)/man/man1/auxcap.1 $(SHARE)/man/man1/auxdecode.1 \
		$(patsubst $(BUILD)/man/%,$(SHARE)/man/man1/%,$(wildcard $(BUILD)/man/*.1)) \
		$(patsubst decode/%,$(SHARE)/man/man7/%,$(wildcard decode/*.7)) \
		$(patsubst include/aux/%,$(SHARE)/man/man3/%,$(wildcard include/aux/*.3)) \
		$(MAN3_NAMES:%=$(SHARE)/man/man3/%.3) \
		$(DESTDIR)$(LIBDIR)/libauxdecode.a $(DESTDIR)$(LIBDIR)/libauxdecode.so* \
		$(DESTDIR)$(LIBDIR)/pkgconfig/libauxdecode.pc
	for p in auxcap auxdecode; do \
		rm -f $(SHARE)/bash-completion/completions/$$p $(DESTDIR)$(ZSHDIR)/_$$p \
			$(SHARE)/fish/vendor_completions.d/$$p.fish; done
	rm -rf $(DESTDIR)$(PREFIX)/libexec/auxkit $(DESTDIR)$(PREFIX)/include/aux $(DESTDIR)$(DOCDIR)

# One file to copy onto a board: it needs neither a loader nor a library there. The
# archives are those of the packages that end in -dev.
.PHONY: static
static: $(BUILD)/static/auxcap
$(BUILD)/static/auxcap: $(CAPTURE) $(BUILD)/libshared.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -static -o $@ $^ $(STATIC_IBERTY) $(STATIC_DW) $(STATIC_ELF) $(STATIC_ZSTD) -lpthread

# The sources of a release, from which it is built, tested and packaged without git.
# What stands in them is as old as the last commit.
DIST = auxkit-$(VERSION)
.PHONY: dist deb
dist:
	@mkdir -p $(BUILD)
	$(Q)tools/dist $(DIST) >$(BUILD)/$(DIST).tar.gz.tmp
	$(Q)mv $(BUILD)/$(DIST).tar.gz.tmp $(BUILD)/$(DIST).tar.gz
	@echo $(BUILD)/$(DIST).tar.gz
# Debian's packages, for this machine's architecture or that of CROSS.
deb: dist
	$(Q)tools/deps install build deb
	$(Q)CROSS="$(CROSS)" SYSROOT="$(SYSROOT)" tools/make-deb $(BUILD)/$(DIST).tar.gz $(BUILD)/deb

# Two builds of both give the same files.
.PHONY: reproducible
reproducible:
	$(Q)tools/deps install build deb
	$(Q)tools/reproducible

.PHONY: clean help
clean:
	rm -rf $(BUILD)
help:
	@echo 'make                  build/auxcap, build/auxdecode, build/auxkit-qemu.so'
	@echo 'make lib              libauxdecode, shared and static, for programs of your own;'
	@echo '                      make keeps it up to date from then on'
	@echo 'make demo             records a real program on this machine and decodes it'
	@echo 'make check            all tests; check-quick: without the long ones'
	@echo 'make check-kernel     capture on a real kernel in QEMU, part of check'
	@echo 'make check-arm64      the tests that make sense on arm64, by qemu-user elsewhere'
	@echo 'make bench            speed, beside perf and a bare libipt loop'
	@echo 'make bench-kernel     capture beside perf record, in the same guest'
	@echo 'make lint             layers, names, sizes, headers, man pages, format'
	@echo 'make cover            line coverage of each file'
	@echo 'make golden T=name    writes one expected output anew'
	@echo 'make fuzz F=reader T=60   one fuzz target'
	@echo 'make campaign HOURS=8 all fuzz targets, and all commands on changed recordings;'
	@echo '                      or SECONDS=600, N=1000; SEED=, ONLY="reader mutants"'
	@echo 'make install DESTDIR= PREFIX=/usr/local LIBDIR= DOCDIR= INSTALL_STRIP=1; make uninstall'
	@echo 'make static           build/static/auxcap, one file that needs no library'
	@echo 'make dist, make deb   the sources of a release; packages of Debian; make clean'
	@echo 'make reproducible     builds a release twice: the files are the same'
	@echo
	@echo 'V=1 shows commands; SAN=1 builds with ASan and UBSan into build/san;'
	@echo 'CROSS=aarch64-linux-gnu- builds for arm64 into build/aarch64;'
	@echo 'CC=clang; WERROR=1; BUILD=dir; WITHOUT="IPT CAPSTONE" leaves libraries out;'
	@echo 'LINK=shared links no archive of a library;'
	@echo 'FULL=1 make check: the whole matrix of recordings.'

-include $(shell find $(BUILD) -path $(BUILD)/deb -prune -o -type f -name '*.d' -print 2>/dev/null)
