# SPDX-License-Identifier: BSD-2-Clause
# auxkit: one Makefile. Objects land under $(BUILD).
#   make [V=1] [SAN=1] [CC=clang] [WERROR=1] [BUILD=dir]

ifeq ($(SAN),1)
BUILD ?= build/san
SAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
endif
BUILD ?= build
Q := $(if $(V),,@)
say = $(if $(V),,@echo "  $(1)	$(2)")

CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wvla -Wwrite-strings -Wundef $(if $(WERROR),-Werror)
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude $(WARN) \
	$(CFLAGS) $(SAN_FLAGS) -MMD -MP
ALL_LDFLAGS := $(LDFLAGS) $(SAN_FLAGS)

INTERNAL := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard include/internal/*.c))
CAPTURE := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out capture/qemu_plugin.c,$(wildcard capture/*.c)))
DECODE := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard decode/*.c))

CAPTURE_LIBS := -lelf -lpthread
DECODE_LIBS := -lipt -lcapstone -ldw -lelf -lzstd -ldl -lpthread

.PHONY: all
all: $(BUILD)/auxcap $(BUILD)/auxdecode $(BUILD)/auxkit-qemu.so

$(BUILD)/auxcap: $(CAPTURE) $(INTERNAL)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(CAPTURE_LIBS)

$(BUILD)/auxdecode: $(DECODE) $(INTERNAL)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(DECODE_LIBS)

# Runs inside qemu: never sanitized, position independent.
$(BUILD)/auxkit-qemu.so: capture/qemu_plugin.c include/internal/x86_insn.c
	$(call say,PLUGIN,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE -Iinclude $(WARN) -O2 -g -fPIC -shared \
		-MMD -MP -MF $(BUILD)/qemu_plugin.d -o $@ $^ -lpthread

$(BUILD)/obj/%.o: %.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
