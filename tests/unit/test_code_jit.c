/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * codeview of code that a JIT compiler logged: from the recording and from a file,
 * with and without a common clock, moved, replaced, in a forked child.
 */
#include <time.h>

#include "tests/unit/codeview_file.h"
#include "decode/lib/elf/jitdump.h"

#define AT 0x700000u

struct log {
	uint8_t p[4096];
	size_t n;
	bool swap;
};

static void put32(struct log *l, uint32_t v)
{
	v = l->swap ? __builtin_bswap32(v) : v;
	memcpy(l->p + l->n, &v, 4);
	l->n += 4;
}

static void put64(struct log *l, uint64_t v)
{
	v = l->swap ? __builtin_bswap64(v) : v;
	memcpy(l->p + l->n, &v, 8);
	l->n += 8;
}

static void log_start(struct log *l, bool swap, bool arch)
{
	*l = (struct log){ .swap = swap };
	put32(l, 0x4a695444);
	put32(l, 1);
	put32(l, 40);
	put32(l, EM_X86_64);
	put32(l, 0);
	put32(l, 7);
	put64(l, 1);
	put64(l, arch);
}

static void log_load(struct log *l, uint64_t time, uint64_t addr,
		     const char *name, const char *code, uint64_t index)
{
	size_t n_name = strlen(name) + 1, n = strlen(code);

	put32(l, 0);
	put32(l, (uint32_t)(16 + 40 + n_name + n));
	put64(l, time);
	put64(l, 0x700000007);
	put64(l, addr);
	put64(l, addr);
	put64(l, n);
	put64(l, index);
	memcpy(l->p + l->n, name, n_name);
	memcpy(l->p + l->n + n_name, code, n);
	l->n += n_name + n;
}

static void log_move(struct log *l, uint64_t time, uint64_t to, uint64_t n,
		     uint64_t index)
{
	put32(l, 1);
	put32(l, 16 + 48);
	put64(l, time);
	put64(l, 0x700000007);
	put64(l, to);
	put64(l, 0);
	put64(l, to);
	put64(l, n);
	put64(l, index);
}

static void parsing(bool swap)
{
	const struct jitdump_code *c;
	struct aux_diag diag = { 0 };
	struct jitdump *j;
	struct log l;

	log_start(&l, swap, true);
	log_load(&l, 5, AT, "one", "abc", 0);
	log_move(&l, 6, AT + 64, 3, 0);
	log_move(&l, 6, AT + 96, 3, 99);
	put32(&l, 2); /* source lines: of no interest */
	put32(&l, 16 + 16);
	put64(&l, 7);
	put64(&l, AT);
	put64(&l, 0);
	log_load(&l, 8, AT + 128, "two", "defg", 1);
	ok(jitdump_new(&j, l.p, l.n, &diag) == 0, "a log, %s",
	   swap ? "foreign" : "native");
	c = jitdump_code(j, 0);
	ok(c && c->addr == AT && c->size == 3 && c->time == 5 &&
	   !memcmp(c->bytes, "abc", 3) && !strcmp(c->name, "one"), "loaded");
	c = jitdump_code(j, 1);
	ok(c && c->addr == AT + 64 && !memcmp(c->bytes, "abc", 3), "moved");
	c = jitdump_code(j, 2);
	ok(c && c->addr == AT + 128 && c->offset == l.n - 4, "loaded later");
	ok(!jitdump_code(j, 3) && jitdump_info(j)->n_skipped == 1 &&
	   jitdump_info(j)->arch_clock && !jitdump_info(j)->damage.code,
	   "what nobody loaded is not moved");
	jitdump_free(j);
	/* Cut anywhere, what came before stands. */
	for (size_t n = 0, i; n < l.n; n++) {
		if (jitdump_new(&j, l.p, n, &diag) < 0) {
			if (n >= 40)
				ok(0, "cut at %zu", n);
			continue;
		}
		for (i = 0; jitdump_code(j, i); i++)
			;
		if (i > 2 || (n > 40 && !i && n > 120))
			ok(0, "cut at %zu gives %zu", n, i);
		jitdump_free(j);
	}
	l.p[0] ^= 1;
	ok(jitdump_new(&j, l.p, l.n, &diag) == -AUX_E_FORMAT && !j, "%s",
	   diag.text);
}

/* clock: of the recording is the log's. own: the recording has the log. */
static bool record(struct view *v, const struct log *l, bool clock, bool own,
		   const struct codeview_config *config)
{
	struct perf_event_attr attr = mk_attr(MK_PMU, 0);
	struct aux_own_file h = { .total = l->n, .pid = 7 };
	char path[256];

	snprintf(path, sizeof(path), "%s", view_path("/jit-7.dump"));
	h.path_len = (uint32_t)strlen(path);
	attr.use_clockid = clock;
	attr.clockid = clock ? CLOCK_MONOTONIC : 0;
	mk_init_attrs(&v->mk, &attr, 1);
	mk_mmap(&v->mk, (struct mk_id){ 7, 7, 1, 0 }, 0x600000, 4096, 0, path);
	mk_mmap(&v->mk, (struct mk_id){ 7, 7, 2, 0 }, AT, 0x10000, 0,
		"//anon");
	/* a file that came after what was logged there */
	mk_mmap(&v->mk, (struct mk_id){ 7, 7, 500, 0 }, AT + 0x8000, 4096, 0,
		"/no/such/file");
	mk_fork(&v->mk, (struct mk_id){ 8, 8, 1000, 0 }, 7, 7);
	mk_fork(&v->mk, (struct mk_id){ 9, 9, 1001, 0 }, 7, 7);
	mk_comm(&v->mk, (struct mk_id){ 9, 9, 1002, 0 }, true, "other");
	if (own) {
		uint8_t more[8192];

		memcpy(more, path, h.path_len);
		memcpy(more + h.path_len, l->p, l->n);
		mk_own(&v->mk, AUX_OWN_FILE, &h, sizeof(h), more,
		       h.path_len + l->n);
	}
	return view_open(v, config);
}

static void fill(struct log *l)
{
	log_start(l, false, false);
	log_load(l, 100, AT, "first", "AAAA", 0);
	log_load(l, 150, AT + 16, "apart", "BBBB", 1);
	log_move(l, 160, AT + 32, 4, 1);
	log_load(l, 200, AT, "second", "CC", 2);
	log_load(l, 300, AT + 16, "apart", "BBBB", 3);
	log_load(l, 310, AT + 0x8000, "under", "UU", 4);
}

static void with_clock(void)
{
	static const struct codeview_config none;
	const struct space *a, *b, *c;
	struct view v;
	struct log l;

	fill(&l);
	if (!record(&v, &l, true, true, &none))
		return;
	is_u64(view_byte(&v, 7, 120, AT), 'A', "before it was replaced");
	is_u64(view_byte(&v, 7, 220, AT), 'C', "after");
	is_u64(view_byte(&v, 7, 220, AT + 2), 'A', "where it was longer");
	is_u64(view_byte(&v, 7, 3, AT + 16), 'B', "alone: at any time");
	is_u64(view_byte(&v, 7, 170, AT + 33), 'B', "moved");
	is_u64(view_byte(&v, 7, 170, AT + 8), -1, "between");
	is_str(view_name(&v, 7, 120, AT + 1), "first", "its name");
	is_str(view_name(&v, 7, 220, AT + 1), "second", "its name later");
	is_u64(view_byte(&v, 7, 400, AT + 0x8000), 'U', "before a file came");
	is_u64(view_byte(&v, 7, 600, AT + 0x8000), -1, "and after");
	a = codeview_space(v.cv, v.tl, 7, 120);
	b = codeview_space(v.cv, v.tl, 7, 199);
	c = codeview_space(v.cv, v.tl, 7, 200);
	ok(a == b && a->until == 200 && c->from == 200 && a->id != c->id &&
	   c->until == 500, "the space changes when code does");
	ok(codeview_space(v.cv, v.tl, 7, 400) == c, "and only then");
	is_u64(view_byte(&v, 8, 1100, AT), 'C', "a child has it too");
	is_u64(view_byte(&v, 9, 1100, AT), -1, "but not when it ran exec");
	view_close(&v);
}

static void without_clock(void)
{
	static const struct codeview_config none;
	const char *why;
	struct view v;
	struct log l;

	fill(&l);
	if (!record(&v, &l, false, true, &none))
		return;
	is_u64(view_byte(&v, 7, 120, AT), -1, "no clock: one of two");
	why = view_why(&v, 7, 120, AT);
	ok(strstr(why, "jit-7.dump") && strstr(why, "clock"), "%s", why);
	is_u64(view_byte(&v, 7, 120, AT + 16), 'B', "no clock: the same twice");
	view_close(&v);
}

static void from_file(void)
{
	static const struct codeview_config none;
	struct view v;
	struct log l;
	FILE *f;

	fill(&l);
	if (!record(&v, &l, true, false, &none))
		return;
	is_u64(view_byte(&v, 7, 120, AT), -1, "no log");
	ok(strstr(view_why(&v, 7, 120, AT), "jit-7.dump"), "%s",
	   view_why(&v, 7, 120, AT));
	f = mkelf_create(view_path("/jit-7.dump"));
	ok(f && fwrite(l.p, l.n - 75, 1, f) == 1 && !fclose(f), "a cut log");
	if (!view_again(&v, &none))
		return;
	is_u64(view_byte(&v, 7, 220, AT), 'C', "from the file");
	ok(codeview_note(v.cv, 0, NULL) && strstr(codeview_note(v.cv, 0, NULL), "@0x"),
	   "%s", codeview_note(v.cv, 0, NULL));
	view_close(&v);
}

int main(void)
{
	if (!ok(view_start(), "a scratch directory"))
		return plan_done();
	parsing(false);
	parsing(true);
	with_clock();
	without_clock();
	from_file();
	view_stop();
	return plan_done();
}
