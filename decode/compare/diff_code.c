/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diff_code: what an instruction is called, wherever it was loaded, and which
 * functions a range goes through. A range is looked at once; what is known of it
 * stays with the walk's.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/compare/diff.h"

#define SLOTS 4096

int diff_funcs_init(struct diff_funcs *f)
{
	*f = (struct diff_funcs){ .n_slots = SLOTS };
	f->slots = calloc(SLOTS, sizeof(*f->slots));
	return f->slots ? 0 : -AUX_E_NOMEM;
}

void diff_funcs_fini(struct diff_funcs *f)
{
	struct diff_func *func, *next;

	for (size_t i = 0; f->slots && i < f->n_slots; i++)
		for (func = f->slots[i]; func; func = next) {
			next = func->next;
			free(func);
		}
	free(f->slots);
}

static uint64_t distance(const struct diff_func *f)
{
	return f->insns[0] > f->insns[1] ? f->insns[0] - f->insns[1] :
					   f->insns[1] - f->insns[0];
}

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

static uint64_t hash_text(const char *s)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	while (*s)
		h = (h ^ (uint8_t)*s++) * UINT64_C(0x100000001b3);
	h ^= h >> 29;
	return h * UINT64_C(0x9e3779b97f4a7c15);
}

static struct diff_func *find_func(struct diff_funcs *f, const char *name,
				   const char *dso)
{
	uint64_t h = hash_text(dso) + 31 * hash_text(name ? name : "");
	struct diff_func **slot = &f->slots[(h >> 20) % f->n_slots], *func;
	size_t len = strlen(dso) + 1, len_name = name ? strlen(name) + 1 : 0;

	for (func = *slot; func; func = func->next)
		if (!func->name == !name && !strcmp(func->dso, dso) &&
		    (!name || !strcmp(func->name, name)))
			return func;
	func = calloc(1, sizeof(*func) + len + len_name);
	if (!func)
		return NULL;
	memcpy(func->text, dso, len);
	func->dso = func->text;
	if (name) {
		memcpy(func->text + len, name, len_name);
		func->name = func->text + len;
	}
	func->next = *slot;
	*slot = func;
	f->n++;
	return func;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Where ip lies in the file; of the kernel, from a place that moves with it. */
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
	return codeview_code(session_codeview(priv), space, ip, code);
}

int diff_code_init(struct diff_code *c, struct aux_decode *d,
		   struct diff_funcs *funcs)
{
	struct walk_config wc = { .host = &c->host,
				  .user_size = sizeof(struct diff_range),
				  .drop = drop_parts };

	*c = (struct diff_code){ .d = d, .funcs = funcs };
	c->host = (struct sink_host){ .priv = d->session, .code = host_code };
	return walk_new(&c->walk, &wc);
}

void diff_code_fini(struct diff_code *c)
{
	walk_free(c->walk);
}

/* The function at ip, and the first address that is not its own. */
static struct diff_func *func_at(struct diff_code *c, const struct space *space,
				 uint64_t ip, uint64_t *start, uint64_t *end)
{
	const struct mapping *m = space ? space_find(space, ip) : NULL;
	struct symbol sym = { 0 };

	if (m)
		codeview_symbol(session_codeview(c->d->session), space, ip,
				&sym);
	*start = sym.name ? sym.start : 0;
	*end = sym.name && sym.start + sym.size > ip ? sym.start + sym.size :
						       ip + 1;
	return find_func(c->funcs, sym.name, base_of(m ? m->path : "[nothing]"));
}

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
			func = func_at(c, space, ip, &start, &end);
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
