/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls_func: functions, see impl.h. A function is identified by its file, its
 * place in it and its name, so processes that map the file elsewhere share it.
 *
 * In front is a cache by (space, address) without chains: what does not fit is
 * looked up again. Roles of functions follow from their names: stubs, setjmp,
 * coroutine switches of glibc, Boost, QEMU, libaco, libco and Go, signal
 * restorers, entry points.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#include "decode/callstack/impl.h"
#include "decode/callstack/names.h"
#include "decode/lib/sideband/sideband.h"

#define CACHE_SIZE 16384 /* both are powers of two */
#define MIN_SLOTS  4096

struct cached {
	uint64_t space, ip;
	struct func *func;	/* NULL: free */
	bool called;
	bool begin;		/* ip is the first address of func */
};

struct funcs {
	const struct sink_host *host;
	unsigned flags;
	_Atomic uint32_t *ids;	/* NULL: they have ids of their own */
	struct cached *cache;
	struct func **slots;
	size_t n_slots;
	struct func **all;
	size_t n, max;
};

struct funcs *calls_func_new(const struct sink_host *host, unsigned flags)
{
	struct funcs *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->host = host;
	f->flags = flags;
	f->n_slots = MIN_SLOTS;
	f->cache = calloc(CACHE_SIZE, sizeof(*f->cache));
	f->slots = calloc(f->n_slots, sizeof(*f->slots));
	if (f->cache && f->slots)
		return f;
	calls_func_free(f);
	return NULL;
}

void calls_func_free(struct funcs *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++) {
		free((char *)f->all[i]->pub.name);
		free((char *)f->all[i]->pub.raw);
		free((char *)f->all[i]->pub.dso);
		free(f->all[i]);
	}
	free(f->all);
	free(f->slots);
	free(f->cache);
	free(f);
}

void calls_func_share_ids(struct funcs *f, _Atomic uint32_t *ids)
{
	f->ids = ids;
}

size_t calls_func_count(const struct funcs *f)
{
	return f->n;
}

struct func *calls_func_get(const struct funcs *f, size_t i)
{
	return i < f->n ? f->all[i] : NULL;
}

static uint64_t hash_text(uint64_t h, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 31;
}

/* ---- roles ---- */

static bool starts(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

static bool ends(const char *name, const char *with)
{
	size_t n = strlen(name), w = strlen(with);

	return n >= w && !strcmp(name + n - w, with);
}

static bool is_one_of(const char *name, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(name, *names))
			return true;
	return false;
}

bool call_name_is_stub(const char *name)
{
	return ends(name, "@plt") || starts(name, "__x86_indirect_") ||
	       starts(name, "__x86_return_thunk") ||
	       starts(name, "__llvm_retpoline_") ||
	       (starts(name, "__") && ends(name, "_veneer")) ||
	       ends(name, "_return_thunk");
}

/* table */
static const char *const setjmps[] = {
	"setjmp", "_setjmp", "__setjmp", "sigsetjmp", "__sigsetjmp",
	"getcontext", "__getcontext", "savectx", NULL
};

/* table */
static const char *const switches[] = {
	"swapcontext", "__swapcontext", "setcontext", "__setcontext",
	"jump_fcontext", "ontop_fcontext", "boost_jump_fcontext",
	"coro_transfer", "co_switch", "aco_swap", "runtime.gogo",
	"coroutine_switch", NULL
};

/* They do not save the current context. table */
static const char *const forgetters[] = {
	"setcontext", "__setcontext", NULL
};

/* Go: to the scheduler's stack (g0). table */
static const char *const parkers[] = { "runtime.mcall", NULL };

/* A stack with one of these never runs again. table */
static const char *const dead_ends[] = {
	"__start_context", "runtime.goexit0", "runtime.gdestroy", NULL
};

/* table */
static const char *const restorers[] = {
	"__restore_rt", "__restore", "__kernel_rt_sigreturn",
	"__kernel_sigreturn", "restore_rt", "__vdso_rt_sigreturn",
	"runtime.sigreturn", "runtime.sigreturn__sigaction", NULL
};

/* table */
static const char *const begins[] = {
	"_start", "_dlstart", "__start", "_rt0_amd64_linux",
	"_rt0_arm64_linux", "_dl_start_user", NULL
};

static uint16_t find_roles(const char *name, unsigned flags)
{
	uint16_t roles = 0;

	if (!name)
		return 0;
	if (!(flags & CALLS_KEEPS_STUBS) && call_name_is_stub(name))
		roles |= FUNC_STUB;
	if (*name == '[' && ends(name, "].part"))	/* as elfimage_symbol names it */
		roles |= FUNC_PART;
	if (is_one_of(name, setjmps))
		roles |= FUNC_SETJMP;
	if (is_one_of(name, switches))
		roles |= FUNC_SWITCH;
	if (is_one_of(name, restorers))
		roles |= FUNC_RESTORER;
	if (is_one_of(name, begins))
		roles |= FUNC_START;
	if (is_one_of(name, forgetters))
		roles |= FUNC_FORGETS;
	if (is_one_of(name, parkers))
		roles |= FUNC_PARK;
	if (is_one_of(name, dead_ends))
		roles |= FUNC_DEAD;
	return roles;
}

/* The length of a name without what compilers append to parts of a function. */
static size_t len_of_whole(const char *name)
{
	const char *cold = strstr(name, ".cold"), *part = strstr(name, ".part.");
	size_t n = strlen(name);

	if (cold && cold > name && (size_t)(cold - name) < n)
		n = (size_t)(cold - name);
	if (part && part > name && (size_t)(part - name) < n)
		n = (size_t)(part - name);
	return n;
}

/* ---- the table ---- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static int grow(struct funcs *f)
{
	size_t n = 2 * f->n_slots;
	struct func **slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < f->n; i++) {
		struct func **at = &slots[f->all[i]->hash & (n - 1)];

		f->all[i]->next = *at;
		*at = f->all[i];
	}
	free(f->slots);
	f->slots = slots;
	f->n_slots = n;
	return 0;
}

static int append(struct funcs *f, struct func *func)
{
	if (f->n == f->n_slots && grow(f))
		return -AUX_E_NOMEM;
	if (array_grow(&f->all, f->n, &f->max, sizeof(*f->all)) < 0)
		return -AUX_E_NOMEM;
	func->pub.id = f->ids ? atomic_fetch_add(f->ids, 1) : (uint32_t)f->n;
	f->all[f->n++] = func;
	func->next = f->slots[func->hash & (f->n_slots - 1)];
	f->slots[func->hash & (f->n_slots - 1)] = func;
	return 0;
}

/* As names_shown; the caller frees it. */
static char *show_name(const struct funcs *f, const char *raw)
{
	bool keep = f->flags & CALLS_RAW_NAMES || names_are_mangled(f->host->names);
	char *name = keep ? NULL : names_demangle(raw);

	return name ? name : strdup(raw);
}

/* What has no name is asked for as it is shown. */
static bool is_wanted(const struct funcs *f, const struct call_func *func)
{
	char text[512];

	if (!func->raw)
		call_func_name(func, text, sizeof(text));
	return names_fit(f->host->names, func->raw ? func->raw : text,
			 func->dso);
}

static struct func *make(struct funcs *f, const struct space *space,
			 const struct symbol *sym, uint64_t offset,
			 uint64_t hash)
{
	struct func *func = calloc(1, sizeof(*func));

	if (!func)
		return NULL;
	func->pub = (struct call_func){ .start = sym->start,
					.size = sym->size,
					.space = space };
	func->hash = hash;
	func->offset = offset;
	func->part_of = hash;
	func->roles = find_roles(sym->name, f->flags);
	func->pub.is_stub = sym->name && call_name_is_stub(sym->name);
	if (sym->name) {
		func->part_of = hash_text(hash_text(1, sym->name,
						    len_of_whole(sym->name)),
					  sym->dso ? sym->dso : "",
					  sym->dso ? strlen(sym->dso) : 0);
		func->pub.raw = strdup(sym->name);
		func->pub.name = show_name(f, sym->name);
	}
	if (sym->dso)
		func->pub.dso = strdup(sym->dso);
	func->pub.wanted = is_wanted(f, &func->pub);
	if ((!sym->dso || func->pub.dso) &&
	    (!sym->name || (func->pub.raw && func->pub.name)) &&
	    !append(f, func))
		return func;
	free((char *)func->pub.name);
	free((char *)func->pub.raw);
	free((char *)func->pub.dso);
	free(func);
	return NULL;
}

/* The function with a symbol, made if it is new. The hash covers place, name
 * and file. */
static struct func *intern(struct funcs *f, const struct space *space,
			   const struct symbol *sym, uint64_t ip)
{
	const struct mapping *m = space ? space_find(space, ip) : NULL;
	uint64_t offset = m ? sym->start - m->start + m->pgoff : sym->start;
	uint64_t hash = offset * UINT64_C(0x9e3779b97f4a7c15);
	struct func *func;

	if (!sym->start)
		offset = 0;
	hash ^= hash >> 29;
	if (sym->name)
		hash = hash_text(hash, sym->name, strlen(sym->name));
	if (sym->dso)
		hash = hash_text(hash, sym->dso, strlen(sym->dso));
	for (func = f->slots[hash & (f->n_slots - 1)]; func; func = func->next)
		if (func->hash == hash && func->offset == offset &&
		    same_text(func->pub.raw, sym->name) &&
		    same_text(func->pub.dso, sym->dso))
			return func;
	return make(f, space, sym, offset, hash);
}

/* The function at ip. Code without a symbol is a function of its own where it
 * was called, and one for all of its module elsewhere. */
static struct func *look_up(struct funcs *f, const struct space *space,
			    uint64_t ip, bool called, bool *begin)
{
	struct symbol sym = { .dso = NULL };

	if (f->host->symbol && space)
		f->host->symbol(f->host->priv, space, ip, &sym);
	if (sym.name && sym.size && ip - sym.start >= sym.size)
		sym.name = NULL;
	if (!sym.name) {
		sym.start = called ? ip : 0;
		sym.size = 0;
	}
	*begin = sym.name && sym.start == ip;
	return intern(f, space, &sym, ip);
}

/* From the cache, else looked up and put there. */
static const struct cached *find(struct funcs *f, const struct space *space,
				 uint64_t ip, bool called)
{
	uint64_t id = space ? space->id : 0;
	uint64_t h = (ip ^ id << 7) * UINT64_C(0x9e3779b97f4a7c15);
	struct cached *at = &f->cache[(h >> 40) & (CACHE_SIZE - 1)];

	if (at->func && at->ip == ip && at->space == id && at->called == called)
		return at;
	*at = (struct cached){ .space = id, .ip = ip, .called = called };
	at->func = look_up(f, space, ip, called, &at->begin);
	return at;
}

struct func *calls_func_at(struct funcs *f, const struct space *space,
			   uint64_t ip)
{
	return find(f, space, ip, false)->func;
}

struct func *calls_func_to(struct funcs *f, const struct space *space,
			   uint64_t ip, bool called, bool *begin)
{
	const struct cached *at = find(f, space, ip, called);

	*begin = at->begin;
	return at->func;
}

/* ---- names to show ---- */

size_t call_func_name(const struct call_func *f, char *buf, size_t len)
{
	const char *dso = f->dso ? strrchr(f->dso, '/') : NULL;
	int n;

	if (f->name)
		n = snprintf(buf, len, "%s", f->name);
	else if (f->dso && f->start)
		n = snprintf(buf, len, "[%s+0x%llx]", dso ? dso + 1 : f->dso,
			     (unsigned long long)func_of(f)->offset);
	else if (f->dso)
		n = snprintf(buf, len, "[%s]", dso ? dso + 1 : f->dso);
	else if (f->start)
		n = snprintf(buf, len, "0x%llx", (unsigned long long)f->start);
	else
		n = snprintf(buf, len, "[unknown]");
	if (n < 0 || !len)
		return 0;
	return (size_t)n < len ? (size_t)n : len - 1;
}
