/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The helper object inside qemu: what differs between the emulated machines.
 *
 * Where registers lie, in 64-bit words of CPUArchState: CPUX86State begins with
 * 16 registers and RIP; CPUARMState with 16 registers of 32 bits, then x0 to
 * x30, SP and PC (qemu 7.2, target/i386/cpu.h and target/arm/cpu.h). Another
 * layout is found out by check_env() in plugin.c. System call numbers: Linux,
 * arch/x86/entry/syscalls/syscall_64.tbl and asm-generic/unistd.h.
 */
#include <elf.h>
#include <string.h>

#include "common/a64_insn.h"
#include "common/x86_insn.h"
#include "capture/qemu/impl.h"

static bool decode_x86(const uint8_t *bytes, size_t size, struct qp_insn *out)
{
	struct x86_insn in;

	if (!size || x86_insn_decode(bytes, size, &in) != (int)size)
		return false;
	*out = (struct qp_insn){ in.cls, in.rep_string, in.disp };
	return true;
}

static bool decode_a64(const uint8_t *bytes, size_t size, struct qp_insn *out)
{
	struct a64_insn in;
	uint32_t word;

	if (size != sizeof(word))
		return false;
	memcpy(&word, bytes, sizeof(word));
	a64_insn_decode(word, &in);
	if (in.cls == A64_UNKNOWN)	/* to this CPU it is undefined, as udf is */
		in.cls = A64_SYSCALL;
	*out = (struct qp_insn){ in.cls, false, (int64_t)in.disp - 4 };
	return true;
}

/* A number of -1 never matches; QP_CALL_NONE has it to keep number 0 (x86:
 * read) from looking like a call of interest. */
/* table */
static const struct qp_machine machines[] = {
	{
		.name = "x86_64", .elf = EM_X86_64, .sp = 4, .pc = 16,
		.decode = decode_x86,
		.calls = {
			[QP_CALL_NONE] = -1, [QP_CALL_EXIT] = 60,
			[QP_CALL_EXIT_GROUP] = 231, [QP_CALL_MMAP] = 9,
			[QP_CALL_MUNMAP] = 11, [QP_CALL_MREMAP] = 25,
			[QP_CALL_PRCTL] = 157, [QP_CALL_CLONE] = 56,
			[QP_CALL_CLONE3] = 435, [QP_CALL_EXECVE] = 59,
			[QP_CALL_EXECVEAT] = 322,
		},
	},
	{
		.name = "aarch64", .elf = EM_AARCH64, .sp = 39, .pc = 40,
		.size = 4, .decode = decode_a64,
		.calls = {
			[QP_CALL_NONE] = -1, [QP_CALL_EXIT] = 93,
			[QP_CALL_EXIT_GROUP] = 94, [QP_CALL_MMAP] = 222,
			[QP_CALL_MUNMAP] = 215, [QP_CALL_MREMAP] = 216,
			[QP_CALL_PRCTL] = 167, [QP_CALL_CLONE] = 220,
			[QP_CALL_CLONE3] = 435, [QP_CALL_EXECVE] = 221,
			[QP_CALL_EXECVEAT] = 281,
		},
	},
};

const struct qp_machine *qp_machine_find(const char *name)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		if (!strcmp(machines[i].name, name))
			return &machines[i];
	return NULL;
}

enum qp_call qp_machine_call(const struct qp_machine *m, int64_t number)
{
	for (int i = QP_CALL_NONE + 1; i < QP_CALL_N; i++)
		if (m->calls[i] == number)
			return (enum qp_call)i;
	return QP_CALL_NONE;
}

bool qp_machine_repeats(const struct qp_machine *m, uint64_t ip)
{
	struct x86_insn in;

	return m->elf == EM_X86_64 &&
	       x86_insn_decode((const uint8_t *)ip, 4, &in) && in.rep_string;
}
