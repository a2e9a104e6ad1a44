/* SPDX-License-Identifier: BSD-2-Clause */
/* A small recording, for the tests of the writer: two instructions of a program
 * that is a file, tiny, and the side-band to find it. */
#ifndef TESTS_UNIT_WRITER_SMALL_H
#define TESTS_UNIT_WRITER_SMALL_H

#include "tests/unit/writer_file.h"

#include "capture/describe/describe.h"

#define N_ATTRS 2
#define ATTR_SIZE sizeof(struct perf_event_attr)

static char tiny[64];	/* its path */

/* The program: mov eax, edi; syscall. At 0x1000 of the file, 0x401000 in memory. */
static const uint8_t code[] = { 0x89, 0xf8, 0x0f, 0x05 };

/* PSB, TSC, CBR, PSBEND, MODE.Exec, TIP.PGE 401000, TIP.PGD, one byte PAD. */
static const uint8_t pt[] = {
	0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
	0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
	0x19, 0x10, 0x27, 0, 0, 0, 0, 0, 0x02, 0x03, 0x1a, 0, 0x02, 0x23,
	0x99, 0x01, 0x71, 0x00, 0x10, 0x40, 0, 0, 0, 0x01, 0x00,
};

__attribute__((unused))
static void fill_attrs(struct perf_event_attr a[N_ATTRS])
{
	memset(a, 0, N_ATTRS * sizeof(*a));
	a[0].type = 8;
	a[0].config = 0x300e601;
	a[0].sample_period = 1;
	a[0].sample_type = SYNTH_SAMPLE_TYPE | PERF_SAMPLE_IP;
	a[0].read_format = PERF_FORMAT_ID;
	a[0].disabled = a[0].inherit = a[0].exclude_kernel = a[0].exclude_hv = 1;
	a[0].sample_id_all = 1;
	a[1] = a[0];
	a[1].type = PERF_TYPE_SOFTWARE;
	a[1].config = PERF_COUNT_SW_DUMMY;
	a[1].mmap = a[1].mmap2 = a[1].comm = a[1].task = 1;
	a[1].context_switch = a[1].build_id = 1;
}

__attribute__((unused))
static struct writer *start_small(const char *path,
				  const struct writer_options *o)
{
	static const uint64_t ids[2][2] = { { 11, 12 }, { 21, 22 } };
	struct perf_event_attr a[N_ATTRS];
	struct writer *w;

	fill_attrs(a);
	if (writer_open(&w, path, o, NULL) ||
	    writer_attr_add(w, &a[0], "intel_pt//u", ids[0], 2) ||
	    writer_attr_add(w, &a[1], "dummy:u", ids[1], 1))
		return NULL;
	return w;
}

__attribute__((unused))
static void put_info(struct writer *w)
{
	/* type 8, shift 0, mult 1; time is user time; have_sched_switch 0 */
	uint64_t priv[AUX_PT_N_PRIV] = {
		[AUX_PT_PMU_TYPE] = 8, [AUX_PT_TIME_MULT] = 1,
		[AUX_PT_CAP_USER_TIME_ZERO] = 1, [AUX_PT_TSC_BIT] = 0x400,
		[AUX_PT_NORETCOMP_BIT] = 0x800, [AUX_PT_PER_CPU_MMAPS] = 1,
		[AUX_PT_MTC_BIT] = 0x200, [AUX_PT_MTC_FREQ_BITS] = 0x3c000,
		[AUX_PT_TSC_CTC_N] = 1, [AUX_PT_TSC_CTC_D] = 1,
		[AUX_PT_CYC_BIT] = 2,
	};
	struct aux_rec_time_conv tc = { .time_mult = 1,
					.cap_user_time_zero = 1 };
	struct aux_rec_id_index_entry e[] = {
		{ 11, 0, 0, UINT64_MAX }, { 12, 1, 1, UINT64_MAX },
		{ 21, 0, 0, UINT64_MAX },
	};
	const uint32_t tid = 77;
	const char *comm = "tiny";

	writer_time_conv(w, &tc);
	synth_auxtrace_info(w, 1, priv, AUX_PT_N_PRIV);
	synth_id_index(w, e, 3);
	synth_thread_map(w, &tid, &comm, 1);
	synth_cpu_map(w, 2);
	synth_finished_init(w);
}

__attribute__((unused))
static void put_sideband(struct writer *w)
{
	struct synth_id id = { 77, 77, 5000, 0, 21 };
	struct synth_map map = {
		.addr = 0x401000, .len = 0x1000, .pgoff = 0x1000, .prot = 5,
		.flags = 2, .build_id_size = 20, .path = tiny,
		.build_id = { 0xde, 0xad, 0xbe, 0xef, [19] = 0x42 },
	};
	struct synth_map vdso = {
		.addr = 0x7fff1000, .len = 0x2000, .prot = 5, .flags = 2,
		.path = "[vdso]",
	};

	synth_fork(w, &id, 77, 1, 77, 1);
	synth_comm(w, &id, 77, 77, "tiny", true);
	synth_mmap2(w, &id, 77, 77, &map);
	synth_mmap2(w, &id, 77, 77, &vdso);
	synth_itrace_start(w, &id, 77, 77);
	id.time = 10000;
	synth_switch(w, &id, false);
	synth_switch(w, &id, true);
	id.id = 11;
	synth_aux(w, &id, 0, sizeof(pt), 0);
	id.time = 20000;
	id.id = 21;
	synth_exit(w, &id, 77, 1, 77, 1);
}

__attribute__((unused))
static int put_trace(struct writer *w, const void *data, size_t len,
		     uint64_t offset)
{
	struct aux_rec_auxtrace a = {
		.size = len, .offset = offset, .reference = 0x1234,
		.idx = 0, .tid = UINT32_MAX, .cpu = 0,
	};
	struct iovec iov[2] = {
		{ (void *)(uintptr_t)data, len / 3 },
		{ (char *)(uintptr_t)data + len / 3, len - len / 3 },
	};

	return writer_auxtrace(w, &a, iov, 2);
}

/* The file that the side-band maps at 0x401000. */
__attribute__((unused))
static bool make_tiny(void)
{
	int fd = open(tiny, O_WRONLY | O_CREAT | O_TRUNC, 0700);
	bool right = fd >= 0 && !ftruncate(fd, 0x2000) &&
		     pwrite(fd, code, sizeof(code), 0x1000) == sizeof(code);

	if (fd >= 0)
		close(fd);
	return right;
}

#endif
