/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: IPT */
/* links: capture */
/*
 * soft_stream: random programs, recorded through soft and decoded by libipt.
 * The instructions of every thread must come back, in order and complete; with
 * injected overflow, in order and with the holes reported.
 */
#include <stdlib.h>
#include <unistd.h>

#include <intel-pt.h>

#include "tests/unit/auxfile.h"
#include "tests/unit/mkx86.h"
#include "capture/soft/pt_encode.h"
#include "tests/unit/tap.h"

/* A stream whose AUXTRACE records follow each other. */
struct stream {
	uint8_t *bytes;
	size_t n;
	uint32_t tid;		/* of the thread, per thread */
};

struct decoded {
	struct stream streams[WANDER_THREADS];
	struct slices s;
	unsigned n_errors, n_ovf, n_ptw, n_ticks, n_time_errors;
	unsigned n_offset_errors;
};

static void read_streams(const struct auxfile *f, struct decoded *d)
{
	for (size_t i = 0; i < f->n_bytes; i++) {
		struct stream *s = &d->streams[f->idx[i] % WANDER_THREADS];
		size_t n = f->rec[i].size;	/* AUXTRACE's is padded */

		if (f->idx[i] >= WANDER_THREADS || f->offset[i] != s->n) {
			d->n_offset_errors++;
			continue;
		}
		s->tid = f->tid[i];
		s->bytes = realloc(s->bytes, s->n + n);
		memcpy(s->bytes + s->n, f->bytes[i], n);
		s->n += n;
	}
}

static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid,
		     uint64_t ip, void *context)
{
	const struct x86_program *p = context;
	size_t off = wander_offset(ip), n;

	(void)asid;
	if (off == SIZE_MAX)
		return -pte_nomap;
	n = sizeof(p->image) - off;
	n = n < size ? n : size;
	memcpy(buffer, p->image + off, n);
	return (int)n;
}

static uint32_t tid_at(const struct auxfile *f, uint32_t idx, uint64_t tsc)
{
	uint32_t tid = SLICES_TID;
	size_t i;

	for (i = 0; i < f->n_sw; i++)
		if (f->sw[i].cpu == idx && f->sw[i].time < tsc)
			tid = f->sw[i].tid;
	return tid;
}

struct cursor_state {
	uint64_t tsc;
	uint32_t tid;
	uint64_t last_tsc;
};

static int on_event(struct pt_insn_decoder *d, struct decoded *out,
		    struct cursor_state *c)
{
	struct pt_event ev;
	int status = pt_insn_event(d, &ev, sizeof(ev));

	if (status < 0)
		return status;
	if (ev.has_tsc && ev.tsc < c->last_tsc)
		out->n_time_errors++;
	if (ev.has_tsc)
		c->last_tsc = ev.tsc;
	out->n_ptw += ev.type == ptev_ptwrite;
	out->n_ticks += ev.type == ptev_tick;
	if (ev.type == ptev_overflow) {
		out->n_ovf++;
		slices_add(&out->s, c->tsc, c->tid, GAP);
	}
	return status;
}

static struct pt_insn_decoder *open_decoder(const struct stream *s,
					    const struct soft_config *conf,
					    struct x86_program *p)
{
	struct pt_insn_decoder *d;
	struct pt_config cfg;

	pt_config_init(&cfg);
	cfg.begin = s->bytes;
	cfg.end = s->bytes + s->n;
	cfg.mtc_freq = (uint8_t)conf->mtc_period;
	cfg.nom_freq = PT_BUS_RATIO;
	cfg.cpuid_0x15_eax = PT_TSC_CTC_D;
	cfg.cpuid_0x15_ebx = PT_TSC_CTC_N;
	d = pt_insn_alloc_decoder(&cfg);
	pt_image_set_callback(pt_insn_get_image(d), read_code, p);
	return d;
}

static int decode_all(struct pt_insn_decoder *d, const struct auxfile *f,
		      uint32_t idx, const struct soft_config *conf,
		      struct decoded *out)
{
	struct cursor_state c = { .tid = SLICES_TID };
	int status = pt_insn_sync_forward(d);
	struct pt_insn insn;

	while (status >= 0) {
		while (status >= 0 && status & pts_event_pending) {
			status = on_event(d, out, &c);
			/* that of the event: what pt_insn_time gives is
			 * another time in another version */
			if (status >= 0 && c.last_tsc != c.tsc) {
				c.tsc = c.last_tsc;
				c.tid = conf->per_thread ?
						out->streams[idx].tid :
						tid_at(f, idx, c.tsc);
			}
		}
		if (status < 0 || status & pts_eos)
			break;
		status = pt_insn_next(d, &insn, sizeof(insn));
		if (status >= 0 || insn.iclass != ptic_error)
			slices_add(&out->s, c.tsc, c.tid, insn.ip);
	}
	return status;
}

static void decode_stream(const struct auxfile *f, uint32_t idx,
			  struct x86_program *p, const struct soft_config *conf,
			  struct decoded *out)
{
	const struct stream *s = &out->streams[idx];
	struct pt_insn_decoder *d;
	uint64_t off = 0;
	int status;

	if (!s->n)
		return;
	d = open_decoder(s, conf, p);
	status = decode_all(d, f, idx, conf, out);
	if (status < 0 && status != -pte_eos) {
		pt_insn_get_offset(d, &off);
		printf("# stream %u: %s at %#jx of %#zx\n", idx,
		       pt_errstr(pt_errcode(status)), (uintmax_t)off, s->n);
		out->n_errors++;
	}
	pt_insn_free_decoder(d);
}

/* ---- comparing ---- */

/* Each piece between gaps must be found, in order; pieces may be lost. */
static bool covers(const struct list *truth, const struct list *got)
{
	size_t pos = 0, i = 0, j, len;

	while (i < got->n) {
		if (got->v[i] == GAP) {
			i++;
			continue;
		}
		for (len = 0; i + len < got->n && got->v[i + len] != GAP; len++)
			;
		for (;; pos++) {
			if (pos + len > truth->n)
				return false;
			for (j = 0; j < len; j++)
				if (truth->v[pos + j] != got->v[i + j])
					break;
			if (j == len)
				break;
		}
		pos += len;
		i += len;
	}
	return true;
}

static bool compare(const struct wander *r, const struct decoded *d, uint32_t k,
		    bool holes)
{
	const struct list *a = &r->truth[k], *b = &d->s.ips[k];
	size_t i;

	if (holes)
		return covers(a, b);
	for (i = 0; i < a->n && i < b->n && a->v[i] == b->v[i]; i++)
		;
	if (i == a->n && i == b->n)
		return true;
	printf("# thread %u: %zu of %zu true, %zu decoded\n", k, i, a->n, b->n);
	return false;
}

static void forget(const char *path, struct auxfile *f, struct wander *r,
		   struct decoded *d)
{
	char old[64];

	snprintf(old, sizeof(old), "%s.old", path);
	unlink(path);
	unlink(old);
	for (uint32_t k = 0; k < WANDER_THREADS; k++)
		free(d->streams[k].bytes);
	slices_free(&d->s);
	wander_free(r);
	auxfile_free(f);
}

static void check_one(const char *name, const struct soft_config *c,
		      uint32_t threads, uint32_t chunks)
{
	static struct x86_program p;
	static struct auxfile f;
	static struct decoded d;
	static struct wander r;
	char path[] = "/tmp/test_soft_XXXXXX";
	size_t n = 0, bytes = 0, got = 0;
	bool same;
	uint32_t k;

	close(mkstemp(path));
	x86_make(&p);
	memset(&d, 0, sizeof(d));
	memset(&r, 0, sizeof(r));
	r.c = &p.c;
	r.loop = 2;
	same = wander_record(&r, c, "intel_pt//", threads, chunks, path) &&
	       auxfile_read(&f, path);
	if (same)
		read_streams(&f, &d);
	for (k = 0; k < WANDER_THREADS; k++)
		decode_stream(&f, k, &p, c, &d);
	slices_merge(&d.s);
	for (k = 0; k < threads; k++) {
		same = compare(&r, &d, k, c->inject_overflow) && same;
		n += r.truth[k].n;
		got += d.s.ips[k].n;
	}
	for (k = 0; k < WANDER_THREADS; k++)
		bytes += d.streams[k].n;
	ok(same && !d.n_errors && !d.n_offset_errors && !d.n_time_errors,
	   "%s: %zu instructions, %zu back, %zu bytes", name, n, got, bytes);
	if (d.n_errors || d.n_offset_errors || d.n_time_errors)
		printf("# errors %u, offsets %u, time %u; cyc %d thresh %u "
		       "mtc %d/%u\n",
		       d.n_errors, d.n_offset_errors, d.n_time_errors, c->cyc,
		       c->cyc_thresh, c->mtc, c->mtc_period);
	if (c->inject_overflow && bytes > (threads + 1) * c->inject_overflow *
						  (4096u << c->psb_period))
		ok(d.n_ovf && got < n + d.n_ovf, "%s: %u overflows", name,
		   d.n_ovf);
	if (c->ptw)
		ok(d.n_ptw, "%s: %u ptwrites", name, d.n_ptw);
	forget(path, &f, &r, &d);
}

static const struct soft_config base = {
	.tsc = true, .branch = true, .n_cpus = 2, .event_id = 7,
	.sideband_id = 8,
	.pmu_type = 8, .start_ns = 1000000000, .mtc_period = 3,
};

int main(void)
{
	struct soft_config c = base;
	const char *more = getenv("SOFT_RANDOM");
	int i, n_random = more ? (int)strtol(more, NULL, 0) : 24;

	check_one("one thread", &c, 1, 3000);
	c.retcomp = true;
	check_one("retcomp", &c, 1, 3000);
	c.defer_tip = true;
	check_one("retcomp, deferred TIPs", &c, 1, 3000);
	c.retcomp = false;
	check_one("deferred TIPs", &c, 1, 3000);
	c = base;
	check_one("4 threads on 2 CPUs", &c, 4, 3000);
	c.per_thread = true;
	check_one("4 threads, a stream each", &c, 4, 3000);
	c = base;
	c.ptw = true;
	check_one("ptwrite", &c, 3, 3000);
	c.fup_on_ptw = true;
	check_one("ptwrite with FUP", &c, 3, 3000);
	c = base;
	c.inject_overflow = 3;
	check_one("overflow", &c, 1, 3000);
	for (i = 0; i < n_random; i++) {
		c = base;
		c.retcomp = rnd(2);
		c.defer_tip = rnd(2);
		c.mtc = rnd(2);
		c.cyc = rnd(2);
		c.cyc_thresh = rnd(2) ? rnd(8) : 0;
		c.mtc_period = (uint32_t[]){ 0, 3, 6, 9 }[rnd(4)];
		c.psb_period = rnd(4);
		c.n_cpus = 1 + rnd(3);
		c.per_thread = rnd(2);
		c.ptw = rnd(2);
		c.fup_on_ptw = rnd(2);
		c.inject_overflow = rnd(4) ? 0 : 1 + rnd(4);
		check_one("random options", &c, 1 + rnd(5), 1500);
	}
	return plan_done();
}
