/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records, feature bits and AUX flags as text for people. One record, one line:
 * strings from the file are printed with what is no printable ASCII as \xNN, so
 * a record never breaks its line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "common/bytes.h"
#include "common/outbuf.h"
#include "decode/cmd/impl.h"

/* pid_t fields: -1 says more than 4294967295. */
#define PID(x) ((int32_t)(x))

#define RAW_SHOWN 32	/* bytes of a record that has no parser */

/* Puts the fields of one kind of record, each with a blank before it. */
typedef void (*text_fn)(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev);

struct record_kind {
	const char *name;
	text_fn text;
};

/* What is no printable ASCII as \xNN. s: NULL, or n bytes up to a NUL. */
static void put_text_z(struct outbuf *o, const char *s, size_t n)
{
	for (; s && n-- && *s; s++) {
		if (*s >= ' ' && *s < 0x7f)
			outbuf_put(o, s, 1);
		else
			outbuf_printf(o, "\\x%02x", (uint8_t)*s);
	}
}

static void put_string(struct outbuf *o, const char *s)
{
	put_text_z(o, s, SIZE_MAX);
}

static void put_hex(struct outbuf *o, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		outbuf_printf(o, "%02x", p[i]);
}

/* A record that has no parser, or whose event is not in the file: the first
 * bytes after the 8 of the header. */
static void text_bytes(struct outbuf *o, const struct aux_reader *r,
			      const struct aux_event *ev)
{
	size_t n = ev->raw.len > 8 ? ev->raw.len - 8 : 0;

	(void)r;
	if (!n)
		return;
	outbuf_str(o, " ");
	put_hex(o, ev->raw.data + 8, n < RAW_SHOWN ? n : RAW_SHOWN);
	if (n > RAW_SHOWN)
		outbuf_printf(o, "... (%zu bytes)", n);
}

/* record_text: auxkit's own records, and perf's of the same type. */

static void put_text(struct outbuf *o, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		outbuf_printf(o, p[i] >= ' ' && p[i] < 0x7f ? "%c" : "\\x%02x",
			      p[i]);
}

/* Names of enum aux_ledger_cause, in its order, as single words: a line stays
 * easy to split. info prints the sentences of losses_text(). */
static void put_cause(struct outbuf *o, uint32_t cause)
{
	static const char *const names[AUX_LEDGER_N_CAUSES] = {
		"saved", "truncated", "partial", "collision", "lost-records",
		"overwritten", "throttled", "not-traced", "killed", "endless",
		"unexplained", "injected", "stalled", "unwritten", "unread",
		"offline", "ended", "undescribed", "at-least", "halted",
		"suspended",
	};

	if (cause < AUX_LEDGER_N_CAUSES)
		outbuf_printf(o, " %s", names[cause]);
	else
		outbuf_printf(o, " cause %u", cause);
}

/* Written by auxcap where trace is lost. -1 for stream, cpu or tid, and no
 * offset: the loss belongs to none in particular. */
static void put_loss(struct outbuf *o, const struct aux_own_loss *l)
{
	outbuf_str(o, " auxkit-loss");
	put_cause(o, l->cause);
	outbuf_printf(o, " stream %d", PID(l->idx));
	if (l->offset != UINT64_MAX)
		outbuf_printf(o, " offset %#" PRIx64, l->offset);
	outbuf_printf(o, " bytes %" PRIu64 " from %" PRIu64 " to %" PRIu64
			 " cpu %d tid %d",
		      l->bytes, l->first_ns, l->last_ns, PID(l->cpu),
		      PID(l->tid));
}

/* Separates one snapshot (-S) from the next: its number, when it was taken, and
 * the label that the control FIFO gave it. */
static void put_snapshot(struct outbuf *o, const struct aux_event *ev)
{
	const struct aux_own_snapshot *h = &ev->own.snapshot.h;

	outbuf_printf(o, " auxkit-snapshot %" PRIu64 " time %" PRIu64
			 " reason %u label \"", h->number, h->time_ns,
		      h->reason);
	put_text(o, ev->own.snapshot.label, h->label_len);
	outbuf_str(o, "\"");
}

/* Code that a program generated, saved when it was traced. A record without
 * bytes refers to the blob of an earlier one: the same code at another place or
 * time. */
static void put_code(struct outbuf *o, const struct aux_event *ev)
{
	const struct aux_own_code *h = &ev->own.code.h;

	outbuf_printf(o, " auxkit-code pid %d addr %#" PRIx64 " len %" PRIu64
			 " time %" PRIu64 " kind %u blob %" PRIu64 "%s",
		      PID(h->pid), h->addr, h->len, h->time_ns, h->kind,
		      h->blob, ev->own.code.bytes ? "" : " (of before)");
}

/* What the recorder waited for. */
static void put_moment(struct outbuf *o, const struct aux_event *ev)
{
	const struct aux_own_moment *h = &ev->own.moment.h;

	outbuf_printf(o, " auxkit-moment %d/%d cpu %d time %" PRIu64 " took %" PRIu64
			 " label \"", PID(h->pid), PID(h->tid), PID(h->cpu), h->time_ns,
		      h->took_ns);
	put_text(o, ev->own.moment.label, h->label_len);
	outbuf_str(o, "\"");
}

/* A signal that a thread got, or a thread's end. */
static void put_signal(struct outbuf *o, const struct aux_own_signal *s)
{
	outbuf_printf(o, " auxkit-signal %s %d/%d time %" PRIu64 " signal %u code %d",
		      s->what == AUX_SIGNAL_ENDED ? "ended" : "delivered", PID(s->pid),
		      PID(s->tid), s->time_ns, s->signo, s->code);
	if (s->flags & AUX_SIGNAL_HAS_IP)
		outbuf_printf(o, " ip %#" PRIx64, s->ip);
	if (s->flags & AUX_SIGNAL_HAS_ADDR)
		outbuf_printf(o, " addr %#" PRIx64, s->addr);
	if (s->sender)
		outbuf_printf(o, " sender %u", s->sender);
	if (s->flags & AUX_SIGNAL_CORE)
		outbuf_str(o, " core");
}

/* Entries of the loss ledger. 16 bytes of each, the first and last time, are
 * left out to keep the line short; info shows those of saved trace. */
static void put_ledger(struct outbuf *o, const struct aux_reader *r,
		       const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->own.ledger.data, ev->own.ledger.len,
				      aux_reader_info(r)->swapped);

	outbuf_str(o, " auxkit-ledger");
	while (cursor_left(&c) >= sizeof(struct aux_ledger_entry)) {
		uint32_t idx = cursor_u32(&c), cause = cursor_u32(&c);
		uint64_t bytes = cursor_u64(&c);

		cursor_bytes(&c, 16);
		outbuf_printf(o, " (stream %d", PID(idx));
		put_cause(o, cause);
		outbuf_printf(o, " %" PRIu64, bytes);
		outbuf_printf(o, " n %" PRIu64 ")", cursor_u64(&c));
	}
}

/* The path after a fixed part of head_len bytes; its length is at offset at. */
static void put_path(struct outbuf *o, const struct aux_event *ev,
		     uint64_t head_len, uint32_t path_len)
{
	const struct aux_bytes *p = &ev->own.payload;

	if (p->len >= head_len && path_len <= p->len - head_len)
		put_text(o, p->data + head_len, path_len);
}

/* A piece of a file that decoding needs: a large file is in several, each with
 * its offset. */
static void put_file(struct outbuf *o, const struct aux_reader *r,
		     const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->own.payload.data,
				      ev->own.payload.len,
				      aux_reader_info(r)->swapped);
	uint64_t offset = cursor_u64(&c), total = cursor_u64(&c);
	uint32_t path_len = cursor_u32(&c), pid = cursor_u32(&c);

	outbuf_printf(o, " auxkit-file pid %d offset %" PRIu64 " of %" PRIu64
			 " ", PID(pid), offset, total);
	put_path(o, ev, sizeof(struct aux_own_file), path_len);
}

/* Symbols of one file, found by its build id: the head only. */
static void put_symbols(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->own.payload.data,
				      ev->own.payload.len,
				      aux_reader_info(r)->swapped);
	uint32_t path_len, n;

	cursor_bytes(&c, 20);	/* build id */
	cursor_u32(&c);
	path_len = cursor_u32(&c);
	n = cursor_u32(&c);
	outbuf_printf(o, " auxkit-symbols n %u ", n);
	put_path(o, ev, sizeof(struct aux_own_symbols), path_len);
}

/*
 * auxkit's own records have the type EVENT_TYPE: perf keeps it for old files in
 * pipe mode and skips it (tools/perf/util/session.c), so perf can still read
 * the recording. Kind 0 is an EVENT_TYPE that perf itself wrote.
 */
static void text_own(struct outbuf *o, const struct aux_reader *r,
			    const struct aux_event *ev)
{
	switch (ev->own.kind) {
	case 0:
		text_bytes(o, r, ev);
		return;
	case AUX_OWN_LOSS:
		put_loss(o, &ev->own.loss);
		return;
	case AUX_OWN_SNAPSHOT:
		put_snapshot(o, ev);
		return;
	case AUX_OWN_CODE:
		put_code(o, ev);
		return;
	case AUX_OWN_MOMENT:
		put_moment(o, ev);
		return;
	case AUX_OWN_SIGNAL:
		put_signal(o, &ev->own.signal);
		return;
	case AUX_OWN_SOURCE:
		outbuf_str(o, " auxkit-source ");
		put_text(o, ev->own.source.data, ev->own.source.len);
		return;
	case AUX_OWN_LEDGER:
		put_ledger(o, r, ev);
		return;
	case AUX_OWN_FILE:
		put_file(o, r, ev);
		return;
	case AUX_OWN_SYMBOLS:
		put_symbols(o, r, ev);
		return;
	case AUX_OWN_PIECE:
		outbuf_printf(o, " auxkit-piece of a section, %" PRIu64
				 " bytes", ev->own.payload.len);
		return;
	}
	outbuf_printf(o, " auxkit-%u version %u, %" PRIu64 " bytes",
		      ev->own.kind, ev->own.version, ev->own.payload.len);
}

/*
 * record_text: records of kernel code, of namespaces and groups, and perf's
 * maps of ids, threads and CPUs.
 *
 * Specification: <linux/perf_event.h>; of hw_id also coresight-event/pmu.h of
 * Linux.
 */

#define BUILD_ID 20
#define MISC_BUILD_ID_SIZE (1 << 15)

static struct cursor open_bytes(const struct aux_reader *r, struct aux_bytes b)
{
	return cursor_init(b.data, b.len, aux_reader_info(r)->swapped);
}

/* perf script prints the same fields; names of types are those of enum
 * perf_record_ksymbol_type. */
static void text_ksymbol(struct outbuf *o, const struct aux_reader *r,
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
	put_text_z(o, ev->ksymbol.name, SIZE_MAX);
}

/* The code before and after a text poke; either may be empty. */
static void put_bytes(struct outbuf *o, const char *what,
				      const uint8_t *p, size_t n)
{
	outbuf_printf(o, " %s ", what);
	if (n)
		put_hex(o, p, n);
	else
		outbuf_str(o, "none");
}

/* The kernel patched its own text (jump labels, ftrace): old bytes, then new. A
 * decode of kernel code needs both, to know what ran before and after. */
static void text_poke(struct outbuf *o, const struct aux_reader *r,
			     const struct aux_event *ev)
{
	const uint8_t *p = ev->text_poke.bytes;
	uint16_t n_old = ev->text_poke.old_len, n_new = ev->text_poke.new_len;

	(void)r;
	outbuf_printf(o, " addr %#" PRIx64, ev->text_poke.addr);
	put_bytes(o, "old", p, n_old);
	put_bytes(o, "new", p + n_old, n_new);
}

static void text_bpf(struct outbuf *o, const struct aux_reader *r,
			    const struct aux_event *ev)
{
	static const char *const types[] = { " (unknown)", " (load)",
					     " (unload)" };

	(void)r;
	outbuf_printf(o, " type %u%s flags %#x id %u tag ", ev->bpf.type,
		      ev->bpf.type < 3 ? types[ev->bpf.type] : "",
		      ev->bpf.flags, ev->bpf.id);
	put_hex(o, ev->bpf.tag, sizeof(ev->bpf.tag));
}

/* DEVICE/INODE of each namespace, in the order of the kernel's *_NS_INDEX. One
 * that this build has no name for is shown by number. */
static void text_namespaces(struct outbuf *o, const struct aux_reader *r,
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

static void text_cgroup(struct outbuf *o, const struct aux_reader *r,
			       const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " id %" PRIu64 " ", ev->cgroup.id);
	put_text_z(o, ev->cgroup.path, SIZE_MAX);
}

/* Intel (PEBS through PT): a counter. Arm: the trace id of a CPU, by
 * version. */
static void text_hw_id(struct outbuf *o, const struct aux_reader *r,
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

/* The layout depends on read_format of the event. Without the event, or for a
 * group (which has one value per member), only the bytes are shown. */
static void text_read(struct outbuf *o, const struct aux_reader *r,
			     const struct aux_event *ev)
{
	uint64_t f = ev->read.format;

	if (!ev->attr || ev->attr->attr.read_format & PERF_FORMAT_GROUP) {
		text_bytes(o, r, ev);
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

/* CALLCHAIN_DEFERRED: the user part of a call chain that a sample before
 * it left out; the cookie joins the two. */
static void text_callchain(struct outbuf *o, const struct aux_reader *r,
				  const struct aux_event *ev)
{
	struct cursor c = open_bytes(r, ev->callchain.ips);

	outbuf_printf(o, " cookie %#" PRIx64 " n %" PRIu64,
		      ev->callchain.cookie, ev->callchain.n);
	while (cursor_left(&c))
		outbuf_printf(o, " %#" PRIx64, cursor_u64(&c));
}

/* Which CPU and thread each event id stands for. Where guests were recorded a
 * second array follows, one entry about the guest for each. */
static void text_id_index(struct outbuf *o, const struct aux_reader *r,
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

/* A name has 16 bytes and need not end with NUL. */
static void text_thread_map(struct outbuf *o, const struct aux_reader *r,
				   const struct aux_event *ev)
{
	struct cursor c = open_bytes(r, ev->thread_map.entries);
	const uint8_t *comm;

	outbuf_printf(o, " %" PRIu64 ":", ev->thread_map.n);
	while (cursor_left(&c)) {
		outbuf_printf(o, " (tid %" PRId64 " ", (int64_t)cursor_u64(&c));
		comm = cursor_bytes(&c, 16);
		put_text_z(o, (const char *)comm, 16);
		outbuf_str(o, ")");
	}
}

/* Words of 4 or 8 bytes as the recording machine has them: CPU n is bit n %
 * bits of word n / bits. */
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

/* The three forms of a CPU list; perf writes the shortest. */
static void text_cpu_map(struct outbuf *o, const struct aux_reader *r,
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
		text_bytes(o, r, ev);
	}
}

/* i32 pid, 20 bytes of id and 4 that may tell its length, the file's name. */
static void text_build_id(struct outbuf *o, const struct aux_reader *r,
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
		text_bytes(o, r, ev);
		return;
	}
	if (ev->misc & MISC_BUILD_ID_SIZE && id[BUILD_ID] < len)
		len = id[BUILD_ID];
	outbuf_printf(o, " pid %d build-id ", PID(pid));
	put_hex(o, id, len);
	outbuf_str(o, " ");
	put_text_z(o, (const char *)c.p, cursor_left(&c));
}

static void text_tracing_data(struct outbuf *o,
				     const struct aux_reader *r,
				     const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " %" PRIu64 " bytes", ev->tracing_data.data.len);
}

/* dev and inode, or the build id: they share their place in MMAP2, and a bit of
 * the header says which it is. MAP_PRIVATE is what nearly every mapping has, so
 * only other flags are shown. */
static void text_mmap(struct outbuf *o, const struct aux_reader *r,
		      const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o,
		      " pid %d tid %d addr %#" PRIx64 " len %#" PRIx64
		      " pgoff %#" PRIx64,
		      PID(ev->mmap.pid), PID(ev->mmap.tid), ev->mmap.addr,
		      ev->mmap.len, ev->mmap.pgoff);
	if (ev->mmap.build_id_size) {
		outbuf_str(o, " build-id ");
		put_hex(o, ev->mmap.build_id, ev->mmap.build_id_size);
	} else if (ev->type == PERF_RECORD_MMAP2) {
		outbuf_printf(o, " dev %02x:%02x ino %" PRIu64, ev->mmap.maj,
			      ev->mmap.min, ev->mmap.ino);
		if (ev->mmap.ino_generation)
			outbuf_printf(o, " generation %" PRIu64,
				      ev->mmap.ino_generation);
	}
	if (ev->mmap.flags && ev->mmap.flags != MAP_PRIVATE)
		outbuf_printf(o, " flags %#x", ev->mmap.flags);
	outbuf_printf(o, " %c%c%c ", ev->mmap.prot & 1 ? 'r' : '-',
		      ev->mmap.prot & 2 ? 'w' : '-',
		      ev->mmap.prot & 4 ? 'x' : '-');
	put_string(o, ev->mmap.path);
}

static void text_comm(struct outbuf *o, const struct aux_reader *r,
		      const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " pid %d tid %d%s ", PID(ev->comm.pid),
		      PID(ev->comm.tid), ev->comm.exec ? " exec" : "");
	put_string(o, ev->comm.comm);
}

static void text_task(struct outbuf *o, const struct aux_reader *r,
		      const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " pid %d tid %d ppid %d ptid %d time %" PRIu64,
		      PID(ev->task.pid), PID(ev->task.tid), PID(ev->task.ppid),
		      PID(ev->task.ptid), ev->task.time);
}

static void text_lost(struct outbuf *o, const struct aux_reader *r,
		      const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " id %" PRIu64 " lost %" PRIu64, ev->lost.id,
		      ev->lost.lost);
}

static void text_throttle(struct outbuf *o, const struct aux_reader *r,
			  const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " time %" PRIu64 " id %" PRIu64, ev->throttle.time,
		      ev->throttle.id);
	if (ev->throttle.stream_id)
		outbuf_printf(o, " stream-id %" PRIu64, ev->throttle.stream_id);
}

static void text_sample(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " ip %#" PRIx64 " period %" PRIu64, ev->sample.ip,
		      ev->sample.period);
	if (ev->sample.cgroup)
		outbuf_printf(o, " cgroup %" PRIu64, ev->sample.cgroup);
	if (ev->sample.raw_data.len)
		outbuf_printf(o, " raw %" PRIu64, ev->sample.raw_data.len);
	if (ev->sample.aux.len)
		outbuf_printf(o, " aux %" PRIu64, ev->sample.aux.len);
}

static void text_aux(struct outbuf *o, const struct aux_reader *r,
		     const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " offset %#" PRIx64 " size %#" PRIx64 " flags ",
		      ev->aux.offset, ev->aux.size);
	aux_flags_text(o, ev->aux.flags);
}

static void text_itrace(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " pid %d tid %d", PID(ev->itrace.pid),
		      PID(ev->itrace.tid));
}

/* The thread itself is in the trailer; a CPU-wide record also names the other
 * one.
 * */
static void text_switch(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o, " %s%s", ev->sw.out ? "out" : "in",
		      ev->sw.preempt ? " preempt" : "");
	if (ev->sw.cpu_wide)
		outbuf_printf(o, " %s pid %d tid %d",
			      ev->sw.out ? "next" : "prev",
			      PID(ev->sw.next_prev_pid),
			      PID(ev->sw.next_prev_tid));
}

/* priv as plain numbers: what each means depends on the type (AUX_PT_*,
 * AUX_CS_*).
 * */
static void text_auxtrace_info(struct outbuf *o, const struct aux_reader *r,
			       const struct aux_event *ev)
{
	uint32_t type = ev->auxtrace_info.trace_type;

	(void)r;
	outbuf_printf(o, " type %u%s priv", type,
		      type == 1 ? " (intel_pt)" : type == 3 ? " (cs_etm)" : "");
	for (uint32_t i = 0; i < ev->auxtrace_info.n_priv; i++)
		outbuf_printf(o, " %#" PRIx64, ev->auxtrace_info.priv[i]);
}

/* The head of a payload. zstd is there for a compressed one: how many bytes it
 * takes in the file. A file that was cut off has fewer bytes than size says. */
static void text_auxtrace(struct outbuf *o, const struct aux_reader *r,
			  const struct aux_event *ev)
{
	const struct aux_rec_auxtrace *h = &ev->auxtrace.h;

	(void)r;
	outbuf_printf(o,
		      " stream %u offset %#" PRIx64 " size %#" PRIx64
		      " reference %#" PRIx64 " cpu %d tid %d",
		      h->idx, h->offset, h->size, h->reference, PID(h->cpu),
		      PID(h->tid));
	if (ev->auxtrace.zstd_size)
		outbuf_printf(o, " zstd %#" PRIx64, ev->auxtrace.zstd_size);
	if (ev->auxtrace.damage)
		outbuf_printf(o, " (damaged: %s; %#" PRIx64 " bytes are there)",
			      ev->auxtrace.damage, ev->auxtrace.payload.len);
	else if (ev->auxtrace.clipped)
		outbuf_printf(o, " (cut: %#" PRIx64 " bytes are there)",
			      ev->auxtrace.payload.len);
}

/* perf inject writes these where perf's decoder failed. */
static void text_auxtrace_error(struct outbuf *o, const struct aux_reader *r,
				const struct aux_event *ev)
{
	(void)r;
	outbuf_printf(o,
		      " type %u code %u cpu %d pid %d tid %d ip %#" PRIx64
		      " time %" PRIu64 " ",
		      ev->auxtrace_error.error_type, ev->auxtrace_error.code,
		      PID(ev->auxtrace_error.cpu), PID(ev->auxtrace_error.pid),
		      PID(ev->auxtrace_error.tid), ev->auxtrace_error.ip,
		      ev->auxtrace_error.time);
	if (ev->auxtrace_error.machine_pid)
		outbuf_printf(o, "machine %d vcpu %d ",
			      PID(ev->auxtrace_error.machine_pid),
			      PID(ev->auxtrace_error.vcpu));
	put_string(o, ev->auxtrace_error.msg);
}

static void text_time_conv(struct outbuf *o, const struct aux_reader *r,
			   const struct aux_event *ev)
{
	const struct aux_rec_time_conv *t = &ev->time_conv;

	(void)r;
	outbuf_printf(o,
		      " shift %" PRIu64 " mult %" PRIu64 " zero %" PRIu64,
		      t->time_shift, t->time_mult, t->time_zero);
	if (t->time_mask)
		outbuf_printf(o, " cycles %" PRIu64 " mask %#" PRIx64,
			      t->time_cycles, t->time_mask);
}

/* In pipe mode there is no header at the end of the file: each feature section
 * is a record of its own. */
static void text_feature(struct outbuf *o, const struct aux_reader *r,
			 const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->raw.data, ev->raw.len,
				      aux_reader_info(r)->swapped);
	struct name_buf buf;
	uint64_t bit;

	cursor_u64(&c);
	bit = cursor_u64(&c);
	outbuf_printf(o, " %s %zu bytes",
		      feature_name(bit < AUX_FEAT_BITS ? (unsigned)bit :
							 AUX_FEAT_BITS, &buf),
		      cursor_left(&c));
}

/* table */
static const struct record_kind kinds[] = {
	[PERF_RECORD_MMAP] = { "MMAP", text_mmap },
	[PERF_RECORD_LOST] = { "LOST", text_lost },
	[PERF_RECORD_COMM] = { "COMM", text_comm },
	[PERF_RECORD_EXIT] = { "EXIT", text_task },
	[PERF_RECORD_THROTTLE] = { "THROTTLE", text_throttle },
	[PERF_RECORD_UNTHROTTLE] = { "UNTHROTTLE", text_throttle },
	[PERF_RECORD_FORK] = { "FORK", text_task },
	[PERF_RECORD_READ] = { "READ", text_read },
	[PERF_RECORD_SAMPLE] = { "SAMPLE", text_sample },
	[PERF_RECORD_MMAP2] = { "MMAP2", text_mmap },
	[PERF_RECORD_AUX] = { "AUX", text_aux },
	[PERF_RECORD_ITRACE_START] = { "ITRACE_START", text_itrace },
	[PERF_RECORD_LOST_SAMPLES] = { "LOST_SAMPLES", text_lost },
	[PERF_RECORD_SWITCH] = { "SWITCH", text_switch },
	[PERF_RECORD_SWITCH_CPU_WIDE] = { "SWITCH_CPU_WIDE", text_switch },
	[PERF_RECORD_NAMESPACES] = { "NAMESPACES", text_namespaces },
	[PERF_RECORD_KSYMBOL] = { "KSYMBOL", text_ksymbol },
	[PERF_RECORD_BPF_EVENT] = { "BPF_EVENT", text_bpf },
	[PERF_RECORD_CGROUP] = { "CGROUP", text_cgroup },
	[PERF_RECORD_TEXT_POKE] = { "TEXT_POKE", text_poke },
	[PERF_RECORD_AUX_OUTPUT_HW_ID] = { "AUX_OUTPUT_HW_ID",
					   text_hw_id },
	[22] = { "CALLCHAIN_DEFERRED", text_callchain },
	[AUX_RECORD_HEADER_ATTR] = { "HEADER_ATTR", NULL },
	[AUX_RECORD_EVENT_TYPE] = { "EVENT_TYPE", text_own },
	[AUX_RECORD_TRACING_DATA] = { "TRACING_DATA", text_tracing_data },
	[AUX_RECORD_BUILD_ID] = { "BUILD_ID", text_build_id },
	[AUX_RECORD_FINISHED_ROUND] = { "FINISHED_ROUND", NULL },
	[AUX_RECORD_ID_INDEX] = { "ID_INDEX", text_id_index },
	[AUX_RECORD_AUXTRACE_INFO] = { "AUXTRACE_INFO", text_auxtrace_info },
	[AUX_RECORD_AUXTRACE] = { "AUXTRACE", text_auxtrace },
	[AUX_RECORD_AUXTRACE_ERROR] = { "AUXTRACE_ERROR", text_auxtrace_error },
	[AUX_RECORD_THREAD_MAP] = { "THREAD_MAP", text_thread_map },
	[AUX_RECORD_CPU_MAP] = { "CPU_MAP", text_cpu_map },
	[AUX_RECORD_STAT_CONFIG] = { "STAT_CONFIG", NULL },
	[AUX_RECORD_STAT] = { "STAT", NULL },
	[AUX_RECORD_STAT_ROUND] = { "STAT_ROUND", NULL },
	[AUX_RECORD_EVENT_UPDATE] = { "EVENT_UPDATE", NULL },
	[AUX_RECORD_TIME_CONV] = { "TIME_CONV", text_time_conv },
	[AUX_RECORD_HEADER_FEATURE] = { "HEADER_FEATURE", text_feature },
	[AUX_RECORD_COMPRESSED] = { "COMPRESSED", NULL },
	[AUX_RECORD_FINISHED_INIT] = { "FINISHED_INIT", NULL },
	[AUX_RECORD_COMPRESSED2] = { "COMPRESSED2", NULL },
	[AUX_RECORD_BPF_METADATA] = { "BPF_METADATA", NULL },
	[AUX_RECORD_SCHEDSTAT_CPU] = { "SCHEDSTAT_CPU", NULL },
	[AUX_RECORD_SCHEDSTAT_DOMAIN] = { "SCHEDSTAT_DOMAIN", NULL },
};

/* table */
static const char *const features[] = {
	[AUX_FEAT_TRACING_DATA] = "tracing_data",
	[AUX_FEAT_BUILD_ID] = "build_id",
	[AUX_FEAT_HOSTNAME] = "hostname",
	[AUX_FEAT_OSRELEASE] = "osrelease",
	[AUX_FEAT_VERSION] = "version",
	[AUX_FEAT_ARCH] = "arch",
	[AUX_FEAT_NRCPUS] = "nrcpus",
	[AUX_FEAT_CPUDESC] = "cpudesc",
	[AUX_FEAT_CPUID] = "cpuid",
	[AUX_FEAT_TOTAL_MEM] = "total_mem",
	[AUX_FEAT_CMDLINE] = "cmdline",
	[AUX_FEAT_EVENT_DESC] = "event_desc",
	[AUX_FEAT_CPU_TOPOLOGY] = "cpu_topology",
	[AUX_FEAT_NUMA_TOPOLOGY] = "numa_topology",
	[AUX_FEAT_BRANCH_STACK] = "branch_stack",
	[AUX_FEAT_PMU_MAPPINGS] = "pmu_mappings",
	[AUX_FEAT_GROUP_DESC] = "group_desc",
	[AUX_FEAT_AUXTRACE] = "auxtrace",
	[AUX_FEAT_STAT] = "stat",
	[AUX_FEAT_CACHE] = "cache",
	[AUX_FEAT_SAMPLE_TIME] = "sample_time",
	[AUX_FEAT_MEM_TOPOLOGY] = "mem_topology",
	[AUX_FEAT_CLOCKID] = "clockid",
	[AUX_FEAT_DIR_FORMAT] = "dir_format",
	[AUX_FEAT_BPF_PROG_INFO] = "bpf_prog_info",
	[AUX_FEAT_BPF_BTF] = "bpf_btf",
	[AUX_FEAT_COMPRESSED] = "compressed",
	[AUX_FEAT_CPU_PMU_CAPS] = "cpu_pmu_caps",
	[AUX_FEAT_CLOCK_DATA] = "clock_data",
	[AUX_FEAT_HYBRID_TOPOLOGY] = "hybrid_topology",
	[AUX_FEAT_PMU_CAPS] = "pmu_caps",
	[AUX_FEAT_CPU_DOMAIN_INFO] = "cpu_domain_info",
	[AUX_FEAT_E_MACHINE] = "e_machine",
	[AUX_FEAT_CLN_SIZE] = "cln_size",
	[AUX_FEAT_AUXKIT_SOURCE] = "auxkit_source",
	[AUX_FEAT_AUXKIT_LEDGER] = "auxkit_ledger",
	[AUX_FEAT_AUXKIT_CODE] = "auxkit_code",
	[AUX_FEAT_AUXKIT_SNAPSHOT] = "auxkit_snapshot",
	[AUX_FEAT_AUXKIT_CHUNKS] = "auxkit_chunks",
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define N_FEATURES (sizeof(features) / sizeof(features[0]))

const char *record_name(uint32_t type, struct name_buf *buf)
{
	if (type < N_KINDS && kinds[type].name)
		return kinds[type].name;
	snprintf(buf->text, sizeof(buf->text), "TYPE_%u", type);
	return buf->text;
}

const char *feature_name(unsigned bit, struct name_buf *buf)
{
	if (bit < N_FEATURES && features[bit])
		return features[bit];
	snprintf(buf->text, sizeof(buf->text), "feature_%u", bit);
	return buf->text;
}

void aux_flags_text(struct outbuf *o, uint64_t flags)
{
	static const char *const names[] = { "truncated", "overwrite",
					     "partial", "collision" };
	const char *sep = "";

	if (!flags)
		outbuf_str(o, "none");
	for (unsigned i = 0; i < 4; i++) {
		if (!(flags >> i & 1))
			continue;
		outbuf_printf(o, "%s%s", sep, names[i]);
		sep = ",";
	}
	if (flags >> 4)
		outbuf_printf(o, "%s%#" PRIx64, sep, flags & ~UINT64_C(15));
}

/* sample_id of the record: only the fields that the event asked for are
 * there. */
static void put_trailer(struct outbuf *o, const struct aux_sample_id *id)
{
	if (!id->present)
		return;
	outbuf_str(o, " |");
	if (id->present & PERF_SAMPLE_TID)
		outbuf_printf(o, " pid %d tid %d", PID(id->pid), PID(id->tid));
	if (id->present & PERF_SAMPLE_TIME)
		outbuf_printf(o, " time %" PRIu64, id->time);
	if (id->present & PERF_SAMPLE_CPU)
		outbuf_printf(o, " cpu %d", PID(id->cpu));
	if (id->present & (PERF_SAMPLE_ID | PERF_SAMPLE_IDENTIFIER))
		outbuf_printf(o, " id %" PRIu64, id->id);
	if (id->present & PERF_SAMPLE_STREAM_ID)
		outbuf_printf(o, " stream-id %" PRIu64, id->stream_id);
}

/* The CPU mode is in the kernel's own records; perf's synthetic ones (from
 * HEADER_ATTR on) use these bits otherwise. */
static void put_guest(struct outbuf *o, const struct aux_event *ev)
{
	uint16_t mode = ev->misc & PERF_RECORD_MISC_CPUMODE_MASK;

	if (ev->type >= AUX_RECORD_HEADER_ATTR)
		return;
	if (mode == PERF_RECORD_MISC_GUEST_KERNEL)
		outbuf_str(o, " guest-kernel");
	else if (mode == PERF_RECORD_MISC_GUEST_USER)
		outbuf_str(o, " guest-user");
}

void record_text(struct outbuf *o, const struct aux_reader *r,
		 const struct aux_event *ev)
{
	text_fn text = ev->type < N_KINDS ? kinds[ev->type].text : NULL;
	struct name_buf buf;

	/* A sample without its attr was not parsed. */
	if (ev->type == PERF_RECORD_SAMPLE && !ev->id.present && !ev->attr)
		text = NULL;
	outbuf_printf(o, "%#" PRIx64 " [%u] %s", ev->offset, ev->size,
		      record_name(ev->type, &buf));
	put_guest(o, ev);
	(text ? text : text_bytes)(o, r, ev);
	put_trailer(o, &ev->id);
}
