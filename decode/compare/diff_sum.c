/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diff: the first pass over a recording: a hash of what each thread ran, which
 * does not depend on how the flow is divided into RANGEs, and counts by
 * function. A function is called when control comes to its first instruction by
 * a call, or by a jump from another function (a tail call). What a stub (a PLT
 * entry, a thunk) runs belongs to the function that ran before it, as everywhere
 * (callstack/callstack.h). Code without symbols and unwind tables has functions, too:
 * each begins where a call went.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/callstack/callstack.h"
#include "decode/compare/diff.h"

/*
 * The key of an instruction, which is the same wherever its file was loaded,
 * and the functions that a RANGE goes through. A RANGE is looked at once; what
 * is known of it is kept with its expansion (struct walk_range.user).
 */

#define SLOTS 4096	/* fixed: functions of a program, in short chains */

int diff_funcs_init(struct diff_funcs *f)
{
	*f = (struct diff_funcs){ .n_slots = SLOTS };
	f->slots = calloc(SLOTS, sizeof(*f->slots));
	return f->slots ? 0 : -AUX_E_NOMEM;
}

static void free_funcs(struct diff_func *func)
{
	struct diff_func *next;

	for (; func; func = next) {
		next = func->next;
		free(func);
	}
}

void diff_funcs_fini(struct diff_funcs *f)
{
	for (size_t i = 0; f->slots && i < f->n_slots; i++)
		free_funcs(f->slots[i]);
	free_funcs(f->joined);
	free(f->slots);
}

static uint64_t distance(const struct diff_func *f)
{
	return f->insns[0] > f->insns[1] ? f->insns[0] - f->insns[1] :
					   f->insns[1] - f->insns[0];
}

/* Largest difference first, then by file and name, so that the order is always
 * the same. */
static int compare(const void *pa, const void *pb)
{
	const struct diff_func *a = *(struct diff_func *const *)pa;
	const struct diff_func *b = *(struct diff_func *const *)pb;
	uint64_t da = distance(a), db = distance(b);
	int c;

	if (da != db)
		return da < db ? 1 : -1;
	c = strcmp(a->dso, b->dso);
	return c ? c : strcmp(a->name ? a->name : "", b->name ? b->name : "");
}

struct diff_func **diff_funcs_sort(const struct diff_funcs *f)
{
	struct diff_func **v = calloc(f->n + 1, sizeof(struct diff_func *));
	size_t n = 0;

	for (size_t i = 0; v && i < f->n_slots; i++)
		for (struct diff_func *func = f->slots[i]; func;
		     func = func->next)
			v[n++] = func;
	if (v)
		qsort(v, n, sizeof(*v), compare);
	return v;
}

/* FNV-1a, and a final mix: keys are this plus an offset, and must not be
 * neighbours. */
static uint64_t hash_text(const char *s)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	while (*s)
		h = (h ^ (uint8_t)*s++) * UINT64_C(0x100000001b3);
	h ^= h >> 29;
	return h * UINT64_C(0x9e3779b97f4a7c15);
}

#define NO_PIECE UINT64_MAX	/* no offset of any file */
#define PIECE_NAME 32	/* of its name: "[+0x0123456789abcdef]" beside the file's */

/* The function of that name in that file, or its piece at an offset, made if it
 * is new. It has copies of both names, for a symbol belongs to one recording and
 * this to both. NULL: out of memory. */
static struct diff_func *find_func(struct diff_funcs *f, const char *name,
				   const char *dso, uint64_t piece)
{
	uint64_t h = hash_text(dso) + 31 * hash_text(name ? name : "");
	size_t len = strlen(dso) + 1, len_name = name ? strlen(name) + 1 : 0;
	struct diff_func **slot, *func;

	h = (h ^ (piece + 1)) * UINT64_C(0x9e3779b97f4a7c15);
	slot = &f->slots[(h >> 20) % f->n_slots];
	for (func = *slot; func; func = func->next)
		if (!func->name == !name && !strcmp(func->dso, dso) &&
		    func->offset == piece &&
		    (!name || !strcmp(func->name, name)))
			return func;
	if (piece != NO_PIECE)
		len_name = len + PIECE_NAME;
	func = calloc(1, sizeof(*func) + len + len_name);
	if (!func)
		return NULL;
	memcpy(func->text, dso, len);
	func->dso = func->text;
	func->offset = piece;
	func->piece = piece != NO_PIECE;
	if (name) {
		memcpy(func->text + len, name, len_name);
		func->name = func->text + len;
		func->stub = call_name_is_stub(name);
	}
	func->next = *slot;
	*slot = func;
	f->n++;
	return func;
}

/* ---- pieces as functions ---- */

static int compare_pieces(const void *pa, const void *pb)
{
	const struct diff_func *a = *(struct diff_func *const *)pa;
	const struct diff_func *b = *(struct diff_func *const *)pb;
	int c = strcmp(a->dso, b->dso);

	return c ? c : a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* All of it is counted elsewhere. */
static void leave_out(struct diff_funcs *f, struct diff_func *func)
{
	func->next = f->joined;
	f->joined = func;
}

/* Takes all pieces out of the slots, and stubs that somebody called. NULL: out of
 * memory. */
static struct diff_func **take_pieces(struct diff_funcs *f, size_t *n)
{
	struct diff_func **v = calloc(f->n + 1, sizeof(struct diff_func *));

	*n = 0;
	for (size_t i = 0; v && i < f->n_slots; i++)
		for (struct diff_func **p = &f->slots[i]; *p;) {
			struct diff_func *func = *p;
			bool empty = func->stub && !func->insns[0] && !func->insns[1];

			if (!func->piece && !empty) {
				p = &func->next;
				continue;
			}
			*p = func->next;
			f->n--;
			if (empty)
				leave_out(f, func);
			else
				v[(*n)++] = func;
		}
	return v;
}

/* It is a function of its own, and has a slot again. */
static void keep_piece(struct diff_funcs *f, struct diff_func *func)
{
	size_t len = strlen(func->dso) + 1;

	snprintf(func->text + len, len + PIECE_NAME, "[%s+0x%llx]", func->dso,
		 (unsigned long long)func->offset);
	func->name = func->text + len;
	func->piece = false;
	func->next = f->slots[0];
	f->slots[0] = func;
	f->n++;
}

int diff_funcs_settle(struct diff_funcs *f)
{
	struct diff_func **v, *to = NULL;
	int rc = 0;
	size_t n;

	v = take_pieces(f, &n);
	if (!v)
		return -AUX_E_NOMEM;
	qsort(v, n, sizeof(*v), compare_pieces);
	for (size_t i = 0; i < n; i++) {
		struct diff_func *p = v[i];

		if (p->calls[0] || p->calls[1]) {
			keep_piece(f, p);
			to = p;
			continue;
		}
		leave_out(f, p);
		if (!to || strcmp(to->dso, p->dso))
			to = find_func(f, NULL, p->dso, NO_PIECE);
		if (!to) {
			rc = -AUX_E_NOMEM;
			continue;
		}
		for (unsigned side = 0; side < 2; side++)
			to->insns[side] += p->insns[side];
	}
	free(v);
	return rc;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Hash of the file's name, plus the offset in it; the kernel's offset is from
 * its reference symbol, which moves with KASLR. */
static uint64_t key_of(const struct space *space, uint64_t ip)
{
	const struct mapping *m = space ? space_find(space, ip) : NULL;

	if (!m)
		return ip;
	if (m->kind == MAPPING_KERNEL)
		return hash_text("[kernel]") + ip - m->ref_addr;
	return hash_text(base_of(m->path)) + ip - m->start + m->pgoff;
}

static void drop_parts(void *user)
{
	struct diff_range *r = user;
	struct diff_part *next;

	for (struct diff_part *p = r->parts; p; p = next) {
		next = p->next;
		free(p);
	}
	r->parts = NULL;
}

static int host_code(void *priv, const struct space *space, uint64_t ip,
		     struct aux_code *code)
{
	return aux_decode_code(priv, (const struct aux_decode_space *)space, ip,
			       code);
}

int diff_code_init(struct diff_code *c, struct aux_decode *d,
		   struct diff_funcs *funcs)
{
	struct walk_config wc = { .host = &c->host,
				  .user_size = sizeof(struct diff_range),
				  .drop = drop_parts };

	*c = (struct diff_code){ .d = d, .funcs = funcs };
	c->host = (struct sink_host){ .priv = d, .code = host_code };
	return walk_new(&c->walk, &wc);
}

void diff_code_fini(struct diff_code *c)
{
	walk_free(c->walk);
}

/* The function at ip, and the first address that is not its own; before: that
 * of the instruction before, NULL: none. */
static struct diff_func *func_at(struct diff_code *c, const struct space *space,
				 uint64_t ip, struct diff_func *before,
				 uint64_t *start, uint64_t *end)
{
	const struct mapping *m = space ? space_find(space, ip) : NULL;
	struct aux_decode_symbol sym = { .size = sizeof(sym) };
	const char *dso = base_of(m ? m->path : "[nothing]");
	bool piece;

	aux_decode_symbol(c->d, (const struct aux_decode_space *)space, ip,
			  &sym);
	piece = !sym.name && m && m->kind == MAPPING_USER && *m->path == '/';
	*start = sym.name ? sym.start : piece ? ip : 0;
	*end = sym.name && sym.start + sym.n_bytes > ip ?
		       sym.start + sym.n_bytes : ip + 1;
	if (piece && before && before->piece && !strcmp(before->dso, dso))
		return before;
	return find_func(c->funcs, sym.name, dso, piece ? sym.dso_offset : NO_PIECE);
}

/* Divides a range by function. Consecutive parts of one function are one, which
 * is why only its first instruction may be the entry that a call reaches. */
static int add_parts(struct diff_code *c, const struct space *space,
		     const struct walk_range *r)
{
	struct diff_range *d = r->user;
	struct diff_part **last = &d->parts, *p = NULL;
	uint64_t start = 0, end = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		uint64_t ip = r->first + r->off[i];
		struct diff_func *func = p ? p->func : NULL;

		if (!p || ip >= end)
			func = func_at(c, space, ip, func, &start, &end);
		if (!func)
			return -AUX_E_NOMEM;
		if (p && func == p->func) {
			p->n++;
			continue;
		}
		p = calloc(1, sizeof(*p));
		if (!p)
			return -AUX_E_NOMEM;
		*p = (struct diff_part){ .func = func, .n = 1,
					 .at_start = ip == start };
		*last = p;
		last = &p->next;
	}
	return 0;
}

/* Expands the RANGE, and finds its key, hash and functions the first time. */
int diff_code_find(struct diff_code *c, const struct space *space,
		   const struct aux_flow *ev, struct walk_range **range)
{
	int rc = walk_find(c->walk, space, ev, range);
	struct walk_range *r = *range;
	struct diff_range *d;

	if (rc < 0)
		return rc;
	d = r->user;
	if (d->parts)
		return 0;
	d->key = key_of(space, r->first);
	d->hash = iphash_block_init();
	for (uint32_t i = 0; i < r->n; i++)
		iphash_block_add(&d->hash, d->key + r->off[i]);
	rc = add_parts(c, space, r);
	if (rc < 0)
		drop_parts(d);
	walk_charge(c->walk, sizeof(struct diff_part));
	return rc;
}

/* The thread tid, made if it is new; batches of one thread follow each other,
 * so the last one is tried first. NULL: out of memory. */
static struct diff_thread *find_thread(struct diff_sum *s, uint32_t tid)
{
	struct diff_thread **bigger, *t;

	if (s->current < s->n && s->threads[s->current]->tid == tid)
		return s->threads[s->current];
	for (s->current = 0; s->current < s->n; s->current++)
		if (s->threads[s->current]->tid == tid)
			return s->threads[s->current];
	bigger = reallocarray(s->threads, s->n + 1, sizeof(*bigger));
	if (!bigger)
		return NULL;
	s->threads = bigger;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->tid = tid;
	s->threads[s->n++] = t;
	return t;
}

/* Does what runs in this part, after before, belong to another function? A stub
 * that is not bound yet jumps to the first entry of the PLT, which has no name. */
static bool runs_for_another(const struct diff_thread *before,
			     const struct diff_part *p)
{
	return p->func->stub ||
	       ((p->func->piece || !p->at_start) && before->func &&
		before->func->stub &&
		(before->end == AUX_END_JUMP || before->end == AUX_END_IND_JUMP));
}

/* Does the step from t's last range to the first instruction of a function call
 * it? */
static bool is_call(const struct diff_thread *t, const struct diff_func *to)
{
	if (to->stub)
		return false;
	switch (t->end) {
	case AUX_END_CALL:
	case AUX_END_IND_CALL:
		return true;
	case AUX_END_JUMP:
	case AUX_END_IND_JUMP:
		return t->func != to && !to->piece;
	}
	return false;
}

/* A range that cannot be expanded is counted as a gap, and what follows is no
 * call. */
static int add_range(struct diff_sum *s, struct diff_thread *t,
		     const struct space *space, const struct aux_flow *ev)
{
	const struct diff_range *d;
	struct walk_range *r;
	int rc = diff_code_find(s->code, space, ev, &r);

	if (rc == -AUX_E_NOMEM)
		return rc;
	if (rc < 0) {
		t->n_gaps++;
		t->end = AUX_END_FALL;
		return 0;
	}
	d = r->user;
	iphash_append_block(&t->hash, &d->hash);
	for (const struct diff_part *p = d->parts; p; p = p->next) {
		if (!runs_for_another(t, p) || !t->owner)
			t->owner = p->func;
		t->owner->insns[s->side] += p->n;
		if (p == d->parts && p->at_start && is_call(t, p->func))
			p->func->calls[s->side]++;
		t->func = p->func;
	}
	t->end = ev->what;
	return 0;
}

/* ---- steps and paths ---- */

#define WHOLE_BYTES ((size_t)64 << 20)	/* of all that are kept */

/* Gives functions what the steps and paths counted that are kept, and drops these: a new
 * epoch, in which users of steps and paths point to nothing. */
static void fold_wholes(struct diff_sum *s)
{
	struct diff_whole *w;

	while ((w = s->wholes)) {
		s->wholes = w->all;
		for (uint32_t i = 0; i < w->n_parts; i++) {
			w->parts[i].func->insns[s->side] += w->n * w->parts[i].insns;
			w->parts[i].func->calls[s->side] += w->n * w->parts[i].calls;
		}
		free(w);
	}
	s->whole_bytes = 0;
	s->epoch++;
}

/* A step or path in the making. */
struct making {
	size_t n;		/* of s->shares */
	bool fits;		/* the code, so far */
	struct diff_whole w;	/* last, for it has no size of its own */
};

/* The share of a function; programs are such that it is one of the last. */
static struct diff_share *share_of(struct diff_sum *s, struct making *m,
				   struct diff_func *func)
{
	for (size_t i = m->n; i-- > 0;)
		if (s->shares[i].func == func)
			return &s->shares[i];
	if (array_grow(&s->shares, m->n, &s->max_shares, sizeof(*s->shares)))
		return NULL;
	s->shares[m->n] = (struct diff_share){ .func = func };
	return &s->shares[m->n++];
}

/* As add_range does it, but for the call that leads to the first instruction, and
 * for stubs that run before any other function: whose they are the thread knows. */
static int make_range(struct diff_sum *s, struct making *m,
		      const struct space *space, const struct aux_flow *ev)
{
	const struct diff_range *d;
	struct walk_range *r;
	int rc = diff_code_find(s->code, space, ev, &r);

	m->fits &= rc == 0;
	if (rc < 0)
		return rc == -AUX_E_NOMEM ? rc : 0;
	d = r->user;
	if (!m->w.hash.n) {
		m->w.first = d->parts->func;
		m->w.at_start = d->parts->at_start;
	}
	for (const struct diff_part *p = d->parts; p; p = p->next) {
		struct diff_share *share = share_of(s, m, p->func);
		struct diff_thread before = { .func = m->w.last, .end = m->w.end };

		if (!share)
			return -AUX_E_NOMEM;
		if (!runs_for_another(&before, p))
			m->w.owner = p->func;
		if (!m->w.owner)
			m->w.n_lead += p->n;
		else	/* it has a share since it ran in m: nothing moves */
			share_of(s, m, m->w.owner)->insns += p->n;
		share->calls += p == d->parts && p->at_start && m->w.hash.n &&
				is_call(&before, p->func);
		m->w.last = p->func;
	}
	iphash_block_append(&m->w.hash, &d->hash);
	m->w.end = ev->what;
	return 0;
}

/* What was made, kept in user. NULL: no memory. */
static struct diff_whole *keep_whole(struct diff_sum *s, const struct making *m,
				     uint64_t *user)
{
	size_t shares = m->n * sizeof(*s->shares), size = sizeof(m->w) + shares;
	struct diff_whole *w;

	if (s->whole_bytes + size > WHOLE_BYTES)
		fold_wholes(s);
	w = malloc(size);
	if (!w)
		return NULL;
	*w = m->w;
	w->n_parts = (uint32_t)m->n;
	memcpy(w->parts, s->shares, shares);
	w->next = user[0] == s->epoch ? (struct diff_whole *)(uintptr_t)user[1] :
					NULL;
	w->all = s->wholes;
	s->wholes = w;
	s->whole_bytes += size;
	user[0] = s->epoch;
	user[1] = (uintptr_t)w;
	return w;
}

/* Of a step or path, by its user words: [0] the epoch, [1] the list of one for each space
 * that it was met in. NULL: it has none for this space. */
static inline struct diff_whole *find_whole(const struct diff_sum *s,
					    const uint64_t *user, uint64_t space_id)
{
	struct diff_whole *w = NULL;

	if (user[0] == s->epoch)
		w = (struct diff_whole *)(uintptr_t)user[1];
	while (w && w->space_id != space_id)
		w = w->next;
	return w;
}

static void add_whole(struct diff_sum *s, struct diff_thread *t,
		      struct diff_whole *w)
{
	w->n++;
	if (!t->owner)
		t->owner = w->first;
	t->owner->insns[s->side] += w->n_lead;
	if (w->owner)
		t->owner = w->owner;
	if (w->at_start && is_call(t, w->first))
		w->first->calls[s->side]++;
	iphash_append_block(&t->hash, &w->hash);
	t->func = w->last;
	t->end = w->end;
}

static int add_ranges(struct diff_sum *s, struct diff_thread *t,
		      const struct space *space, const struct aux_step *step)
{
	int rc = 0;

	for (uint32_t i = 0; i < step->n_ranges && !rc; i++)
		rc = add_range(s, t, space, &step->ranges[i]);
	return rc;
}

/* n steps as one, with the user words of a step or path. Where a range does not fit the
 * code they go range by range. */
static int add_steps(struct diff_sum *s, struct diff_thread *t,
		     const struct space *space, struct aux_step *const *steps,
		     uint32_t n, uint64_t *user)
{
	struct making m = {
		.w = { .space_id = space ? space->id : 0,
		       .hash = iphash_block_init() },
		.fits = true,
	};
	struct diff_whole *w = find_whole(s, user, m.w.space_id);
	int rc = 0;

	for (uint32_t i = 0; !w && i < n && m.fits && !rc; i++)
		for (uint32_t k = 0; k < steps[i]->n_ranges && m.fits && !rc; k++)
			rc = make_range(s, &m, space, &steps[i]->ranges[k]);
	if (!w && !rc && m.fits && m.w.hash.n) {
		w = keep_whole(s, &m, user);
		rc = w ? 0 : -AUX_E_NOMEM;
	}
	if (w)
		add_whole(s, t, w);
	for (uint32_t i = 0; !w && i < n && !rc; i++)
		rc = add_ranges(s, t, space, steps[i]);
	return rc;
}

/* A path that is not kept has no user words; its steps have. */
static int add_path(struct diff_sum *s, struct diff_thread *t,
		    const struct space *space, struct aux_path *path)
{
	int rc = 0;

	if (path->kept)
		return add_steps(s, t, space, path->steps, path->n_steps,
				 path->user);
	for (uint32_t i = 0; i < path->n_steps && !rc; i++)
		rc = add_steps(s, t, space, &path->steps[i], 1,
			       path->steps[i]->user);
	return rc;
}

/* The sink of the pass. After a gap it is not known how control came to the
 * next range. */
static int count_flow(void *priv, const struct aux_decode_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	const struct space *space = (const struct space *)ctx->space;
	struct diff_sum *s = priv;
	struct diff_thread *t = find_thread(s, ctx->tid);
	int rc = t ? 0 : -AUX_E_NOMEM;

	for (size_t i = 0; i < n && !rc; i++) {
		if (ev[i].kind == AUX_FLOW_PATH) {
			rc = add_path(s, t, space, ev[i].path.path);
		} else if (ev[i].kind == AUX_FLOW_RANGE) {
			rc = add_range(s, t, space, &ev[i]);
		} else if (ev[i].kind == AUX_FLOW_GAP) {
			t->n_gaps += aux_gap_is_loss(ev[i].what);
			t->end = AUX_END_FALL;
		}
		s->n_payloads += ev[i].kind == AUX_FLOW_PAYLOAD;
	}
	if (s->tick)
		s->tick(s->tick_priv, s->code->d);
	return rc ? rc : s->enough;
}

static int compare_tids(const void *pa, const void *pb)
{
	const struct diff_thread *a = *(struct diff_thread *const *)pa;
	const struct diff_thread *b = *(struct diff_thread *const *)pb;

	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

int diff_sum_run(struct diff_sum *s, struct aux_diag *diag)
{
	struct aux_decode_sink sink = { .size = sizeof(sink), .priv = s,
					.flags = AUX_DECODE_PATHS,
					.flow = count_flow };
	int rc;

	s->epoch = 1;
	rc = aux_decode_run(s->code->d, &sink, diag);
	fold_wholes(s);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < s->n; i++) {
		struct diff_thread *t = s->threads[i];

		snprintf(t->comm, sizeof(t->comm), "%s",
			 aux_decode_comm(s->code->d, t->tid, UINT64_MAX));
	}
	if (s->n)
		qsort(s->threads, s->n, sizeof(*s->threads), compare_tids);
	return 0;
}

void diff_sum_fini(struct diff_sum *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->threads[i]);
	free(s->threads);
	free(s->shares);
}

static struct diff_thread *thread_of(const struct diff_sum *s, int64_t tid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->threads[i]->tid == tid)
			return s->threads[i];
	return NULL;
}

static int match_pair(struct diff_sum *a, struct diff_sum *b, int64_t tid_a,
		      int64_t tid_b, struct aux_diag *diag)
{
	struct diff_thread *ta = thread_of(a, tid_a), *tb = thread_of(b, tid_b);

	if (!ta || !tb)
		return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
				"%s has no thread %lld that ran; `auxdecode "
				"count` lists them", ta ? "B" : "A",
				(long long)(ta ? tid_b : tid_a));
	ta->match = tb;
	tb->match = ta;
	return 0;
}

/* By name and not by tid, which is another one in each run. In order of tids,
 * which is the order of creation unless they wrapped. */
int diff_match(struct diff_sum *a, struct diff_sum *b, int64_t tid_a,
	       int64_t tid_b, struct aux_diag *diag)
{
	if (tid_a >= 0)
		return match_pair(a, b, tid_a, tid_b, diag);
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < b->n; k++) {
			struct diff_thread *ta = a->threads[i];
			struct diff_thread *tb = b->threads[k];

			if (tb->match || strcmp(ta->comm, tb->comm))
				continue;
			ta->match = tb;
			tb->match = ta;
			break;
		}
	/* the only ones left: a program of another name */
	if (a->n == 1 && b->n == 1 && !a->threads[0]->match)
		return match_pair(a, b, a->threads[0]->tid, b->threads[0]->tid,
				  diag);
	return 0;
}
