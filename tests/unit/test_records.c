/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * Records about tasks, kernel code and ids: every field as text, in both byte orders, and
 * each record truncated at every offset.
 */
#include <stdlib.h>

#include "common/outbuf.h"
#include "tests/unit/readerfile.h"
#include "decode/cmd/impl.h"
#include "tests/unit/tap.h"

static struct buf file;

/* A record whose body words are of the given sizes, with a trailer. */
static size_t start(uint32_t type, uint16_t misc)
{
	return begin(&file, type, misc);
}

static void finish(size_t at, bool kernel)
{
	if (kernel)
		trailer(&file, 10, 1000, 3, 77);
	end(&file, at);
}

static void put_namespaces(void)
{
	size_t at = start(PERF_RECORD_NAMESPACES, 0);

	u32(&file, 10);
	u32(&file, 11);
	u64(&file, 8);
	for (unsigned i = 0; i < 8; i++) {
		u64(&file, 4);
		u64(&file, 4026531840 + i);
	}
	finish(at, true);
}

static void put_kernel(void)
{
	size_t at = start(PERF_RECORD_KSYMBOL, 0);

	u64(&file, 0xffffffffc0000000);
	u32(&file, 64);
	u16(&file, 1);
	u16(&file, 1);
	string(&file, "bpf_prog_1", 16);
	finish(at, true);
	at = start(PERF_RECORD_BPF_EVENT, 0);
	u16(&file, 2);
	u16(&file, 5);
	u32(&file, 98);
	put(&file, "\x14\xd8\xc8\xff\x14\x83\x1d\x12", 8);
	finish(at, true);
	at = start(PERF_RECORD_TEXT_POKE, 1);
	u64(&file, 0xffffffff81000010);
	u16(&file, 5);
	u16(&file, 2);
	put(&file, "\x0f\x1f\x44\x00\x00\x66\x90\x00\x00\x00\x00\x00", 12);
	finish(at, true);
	at = start(PERF_RECORD_TEXT_POKE, 1);
	u64(&file, 0xffffffff81000010);
	u16(&file, 0);
	u16(&file, 1);
	put(&file, "\xcc\0\0\0", 4);
	finish(at, true);
}

static void put_tasks(void)
{
	size_t at = start(PERF_RECORD_CGROUP, 0);

	u64(&file, 123);
	string(&file, "/user.slice", 16);
	finish(at, true);
	at = start(PERF_RECORD_EXIT, 0);
	for (unsigned i = 0; i < 4; i++)
		u32(&file, 10 + i);
	u64(&file, 999);
	finish(at, true);
	at = start(PERF_RECORD_LOST_SAMPLES, 0);
	u64(&file, 6);
	finish(at, true);
	at = start(PERF_RECORD_READ, 0);
	u32(&file, 10);
	u32(&file, 11);
	u64(&file, 12345);
	u64(&file, 77);	/* the attr's read_format is PERF_FORMAT_ID */
	finish(at, true);
	at = start(22, 0);
	u64(&file, 0xabc);
	u64(&file, 2);
	u64(&file, 0x401000);
	u64(&file, 0x402000);
	finish(at, true);
	at = start(PERF_RECORD_MMAP, PERF_RECORD_MISC_GUEST_KERNEL);
	u32(&file, 55);
	u32(&file, 0);
	u64(&file, 0xffffffff81000000);
	u64(&file, 0x1000);
	u64(&file, 0xffffffff81000000);
	string(&file, "[guest.kernel.kallsyms.55]_text", 32);
	finish(at, true);
}

static void put_hw_ids(void)
{
	static const uint64_t v[] = { 0x10, 0x0100000000001234 | 5u << 8,
				      0x2000000000000001 };

	for (unsigned i = 0; i < 3; i++) {
		size_t at = start(PERF_RECORD_AUX_OUTPUT_HW_ID, 0);

		u64(&file, v[i]);
		finish(at, true);
	}
}

static void put_index(void)
{
	size_t at = start(AUX_RECORD_ID_INDEX, 0);

	u64(&file, 2);
	for (unsigned i = 0; i < 2; i++) {
		u64(&file, 77 + i);
		u64(&file, i);
		u64(&file, i);
		u64(&file, UINT64_MAX);
	}
	u64(&file, 0);
	u64(&file, 0);
	u64(&file, 4321);
	u64(&file, 7);
	finish(at, false);
	at = start(AUX_RECORD_THREAD_MAP, 0);
	u64(&file, 2);
	u64(&file, 10);
	string(&file, "prog", 16);
	u64(&file, UINT64_MAX);
	zeros(&file, 16);
	finish(at, false);
	at = start(AUX_RECORD_AUXTRACE_ERROR, 0);
	u32(&file, 1);
	for (uint32_t i = 2; i < 6; i++)
		u32(&file, i);
	u32(&file, 2);
	u64(&file, 0x401000);
	u64(&file, 77);
	string(&file, "Lost", 64);
	u32(&file, 4321);
	u32(&file, 7);
	finish(at, false);
}

static void put_build_id(void)
{
	size_t at = start(AUX_RECORD_BUILD_ID, PERF_RECORD_MISC_USER | 1 << 15);

	u32(&file, UINT32_MAX);
	put(&file, "ABCDEFGHIJKLMNOP\0\0\0\0\x10\0\0\0", 24);
	string(&file, "/bin/x", 8);
	finish(at, false);
}

static void put_cpus(void)
{
	size_t at = start(AUX_RECORD_CPU_MAP, 0);

	u16(&file, AUX_CPU_MAP_CPUS);
	u16(&file, 3);
	u16(&file, 0);
	u16(&file, 300);
	u16(&file, UINT16_MAX);
	zeros(&file, 6);
	finish(at, false);
	at = start(AUX_RECORD_CPU_MAP, 0);
	u16(&file, AUX_CPU_MAP_MASK);
	u16(&file, 2);
	u16(&file, 8);
	zeros(&file, 4);
	u64(&file, 5);
	u64(&file, 2);
	zeros(&file, 6);
	finish(at, false);
	at = start(AUX_RECORD_CPU_MAP, 0);
	u16(&file, AUX_CPU_MAP_MASK);
	u16(&file, 1);
	u16(&file, 4);
	u32(&file, UINT32_C(1) << 31);
	zeros(&file, 6);
	finish(at, false);
	at = start(AUX_RECORD_CPU_MAP, 0);
	u16(&file, AUX_CPU_MAP_RANGE);
	file.p[file.n++] = 1;
	file.p[file.n++] = 0;
	u16(&file, 2);
	u16(&file, 5);
	finish(at, false);
}

static void put_all(void)
{
	put_namespaces();
	put_kernel();
	put_tasks();
	put_hw_ids();
	put_index();
	put_build_id();
	put_cpus();
}

/* What each must say, without offset and size. By hand, from the values above. */
#define ID " | pid 10 tid 11 time 1000 cpu 3 id 77"
static const char *const want[] = {
	"NAMESPACES pid 10 tid 11 n 8 net 0x4/4026531840 uts 0x4/4026531841 "
	"ipc 0x4/4026531842 pid 0x4/4026531843 user 0x4/4026531844 "
	"mnt 0x4/4026531845 cgroup 0x4/4026531846 7 0x4/4026531847" ID,
	"KSYMBOL addr 0xffffffffc0000000 len 64 type 1 (bpf) flags 0x1 "
	"(unregister) bpf_prog_1" ID,
	"BPF_EVENT type 2 (unload) flags 0x5 id 98 tag 14d8c8ff14831d12" ID,
	"TEXT_POKE addr 0xffffffff81000010 old 0f1f440000 new 6690" ID,
	"TEXT_POKE addr 0xffffffff81000010 old none new cc" ID,
	"CGROUP id 123 /user.slice" ID,
	"EXIT pid 10 tid 12 ppid 11 ptid 13 time 999" ID,
	"LOST_SAMPLES id 0 lost 6" ID,
	"READ pid 10 tid 11 value 12345 id 77" ID,
	"CALLCHAIN_DEFERRED cookie 0xabc n 2 0x401000 0x402000" ID,
	"MMAP guest-kernel pid 55 tid 0 addr 0xffffffff81000000 len 0x1000 "
	"pgoff 0xffffffff81000000 r-x [guest.kernel.kallsyms.55]_text" ID,
	"AUX_OUTPUT_HW_ID hw-id 0x10 (version 0.0 trace-id 0x10)" ID,
	"AUX_OUTPUT_HW_ID hw-id 0x100000000001734 (version 0.1 trace-id 0x34 "
	"sink-id 0x17)" ID,
	"AUX_OUTPUT_HW_ID hw-id 0x2000000000000001 (version 2.0)" ID,
	"ID_INDEX 2: (id 77 stream 0 cpu 0 tid -1) (id 78 stream 1 cpu 1 "
	"tid -1 machine 4321 vcpu 7)",
	"THREAD_MAP 2: (tid 10 prog) (tid -1 )",
	"AUXTRACE_ERROR type 1 code 2 cpu 3 pid 4 tid 5 ip 0x401000 time 77 "
	"machine 4321 vcpu 7 Lost",
	"BUILD_ID pid -1 build-id 4142434445464748494a4b4c4d4e4f50 /bin/x",
	"CPU_MAP 3: 0 300 -1",
	"CPU_MAP mask of 2 words of 8 bytes: 0 2 65",
	"CPU_MAP mask of 1 words of 4 bytes: 31",
	"CPU_MAP range any or 2 to 5",
};
#define N_WANT (sizeof(want) / sizeof(want[0]))

/* A file of these records alone; returns where they begin. */
static size_t build(bool swap)
{
	size_t ids, data;

	file.n = 0;
	file.swap = swap;
	u64(&file, AUX_PERF_MAGIC2);
	u64(&file, 104);
	u64(&file, 112 + 16);
	zeros(&file, 80);
	ids = file.n;
	u64(&file, 77);
	u64(&file, 78);
	patch(&file, 24, file.n, 8);
	patch(&file, 32, 112 + 16, 8);
	attr(&file, 112, TYPE);
	u64(&file, ids);
	u64(&file, 16);
	data = file.n;
	put_all();
	section(&file, 40, data);
	return data;
}

static void check_text(bool swap)
{
	const char *order = swap ? "foreign" : "native";
	struct outbuf *out = outbuf_new(-1);
	struct aux_diag diag = { 0 };
	struct aux_reader *r = NULL;
	struct aux_event ev;
	size_t n = 0;
	void *p;

	build(swap);
	p = copy_of(&file, file.n);
	if (!ok(out && aux_reader_open_mem(&r, p, file.n, "made", &diag) == 0,
		"%s: opens %s", order, diag.text))
		goto out;
	while (aux_reader_next(r, &ev, &diag) == 1 && n < N_WANT) {
		const char *text;

		out->p = out->buf;
		record_text(out, r, &ev);
		outbuf_put(out, "", 1);
		text = strchr(out->buf, ']');
		is_str(text ? text + 2 : NULL, want[n++], order);
	}
	is_u64(n, N_WANT, "all of them");
out:
	aux_reader_close(r);
	outbuf_free(out);
	free(p);
}

/* Every record shortened by 1 byte up to all of its body: the record is an error,
 * or what is left of it is printed; nothing else happens. */
static void check_cuts(bool swap)
{
	struct outbuf *out = outbuf_new(-1);
	size_t data = build(swap), full = file.n, n = 0;
	size_t at[N_WANT], size[N_WANT];
	bool fine = out;

	for (size_t p = data; n < N_WANT && p < full; n++) {
		uint8_t hi = file.p[p + 6 + !swap], lo = file.p[p + 6 + swap];

		at[n] = p;
		size[n] = (size_t)hi << 8 | lo;
		p += size[n];
	}
	for (size_t i = 0; fine && i < n; i++) {
		for (size_t len = 8; len < size[i]; len++) {
			struct aux_reader *r = NULL;
			struct aux_event ev;
			void *p;

			patch(&file, at[i] + 6, len, 2);
			patch(&file, 48, at[i] + len - data, 8);
			p = copy_of(&file, at[i] + len);
			fine &= aux_reader_open_mem(&r, p, at[i] + len, "cut",
						    NULL) == 0;
			while (r && aux_reader_next(r, &ev, NULL) == 1) {
				out->p = out->buf;
				record_text(out, r, &ev);
			}
			aux_reader_close(r);
			free(p);
		}
		patch(&file, at[i] + 6, size[i], 2);
	}
	ok(fine && n == N_WANT, "%s: cut anywhere", swap ? "foreign" : "native");
	outbuf_free(out);
}

int main(void)
{
	for (int swap = 0; swap < 2; swap++) {
		check_text(swap);
		check_cuts(swap);
	}
	return plan_done();
}
