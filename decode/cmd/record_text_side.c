/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record_text: records of kernel code, of namespaces and groups, and perf's maps
 * of ids, threads and CPUs.
 *
 * Specification: <linux/perf_event.h>; of hw_id also coresight-event/pmu.h of Linux.
 */
#include <inttypes.h>

#include "common/bytes.h"

#include "decode/cmd/record_text_impl.h"

#define BUILD_ID 20
#define MISC_BUILD_ID_SIZE (1 << 15)

static struct cursor open_bytes(const struct aux_reader *r, struct aux_bytes b)
{
	return cursor_init(b.data, b.len, aux_reader_info(r)->swapped);
}

void record_text_ksymbol(struct outbuf *o, const struct aux_reader *r,
			 const struct aux_event *ev)
{
	static const char *const types[] = { " (unknown)", " (bpf)",
					     " (out-of-line)" };
	uint16_t type = ev->ksymbol.ksym_type, flags = ev->ksymbol.flags;

	(void)r;
	outbuf_printf(o, " addr %#" PRIx64 " len %u type %u%s flags %#x%s ",
		      ev->ksymbol.addr, ev->ksymbol.len, type,
		      type < 3 ? types[type] : "", flags,
		      flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER ?
			      " (unregister)" : "");
	record_text_string(o, ev->ksymbol.name, SIZE_MAX);
}

static void put_code(struct outbuf *o, const char *what, const uint8_t *p,
		     size_t n)
{
	outbuf_printf(o, " %s ", what);
	if (n)
		record_text_hex(o, p, n);
	else
		outbuf_str(o, "none");
}

void record_text_poke(struct outbuf *o, const struct aux_reader *r,
		      const struct aux_event *ev)
{
	const uint8_t *p = ev->text_poke.bytes;
	uint16_t n_old = ev->text_poke.old_len, n_new = ev->text_poke.new_len;

	(void)r;
	outbuf_printf(o, " addr %#" PRIx64, ev->text_poke.addr);
	put_code(o, "old", p, n_old);
	put_code(o, "new", p + n_old, n_new);
}

void record_text_bpf(struct outbuf *o, const struct aux_reader *r,
		     const struct aux_event *ev)
{
	static const char *const types[] = { " (unknown)", " (load)",
					     " (unload)" };

	(void)r;
	outbuf_printf(o, " type %u%s flags %#x id %u tag ", ev->bpf.type,
		      ev->bpf.type < 3 ? types[ev->bpf.type] : "",
		      ev->bpf.flags, ev->bpf.id);
	record_text_hex(o, ev->bpf.tag, sizeof(ev->bpf.tag));
}

void record_text_namespaces(struct outbuf *o, const struct aux_reader *r,
			    const struct aux_event *ev)
{
	static const char *const names[] = { "net", "uts", "ipc", "pid",
					     "user", "mnt", "cgroup" };
	struct cursor c = open_bytes(r, ev->namespaces.ids);

	outbuf_printf(o, " pid %d tid %d n %" PRIu64, PID(ev->namespaces.pid),
		      PID(ev->namespaces.tid), ev->namespaces.n);
	for (unsigned i = 0; cursor_left(&c); i++) {
		uint64_t dev = cursor_u64(&c), inode = cursor_u64(&c);

		if (i < sizeof(names) / sizeof(names[0]))
			outbuf_printf(o, " %s", names[i]);
		else
			outbuf_printf(o, " %u", i);
		outbuf_printf(o, " %#" PRIx64 "/%" PRIu64, dev, inode);
	}
}

void record_text_cgroup(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " id %" PRIu64 " ", ev->cgroup.id);
	record_text_string(o, ev->cgroup.path, SIZE_MAX);
}

/* Intel (PEBS through PT): a counter. Arm: the trace id of a CPU, by version. */
void record_text_hw_id(struct outbuf *o, const struct aux_reader *r,
		       const struct aux_event *ev)
{
	uint64_t v = ev->aux_output_hw_id.hw_id;
	unsigned major = v >> 60, minor = v >> 56 & 15;

	(void)r;
	outbuf_printf(o, " hw-id %#" PRIx64, v);
	if (!ev->attr)
		return;
	if (ev->attr->attr.aux_output) {
		outbuf_printf(o, " (counter %" PRIu64 ")", v);
		return;
	}
	outbuf_printf(o, " (version %u.%u", major, minor);
	if (!major)
		outbuf_printf(o, " trace-id %#x", (unsigned)(v & 0xff));
	if (!major && minor)
		outbuf_printf(o, " sink-id %#x", (uint32_t)(v >> 8));
	outbuf_str(o, ")");
}

void record_text_read(struct outbuf *o, const struct aux_reader *r,
		      const struct aux_event *ev)
{
	uint64_t f = ev->read.format;

	if (!ev->attr || ev->attr->attr.read_format & PERF_FORMAT_GROUP) {
		record_text_bytes(o, r, ev);
		return;
	}
	outbuf_printf(o, " pid %d tid %d value %" PRIu64, PID(ev->read.pid),
		      PID(ev->read.tid), ev->read.value);
	if (f & PERF_FORMAT_TOTAL_TIME_ENABLED)
		outbuf_printf(o, " enabled %" PRIu64, ev->read.enabled);
	if (f & PERF_FORMAT_TOTAL_TIME_RUNNING)
		outbuf_printf(o, " running %" PRIu64, ev->read.running);
	if (f & PERF_FORMAT_ID)
		outbuf_printf(o, " id %" PRIu64, ev->read.id);
	if (f & PERF_FORMAT_LOST)
		outbuf_printf(o, " lost %" PRIu64, ev->read.lost);
}

void record_text_callchain(struct outbuf *o, const struct aux_reader *r,
			   const struct aux_event *ev)
{
	struct cursor c = open_bytes(r, ev->callchain.ips);

	outbuf_printf(o, " cookie %#" PRIx64 " n %" PRIu64,
		      ev->callchain.cookie, ev->callchain.n);
	while (cursor_left(&c))
		outbuf_printf(o, " %#" PRIx64, cursor_u64(&c));
}

void record_text_id_index(struct outbuf *o, const struct aux_reader *r,
			  const struct aux_event *ev)
{
	struct cursor c = open_bytes(r, ev->id_index.entries);
	struct cursor g = open_bytes(r, ev->id_index.guests);

	outbuf_printf(o, " %" PRIu64 ":", ev->id_index.n);
	while (cursor_left(&c)) {
		uint64_t id = cursor_u64(&c), idx = cursor_u64(&c);
		uint64_t cpu = cursor_u64(&c), tid = cursor_u64(&c);
		uint64_t machine = g.p ? cursor_u64(&g) : 0;
		uint64_t vcpu = g.p ? cursor_u64(&g) : 0;

		outbuf_printf(o, " (id %" PRIu64 " stream %" PRIu64
				 " cpu %" PRId64 " tid %" PRId64,
			      id, idx, (int64_t)cpu, (int64_t)tid);
		if (machine)
			outbuf_printf(o, " machine %" PRIu64 " vcpu %" PRId64,
				      machine, (int64_t)vcpu);
		outbuf_str(o, ")");
	}
}

void record_text_thread_map(struct outbuf *o, const struct aux_reader *r,
			    const struct aux_event *ev)
{
	struct cursor c = open_bytes(r, ev->thread_map.entries);
	const uint8_t *comm;

	outbuf_printf(o, " %" PRIu64 ":", ev->thread_map.n);
	while (cursor_left(&c)) {
		outbuf_printf(o, " (tid %" PRId64 " ", (int64_t)cursor_u64(&c));
		comm = cursor_bytes(&c, 16);
		record_text_string(o, (const char *)comm, 16);
		outbuf_str(o, ")");
	}
}

static void put_mask(struct outbuf *o, const struct aux_reader *r,
		     const struct aux_event *ev)
{
	unsigned size = ev->cpu_map.long_size;
	struct cursor c = open_bytes(r, ev->cpu_map.data);

	outbuf_printf(o, " mask of %u words of %u bytes:", ev->cpu_map.n, size);
	for (unsigned base = 0; cursor_left(&c); base += 8 * size) {
		uint64_t m = size == 8 ? cursor_u64(&c) : cursor_u32(&c);

		for (unsigned i = 0; m; i++, m >>= 1)
			if (m & 1)
				outbuf_printf(o, " %u", base + i);
	}
}

void record_text_cpu_map(struct outbuf *o, const struct aux_reader *r,
			 const struct aux_event *ev)
{
	struct cursor c = open_bytes(r, ev->cpu_map.data);

	switch (ev->cpu_map.type) {
	case AUX_CPU_MAP_CPUS:
		outbuf_printf(o, " %u:", ev->cpu_map.n);
		while (cursor_left(&c))
			outbuf_printf(o, " %d", (int16_t)cursor_u16(&c));
		break;
	case AUX_CPU_MAP_MASK:
		put_mask(o, r, ev);
		break;
	case AUX_CPU_MAP_RANGE:
		outbuf_printf(o, " range%s %u to %u",
			      ev->cpu_map.any ? " any or" : "",
			      ev->cpu_map.start, ev->cpu_map.end);
		break;
	default:
		record_text_bytes(o, r, ev);
	}
}

/* i32 pid, 20 bytes of id and 4 that may tell its length, the file's name. */
void record_text_build_id(struct outbuf *o, const struct aux_reader *r,
			  const struct aux_event *ev)
{
	struct cursor c = open_bytes(r, ev->raw);
	uint32_t pid;
	const uint8_t *id;
	size_t len = BUILD_ID;

	cursor_u64(&c);
	pid = cursor_u32(&c);
	id = cursor_bytes(&c, BUILD_ID + 4);
	if (!id) {
		record_text_bytes(o, r, ev);
		return;
	}
	if (ev->misc & MISC_BUILD_ID_SIZE && id[BUILD_ID] < len)
		len = id[BUILD_ID];
	outbuf_printf(o, " pid %d build-id ", PID(pid));
	record_text_hex(o, id, len);
	outbuf_str(o, " ");
	record_text_string(o, (const char *)c.p, cursor_left(&c));
}

void record_text_tracing_data(struct outbuf *o, const struct aux_reader *r,
			      const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " %" PRIu64 " bytes", ev->tracing_data.data.len);
}
