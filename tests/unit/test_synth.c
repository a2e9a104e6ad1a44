/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Synthesized records byte by byte, the host's feature sections, the ledger,
 * and build ids of a hand-made ELF file and of this program.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"

#include "perfdata/perfdata.h"
#include "capture/describe/describe.h"
#include "perfdata/ledger.h"
#include "tests/unit/tap.h"

#define TRAILER 32

static char dir[] = "/tmp/auxkit-synth.XXXXXX";
static char path[64];
static const struct synth_id id = { 5, 6, 0x1122334455, 3, 99 };

/* The data section of what a function writes, behind the description of the
 * events that the writer begins with, and the file. */
struct file {
	uint8_t bytes[1 << 17];
	size_t len;
	const uint8_t *data;
};

static struct file file;

static void load(void)
{
	struct cursor c;
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, file.bytes, sizeof(file.bytes));

	close(fd);
	file.len = n < 0 ? 0 : (size_t)n;
	c = cursor_init(file.bytes + 40, 8, false);
	file.data = file.bytes + cursor_u64(&c);
	while (file.data[0] == 80)
		file.data += file.data[6] | file.data[7] << 8;
}

static struct writer *start(void)
{
	struct perf_event_attr a = { .type = 1, .sample_id_all = 1,
				     .sample_type = SYNTH_SAMPLE_TYPE };
	struct writer *w;

	if (writer_open(&w, path, NULL, NULL) ||
	    writer_attr_add(w, &a, "dummy", NULL, 0))
		return NULL;
	return w;
}

/* Finishes the file; true when its data are exactly these bytes. */
static bool holds(struct writer *w, const void *want, size_t len)
{
	size_t i;

	if (writer_close(w, NULL))
		return false;
	load();
	if (!memcmp(file.data, want, len))
		return true;
	for (i = 0; i < len && file.data[i] == ((const uint8_t *)want)[i]; i++)
		;
	printf("# differs at byte %zu\n", i);
	return false;
}

#define U16(v) (uint8_t)(v), (uint8_t)((v) >> 8)
#define U32(v) U16((v) & 0xffff), U16((uint32_t)(v) >> 16)
#define U64(v) U32((v) & 0xffffffff), U32((uint64_t)(v) >> 32)
#define HEAD(type, misc, size) U32(type), U16(misc), U16(size)
#define TAIL U32(5), U32(6), U64(0x1122334455), U32(3), U32(0), U64(99ULL)

/* Native order is little endian wherever the software sources run. */
static void test_tasks(void)
{
	static const uint8_t want[] = {
		HEAD(3, 0x2000, 56), U32(5), U32(6), 's', 'h', 0, 0, 0, 0, 0, 0,
		TAIL,
		HEAD(3, 0, 64), U32(5), U32(6), 'a', 'b', 'c', 'd', 'e', 'f',
		'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 0, TAIL,
		HEAD(7, 0, 64), U32(7), U32(5), U32(8), U32(6),
		U64(0x1122334455), TAIL,
		HEAD(4, 0, 64), U32(7), U32(5), U32(8), U32(6),
		U64(0x1122334455), TAIL,
	};
	struct writer *w = start();

	synth_comm(w, &id, 5, 6, "sh", true);
	synth_comm(w, &id, 5, 6, "abcdefghijklmnopqrst", false);
	synth_fork(w, &id, 7, 5, 8, 6);
	synth_exit(w, &id, 7, 5, 8, 6);
	ok(holds(w, want, sizeof(want)), "COMM, FORK, EXIT");
}

static void test_mmap(void)
{
	static const uint8_t want[] = {
		HEAD(10, 2, 120), U32(5), U32(6), U64(0x400000ULL),
		U64(0x2000ULL), U64(0x1000ULL), U32(8), U32(1), U64(77ULL),
		U64(78ULL), U32(5), U32(2), '/', 'b', 'i', 'n', '/', 'c', 'a',
		't', 0, 0, 0, 0, 0, 0, 0, 0, TAIL,
		HEAD(10, 0x6002, 112), U32(5), U32(6), U64(0x400000ULL),
		U64(0x2000ULL), U64(0x1000ULL), 16, 0, 0, 0, 1, 2, 3, 4, 5, 6,
		7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0, 0, 0, 0, U32(1), U32(2),
		'/', 'l', 'i', 'b', '/', 'c', 0, 0, TAIL,
	};
	struct synth_map m = {
		.addr = 0x400000, .len = 0x2000, .pgoff = 0x1000, .maj = 8,
		.min = 1, .ino = 77, .ino_generation = 78, .prot = 5,
		.flags = 2, .path = "/bin/cat",
	};
	struct writer *w = start();
	char longest[5000];
	struct cursor c;

	synth_mmap2(w, &id, 5, 6, &m);
	m.build_id_size = 16;
	memcpy(m.build_id, "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20", 16);
	m.prot = 1;
	m.path = "/lib/c";
	synth_mmap2(w, &id, 5, 6, &m);
	ok(holds(w, want, sizeof(want)), "MMAP2 with inode and with build id");
	w = start();
	memset(longest, 'x', sizeof(longest));
	longest[4999] = '\0';
	m.path = longest;
	synth_mmap2(w, &id, 5, 6, &m);
	longest[4095] = '\0';
	synth_mmap2(w, &id, 5, 6, &m);
	ok(!writer_close(w, NULL), "long paths");
	load();
	ok(!strcmp((char *)file.data + 72, "//toolong"), "//toolong");
	c = cursor_init(file.data + 8 + 64 + 16 + 32 + 6, 2, false);
	is_u64(cursor_u16(&c), 8 + 64 + 4096 + 32, "4095 bytes of path fit");
}

static void test_trace(void)
{
	static const uint8_t want[] = {
		HEAD(12, 0, 48), U32(5), U32(6), TAIL,
		HEAD(14, 0, 40), TAIL, HEAD(14, 0x2000, 40), TAIL,
		HEAD(11, 0, 64), U64(0x100ULL), U64(0x20ULL), U64(1ULL), TAIL,
	};
	struct writer *w = start();

	synth_itrace_start(w, &id, 5, 6);
	synth_switch(w, &id, false);
	synth_switch(w, &id, true);
	synth_aux(w, &id, 0x100, 0x20, PERF_AUX_FLAG_TRUNCATED);
	ok(holds(w, want, sizeof(want)),
	   "ITRACE_START, SWITCH, AUX");
}

static void test_user(void)
{
	static const uint8_t want[] = {
		HEAD(70, 0, 32), U32(1), U32(0), U64(8ULL), U64(9ULL),
		HEAD(79, 0, 56), U64(1ULL), U64(2ULL), U64(3ULL), U64(4ULL),
		U64(5ULL), 1, 0, 0, 0, 0, 0, 0, 0,
		HEAD(73, 0, 64), U64(2ULL), U64(5ULL), 'a', 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, U64(6ULL), 'b', 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0,
		HEAD(74, 0, 24), U16(0), U16(3), U16(0), U16(1), U16(2), 0, 0,
		0, 0, 0, 0, HEAD(68, 0, 8), HEAD(82, 0, 8),
	};
	static const struct aux_rec_time_conv tc = { 1, 2, 3, 4, 5, 1, 0, {0} };
	static const uint64_t priv[] = { 8, 9 };
	static const uint32_t tids[] = { 5, 6 };
	static const char *const comms[] = { "a", "b" };
	struct writer *w = start();

	synth_auxtrace_info(w, 1, priv, 2);
	writer_time_conv(w, &tc);
	synth_thread_map(w, tids, comms, 2);
	synth_cpu_map(w, 3);
	synth_finished_round(w);
	synth_finished_init(w);
	ok(holds(w, want, sizeof(want)), "user records");
}

/* What a recording of the kernel's events needs beside the above. */
static void test_more(void)
{
	static const uint16_t cpus[] = { 1, 3 };
	static const uint8_t want[] = {
		HEAD(7, 0x2000, 64), U32(7), U32(5), U32(8), U32(6),
		U64(0x1122334455), TAIL,
		HEAD(1, 1, 80), U32(0xffffffff), U32(0),
		U64(0xffffffff81000000), U64(0x1000ULL), U64(0x2000ULL), '[',
		'k', ']', '_', 't', 0, 0, 0, TAIL,
		HEAD(74, 0, 16), U16(0), U16(2), U16(1), U16(3),
	};
	struct writer *w = start();

	synth_fork_exec(w, &id, 7, 5, 8, 6);
	synth_mmap_kernel(w, &id, 0xffffffff81000000, 0x1000, 0x2000, "[k]_t");
	synth_cpu_list(w, cpus, 2);
	ok(synth_cpu_map(w, 2049) == -AUX_E_INVAL &&
	   synth_cpu_list(w, cpus, 2049) == -AUX_E_INVAL,
	   "more CPUs than a list can have");
	ok(holds(w, want, sizeof(want)),
	   "FORK of old, MMAP of the kernel, CPU_MAP");
}

static void test_id_index(void)
{
	struct aux_rec_id_index_entry e[300];
	struct writer *w = start();
	uint64_t n = 0, at = 0, i;

	for (i = 0; i < 300; i++)
		e[i] = (struct aux_rec_id_index_entry){ i, i, i, i };
	synth_id_index(w, e, 300);
	ok(!writer_close(w, NULL), "a large ID_INDEX");
	load();
	while (n < 300) {
		struct cursor c = cursor_init(file.data + at, 24, false);
		uint32_t type = cursor_u32(&c), size = cursor_u32(&c) >> 16;
		uint64_t k = cursor_u64(&c);

		if (type != 69 || size != 16 + k * 32 || cursor_u64(&c) != n)
			break;
		n += k;
		at += size;
	}
	is_u64(n, 300, "is cut into records that fit");
}

/* An ELF file with one PT_NOTE of two notes. */
static void make_elf(const char *name, const uint8_t *build_id, size_t size)
{
	struct {
		Elf64_Ehdr e;
		Elf64_Phdr p;
		Elf64_Nhdr other;
		char other_name[4], other_desc[8];
		Elf64_Nhdr n;
		char gnu[4];
		uint8_t desc[32];
	} f = {
		.e = {
			.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64,
				     ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_EXEC, .e_machine = EM_X86_64,
			.e_version = 1, .e_phoff = sizeof(Elf64_Ehdr),
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1,
		},
		.p = { .p_type = PT_NOTE, .p_align = 4 },
		.other = { 4, 8, NT_GNU_BUILD_ID }, .other_name = "XYZ",
		.n = { 4, (Elf64_Word)size, NT_GNU_BUILD_ID }, .gnu = "GNU",
	};
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	f.p.p_offset = (size_t)((char *)&f.other - (char *)&f);
	f.p.p_filesz = 12 + 4 + 8 + 12 + 4 + ((size + 3) & ~(size_t)3);
	memcpy(f.desc, build_id, size);
	if (write(fd, &f, sizeof(f)) != (ssize_t)sizeof(f))
		printf("# cannot write %s\n", name);
	close(fd);
}

static void test_buildid(void)
{
	static const uint8_t want[32] = { 0xab, 0xcd, 3, 4, [19] = 0x99 };
	uint8_t got[BUILDID_MAX];
	char name[64], fifo[64];

	snprintf(name, sizeof(name), "%s/elf", dir);
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	make_elf(name, want, 20);
	ok(buildid_read(name, got) == 20 && !memcmp(got, want, 20),
	   "a build id of 20 bytes behind another note");
	make_elf(name, want, 8);
	ok(buildid_read(name, got) == 8 && !memcmp(got, want, 8), "of 8");
	make_elf(name, want, 32);
	ok(buildid_read(name, got) == 0, "one of 32 bytes does not fit");
	if (truncate(name, 100))
		return;
	ok(buildid_read(name, got) == 0, "a cut file has none");
	ok(buildid_read("/etc/passwd", got) == 0, "nor has a text file");
	ok(buildid_read("/nonexistent", got) == -AUX_E_IO, "nor has no file");
	ok(!mkfifo(fifo, 0600) && buildid_read(fifo, got) == -AUX_E_IO,
	   "a FIFO does not block");
}

/* The same of a real file, by readelf. */
static void test_buildid_real(void)
{
	uint8_t got[BUILDID_MAX];
	char want[64] = "", text[64] = "";
	int i, n = buildid_read("/bin/sh", got);
	FILE *p = popen("readelf -n /bin/sh 2>/dev/null | "
			"sed -n 's/.*Build ID: //p'", "r");

	if (!p || !fgets(want, sizeof(want), p) || n < 0) {
		skip("no readelf here, or no build id in /bin/sh");
	} else {
		for (i = 0; i < n; i++)
			snprintf(text + 2 * i, 3, "%02x", got[i]);
		want[strcspn(want, "\n")] = '\0';
		is_str(text, want, "the build id of /bin/sh");
	}
	if (p)
		pclose(p);
}

/* What perf tells of a CPU is not there everywhere: arm64's /proc/cpuinfo has no name of a
 * model, and MIDR_EL1 is in sysfs of arm64 kernels alone (not under qemu-user). */
static unsigned cpu_features(void)
{
	unsigned name = !system("grep -q '^model name' /proc/cpuinfo"), midr = 1;

#if !defined(__x86_64__) && !defined(__i386__)
	midr = !access("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", R_OK);
#endif
	return name + midr;
}

static void test_features(void)
{
	static const struct features_pmu pmus[] = { { 8, "intel_pt" } };
	char name[] = "auxcap", arg[] = "-e";
	char *argv[] = { name, arg, NULL };
	struct writer *w = start();
	struct ledger l = { 0 };
	size_t i, n = 0;

	ok(!features_host(w, 2, argv) && !features_pmu_mappings(w, pmus, 1) &&
	   !features_source(w, "source=x\n") && !ledger_save(&l, w) &&
	   !writer_close(w, NULL), "features of the host");
	load();
	for (i = AUX_FEAT_HOSTNAME; i <= AUX_FEAT_PMU_MAPPINGS; i++)
		n += file.bytes[72 + i / 8] >> (i % 8) & 1;
	/* hostname to cmdline, event_desc, pmu_mappings */
	is_u64(n, 9 + cpu_features(), "all of them are in the bitmap");
}

/* Bits of the header say which sections there are; perf reads what they hold */
static bool has_bit(unsigned bit)
{
	return file.bytes[72 + bit / 8] >> bit % 8 & 1;
}

static void test_features_more(void)
{
	static const struct features_group g[] = { { "g", 0, 2 },
						   { NULL, 2, 1 } };
	static const uint8_t group_end[] = { U32(2), U32(1) };
	struct writer *w = start();
	uint8_t *found;

	ok(!features_groups(w, g, 2) && !features_topology(w) &&
	   !synth_comm(w, &id, 5, 6, "sh", false) && !writer_close(w, NULL),
	   "groups, topology");
	load();
	ok(has_bit(AUX_FEAT_GROUP_DESC), "their sections");
	found = memmem(file.bytes, file.len, "{anon_group}", 12);
	ok(found && !memcmp(found + 64, group_end, sizeof(group_end)),
	   "a group without a name");
	if (access("/sys/devices/system/cpu/cpu0/topology/core_id", R_OK))
		skip("hardware: the kernel tells no topology");
	else
		ok(has_bit(AUX_FEAT_CPU_TOPOLOGY), "CPU_TOPOLOGY");
}

/* Bare notes, as /sys/kernel/notes has them: another's, then ours. */
static void test_notes(void)
{
	static const uint8_t notes[] = {
		U32(6), U32(4), U32(0x101), 'L', 'i', 'n', 'u', 'x', 0, 0, 0,
		1, 2, 3, 4,
		U32(4), U32(20), U32(3), 'G', 'N', 'U', 0, 1, 2, 3, 4, 5, 6, 7,
		8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
	};
	uint8_t got[BUILDID_MAX];
	char name[80];
	size_t len;

	snprintf(name, sizeof(name), "%s/notes", dir);
	for (len = 0; len <= sizeof(notes); len++) {
		int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600), n;
		ssize_t put = write(fd, notes, len);

		close(fd);
		n = buildid_notes(name, got);
		if (put != (ssize_t)len || n != (len == sizeof(notes) ? 20 : 0))
			break;
	}
	ok(len == sizeof(notes) + 1 && got[0] == 1 && got[19] == 20,
	   "a build id in bare notes, and none in cut ones");
	ok(buildid_notes("/no/such", got) == -AUX_E_IO, "no notes");
}

static void test_ledger(void)
{
	struct ledger l = { 0 };
	struct aux_diag d;
	char text[256];

	ledger_produced(&l, 0, 100);
	ledger_produced(&l, 7, 50);
	ledger_add(&l, 0, AUX_LEDGER_SAVED, 60, 10, 20);
	ledger_add(&l, 0, AUX_LEDGER_SAVED, 40, 5, 15);
	ok(l.n == 1 && l.entries[0].bytes == 100 && l.entries[0].first_ns == 5 &&
	   l.entries[0].last_ns == 20, "entries of one cause add up");
	ok(ledger_check(&l, &d) == -AUX_E_LIMIT && strstr(d.text, "stream 7"),
	   "a stream that does not balance: %s", d.text);
	ledger_add(&l, 7, AUX_LEDGER_SAVED, 49, 0, 0);
	ledger_text(&l, text, sizeof(text));
	ok(!ledger_lossy(&l) && !*text, "nothing is lost so far");
	ledger_add(&l, 7, AUX_LEDGER_TRUNCATED, 1, 0, 0);
	ledger_add(&l, LEDGER_NO_STREAM, AUX_LEDGER_NOT_TRACED, 2, 0, 0);
	ok(!ledger_check(&l, &d) && ledger_lossy(&l), "balanced, with a loss");
	ledger_text(&l, text, sizeof(text));
	is_str(text, "1 byte (AUX buffer full), 2 processes (not traced)",
	       "in words");
	ledger_fini(&l);
}

int main(void)
{
	char cmd[64];

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/data", dir);
	test_tasks();
	test_mmap();
	test_trace();
	test_user();
	test_more();
	test_id_index();
	test_buildid();
	test_buildid_real();
	test_features();
	test_features_more();
	test_notes();
	test_ledger();
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd))
		return 1;
	return plan_done();
}
