/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_lldb: a trace bundle of LLDB: a JSON file that names the Intel PT or
 * ETM buffer of each thread or each CPU, and the modules of each process.
 *
 * LLDB has had three schemas, and all are read: "trace" with traceFile or
 * traceBuffer; "type" with iptTrace; and the latter with cpus,
 * contextSwitchTrace, tscPerfZeroConversion and kernel. Bundles of "arm-etm"
 * trace have etmTrace, the bytes of one trace unit without formatter frames,
 * and the unit's registers.
 * Specification: lldb, TraceIntelPTJSONStructs and TraceArmETMJSONStructs, and
 * what `trace schema all` prints.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>

#include "common/bytes.h"
#include "common/diag.h"
#include "decode/lib/import/impl.h"
#include "decode/lib/json/json.h"

#define TSC_BIT 0x400		/* IA32_RTIT_CTL.TSCEn */
#define NORETCOMP_BIT 0x800	/* IA32_RTIT_CTL.DisRETC */
#define MAX_CPU 65535
#define MAX_TEXT (64 << 20)
#define ABSENT_SIZE (UINT64_C(16) << 20)
#define KERNEL_BASE UINT64_C(0xffffffff81000000)
#define MIN_BUILD_ID 8
#define SWITCH_SIZE 32	/* header, next or previous pid and tid, pid, tid, time */
#define ARCH_MAJOR_ETE 15	/* TRCIDR1.TRCARCHMAJ: TRCDEVARCH tells */
#define DEVARCH_ETE 0x47705a13	/* TRCDEVARCH of ETE 1.0 */

struct lldb_bundle {
	char *dir;		/* paths are relative to it */
	bool anywhere;		/* buffers may be outside of it */
	bool is_etm;		/* "arm-etm", else "intel-pt" */
	struct json_t *root;
	struct import_build *b;
	struct aux_diag *diag;
};

/* Where a value stands, for messages: processes[1].threads[0]. */
struct lldb_place {
	char text[64];
};

static const struct lldb_place top;

/* Element i of an array that lies in `in`. By value: places live on the stack
 * of the functions that walk down. */
static struct lldb_place lldb_place(const struct lldb_place *in, const char *array,
			     size_t i)
{
	struct lldb_place p;

	snprintf(p.text, sizeof(p.text), "%.30s%s%s[%zu]", in->text,
		 *in->text ? "." : "", array, i);
	return p;
}

/* A missing or wrong value: -AUX_E_FORMAT and a message that names it. */
static int lldb_fail(const struct lldb_bundle *l, const struct lldb_place *at,
		     const char *key, const char *what)
{
	return diag_set(l->diag, AUX_E_FORMAT, AUX_NO_OFFSET,
			"in the bundle's description, %s%s%s %s", at->text,
			*at->text && *key ? "." : "", key, what);
}

/*
 * A number up to max; as such, or as {"value": ..}. Where all 64 bits are
 * allowed also as text in any base, which LLDB writes for addresses.
 */
static int lldb_number(const struct lldb_bundle *l, const struct json_t *obj,
		       const struct lldb_place *at, const char *key,
		       uint64_t max, uint64_t *v)
{
	const struct json_t *n = json_tree_get(obj, key);

	if (!n)
		return lldb_fail(l, at, key, "is missing");
	if (json_tree_is_object(n))
		n = json_tree_get(n, "value");
	if (!json_tree_number(n, v) &&
	    (max != UINT64_MAX || !ini_number(json_tree_text(n), v)))
		return lldb_fail(l, at, key, "is no number");
	return *v <= max ? 0 : lldb_fail(l, at, key, "is too large");
}

/* The text of a key; must: it has to be there. NULL in *s when it is not. */
static int lldb_text(const struct lldb_bundle *l, const struct json_t *obj,
		     const struct lldb_place *at, const char *key, bool must,
		     const char **s)
{
	const struct json_t *n = json_tree_get(obj, key);

	*s = json_tree_text(n);
	if (!n && !must)
		return 0;
	if (!n)
		return lldb_fail(l, at, key, "is missing");
	return *s ? 0 : lldb_fail(l, at, key, "is no text");
}

/* In the first schema these lie in "trace". */
static const struct json_t *head_of(const struct lldb_bundle *l)
{
	const struct json_t *trace = json_tree_get(l->root, "trace");

	return trace ? trace : l->root;
}

/*
 * CPUID, by which the decoder picks its errata. Other vendors get none: no
 * error, for "unknown" is what LLDB writes when it cannot tell. "intel" is the
 * older spelling.
 */
static int put_cpu(struct lldb_bundle *l)
{
	static const struct lldb_place at = { "cpuInfo" };
	const struct json_t *info = json_tree_get(head_of(l), "cpuInfo");
	uint64_t family, model, stepping;
	const char *vendor;
	char text[64];
	int rc;

	if (!json_tree_is_object(info))
		return lldb_fail(l, &top, "cpuInfo", "is missing");
	rc = lldb_text(l, info, &at, "vendor", true, &vendor);
	if (rc == 0)
		rc = lldb_number(l, info, &at, "family", UINT16_MAX, &family);
	if (rc == 0)
		rc = lldb_number(l, info, &at, "model", UINT8_MAX, &model);
	if (rc == 0)
		rc = lldb_number(l, info, &at, "stepping", UINT8_MAX,
				 &stepping);
	if (rc < 0 || (strcmp(vendor, "GenuineIntel") &&
		       strcmp(vendor, "intel")))
		return rc;
	snprintf(text, sizeof(text), "GenuineIntel,%u,%u,%u", (unsigned)family,
		 (unsigned)model, (unsigned)stepping);
	import_build_feature(l->b, AUX_FEAT_CPUID, text);
	return 0;
}

/* ---- the trace unit of "arm-etm" ---- */

/* A register: a number, or text as LLDB writes it. */
static int lldb_register(const struct lldb_bundle *l, const struct json_t *unit,
			 const struct lldb_place *at, const char *key,
			 uint64_t *v)
{
	int rc = lldb_number(l, unit, at, key, UINT64_MAX, v);

	if (rc == 0 && *v > UINT32_MAX)
		rc = lldb_fail(l, at, key, "is too large");
	return rc;
}

static int put_registers(const struct lldb_bundle *l, const struct json_t *unit,
			 const struct lldb_place *at, uint64_t *w)
{
	/* table: the register that each word is a copy of */
	static const struct {
		const char *key;
		unsigned word;
	} regs[] = {
		{ "regIdr0", AUX_CS_OWN_TRCIDR0 },
		{ "regIdr1", AUX_CS_OWN_TRCIDR1 },
		{ "regIdr2", AUX_CS_OWN_TRCIDR2 },
		{ "regIdr8", AUX_CS_OWN_TRCIDR8 },
		{ "regIdr9", AUX_CS_OWN_TRCIDR9 },
		{ "regIdr10", AUX_CS_OWN_TRCIDR10 },
		{ "regIdr11", AUX_CS_OWN_TRCIDR11 },
		{ "regIdr12", AUX_CS_OWN_TRCIDR12 },
		{ "regIdr13", AUX_CS_OWN_TRCIDR13 },
		{ "regConfigr", AUX_CS_OWN_TRCCONFIGR },
		{ "regTraceidr", AUX_CS_OWN_TRACE_ID },
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(regs) / sizeof(*regs); i++)
		rc = lldb_register(l, unit, at, regs[i].key, &w[regs[i].word]);
	w[AUX_CS_OWN_ARCH] = AUX_ETM_V4;
	if (rc == 0 && (w[AUX_CS_OWN_TRCIDR1] >> 8 & 15) == ARCH_MAJOR_ETE) {
		w[AUX_CS_OWN_ARCH] = AUX_ETM_ETE;
		w[AUX_CS_OWN_TRCDEVARCH] = DEVARCH_ETE;
	}
	return rc;
}

/* What LLDB calls "unknown" and "custom" is taken for the commonest. */
static int put_core(const struct lldb_bundle *l, const struct json_t *unit,
		    const struct lldb_place *at, uint64_t *w)
{
	const char *version, *profile;
	int rc = lldb_text(l, unit, at, "archVersion", true, &version);

	if (rc == 0)
		rc = lldb_text(l, unit, at, "coreProfile", true, &profile);
	if (rc < 0)
		return rc;
	w[AUX_CS_OWN_CORE_VERSION] = !strcmp(version, "v7") ? 7 :
				     !strcmp(version, "aa64") ? 9 : 8;
	w[AUX_CS_OWN_CORE_PROFILE] = !strcmp(profile, "Cortex-M") ? 'M' :
				     !strcmp(profile, "Cortex-R") ? 'R' : 'A';
	return 0;
}

/* The machine: by the triple of the first process, else by the core. */
static bool is_aarch64(const struct lldb_bundle *l, const uint64_t *w)
{
	const struct json_t *p =
		json_tree_at(json_tree_get(l->root, "processes"), 0);
	const char *triple = json_tree_text(json_tree_get(p, "triple"));

	if (triple && (!strncmp(triple, "aarch64", 7) ||
		       !strncmp(triple, "arm64", 5)))
		return true;
	if (triple && (!strncmp(triple, "arm", 3) ||
		       !strncmp(triple, "thumb", 5)))
		return false;
	return w[AUX_CS_OWN_CORE_VERSION] >= 8 &&
	       w[AUX_CS_OWN_CORE_PROFILE] == 'A';
}

/*
 * AUXTRACE_INFO with one block. Of several units LLDB does not say which wrote
 * the buffer of a thread, and a buffer without frames has no id.
 */
static int put_unit(struct lldb_bundle *l)
{
	uint64_t words[AUX_CS_N_HEADER + IMPORT_CS_BLOCK] = { 0 };
	uint64_t *block = words + AUX_CS_N_HEADER;
	uint64_t *w = block + AUX_CS_NR_PARAMS + 1;
	const struct json_t *all = json_tree_get(l->root, "traceUnits");
	const struct json_t *unit = json_tree_at(all, 0);
	struct lldb_place at = lldb_place(&top, "traceUnits", 0);
	int rc;

	if (!unit)
		return lldb_fail(l, &top, "traceUnits",
				 "is missing: the registers of the ETM");
	if (json_tree_at(all, 1))
		return lldb_fail(l, &top, "traceUnits",
				 "has several units: whose trace a thread's "
				 "buffer is, it does not say");
	rc = put_registers(l, unit, &at, w);
	if (rc == 0)
		rc = put_core(l, unit, &at, w);
	if (rc < 0)
		return rc;
	words[AUX_CS_VERSION] = 1;
	words[AUX_CS_PMU_CPUS] = (uint64_t)IMPORT_PMU << 32 | 1;
	block[AUX_CS_MAGIC] = AUX_CS_MAGIC_OWN;
	block[AUX_CS_CPU] = UINT64_MAX;
	block[AUX_CS_NR_PARAMS] = AUX_CS_OWN_N;
	l->b->event = "cs_etm//";
	import_build_feature(l->b, AUX_FEAT_ARCH,
			     is_aarch64(l, w) ? "aarch64" : "arm");
	import_build_info(l->b, AUX_TRACE_CS_ETM, words,
			  sizeof(words) / sizeof(*words));
	return 0;
}

/* ---- Intel PT's clock ---- */

/* "cores" (with "coreId") is what "cpus" was called at first. */
static const struct json_t *cpus_of(const struct lldb_bundle *l)
{
	const struct json_t *cpus = json_tree_get(l->root, "cpus");

	return cpus ? cpus : json_tree_get(l->root, "cores");
}

/*
 * AUXTRACE_INFO with perf's words. Buffers of CPUs need the clock, since
 * switches are in nanoseconds; HAVE_SCHED_SWITCH 3 is perf's value for
 * PERF_RECORD_SWITCH_CPU_WIDE.
 */
static int put_info(struct lldb_bundle *l)
{
	static const struct lldb_place at = { "tscPerfZeroConversion" };
	const struct json_t *conv = json_tree_get(l->root, at.text);
	uint64_t priv[AUX_PT_N_PRIV] = {
		[AUX_PT_PMU_TYPE] = IMPORT_PMU, [AUX_PT_TIME_MULT] = 1,
		[AUX_PT_NORETCOMP_BIT] = NORETCOMP_BIT,
	};
	int rc = 0;

	l->b->timed = cpus_of(l);
	if (l->b->timed && !conv)
		return lldb_fail(l, &top, at.text, "is missing");
	if (conv) {
		rc = lldb_number(l, conv, &at, "timeMult", UINT32_MAX,
				 &priv[AUX_PT_TIME_MULT]);
		if (rc == 0)
			rc = lldb_number(l, conv, &at, "timeShift", 63,
					 &priv[AUX_PT_TIME_SHIFT]);
		if (rc == 0)
			rc = lldb_number(l, conv, &at, "timeZero", UINT64_MAX,
					 &priv[AUX_PT_TIME_ZERO]);
		priv[AUX_PT_CAP_USER_TIME_ZERO] = 1;
		priv[AUX_PT_TSC_BIT] = TSC_BIT;
		l->b->config = TSC_BIT;
	}
	priv[AUX_PT_HAVE_SCHED_SWITCH] = l->b->timed ? 3 : 0;
	priv[AUX_PT_PER_CPU_MMAPS] = l->b->timed;
	import_build_info(l->b, AUX_TRACE_INTEL_PT, priv, AUX_PT_N_PRIV);
	return rc;
}

/*
 * LLDB copies perf's records with their trailer, for which it asks for TID and
 * TIME: pid, tid and time come after the body, and the trailer of ours replaces
 * them. Other types of record are skipped. -AUX_E_FORMAT without a message: the
 * caller has the place.
 */
static int put_switch(struct lldb_bundle *l, struct cursor *c, uint32_t cpu)
{
	uint32_t type = cursor_u32(c);
	uint16_t misc = cursor_u16(c), size = cursor_u16(c);
	const uint8_t *body;
	struct import_who who = { .cpu = cpu };
	size_t len;

	if (c->bad || size < 8 || (body = cursor_bytes(c, size - 8u)) == NULL)
		return -AUX_E_FORMAT;
	if (type != PERF_RECORD_SWITCH_CPU_WIDE && type != PERF_RECORD_LOST)
		return 0;
	if (size < SWITCH_SIZE)
		return -AUX_E_FORMAT;
	len = size - 8u - 16u;
	memcpy(&who.pid, body + len, 4);
	memcpy(&who.tid, body + len + 4, 4);
	memcpy(&who.time, body + len + 8, 8);
	import_build_record(l->b, type, misc, body, len, who);
	return 0;
}

/* A file of whole records, as the ring buffer of the CPU had them. */
static int put_switches(struct lldb_bundle *l, const char *path, uint32_t cpu)
{
	struct import_file f;
	struct cursor c;
	int rc = import_map_named(&f, l->dir, path, l->anywhere, l->diag);

	if (rc < 0)
		return rc;
	c = cursor_init(f.data, f.len, false);
	while (rc == 0 && cursor_left(&c)) {
		uint64_t at = f.len - cursor_left(&c);

		rc = put_switch(l, &c, cpu);
		if (rc < 0)
			diag_set(l->diag, AUX_E_FORMAT, at,
				 "%s: no record of a context switch here",
				 f.path);
	}
	import_unmap_file(&f);
	return rc;
}

static int put_stream(struct lldb_bundle *l, const char *path,
		      struct import_who who)
{
	struct import_stream s = { .who = who };
	struct import_file f;
	int rc = import_map_named(&f, l->dir, path, l->anywhere, l->diag);

	if (rc < 0)
		return rc;
	s.file = &f;
	s.data = f.data;
	s.len = f.len;
	s.flags = l->is_etm ? AUX_FORMAT_CORESIGHT_RAW : 0;
	import_build_stream(l->b, &s);
	import_unmap_file(&f);
	return 0;
}

/* The buffer by any of its names, or NULL. */
static int trace_path(struct lldb_bundle *l, const struct json_t *obj,
		      const struct lldb_place *at, bool must, const char **path)
{
	/* table: of the schemas, the newest first */
	static const char *const keys[] = { "iptTrace", "traceBuffer",
					    "traceFile", "etmTrace" };
	size_t i = 0;

	while (i < 2 && !json_tree_get(obj, keys[i]))
		i++;
	if (l->is_etm)
		i = 3;
	if (must && !json_tree_get(obj, keys[i]))
		return lldb_fail(l, at, keys[0], "is missing");
	return lldb_text(l, obj, at, keys[i], must, path);
}

/*
 * System-wide: a buffer for each CPU, and the context switches that say which
 * thread it belongs to at what time. The switches come first, as the decoder
 * needs them.
 */
static int put_cpu_streams(struct lldb_bundle *l, const struct json_t *cpus)
{
	const struct json_t *cpu;
	int rc = 0;

	if (!json_tree_is_array(cpus))
		return lldb_fail(l, &top, "cpus", "is no list");
	for (size_t i = 0; rc == 0 && (cpu = json_tree_at(cpus, i)); i++) {
		struct lldb_place at = lldb_place(&top, "cpus", i);
		struct import_who who = { -1U, -1U, 0, 0 };
		const char *trace, *switches;
		bool old = !json_tree_get(cpu, "id") &&
			   json_tree_get(cpu, "coreId");
		uint64_t id;

		rc = lldb_number(l, cpu, &at, old ? "coreId" : "id", MAX_CPU,
				 &id);
		if (rc == 0)
			rc = lldb_text(l, cpu, &at, "contextSwitchTrace", true,
				       &switches);
		if (rc == 0)
			rc = trace_path(l, cpu, &at, true, &trace);
		if (rc < 0)
			return rc;
		who.cpu = (uint32_t)id;
		rc = put_switches(l, switches, who.cpu);
		if (rc == 0)
			rc = put_stream(l, trace, who);
	}
	return rc;
}

/* A buffer for each thread. One without a buffer was not traced, and only has
 * its name in the result. */
static int put_thread_streams(struct lldb_bundle *l)
{
	const struct json_t *processes, *p, *threads, *t;
	int rc = 0;

	processes = json_tree_get(l->root, "processes");
	for (size_t i = 0; (p = json_tree_at(processes, i)); i++) {
		struct lldb_place at = lldb_place(&top, "processes", i);
		uint64_t pid, tid;

		rc = lldb_number(l, p, &at, "pid", INT32_MAX, &pid);
		threads = json_tree_get(p, "threads");
		for (size_t k = 0;
		     rc == 0 && (t = json_tree_at(threads, k)); k++) {
			struct lldb_place in = lldb_place(&at, "threads", k);
			struct import_who who = { (uint32_t)pid, 0, -1U, 0 };
			const char *path;

			rc = lldb_number(l, t, &in, "tid", INT32_MAX, &tid);
			if (rc == 0)
				rc = trace_path(l, t, &in, false, &path);
			who.tid = (uint32_t)tid;
			if (rc == 0 && path)
				rc = put_stream(l, path, who);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- processes, and what they map ---- */

/*
 * A module whose file is not there is mapped all the same, as far as a module
 * may reach: so the gap names it. What is there comes later and lies on top.
 */

/*
 * A uuid of MIN_BUILD_ID bytes or more is a build id; a shorter one is the
 * checksum that LLDB computes for a file without one. What is no uuid counts as
 * unknown.
 */
static void read_uuid(const char *s, struct import_map *m)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = 0;

	memset(m->build_id, 0, sizeof(m->build_id));
	m->build_id_size = 0;
	for (; s && *s; s++) {
		const char *d = strchr(digits, *s | 0x20);

		if (*s == '-')
			continue;
		if (!d || n == 2 * sizeof(m->build_id))
			return;
		m->build_id[n / 2] |= (uint8_t)((d - digits) <<
						(n % 2 ? 0 : 4));
		n++;
	}
	if (n % 2 == 0 && n / 2 >= MIN_BUILD_ID)
		m->build_id_size = (uint8_t)(n / 2);
}

/* Those that are not there, or the others. */
static int put_file(struct lldb_bundle *l, const char *name,
		    struct import_map *m, bool absent)
{
	struct import_file f;
	int rc = import_map_file(&f, l->dir, name, NULL);
	char *path;

	if (rc == 0) {
		if (!absent)
			rc = import_elf_map(l->b, &f, m, true, l->diag);
		import_unmap_file(&f);
		return rc;
	}
	if (rc == -AUX_E_NOMEM)
		return rc;
	if (!absent)
		return 0;
	path = import_absent(l->dir, name);
	if (!path)
		return -AUX_E_NOMEM;
	m->path = path;
	m->len = ABSENT_SIZE;
	import_build_map(l->b, m);
	free(path);
	return 0;
}

/* KERNEL_BASE is where x86-64 links the kernel: right without KASLR, and the
 * best guess when the bundle has no loadAddress. */
static int lldb_put_kernel(struct lldb_bundle *l)
{
	static const struct lldb_place at = { "kernel" };
	const struct json_t *k = json_tree_get(l->root, "kernel");
	struct import_map m = { .pid = UINT32_MAX, .addr = KERNEL_BASE };
	const char *file;
	int rc;

	if (!k)
		return 0;
	rc = lldb_text(l, k, &at, "file", true, &file);
	if (rc == 0 && json_tree_get(k, "loadAddress"))
		rc = lldb_number(l, k, &at, "loadAddress", UINT64_MAX, &m.addr);
	if (rc == 0)
		rc = put_file(l, file, &m, true);
	return rc == 0 ? put_file(l, file, &m, false) : rc;
}

/* "file" is the copy inside the bundle, systemPath where it was on the
 * machine. */
static int put_module(struct lldb_bundle *l, const struct json_t *module,
		      const struct lldb_place *at, uint32_t pid, bool absent)
{
	struct import_map m = { .pid = pid };
	const char *file, *system, *uuid;
	int rc = lldb_text(l, module, at, "file", false, &file);

	if (rc == 0)
		rc = lldb_text(l, module, at, "systemPath", !file, &system);
	if (rc == 0)
		rc = lldb_number(l, module, at, "loadAddress", UINT64_MAX,
				 &m.addr);
	if (rc == 0)
		rc = lldb_text(l, module, at, "uuid", false, &uuid);
	if (rc < 0)
		return rc;
	read_uuid(uuid, &m);
	return put_file(l, file ? file : system, &m, absent);
}

static int put_modules(struct lldb_bundle *l, const struct json_t *process,
		       const struct lldb_place *at, uint32_t pid, bool absent)
{
	const struct json_t *modules = json_tree_get(process, "modules");
	const struct json_t *m;
	int rc = 0;

	if (modules && !json_tree_is_array(modules))
		return lldb_fail(l, at, "modules", "is no list");
	for (size_t i = 0; rc == 0 && (m = json_tree_at(modules, i));
	     i++) {
		struct lldb_place in = lldb_place(at, "modules", i);

		rc = json_tree_is_object(m) ?
			     put_module(l, m, &in, pid, absent) :
			     lldb_fail(l, &in, "", "is no object");
	}
	return rc;
}

/* The name of a process is that of its first module. */
static const char *process_name(const struct json_t *process)
{
	const struct json_t *m = json_tree_get(process, "modules");
	const char *path, *slash;

	m = json_tree_at(m, 0);
	path = json_tree_text(json_tree_get(m, "systemPath"));
	slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path ? path : "";
}

/* A COMM for each thread; the first record of a pid also makes the process
 * known. */
static int put_threads(struct lldb_bundle *l, const struct json_t *process,
		       const struct lldb_place *at, uint32_t pid)
{
	const struct json_t *threads = json_tree_get(process, "threads");
	const struct json_t *t;
	int rc = 0;

	if (!json_tree_is_array(threads))
		return lldb_fail(l, at, "threads", "is missing");
	for (size_t i = 0; rc == 0 && (t = json_tree_at(threads, i));
	     i++) {
		struct lldb_place in = lldb_place(at, "threads", i);
		uint64_t tid;

		rc = lldb_number(l, t, &in, "tid", INT32_MAX, &tid);
		if (rc == 0)
			import_build_comm(l->b, (struct import_who){
						   pid, (uint32_t)tid, -1U, 0 },
					  process_name(process));
	}
	return rc;
}

/* Modules twice: first all that are absent, so that the guess of their size
 * never covers one that is there. */
static int put_process(struct lldb_bundle *l, const struct json_t *p,
		       const struct lldb_place *at)
{
	uint64_t pid;
	int rc;

	if (!json_tree_is_object(p))
		return lldb_fail(l, at, "", "is no object");
	rc = lldb_number(l, p, at, "pid", INT32_MAX, &pid);
	if (rc == 0)
		rc = put_threads(l, p, at, (uint32_t)pid);
	if (rc == 0)
		rc = put_modules(l, p, at, (uint32_t)pid, true);
	if (rc == 0)
		rc = put_modules(l, p, at, (uint32_t)pid, false);
	return rc;
}

/* kernel, and processes with modules and threads. */
static int lldb_put_processes(struct lldb_bundle *l)
{
	const struct json_t *all = json_tree_get(l->root, "processes");
	const struct json_t *p;
	int rc = 0;

	if (all && !json_tree_is_array(all))
		return lldb_fail(l, &top, "processes", "is no list");
	for (size_t i = 0; rc == 0 && (p = json_tree_at(all, i)); i++) {
		struct lldb_place at = lldb_place(&top, "processes", i);

		rc = put_process(l, p, &at);
	}
	return rc;
}

/* ---- the bundle ---- */

/*
 * In the order that builder.c wants. Errors of the description stop at once,
 * those of the file that is built stick in b and come out of import_build_open.
 */
static int build_bundle(struct lldb_bundle *l)
{
	const struct json_t *cpus = NULL;
	const char *type;
	int rc = lldb_text(l, head_of(l), &top, "type", true, &type);

	l->is_etm = rc == 0 && !strcmp(type, "arm-etm");
	if (rc == 0 && !l->is_etm && strcmp(type, "intel-pt"))
		rc = diag_set(l->diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			      "a bundle of \"%.40s\" trace; known are intel-pt "
			      "and arm-etm", type);
	if (rc == 0 && l->is_etm) {
		rc = put_unit(l);
	} else if (rc == 0) {
		cpus = cpus_of(l);
		rc = put_cpu(l);
		if (rc == 0)
			rc = put_info(l);
	}
	if (rc == 0)
		rc = lldb_put_kernel(l);
	if (rc == 0)
		rc = lldb_put_processes(l);
	if (rc == 0)
		rc = cpus ? put_cpu_streams(l, cpus) : put_thread_streams(l);
	if (rc == 0 && !l->b->n_streams && !rewrite_failed(l->b->w))
		rc = lldb_fail(l, &top, "", "no trace is named");
	return rc;
}

/* A directory by its trace.json, which is what `trace save` writes; a file by
 * the brace that a JSON object begins with. */
static bool probe(const struct import_source *s)
{
	size_t i = 0;
	struct import_file f;
	bool is_there;

	if (s->is_dir) {
		is_there = import_map_file(&f, s->path, "trace.json",
					   NULL) == 0;
		if (is_there)
			import_unmap_file(&f);
		return is_there;
	}
	while (i < s->n_head && strchr(" \t\r\n", s->head[i]) && s->head[i])
		i++;
	return i < s->n_head && s->head[i] == '{';
}

static int open_bundle(struct aux_reader **r, const struct import_source *s,
		       struct aux_diag *diag)
{
	struct import_build b;
	struct lldb_bundle l = { .b = &b, .anywhere = s->o->anywhere,
				 .diag = diag };
	struct import_file f = { 0 };
	int rc = import_build_init(&b, "intel_pt//", 0, diag);

	if (rc < 0)
		return rc;
	l.dir = s->is_dir ? strdup(s->path) : import_dirname(s->path);
	if (!l.dir)
		rc = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			      "out of memory");
	else
		rc = import_map_file(&f, s->is_dir ? s->path : NULL,
				     s->is_dir ? "trace.json" : s->path,
				     diag);
	if (rc == 0 && f.len > MAX_TEXT)
		rc = diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
			      "the bundle's description has more than %d bytes",
			      MAX_TEXT);
	if (rc == 0)
		rc = json_tree_parse(&l.root, f.data, f.len, diag);
	if (rc == 0)
		rc = build_bundle(&l);
	if (rc == 0)
		rc = import_build_open(&b, r, s->path, diag);
	json_tree_free(l.root);
	import_unmap_file(&f);
	import_build_fini(&b);
	free(l.dir);
	return rc;
}

const struct import_format import_lldb = {
	"LLDB trace bundle", false, probe, open_bundle,
};
