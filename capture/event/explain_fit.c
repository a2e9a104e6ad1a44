/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much may be mapped, and sizes of rings that fit.
 *
 * The kernel charges each mapping (a data ring with its control page, an AUX
 * area) first to the user: perf_event_mlock_kb for each CPU that is online, all
 * recorders of this user together. What exceeds that is charged to the process
 * under RLIMIT_MEMLOCK, once and not per CPU. CAP_IPC_LOCK and a paranoid level
 * of -1 lift the limit. See perf_mmap(), kernel/events/core.c (Linux 6.1).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/diag.h"

#include "capture/event/explain.h"

#define MLOCK_KB_DEFAULT 516
#define AUX_FEW_BYTES (64 << 10)	/* below this data rings shrink, too */
#define DATA_FEW_BYTES (32 << 10)
#define MEMORY_PART 8

static bool has_limit(const struct explain_system *sys)
{
	return !sys->cap_ipc_lock && sys->paranoid > -1 &&
	       sys->rlimit_memlock != INT64_MAX;
}

static int64_t free_of_charge(const struct explain_system *sys)
{
	long kb = sys->mlock_kb >= 0 ? sys->mlock_kb : MLOCK_KB_DEFAULT;

	return kb * 1024 / sys->page_size * sys->page_size * sys->n_cpus;
}

int64_t explain_budget(const struct explain_system *sys)
{
	int64_t sum;

	if (!has_limit(sys))
		return INT64_MAX;
	if (__builtin_add_overflow(free_of_charge(sys),
				   sys->rlimit_memlock / sys->page_size *
				   sys->page_size, &sum))
		return INT64_MAX;
	return sum;
}

/* "512K", "16M", as -m takes it. */
static const char *size_word(uint64_t bytes, char buf[24])
{
	static const char units[] = "KMGT";
	int i = 0;

	for (bytes /= 1024; bytes >= 1024 && bytes % 1024 == 0 && i < 3; i++)
		bytes /= 1024;
	snprintf(buf, 24, "%" PRIu64 "%c", bytes, units[i]);
	return buf;
}

struct fitting {
	struct explain_fit *fit;
	uint64_t n_rings, n_aux, page, limit;
};

static bool fits(const struct fitting *f, uint64_t data, uint64_t aux)
{
	uint64_t a, b, sum;

	return !__builtin_mul_overflow(f->n_rings * f->page, data + 1, &a) &&
	       !__builtin_mul_overflow(f->n_aux * f->page, aux, &b) &&
	       !__builtin_add_overflow(a, b, &sum) && sum <= f->limit;
}

/* AUX first, then data, each down to what is still of use, then to a page. */
static bool shrink(struct fitting *f)
{
	struct explain_fit *x = f->fit;
	bool aux = !x->aux_fixed && f->n_aux, data = !x->data_fixed;

	if (aux && x->aux_pages * f->page > AUX_FEW_BYTES)
		x->aux_pages /= 2;
	else if (data && x->data_pages * f->page > DATA_FEW_BYTES)
		x->data_pages /= 2;
	else if (aux && x->aux_pages > 1)
		x->aux_pages /= 2;
	else if (data && x->data_pages > 1)
		x->data_pages /= 2;
	else
		return false;
	return true;
}

/* What a step too far has freed goes back to AUX. */
static void grow_back(struct fitting *f, size_t wanted)
{
	struct explain_fit *x = f->fit;

	while (!x->aux_fixed && f->n_aux && x->aux_pages * 2 <= wanted &&
	       fits(f, x->data_pages, x->aux_pages * 2))
		x->aux_pages *= 2;
}

static size_t few_pages(const struct fitting *f, size_t wanted)
{
	size_t few = AUX_FEW_BYTES / f->page;

	return wanted < few ? wanted : few;
}

static int explain_no_fit(const struct fitting *f,
			  const struct explain_system *sys,
			  struct aux_diag *diag)
{
	const struct explain_fit *x = f->fit;
	uint64_t need = (x->data_pages + 1) * f->n_rings * f->page +
			x->aux_pages * f->n_aux * f->page;
	uint64_t kb = need / 1024 / (unsigned)sys->n_cpus + 1;
	char total[24];

	if (!has_limit(sys))
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"the rings need %s of memory and that is more "
				"than can be had: choose smaller ones with -m "
				"DATA,AUX, or fewer CPUs with -C",
				size_word(need, total));
	return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
			"%" PRIu64 " ring%s (data %zu, AUX %zu pages) take "
			"%" PRIu64 " KB and may take %" PRIu64 " KB: "
			"kernel.perf_event_mlock_kb %ld for each of %d CPUs, "
			"and ulimit -l %" PRId64 " KB once. Without root: "
			"smaller -m DATA,AUX, fewer CPUs (-C). Fix: sudo sysctl"
			" kernel.perf_event_mlock_kb=%" PRIu64 ", or "
			"CAP_IPC_LOCK for auxcap (setcap)", f->n_rings,
			f->n_rings == 1 ? "" : "s",
			x->data_pages, f->n_aux ? x->aux_pages : 0, need / 1024,
			f->limit / 1024, sys->mlock_kb, sys->n_cpus,
			sys->rlimit_memlock / 1024, kb);
}

/* more: what is to be known beside the limits. */
static void say_locked(char *why, size_t len, const char *more,
		       const struct explain_system *sys)
{
	snprintf(why, len, "what may be locked%s: perf_event_mlock_kb %ld for "
		 "each of %d CPUs and ulimit -l %" PRId64 " KB", more,
		 sys->mlock_kb, sys->n_cpus, sys->rlimit_memlock / 1024);
}

static void say_choice(const struct fitting *f, size_t data, size_t aux,
		       const char *why)
{
	struct explain_fit *x = f->fit;
	char d[24], a[24];
	int n;

	x->text[0] = '\0';
	if (x->data_pages == data && x->aux_pages == aux)
		return;
	n = snprintf(x->text, sizeof(x->text), "buffers of %s",
		     size_word(x->data_pages * f->page, d));
	if (f->n_aux)
		n += snprintf(x->text + n, sizeof(x->text) - (size_t)n,
			      ", AUX %s (not %s)",
			      size_word(x->aux_pages * f->page, a),
			      size_word(aux * f->page, d));
	snprintf(x->text + n, sizeof(x->text) - (size_t)n,
		 " for each of %" PRIu64 " rings: %s", f->n_rings, why);
}

int explain_fit(struct explain_fit *fit, size_t n_rings, size_t n_aux,
		const struct explain_system *sys, struct aux_diag *diag)
{
	int64_t budget = explain_budget(sys);
	int64_t part = sys->mem_available / MEMORY_PART;
	bool by_memory = part > 0 && part < budget;
	struct fitting f = {
		.fit = fit, .n_rings = n_rings, .n_aux = n_aux,
		.page = (uint64_t)sys->page_size,
		.limit = (uint64_t)(by_memory ? part : budget),
	};
	size_t data = fit->data_pages, aux = fit->aux_pages;
	char why[160] = "an eighth of the free memory";

	fit->text[0] = '\0';
	while (!fits(&f, fit->data_pages, fit->aux_pages))
		if (!shrink(&f)) {
			/* The user's own words may exceed our part. */
			f.limit = (uint64_t)budget;
			if (by_memory && !fit->aux_fixed)
				fit->aux_pages = few_pages(&f, aux);
			if (fits(&f, fit->data_pages, fit->aux_pages))
				break;
			return explain_no_fit(&f, sys, diag);
		}
	grow_back(&f, aux);
	if (!by_memory)
		say_locked(why, sizeof(why), "", sys);
	say_choice(&f, data, aux, why);
	return 0;
}

void explain_fit_less(struct explain_fit *fit, const struct explain_fit *was,
		      size_t n_rings, size_t n_aux, int err,
		      const struct explain_system *sys)
{
	struct fitting f = {
		.fit = fit, .n_rings = n_rings, .n_aux = n_aux,
		.page = (uint64_t)sys->page_size,
	};
	char why[160] = "what the kernel has of memory in one piece";

	if (err == EPERM)
		say_locked(why, sizeof(why), " beside this user's other "
			   "recorders", sys);
	say_choice(&f, was->data_pages, was->aux_pages, why);
}

static int explain_locked(const char *event, const char *what, size_t bytes,
			  const struct explain_system *sys,
			  struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
			"%.60s: %s of %zu KB: more than may be locked: "
			"kernel.perf_event_mlock_kb %ld KB for each of %d CPUs,"
			" shared by all recorders of this user, and ulimit -l "
			"%" PRId64 " KB once. Without root: smaller -m "
			"DATA,AUX, fewer CPUs (-C), end other recorders. Fix: "
			"sudo sysctl kernel.perf_event_mlock_kb=%zu, or "
			"CAP_IPC_LOCK for auxcap (setcap)", event, what,
			bytes / 1024, sys->mlock_kb, sys->n_cpus,
			sys->rlimit_memlock == INT64_MAX ? -1 :
			sys->rlimit_memlock / 1024,
			(size_t)(sys->mlock_kb > 0 ? sys->mlock_kb : 0) +
			bytes / 1024);
}

int explain_mmap(const char *event, bool aux, size_t bytes, int err,
		 const struct explain_system *sys, struct aux_diag *diag)
{
	const char *what = aux ? "an AUX area" : "a data ring";
	const char *why = "";

	if (!event)
		event = "event";
	if (err == EPERM)
		return explain_locked(event, what, bytes, sys, diag);
	if (err == ENOMEM)
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"%.60s: no memory for %s of %zu KB (AUX areas "
				"may need large pieces in one): smaller -m "
				"DATA,AUX", event, what, bytes / 1024);
	if (err == EINVAL && aux)
		why = ": it has to be a power of two pages, and the PMU may "
		      "want it larger or smaller (-m DATA,AUX)";
	else if (err == EINVAL)
		why = ": a power of two pages; and an event that is inherited "
		      "cannot be mapped per thread";
	else if (err == EOPNOTSUPP)
		why = ": this PMU has no AUX area";
	else if (err == EBUSY)
		why = ": the PMU or its sink is in use by another recorder";
	else if (err == ENODEV && aux)
		why = ": no sink (CoreSight: name one, as cs_etm/@tmc_etr0/)";
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"%.60s: %s of %zu KB cannot be mapped: %s%s", event,
			what, bytes / 1024, strerror(err), why);
}
