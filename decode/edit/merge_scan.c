/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * merge: reads each input once to collect what must be known before anything is
 * written, and decides which inputs can be merged at all.
 *
 * Inputs are refused where a merged decode could be wrong without a sign: other
 * clocks would interleave threads in the wrong order, other machines have equal pids
 * for other processes, and other trace units (AUXTRACE_INFO) decode differently.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"

#include <aux/decoder.h>

#include "decode/edit/impl.h"
#include "decode/lib/sideband/sideband.h"

/*
 * Notes one piece of trace. An offset that overflows can only come from a damaged file and
 * is dropped, so that offset + size is safe from here on.
 */
static int scan_trace(struct merge_input *in, const struct aux_event *ev)
{
	struct merge_piece p = { .h = ev->auxtrace.h,
				 .data = ev->auxtrace.payload.data,
				 .snapshot = in->n_snapshots };

	p.h.size = ev->auxtrace.payload.len;
	if (p.h.idx > in->max_idx)
		in->max_idx = p.h.idx;
	if (p.h.size > UINT64_MAX - p.h.offset)
		return 0;
	return merge_add_piece(&in->pieces, &p);
}

/*
 * Notes the blob numbers in use. Numbers near the maximum are ignored, so that adding to
 * them cannot overflow. bytes is NULL if the record refers to an earlier one.
 */
static int scan_code(struct merge_input *in, const struct aux_own_code *h,
		     const uint8_t *bytes)
{
	if (h->blob > in->max_blob && h->blob < UINT64_MAX >> 16)
		in->max_blob = h->blob;
	if (!bytes)
		return 0;
	if (array_grow(&in->blobs, in->n_blobs, &in->cap_blobs,
		       sizeof(*in->blobs)) < 0)
		return -AUX_E_NOMEM;
	in->blobs[in->n_blobs++] = (struct merge_blob){
		h->blob, merge_digest(bytes, h->len)
	};
	return 0;
}

static int scan_own(struct merge_input *in, const struct aux_event *ev)
{
	switch (ev->own.kind) {
	case AUX_OWN_SNAPSHOT:
		in->n_snapshots++;
		return 0;
	case AUX_OWN_CODE:
		return scan_code(in, &ev->own.code.h, ev->own.code.bytes);
	case AUX_OWN_LEDGER:
		in->ledger = ev->own.ledger;
		return 0;
	default:
		return 0;
	}
}

static int scan_record(struct merge_input *in, const struct aux_event *ev)
{
	switch (ev->type) {
	case AUX_RECORD_AUXTRACE_INFO:
		in->trace_type = ev->auxtrace_info.trace_type;
		in->priv = ev->auxtrace_info.priv;
		in->n_priv = ev->auxtrace_info.n_priv;
		return 0;
	case AUX_RECORD_TIME_CONV:
		in->conv = ev->time_conv;
		in->has_conv = true;
		return 0;
	case AUX_RECORD_AUXTRACE:
		return scan_trace(in, ev);
	case AUX_RECORD_EVENT_TYPE:
		return scan_own(in, ev);
	}
	if (ev->id.present & PERF_SAMPLE_TIME && ev->id.time &&
	    ev->id.time < in->first_ns)
		in->first_ns = ev->id.time;
	return 0;
}

/*
 * The ledger may stand in a record or in a feature section, after a head of its own. A
 * truncated last entry is dropped.
 */
static void find_ledger(struct merge_input *in)
{
	struct aux_bytes s;

	if (in->ledger.data ||
	    aux_reader_feature(in->r, AUX_FEAT_AUXKIT_LEDGER, &s, NULL) <= 0 ||
	    s.len < sizeof(struct aux_feat_ledger))
		return;
	in->ledger.data = s.data + sizeof(struct aux_feat_ledger);
	in->ledger.len = s.len - sizeof(struct aux_feat_ledger);
	in->ledger.len -= in->ledger.len % sizeof(struct aux_ledger_entry);
}

static int by_number(const void *a, const void *b)
{
	const struct merge_blob *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

int merge_scan(struct merge_input *in)
{
	struct aux_event ev;
	int rc = 0, got;

	in->first_ns = UINT64_MAX;
	aux_reader_rewind(in->r);
	while ((got = aux_reader_next(in->r, &ev, &in->damage)) > 0 && rc == 0)
		rc = scan_record(in, &ev);
	in->damaged = got < 0;
	find_ledger(in);
	if (in->n_blobs)
		qsort(in->blobs, in->n_blobs, sizeof(*in->blobs), by_number);
	return got == -AUX_E_NOMEM ? got : rc;
}

/* ---- what can be merged ---- */

/* The message is about b, which the caller names; a is named in it. */
static int refuse(struct aux_diag *diag, const struct merge_input *a,
		  const char *what)
{
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"cannot be merged with %s: %s", a->path, what);
}

/* A file that does not say (NULL) contradicts nothing. */
static bool same_text(const char *a, const char *b)
{
	return !a || !b || !strcmp(a, b);
}

/* True if both have this feature section, and its contents differ. */
static bool differs(const struct merge_input *a, const struct merge_input *b,
		    unsigned bit)
{
	struct aux_bytes x, y;

	return aux_reader_feature(a->r, bit, &x, NULL) > 0 &&
	       aux_reader_feature(b->r, bit, &y, NULL) > 0 &&
	       (x.len != y.len || memcmp(x.data, y.data, x.len) != 0);
}

/* TIME_CONV maps the TSC to perf's clock; the kernel computes it anew at each boot. */
static bool same_conv(const struct merge_input *a, const struct merge_input *b)
{
	return !a->has_conv || !b->has_conv ||
	       (a->conv.time_mult == b->conv.time_mult &&
		a->conv.time_shift == b->conv.time_shift &&
		a->conv.time_zero == b->conv.time_zero);
}

/* Words [from, to) of AUXTRACE_INFO. */
static bool same_words(const struct merge_input *a, const struct merge_input *b,
		       uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		if ((i < a->n_priv ? a->priv[i] : 0) !=
		    (i < b->n_priv ? b->priv[i] : 0))
			return false;
	return true;
}

/*
 * The words of AUXTRACE_INFO (arch/x86/util/intel-pt.c and arch/arm/util/cs-etm.c of
 * perf) describe the trace units. For Intel PT the clock's words are compared first, to
 * give the reason.
 */
static int check_trace(const struct merge_input *a, const struct merge_input *b,
		       struct aux_diag *diag)
{
	bool is_pt = a->trace_type == AUX_TRACE_INTEL_PT;

	if (!a->trace_type || !b->trace_type)
		return 0;
	if (a->trace_type != b->trace_type)
		return refuse(diag, a, "their traces are of different kinds "
			      "(`auxdecode info` shows them)");
	if (!same_conv(a, b) ||
	    (is_pt && !same_words(a, b, AUX_PT_TIME_SHIFT,
				  AUX_PT_CAP_USER_TIME_ZERO + 1)))
		return refuse(diag, a, "their clocks differ: they are of "
			      "different machines, or of different boots");
	if (a->n_priv != b->n_priv || !same_words(a, b, 0, a->n_priv))
		return refuse(diag, a, "their trace units are set or described "
			      "differently");
	return 0;
}

int merge_check(const struct merge_input *a, const struct merge_input *b,
		struct aux_diag *diag)
{
	const struct aux_file_info *x = aux_reader_info(a->r);
	const struct aux_file_info *y = aux_reader_info(b->r);
	struct aux_bytes s;

	if (x->swapped != y->swapped)
		return refuse(diag, a, "their byte orders differ");
	if (!same_text(x->hostname, y->hostname))
		return refuse(diag, a, "they are of different machines, whose "
			      "processes could not be told apart");
	if (!same_text(x->arch, y->arch))
		return refuse(diag, a, "their architectures differ");
	if (differs(a, b, AUX_FEAT_CLOCKID))
		return refuse(diag, a, "their clocks differ (CLOCKID)");
	if (!same_text(aux_reader_source(a->r, "source"),
		       aux_reader_source(b->r, "source")) ||
	    !same_text(aux_reader_source(a->r, "clock"),
		       aux_reader_source(b->r, "clock")))
		return refuse(diag, a, "their traces were made differently");
	if (aux_reader_feature(b->r, AUX_FEAT_AUXKIT_CODE, &s, NULL) > 0)
		return refuse(diag, a, "it has its code in a section, of which "
			      "a file can have one");
	return check_trace(a, b, diag);
}

/*
 * Virtual clocks of two recordings have no relation to each other. Snapshots without an
 * AUX_OWN_SNAPSHOT cannot be told from a full trace after merging, as AUXTRACE_INFO
 * has one flag for all streams.
 */
int merge_check_apart(const struct merge_input *b, struct aux_diag *diag)
{
	const char *clock = aux_reader_source(b->r, "clock");

	if (clock && !strcmp(clock, "virtual"))
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"is a recording of its own, with a virtual "
				"clock: nobody knows what ran before what in "
				"another one");
	if (b->trace_type == AUX_TRACE_INTEL_PT && !b->n_snapshots &&
	    b->n_priv > AUX_PT_SNAPSHOT_MODE && b->priv[AUX_PT_SNAPSHOT_MODE])
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"has snapshots without their places in the "
				"stream, which cannot be merged");
	return 0;
}
