/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Record bodies: from the bytes of one record to a struct aux_event.
 *
 * Records of the kernel's types end with a trailer (sample_id_all) whose fields
 * follow the sample_type of the record's attr; perf's own types (64 and up)
 * have none. A body too short for its type is an error; unknown types are left
 * raw.
 *
 * Specification: <linux/perf_event.h>, tools/lib/perf/include/perf/event.h.
 */
#include <string.h>
#include <sys/mman.h>

#include "perfdata/impl.h"

/*
 * PERF_RECORD_SAMPLE: the fields in the order of <linux/perf_event.h>. All of
 * them are stepped over, since the AUX area data comes last.
 */

#define BRANCH_COUNTERS (UINT64_C(1) << 19)	/* not in old headers */
#define BRANCH_ENTRY 24

/* n comes out of the file and may be anything: compared by a division, since n * 8 may
 * overflow. */
static void skip_words(struct cursor *c, uint64_t n)
{
	if (n > cursor_left(c) / 8)
		c->bad = true;
	else
		cursor_bytes(c, n * 8);
}

/* read_format of perf_event_open(2): times stand once, the rest per event. */
static void skip_read(struct cursor *c, uint64_t format)
{
	unsigned times = !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) +
			 !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);
	unsigned each = 1 + !!(format & PERF_FORMAT_ID) +
			!!(format & PERF_FORMAT_LOST);
	uint64_t n = 1;

	if (format & PERF_FORMAT_GROUP)
		n = cursor_u64(c);
	skip_words(c, times);
	if (n > cursor_left(c) / 8)
		c->bad = true;
	else
		skip_words(c, n * each);
}

/* n, then (HW_INDEX) a word, then n entries of from, to, flags. */
static void skip_branches(struct cursor *c, uint64_t type)
{
	uint64_t n = cursor_u64(c);

	if (type & PERF_SAMPLE_BRANCH_HW_INDEX)
		cursor_u64(c);
	if (n > cursor_left(c) / BRANCH_ENTRY) {
		c->bad = true;
		return;
	}
	cursor_bytes(c, n * BRANCH_ENTRY);
	if (type & BRANCH_COUNTERS)
		skip_words(c, n);
}

/* The ABI; 0 is none and no registers follow. */
static void skip_regs(struct cursor *c, uint64_t mask)
{
	if (cursor_u64(c))
		skip_words(c, (uint64_t)__builtin_popcountll(mask));
}

/* They stay in the file (or the chunk): nothing is copied. */
static struct aux_bytes read_bytes(struct cursor *c, uint64_t n)
{
	const uint8_t *p = n > cursor_left(c) ? NULL : cursor_bytes(c, n);

	if (!p)
		c->bad = true;
	return p ? (struct aux_bytes){ p, n } : (struct aux_bytes){ 0 };
}

/* Skips PERF_SAMPLE_STACK_USER: a size, so many bytes, and how many of them are
 * valid. A size of 0 stands alone. */
static void skip_stack(struct cursor *c)
{
	uint64_t n = cursor_u64(c);

	if (!n)
		return;
	read_bytes(c, n);
	cursor_u64(c);
}

/* What both a sample and a trailer have: struct aux_sample_id. The sample has
 * the ip and other fields in between. */
#define ID_FIELDS                                                              \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID |                 \
	 PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

static void parse_thread_time(struct cursor *c, uint64_t t,
			      struct aux_sample_id *id)
{
	if (t & PERF_SAMPLE_TID) {
		id->pid = cursor_u32(c);
		id->tid = cursor_u32(c);
	}
	if (t & PERF_SAMPLE_TIME)
		id->time = cursor_u64(c);
}

static void parse_event_cpu(struct cursor *c, uint64_t t,
			    struct aux_sample_id *id)
{
	if (t & PERF_SAMPLE_ID)
		id->id = cursor_u64(c);
	if (t & PERF_SAMPLE_STREAM_ID)
		id->stream_id = cursor_u64(c);
	if (t & PERF_SAMPLE_CPU) {
		id->cpu = cursor_u32(c);
		cursor_u32(c);	/* reserved */
	}
}

/* Everything up to PERIOD: what a trailer has too, and the ip. */
static void parse_head(struct cursor *c, uint64_t t, struct aux_event *ev)
{
	struct aux_sample_id *id = &ev->id;

	if (t & PERF_SAMPLE_IDENTIFIER)
		id->id = cursor_u64(c);
	if (t & PERF_SAMPLE_IP)
		ev->sample.ip = cursor_u64(c);
	parse_thread_time(c, t, id);
	if (t & PERF_SAMPLE_ADDR)
		cursor_u64(c);
	parse_event_cpu(c, t, id);
	if (t & PERF_SAMPLE_PERIOD)
		ev->sample.period = cursor_u64(c);
}

/*
 * Everything after PERIOD, in the order in which perf_output_sample() of the
 * kernel writes it. The page sizes (Linux 5.11) have later bits than AUX (5.5),
 * and yet stand before it: a walk by the order of the bits would go wrong.
 */
static void parse_tail(struct cursor *c, const struct perf_event_attr *a,
		       struct aux_event *ev)
{
	uint64_t t = a->sample_type;

	if (t & PERF_SAMPLE_READ)
		skip_read(c, a->read_format);
	if (t & PERF_SAMPLE_CALLCHAIN)
		skip_words(c, cursor_u64(c));
	if (t & PERF_SAMPLE_RAW)
		ev->sample.raw_data = read_bytes(c, cursor_u32(c));
	if (t & PERF_SAMPLE_BRANCH_STACK)
		skip_branches(c, a->branch_sample_type);
	if (t & PERF_SAMPLE_REGS_USER)
		skip_regs(c, a->sample_regs_user);
	if (t & PERF_SAMPLE_STACK_USER)
		skip_stack(c);
	if (t & PERF_SAMPLE_WEIGHT_TYPE)
		cursor_u64(c);
	if (t & PERF_SAMPLE_DATA_SRC)
		cursor_u64(c);
	if (t & PERF_SAMPLE_TRANSACTION)
		cursor_u64(c);
	if (t & PERF_SAMPLE_REGS_INTR)
		skip_regs(c, a->sample_regs_intr);
	if (t & PERF_SAMPLE_PHYS_ADDR)
		cursor_u64(c);
	if (t & PERF_SAMPLE_CGROUP)
		ev->sample.cgroup = cursor_u64(c);
	if (t & PERF_SAMPLE_DATA_PAGE_SIZE)
		cursor_u64(c);
	if (t & PERF_SAMPLE_CODE_PAGE_SIZE)
		cursor_u64(c);
	if (t & PERF_SAMPLE_AUX)
		ev->sample.aux = read_bytes(c, cursor_u64(c));
}

/* A field that the sample_type does not have stays 0; present says which are
 * there. */
static void sample_parse(struct cursor *c, const struct aux_attr *attr,
			 struct aux_event *ev)
{
	uint64_t t = attr->attr.sample_type;

	parse_head(c, t, ev);
	parse_tail(c, &attr->attr, ev);
	ev->id.present = t & ID_FIELDS;
}

#define MISC_MMAP_DATA (1 << 13)
#define MISC_COMM_EXEC (1 << 13)
#define MISC_SWITCH_OUT (1 << 13)
#define MISC_MMAP_BUILD_ID (1 << 14)
#define MISC_SWITCH_PREEMPT (1 << 14)

/* c: the body without the trailer. What is read past its end is 0 and marks c
 * bad, so a parser needs no checks of its own. */
typedef void (*parse_fn)(struct cursor *c, struct aux_event *ev);

/* ---- which attr, and the trailer ---- */

static unsigned trailer_size(const struct perf_event_attr *a)
{
	uint64_t t = a->sample_type & ID_FIELDS;

	return a->sample_id_all ? 8 * (unsigned)__builtin_popcountll(t) : 0;
}

/*
 * The id of a record before its attr is known; 0: perf made the record up (it
 * synthesizes MMAP and COMM for what ran before), or it has no trailer. All
 * attrs agree on the place of the id, see attr_layout.
 */
static uint64_t peek_id(const struct aux_reader *r, const struct aux_event *ev)
{
	const struct attr_layout *l = &r->attrs.layout;
	size_t at = 8 + (size_t)l->id_pos * 8;
	struct cursor c;

	if (ev->type != PERF_RECORD_SAMPLE) {
		at = (size_t)l->trailer_pos * 8;
		if (!r->attrs.v[0]->attr.sample_id_all ||
		    at + 8 > ev->raw.len)
			return 0;
		at = ev->raw.len - at;
	} else if (at + 8 > ev->raw.len) {
		return 0;
	}
	c = reader_cursor(r, ev->raw.data + at, 8);
	return cursor_u64(&c);
}

/* Sets ev->attr; returns the attr whose layout the record has, or NULL. */
static const struct aux_attr *find_attr(const struct aux_reader *r,
					struct aux_event *ev)
{
	const struct attr_table *t = &r->attrs;
	uint64_t id;
	bool same;

	if (!t->n)
		return NULL;
	if (t->n == 1)
		return ev->attr = t->v[0];
	if (t->layout.has_id) {
		id = peek_id(r, ev);
		ev->attr = id ? attr_table_find(t, id) : t->v[0];
		if (ev->attr && id)
			return ev->attr;
	}
	same = ev->type == PERF_RECORD_SAMPLE ? t->layout.same_sample :
						t->layout.same_trailer;
	return same ? t->v[0] : NULL;
}

/*
 * The trailer has the fields in another order than a SAMPLE: IDENTIFIER is last
 * here and first there, so that it can be found from the end of a record, or
 * from its start, before the attr is known.
 */
static void parse_trailer(struct cursor *c, uint64_t t,
			  struct aux_sample_id *id)
{
	parse_thread_time(c, t, id);
	parse_event_cpu(c, t, id);
	if (t & PERF_SAMPLE_IDENTIFIER)
		id->id = cursor_u64(c);
	id->present = t & ID_FIELDS;
}

/* Takes the trailer off the end of the body. */
static void cut_trailer(struct cursor *body, const struct aux_attr *attr,
			struct aux_event *ev)
{
	unsigned size = trailer_size(&attr->attr);
	struct cursor c = *body;

	if (!size || size > cursor_left(body))
		return;
	c.p = body->end - size;
	body->end = c.p;
	parse_trailer(&c, attr->attr.sample_type, &ev->id);
}

/* ---- kernel records ---- */

static const char *rest_string(struct cursor *c)
{
	return cursor_string(c, cursor_left(c));
}

static void parse_mmap(struct cursor *c, struct aux_event *ev)
{
	ev->mmap.pid = cursor_u32(c);
	ev->mmap.tid = cursor_u32(c);
	ev->mmap.addr = cursor_u64(c);
	ev->mmap.len = cursor_u64(c);
	ev->mmap.pgoff = cursor_u64(c);
	ev->mmap.prot = ev->misc & MISC_MMAP_DATA ? PROT_READ :
						    PROT_READ | PROT_EXEC;
	ev->mmap.path = rest_string(c);
}

/* In the place of device and inode: u8 size, 3 bytes reserved, 20 bytes. */
static void parse_build_id(struct cursor *c, struct aux_event *ev)
{
	uint8_t size = cursor_u8(c);
	const uint8_t *id;

	cursor_bytes(c, 3);
	id = cursor_bytes(c, sizeof(ev->mmap.build_id));
	if (!id)
		return;
	if (size > sizeof(ev->mmap.build_id))
		size = sizeof(ev->mmap.build_id);
	ev->mmap.build_id_size = size;
	memcpy(ev->mmap.build_id, id, size);
}

/* Since Linux 5.12 the build id may stand where device and inode were: 24
 * bytes, too. */
static void parse_mmap2(struct cursor *c, struct aux_event *ev)
{
	ev->mmap.pid = cursor_u32(c);
	ev->mmap.tid = cursor_u32(c);
	ev->mmap.addr = cursor_u64(c);
	ev->mmap.len = cursor_u64(c);
	ev->mmap.pgoff = cursor_u64(c);
	if (ev->misc & MISC_MMAP_BUILD_ID) {
		parse_build_id(c, ev);
	} else {
		ev->mmap.maj = cursor_u32(c);
		ev->mmap.min = cursor_u32(c);
		ev->mmap.ino = cursor_u64(c);
		ev->mmap.ino_generation = cursor_u64(c);
	}
	ev->mmap.prot = cursor_u32(c);
	ev->mmap.flags = cursor_u32(c);
	ev->mmap.path = rest_string(c);
}

static void parse_comm(struct cursor *c, struct aux_event *ev)
{
	ev->comm.pid = cursor_u32(c);
	ev->comm.tid = cursor_u32(c);
	ev->comm.exec = ev->misc & MISC_COMM_EXEC;
	ev->comm.comm = rest_string(c);
}

/* FORK and EXIT have one form, and their own time even without a trailer. */
static void parse_task(struct cursor *c, struct aux_event *ev)
{
	ev->task.pid = cursor_u32(c);
	ev->task.ppid = cursor_u32(c);
	ev->task.tid = cursor_u32(c);
	ev->task.ptid = cursor_u32(c);
	ev->task.time = cursor_u64(c);
}

/* LOST has the id of its event in the body; LOST_SAMPLES only in its
 * trailer. */
static void parse_lost(struct cursor *c, struct aux_event *ev)
{
	if (ev->type == PERF_RECORD_LOST)
		ev->lost.id = cursor_u64(c);
	ev->lost.lost = cursor_u64(c);
}

static void parse_throttle(struct cursor *c, struct aux_event *ev)
{
	ev->throttle.time = cursor_u64(c);
	ev->throttle.id = cursor_u64(c);
	ev->throttle.stream_id = cursor_u64(c);
}

static void parse_aux(struct cursor *c, struct aux_event *ev)
{
	ev->aux.offset = cursor_u64(c);
	ev->aux.size = cursor_u64(c);
	ev->aux.flags = cursor_u64(c);
}

static void parse_itrace(struct cursor *c, struct aux_event *ev)
{
	ev->itrace.pid = cursor_u32(c);
	ev->itrace.tid = cursor_u32(c);
}

/* SWITCH has no body: who is switched to or from stands in the trailer. The
 * other thread is known only to a CPU-wide event, which needs the privilege to
 * see it. */
static void parse_switch(struct cursor *c, struct aux_event *ev)
{
	ev->sw.out = ev->misc & MISC_SWITCH_OUT;
	ev->sw.preempt = ev->misc & MISC_SWITCH_PREEMPT;
	ev->sw.cpu_wide = ev->type == PERF_RECORD_SWITCH_CPU_WIDE;
	if (!ev->sw.cpu_wide)
		return;
	ev->sw.next_prev_pid = cursor_u32(c);
	ev->sw.next_prev_tid = cursor_u32(c);
}

static void parse_ksymbol(struct cursor *c, struct aux_event *ev)
{
	ev->ksymbol.addr = cursor_u64(c);
	ev->ksymbol.len = cursor_u32(c);
	ev->ksymbol.ksym_type = cursor_u16(c);
	ev->ksymbol.flags = cursor_u16(c);
	ev->ksymbol.name = rest_string(c);
}

/* One span: the old bytes, then the new ones. */
static void parse_text_poke(struct cursor *c, struct aux_event *ev)
{
	ev->text_poke.addr = cursor_u64(c);
	ev->text_poke.old_len = cursor_u16(c);
	ev->text_poke.new_len = cursor_u16(c);
	ev->text_poke.bytes = cursor_bytes(
		c, (size_t)ev->text_poke.old_len + ev->text_poke.new_len);
}

static void parse_hw_id(struct cursor *c, struct aux_event *ev)
{
	ev->aux_output_hw_id.hw_id = cursor_u64(c);
}

static void parse_namespaces(struct cursor *c, struct aux_event *ev)
{
	uint64_t n;

	ev->namespaces.pid = cursor_u32(c);
	ev->namespaces.tid = cursor_u32(c);
	n = cursor_u64(c);
	ev->namespaces.n = n;
	ev->namespaces.ids = records_array(c, n, 16);
}

static void parse_bpf(struct cursor *c, struct aux_event *ev)
{
	const uint8_t *tag;

	ev->bpf.type = cursor_u16(c);
	ev->bpf.flags = cursor_u16(c);
	ev->bpf.id = cursor_u32(c);
	tag = cursor_bytes(c, sizeof(ev->bpf.tag));
	if (tag)
		memcpy(ev->bpf.tag, tag, sizeof(ev->bpf.tag));
}

static void parse_cgroup(struct cursor *c, struct aux_event *ev)
{
	ev->cgroup.id = cursor_u64(c);
	ev->cgroup.path = rest_string(c);
}

/* The values' format is the event's; without one they are left alone. */
static void parse_read(struct cursor *c, struct aux_event *ev)
{
	uint64_t f = ev->attr ? ev->attr->attr.read_format : 0;

	ev->read.pid = cursor_u32(c);
	ev->read.tid = cursor_u32(c);
	if (!ev->attr || f & PERF_FORMAT_GROUP)
		return;
	ev->read.format = f;
	ev->read.value = cursor_u64(c);
	if (f & PERF_FORMAT_TOTAL_TIME_ENABLED)
		ev->read.enabled = cursor_u64(c);
	if (f & PERF_FORMAT_TOTAL_TIME_RUNNING)
		ev->read.running = cursor_u64(c);
	if (f & PERF_FORMAT_ID)
		ev->read.id = cursor_u64(c);
	if (f & PERF_FORMAT_LOST)
		ev->read.lost = cursor_u64(c);
}

static void parse_callchain(struct cursor *c, struct aux_event *ev)
{
	ev->callchain.cookie = cursor_u64(c);
	ev->callchain.n = cursor_u64(c);
	ev->callchain.ips = records_array(c, ev->callchain.n, 8);
}

/* table */
static const parse_fn parsers[] = {
	[PERF_RECORD_MMAP] = parse_mmap,
	[PERF_RECORD_LOST] = parse_lost,
	[PERF_RECORD_COMM] = parse_comm,
	[PERF_RECORD_EXIT] = parse_task,
	[PERF_RECORD_THROTTLE] = parse_throttle,
	[PERF_RECORD_UNTHROTTLE] = parse_throttle,
	[PERF_RECORD_FORK] = parse_task,
	[PERF_RECORD_MMAP2] = parse_mmap2,
	[PERF_RECORD_AUX] = parse_aux,
	[PERF_RECORD_ITRACE_START] = parse_itrace,
	[PERF_RECORD_LOST_SAMPLES] = parse_lost,
	[PERF_RECORD_SWITCH] = parse_switch,
	[PERF_RECORD_SWITCH_CPU_WIDE] = parse_switch,
	[PERF_RECORD_KSYMBOL] = parse_ksymbol,
	[PERF_RECORD_TEXT_POKE] = parse_text_poke,
	[PERF_RECORD_READ] = parse_read,
	[PERF_RECORD_NAMESPACES] = parse_namespaces,
	[PERF_RECORD_BPF_EVENT] = parse_bpf,
	[PERF_RECORD_CGROUP] = parse_cgroup,
	[PERF_RECORD_AUX_OUTPUT_HW_ID] = parse_hw_id,
	[LAST_KERNEL_TYPE] = parse_callchain,
	[AUX_RECORD_THREAD_MAP] = records_thread_map,
	[AUX_RECORD_CPU_MAP] = records_cpu_map,
	[AUX_RECORD_ID_INDEX] = records_id_index,
	[AUX_RECORD_AUXTRACE_ERROR] = records_auxtrace_error,
	[AUX_RECORD_TIME_CONV] = records_time_conv,
};

#define N_PARSERS (sizeof(parsers) / sizeof(parsers[0]))

/* A table first: most records are of the kernel's types, and none of these
 * needs more than its own bytes. */
static void parse_body(struct aux_reader *r, struct cursor *c,
		       struct aux_event *ev)
{
	if (ev->type < N_PARSERS && parsers[ev->type]) {
		parsers[ev->type](c, ev);
		return;
	}
	switch (ev->type) {	/* those that reach outside their record */
	case AUX_RECORD_TRACING_DATA:
		records_tracing_data(r, c, ev);
		break;
	case AUX_RECORD_AUXTRACE_INFO:
		records_auxtrace_info(r, c, ev);
		break;
	case AUX_RECORD_AUXTRACE:
		records_auxtrace(r, c, ev);
		break;
	case AUX_RECORD_EVENT_TYPE:
		records_own(r, c, ev);
		break;
	}
}

int records_parse(struct aux_reader *r, struct aux_event *ev,
		  struct aux_diag *diag)
{
	struct cursor c = reader_cursor(r, ev->raw.data, ev->raw.len);
	const struct aux_attr *layout = NULL;
	bool kernel = ev->type && ev->type <= LAST_KERNEL_TYPE;
	int rc;

	cursor_bytes(&c, 8);
	if (kernel)
		layout = find_attr(r, ev);
	if (ev->type == AUX_RECORD_AUXKIT_AUXTRACE_ZSTD) {
		rc = records_auxtrace_zstd(r, &c, ev, diag);
		if (rc < 0)
			return rc;
	} else if (ev->type == PERF_RECORD_SAMPLE) {
		if (layout)
			sample_parse(&c, layout, ev);
	} else {
		if (layout)
			cut_trailer(&c, layout, ev);
		parse_body(r, &c, ev);
	}
	if (c.bad)
		return diag_set(diag, AUX_E_FORMAT, ev->offset,
				"a record of type %u, size %u is too short for "
				"what it should hold", ev->type, ev->size);
	return 1;
}
