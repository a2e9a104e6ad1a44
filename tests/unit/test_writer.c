/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * The writer: a small file byte by byte, large and out-of-order input, a disk
 * that fills up, and the same files in the eyes of perf 6.1.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <internal/bytes.h>

#include "../../capture/synth.h"
#include "../../capture/writer.h"
#include "tap.h"

#define N_ATTRS 2
#define ATTR_SIZE sizeof(struct perf_event_attr)

static char dir[] = "/tmp/auxkit-writer.XXXXXX";
static char path[64], old_path[64], tiny[64];

/* The program: mov eax, edi; syscall. At 0x1000 of the file, 0x401000 in memory. */
static const uint8_t code[] = { 0x89, 0xf8, 0x0f, 0x05 };

/* PSB, TSC, CBR, PSBEND, MODE.Exec, TIP.PGE 401000, TIP.PGD, one byte PAD. */
static const uint8_t pt[] = {
	0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
	0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
	0x19, 0x10, 0x27, 0, 0, 0, 0, 0, 0x02, 0x03, 0x1a, 0, 0x02, 0x23,
	0x99, 0x01, 0x71, 0x00, 0x10, 0x40, 0, 0, 0, 0x01, 0x00,
};

struct file {
	uint8_t *data;
	size_t len;
};

static struct file load(void)
{
	struct file f = { 0 };
	struct stat st;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &st))
		return f;
	f.data = malloc((size_t)st.st_size + 1);
	f.len = (size_t)st.st_size;
	if (read(fd, f.data, f.len) != (ssize_t)f.len)
		f.len = 0;
	close(fd);
	return f;
}

static uint64_t u64_at(const struct file *f, uint64_t at)
{
	struct cursor c = cursor_init(f->data + (at < f->len ? at : f->len),
				      at < f->len ? f->len - at : 0, false);

	return cursor_u64(&c);
}

static uint32_t u32_at(const struct file *f, uint64_t at)
{
	return (uint32_t)u64_at(f, at);
}

/* Offset of a feature section, by walking bitmap and table; 0: none. */
static uint64_t feature(const struct file *f, unsigned bit, uint64_t *size)
{
	uint64_t at = u64_at(f, 40) + u64_at(f, 48);
	unsigned i;

	for (i = 0; i < bit; i++)
		if (u64_at(f, 72 + i / 64 * 8) >> (i % 64) & 1)
			at += 16;
	if (!(u64_at(f, 72 + bit / 64 * 8) >> (bit % 64) & 1))
		return 0;
	*size = u64_at(f, at + 8);
	return u64_at(f, at);
}

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

static struct writer *start(void)
{
	static const uint64_t ids[2][2] = { { 11, 12 }, { 21, 22 } };
	struct perf_event_attr a[N_ATTRS];
	struct writer *w;

	fill_attrs(a);
	if (writer_open(&w, path, NULL) ||
	    writer_attr_add(w, &a[0], "intel_pt//u", ids[0], 2) ||
	    writer_attr_add(w, &a[1], "dummy:u", ids[1], 1))
		return NULL;
	return w;
}

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

	synth_time_conv(w, &tc);
	synth_auxtrace_info(w, 1, priv, AUX_PT_N_PRIV);
	synth_id_index(w, e, 3);
	synth_thread_map(w, &tid, &comm, 1);
	synth_cpu_map(w, 2);
	synth_finished_init(w);
}

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
	synth_switch_cpu_wide(w, &id, true, 0, 0);
	id.id = 11;
	synth_aux(w, &id, 0, sizeof(pt), 0);
	id.time = 20000;
	id.id = 21;
	synth_exit(w, &id, 77, 1, 77, 1);
}

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

static void put_code(struct writer *w)
{
	static const uint8_t bytes[2][16] = { { 0xc3 }, { 0x90, 0xc3 } };
	struct aux_code_entry e = { .len = 16, .pid = 77,
				    .kind = AUX_CODE_ANON };
	int i;

	for (i = 0; i < 1000; i++) {
		e.time_ns = (uint64_t)(i * 7919 % 500);	/* two of each */
		e.addr = (uint64_t)i;
		writer_code(w, &e, bytes[i & 1]);
	}
}

/* Writes the small file that most checks look at. */
static int make_small(void)
{
	struct writer *w = start();
	const struct writer_stream *s;
	size_t n;

	if (!w)
		return -1;
	put_info(w);
	put_sideband(w);
	put_trace(w, pt, sizeof(pt), 0);
	synth_finished_round(w);
	put_code(w);
	s = writer_streams(w, &n);
	ok(n == 1 && s->idx == 0 && s->end == sizeof(pt) &&
	   s->saved == sizeof(pt) && s->n_chunks == 1,
	   "the AUX bytes of each queue are counted");
	writer_feature(w, AUX_FEAT_HOSTNAME, "\x40\0\0\0wrong", 9);
	writer_feature(w, AUX_FEAT_HOSTNAME, "\x08\0\0\0" "ahost\0\0\0", 12);
	writer_feature(w, AUX_FEAT_AUXKIT_SOURCE, "\1\0\0\0\2\0\0\0a\n", 10);
	return writer_close(w, NULL);
}

static void check_header(const struct file *f)
{
	const uint64_t stride = ATTR_SIZE + 16;

	ok(!memcmp(f->data, "PERFILE2", 8), "magic");
	is_u64(u64_at(f, 8), 104, "header size");
	is_u64(u64_at(f, 16), stride, "attr_size covers the ids section");
	is_u64(u64_at(f, 24), 104 + 3 * 8, "attrs lie behind the ids");
	is_u64(u64_at(f, 32), 2 * stride, "size of attrs");
	is_u64(u64_at(f, 40), 128 + 2 * stride, "data lie behind the attrs");
	is_u64(u64_at(f, 104), 11, "first id");
	is_u64(u64_at(f, 120), 21, "last id");
	is_u64(u32_at(f, 128), 8, "attr 0: type");
	is_u64(u32_at(f, 132), ATTR_SIZE, "attr 0: size");
	is_u64(u64_at(f, 136), 0x300e601, "attr 0: config");
	is_u64(u64_at(f, 128 + ATTR_SIZE), 104, "attr 0: ids offset");
	is_u64(u64_at(f, 128 + ATTR_SIZE + 8), 16, "attr 0: ids size");
	is_u64(u64_at(f, 128 + stride + ATTR_SIZE), 120, "attr 1: ids offset");
	is_u64(u64_at(f, 128 + stride + ATTR_SIZE + 8), 8, "attr 1: ids size");
}

/* The records, in order, with the sizes that the formats give them. */
static void check_records(const struct file *f)
{
	static const struct { uint32_t type; uint16_t misc, size; } want[] = {
		{ 79, 0, 56 }, { 70, 0, 16 + 17 * 8 }, { 69, 0, 16 + 3 * 32 },
		{ 73, 0, 16 + 24 }, { 74, 0, 16 }, { 82, 0, 8 },
		{ 7, 0, 8 + 24 + 32 }, { 3, 0x2000, 8 + 8 + 8 + 32 },
		{ 10, 0x4002, 8 + 64 + 32 + 32 }, { 10, 2, 8 + 64 + 8 + 32 },
		{ 12, 0, 8 + 8 + 32 }, { 14, 0, 8 + 32 },
		{ 15, 0x2000, 8 + 8 + 32 }, { 11, 0, 8 + 24 + 32 },
		{ 4, 0, 8 + 24 + 32 }, { 71, 0, 48 }, { 68, 0, 8 },
	};
	uint64_t at = u64_at(f, 40), end = at + u64_at(f, 48), aux = 0, size;
	size_t i;

	for (i = 0; i < sizeof(want) / sizeof(*want); i++) {
		if (!ok(u32_at(f, at) == want[i].type &&
			u32_at(f, at + 4) == (want[i].misc |
					      (uint32_t)want[i].size << 16),
			"record %zu: type %u, misc %#x, size %u", i,
			want[i].type, want[i].misc, want[i].size))
			return;
		if (want[i].type == 71) {
			aux = at;
			at += u64_at(f, at + 8);
		}
		at += want[i].size;
	}
	is_u64(at, end, "the data end with the last record");
	is_u64(u64_at(f, aux + 8), 48, "AUXTRACE: 41 bytes padded to 48");
	ok(!memcmp(f->data + aux + 48, pt, sizeof(pt)), "AUXTRACE: payload");
	ok(!memcmp(f->data + aux + 48 + 41, "\0\0\0\0\0\0\0", 7), "padding");
	at = feature(f, AUX_FEAT_AUXTRACE, &size);
	is_u64(size, 8 + 16, "AUXTRACE index: one entry");
	is_u64(u64_at(f, at), 1, "AUXTRACE index: count");
	is_u64(u64_at(f, at + 8), aux, "AUXTRACE index: file offset");
	is_u64(u64_at(f, at + 16), 48, "AUXTRACE index: the record's size");
}

static void check_trailer(const struct file *f)
{
	/* the FORK record is the seventh: its trailer follows 8 + 24 bytes */
	uint64_t at = u64_at(f, 40) + 56 + 152 + 112 + 40 + 16 + 8;

	is_u64(u64_at(f, at + 8), 77 | 1ULL << 32, "FORK: pid, ppid");
	is_u64(u64_at(f, at + 24), 5000, "FORK: time");
	is_u64(u64_at(f, at + 32), 77 | 77ULL << 32, "trailer: pid, tid");
	is_u64(u64_at(f, at + 40), 5000, "trailer: time");
	is_u64(u64_at(f, at + 48), 0, "trailer: cpu");
	is_u64(u64_at(f, at + 56), 21, "trailer: identifier");
}

static void check_features(const struct file *f)
{
	uint64_t at, size = 0, end;

	at = feature(f, AUX_FEAT_BUILD_ID, &size);
	is_u64(size, 36 + 64, "BUILD_ID: one file");
	is_u64(u64_at(f, at), 0x00648002ULL << 32, "BUILD_ID: misc and size");
	is_u64(u32_at(f, at + 8), UINT32_MAX, "BUILD_ID: the host");
	is_u64(u32_at(f, at + 12), 0xefbeadde, "BUILD_ID: id");
	is_u64(f->data[at + 32], 20, "BUILD_ID: size of id");
	ok(!strcmp((char *)f->data + at + 36, tiny), "BUILD_ID: path");
	at = feature(f, AUX_FEAT_HOSTNAME, &size);
	ok(size == 12 && !strcmp((char *)f->data + at + 4, "ahost"),
	   "the last bytes given for a feature win");
	at = feature(f, AUX_FEAT_EVENT_DESC, &size);
	is_u64(size, 8 + 2 * (ATTR_SIZE + 4 + 4 + 64) + 3 * 8, "EVENT_DESC");
	is_u64(u64_at(f, at), 2 | ATTR_SIZE << 32, "EVENT_DESC: counts");
	ok(!strcmp((char *)f->data + at + 16 + ATTR_SIZE, "intel_pt//u"),
	   "EVENT_DESC: name");
	at = feature(f, AUX_FEAT_SAMPLE_TIME, &size);
	ok(size == 16 && u64_at(f, at) == 5000 && u64_at(f, at + 8) == 20000,
	   "SAMPLE_TIME");
	at = feature(f, AUX_FEAT_AUXKIT_CODE, &size);
	end = at + size;
	is_u64(end, f->len, "the last section ends with the file");
}

static void check_code(const struct file *f)
{
	uint64_t size = 0, at = feature(f, AUX_FEAT_AUXKIT_CODE, &size), i;
	uint64_t last = 0, blob;
	bool sorted = true, right = true;

	is_u64(u64_at(f, at), 1 | 1000ULL << 32, "CODE: version, entries");
	is_u64(u64_at(f, at + 8), 32, "CODE: equal bytes are kept once");
	is_u64(size, 16 + 1000 * 40 + 32, "CODE: size");
	for (i = 0; i < 1000; i++) {
		uint64_t e = at + 16 + i * 40, addr = u64_at(f, e + 8);

		sorted &= last <= u64_at(f, e);
		/* equal times: i and i + 500 come in order of arrival */
		right &= addr * 7919 % 500 == u64_at(f, e) &&
			 (addr < 500) == !(i & 1);
		last = u64_at(f, e);
		blob = at + 16 + 1000 * 40 + u64_at(f, e + 24);
		right &= f->data[blob] == (addr & 1 ? 0x90 : 0xc3);
	}
	ok(sorted, "CODE: entries are in order of time");
	ok(right, "CODE: entries keep their bytes and order of arrival");
}

/* Runs perf; counts lines with a word of alarm, and lines with needle. */
static int perf(const char *args, const char *needle, int *hits)
{
	static const char *const alarms[] = {
		"rror", "arning", "WARN", "unknown f", "nvalid", "ailed",
		"orrupt", "unexpected", "truncat", "Bad",
	};
	char cmd[256], line[1024];
	int bad = 0;
	FILE *p;
	size_t i;

	snprintf(cmd, sizeof(cmd), "HOME=%s perf %s -i %s 2>&1 </dev/null", dir,
		 args, path);
	p = popen(cmd, "r");
	*hits = 0;
	while (p && fgets(line, sizeof(line), p)) {
		*hits += strstr(line, needle) != NULL;
		for (i = 0; i < sizeof(alarms) / sizeof(*alarms); i++)
			if (strstr(line, alarms[i])) {
				printf("# %s: %s", args, line);
				bad++;
				break;
			}
	}
	return p && !pclose(p) ? bad : -1;
}

static bool have_perf(void)
{
	return !system("perf version >/dev/null 2>&1");
}

static void check_perf(void)
{
	int hits;

	if (!have_perf()) {
		skip("no perf here");
		return;
	}
	ok(!perf("script -D", "PERF_RECORD_AUXTRACE size: 0x30", &hits) &&
	   hits == 1, "perf script -D shows the AUXTRACE record");
	ok(!perf("script -D", "TIP.PGE 0x401000", &hits) && hits == 1,
	   "perf script -D shows the packets");
	ok(!perf("script -D", "<de", &hits), "perf script -D: no complaint");
	ok(!perf("report --stdio", "#", &hits), "perf report: no complaint");
	perf("report --header-only", "intel_pt//u", &hits);
	ok(hits == 1, "perf report --header-only names the event");
	ok(!perf("buildid-list", "deadbeef", &hits) && hits == 1,
	   "perf buildid-list shows the build id");
	ok(!perf("script --show-task-events --show-mmap-events", "tiny",
		 &hits) && hits > 2, "perf script shows the side-band");
	ok(!perf("script --itrace=i0ns -F tid,ip", "40100", &hits) && hits == 2,
	   "perf script decodes the two instructions");
}

static void test_small(void)
{
	struct file f;

	ok(!make_small(), "a small file is written");
	f = load();
	if (!ok(f.len > 1000, "and can be read back"))
		return;
	check_header(&f);
	check_records(&f);
	check_trailer(&f);
	check_features(&f);
	check_code(&f);
	check_perf();
	free(f.data);
}

static void test_old(void)
{
	struct stat st;
	struct aux_diag diag = { 0 };
	struct writer *w;

	ok(!make_small() && !stat(old_path, &st) && st.st_size > 1000,
	   "an existing file is kept as .old");
	ok(writer_open(&w, "/nonexistent/x", &diag) == -AUX_E_IO && !w &&
	   strstr(diag.text, "/nonexistent/x"), "a bad path is an error");
	ok(!writer_open(&w, "/dev/null", &diag) && !writer_close(w, &diag),
	   "/dev/null will do");
	ok(!access("/dev/null", W_OK) && access("/dev/null.old", F_OK),
	   "and is left in its place");
}

/* Walks the records: their number, or -1 when they do not fill the data. */
static long count_records(const struct file *f, uint64_t *aux)
{
	uint64_t at = u64_at(f, 40), end = at + u64_at(f, 48);
	long n = 0;

	*aux = 0;
	while (at < end) {
		uint32_t type = u32_at(f, at), size = u32_at(f, at + 4) >> 16;

		if (type == AUX_RECORD_AUXTRACE) {
			*aux += u64_at(f, at + 8);
			at += u64_at(f, at + 8);
		}
		if (size < 8)
			return -1;
		at += size;
		n++;
	}
	return at == end ? n : -1;
}

/* Many records, and AUX pieces above and below the size that is copied. */
static int put_much(struct writer *w, int n)
{
	uint8_t *big = calloc(1, 300001);
	struct synth_id id = { 77, 77, 5000, 0, 21 };
	uint64_t offset = 0;
	int i, ret = 0;

	put_info(w);
	put_sideband(w);
	for (i = 0; i < n && !ret; i++) {
		size_t len = i % 3 ? 100 + (size_t)i : 300001;

		synth_aux(w, &id, offset, len, 0);
		ret = put_trace(w, big, len, offset);
		offset += len;
	}
	free(big);
	return ret;
}

static void test_large(void)
{
	struct writer *w = start();
	uint64_t aux, size;
	struct file f;

	put_much(w, 60);
	ok(!writer_close(w, NULL), "a file with large AUX pieces is written");
	f = load();
	is_u64(count_records(&f, &aux), 15 + 120, "all records are there");
	ok(aux >= 20 * 300001 && feature(&f, AUX_FEAT_AUXTRACE, &size) &&
	   size == 8 + 60 * 16, "all AUX bytes are there and in the index");
	free(f.data);
}

/* A disk that fills up, at many places; the file stays valid. */
static void test_full(void)
{
	struct rlimit lim = { 0, RLIM_INFINITY }, was;
	int bad = 0, hits = 0, n = 0;
	uint64_t limit;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	for (limit = 2001; limit < 7000000; limit += 150001) {
		struct aux_diag diag = { 0 };
		struct writer *w;
		uint64_t aux, size;
		struct file f;

		lim.rlim_cur = limit;
		setrlimit(RLIMIT_FSIZE, &lim);
		w = start();
		put_much(w, 60);
		if (writer_close(w, &diag) != -AUX_E_IO ||
		    !strstr(diag.text, "File too large"))
			bad++;
		setrlimit(RLIMIT_FSIZE, &was);
		f = load();
		n++;
		if (count_records(&f, &aux) < 1 || f.len > limit ||
		    (feature(&f, AUX_FEAT_AUXTRACE, &size) &&
		     (size - 8) / 16 > aux))
			bad++;
		if (aux && have_perf() && n % 12 == 0)
			bad += perf("script -D", "xyz", &hits) != 0;
		free(f.data);
		if (aux > 19 * 300000)
			break;
	}
	ok(n > 30 && !bad, "a disk filled at %d places leaves a valid file", n);
	signal(SIGXFSZ, SIG_DFL);
}

static void test_killed(void)
{
	struct file f;
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct writer *w = start();

		put_much(w, 10);
		raise(SIGKILL);
	}
	waitpid(pid, &status, 0);
	f = load();
	ok(u64_at(&f, 40) == 128 + 2 * (ATTR_SIZE + 16) && !u64_at(&f, 48) &&
	   f.len > 1000000, "a killed writer leaves data of size 0 and bytes");
	free(f.data);
}

static void test_misuse(void)
{
	struct perf_event_header bad = { .type = 3, .size = 12 };
	struct aux_rec_auxtrace a = { .size = 5 };
	struct iovec iov = { (void *)(uintptr_t)pt, 4 };
	struct perf_event_attr attr[N_ATTRS];
	struct aux_diag diag = { 0 };
	struct writer *w = start();
	struct file f;
	uint64_t aux;

	fill_attrs(attr);
	ok(writer_auxtrace(w, &a, &iov, 1) == -AUX_E_INVAL,
	   "AUX data of another size than declared are refused");
	ok(synth_finished_round(w) == -AUX_E_INVAL, "errors are sticky");
	ok(writer_close(w, &diag) == -AUX_E_INVAL && strstr(diag.text, "AUX"),
	   "and are told at close");
	w = start();
	put_info(w);
	ok(writer_record(w, &bad) == -AUX_E_INVAL, "a record of odd size");
	ok(writer_attr_add(w, attr, "x", NULL, 0) == -AUX_E_INVAL,
	   "an event after a record");
	writer_close(w, NULL);
	f = load();
	is_u64(count_records(&f, &aux), 6, "what came before is kept");
	free(f.data);
	ok(!writer_close(NULL, NULL), "close accepts NULL");
}

/* The file that the side-band maps at 0x401000. */
static bool make_tiny(void)
{
	int fd = open(tiny, O_WRONLY | O_CREAT | O_TRUNC, 0700);
	bool right = fd >= 0 && !ftruncate(fd, 0x2000) &&
		     pwrite(fd, code, sizeof(code), 0x1000) == sizeof(code);

	if (fd >= 0)
		close(fd);
	return right;
}

/* A slow source: what waits is pushed out by what comes later. */
static void test_slow(void)
{
	struct synth_id id = { 77, 77, 5000, 0, 21 };
	struct writer *w = start();
	struct stat st;

	synth_switch(w, &id, false);
	synth_switch(w, &id, true);
	usleep(300000);
	synth_switch(w, &id, false);
	ok(!stat(path, &st) && st.st_size == (off_t)writer_size(w),
	   "records do not wait long in memory");
	writer_close(w, NULL);
}

static void test_discard(void)
{
	struct stat before, after;
	struct writer *w;

	stat(path, &before);
	w = start();
	put_info(w);
	writer_discard(w, NULL);
	ok(!stat(path, &after) && before.st_ino == after.st_ino &&
	   before.st_size == after.st_size, "discard puts the old file back");
	ok(!writer_open(&w, "/dev/null", NULL), "discard of a device");
	writer_discard(w, NULL);
	ok(!access("/dev/null", W_OK), "leaves it alone");
	writer_discard(NULL, NULL);
}

static int count_fds(void)
{
	int i, n = 0;

	for (i = 0; i < 64; i++)
		n += fcntl(i, F_GETFD) >= 0;
	return n;
}

int main(void)
{
	int n_fds = count_fds();
	char cmd[64];

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/perf.data", dir);
	snprintf(old_path, sizeof(old_path), "%s/perf.data.old", dir);
	snprintf(tiny, sizeof(tiny), "%s/tiny", dir);
	if (!make_tiny())
		return 1;
	test_small();
	test_old();
	test_large();
	test_full();
	test_killed();
	test_misuse();
	test_slow();
	test_discard();
	is_u64(count_fds(), n_fds, "no descriptor is left open");
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd))
		return 1;
	return plan_done();
}
