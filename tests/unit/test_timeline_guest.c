/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * timeline: guests beside the host with the same pids and addresses, by cpumode (perf kvm)
 * and by event id (perf inject --guest-data); and large numbers of everything, where the
 * tables' shape is checked and several threads look up.
 */
#include <pthread.h>

#include "tests/unit/mkside.h"
#include "decode/lib/sideband/impl.h"

#define GUEST_KERNEL PERF_RECORD_MISC_GUEST_KERNEL
#define GUEST_USER PERF_RECORD_MISC_GUEST_USER
#define TEXT UINT64_C(0xffffffff81000000)

static const char *path_at(const struct space *s, uint64_t addr)
{
	const struct mapping *m = space_find(s, addr);

	return m ? m->path : "";
}

/* perf kvm record: the machine is the pid of the guest's mappings. */
static void by_cpumode(void)
{
	struct timeline_guest g[2];
	const struct mapping *m;
	struct side f = { 0 };

	mk_init(&f.mk, 0);
	mk_mmap1(&f.mk, PERF_RECORD_MISC_KERNEL, UINT32_MAX, 0, TEXT, 0x1000,
		 TEXT, "[kernel.kallsyms]_text");
	mk_mmap1(&f.mk, GUEST_KERNEL, 0, 0, TEXT, 0x2000, TEXT,
		 "[guest.kernel.kallsyms]_text");
	mk_mmap1(&f.mk, GUEST_KERNEL, 77, 0, TEXT, 0x3000, TEXT + 0x1000,
		 "[guest.kernel.kallsyms.77]_stext");
	mk_mmap1(&f.mk, PERF_RECORD_MISC_USER, 77, 0, 0x1000, 0x1000, 0,
		 "/usr/bin/qemu");
	mk_mmap1(&f.mk, GUEST_USER, 77, 0, 0x1000, 0x1000, 0, "/init");
	if (!side_open(&f))
		return;
	is_str(path_at(timeline_space(f.tl, 77, 0), 0x1000), "/usr/bin/qemu",
	       "the host's process");
	is_str(path_at(timeline_space(f.tl, 77, 0), TEXT), "[kernel.kallsyms]",
	       "on the host's kernel");
	ok(!space_find(timeline_space(f.tl, 77, 0), TEXT + 0x1000), "alone");
	is_str(path_at(timeline_guest_space(f.tl, 77, 77, 0), 0x1000), "/init",
	       "a guest's process of the same pid");
	m = space_find(timeline_guest_space(f.tl, 77, 77, 0), TEXT + 0x2000);
	ok(m && !strcmp(m->path, "[guest.kernel.kallsyms.77]") &&
	   !strcmp(m->ref_name, "_stext") && m->ref_addr == TEXT + 0x1000,
	   "on its own kernel, moved by its own offset");
	m = space_find(timeline_guest_space(f.tl, 0, 5, 0), TEXT + 0x1000);
	ok(m && !strcmp(m->path, "[guest.kernel.kallsyms]"), "the only guest");
	ok(!space_find(timeline_guest_space(f.tl, 0, 77, 0), 0x1000) &&
	   timeline_guest_space(f.tl, 78, 77, 0)->id == 1 &&
	   timeline_guest_space(f.tl, UINT32_MAX, 77, 0)->id == 1,
	   "nothing of others");
	ok(timeline_guest(f.tl, 0, &g[0]) && timeline_guest(f.tl, 1, &g[1]) &&
	   g[0].machine == 0 && g[1].machine == 77 &&
	   !timeline_guest(f.tl, 2, &g[0]), "the list of guests");
	ok(g[0].n_processes == 0 && g[1].n_processes == 1 &&
	   g[1].n_threads == 0, "their processes");
	side_close(&f);
}

/* perf inject --guest-data: event 2 is a guest's. Its records look like a host's
 * but for the id. */
static void by_event(void)
{
	static const uint64_t index[] = { 2, 1, 0, 0, UINT64_MAX,
					  2, 0, 1, UINT64_MAX,
					  0, 0, 4321, 3 };
	struct perf_event_attr a[2] = { mk_attr(MK_PMU, 0),
					mk_attr(PERF_TYPE_SOFTWARE, 9) };
	const struct mk_id id = { 10, 10, 100, 0 };
	struct timeline_guest g;
	struct side f = { 0 };
	struct who w;
	size_t at;

	mk_init_attrs(&f.mk, a, 2);
	at = mk_begin(&f.mk, AUX_RECORD_ID_INDEX, 0);
	mk_put(&f.mk, index, sizeof(index));
	mk_end(&f.mk, at, NULL);
	for (uint64_t event = 1; event < 3; event++) {
		const char *name = event == 1 ? "host" : "guest";

		mk_comm(&f.mk, id, false, name);
		memcpy(f.mk.p + f.mk.n - 8, &event, 8);
		mk_mmap(&f.mk, id, 0x1000, 0x1000, 0, name);
		memcpy(f.mk.p + f.mk.n - 8, &event, 8);
		mk_mmap1(&f.mk, PERF_RECORD_MISC_KERNEL, UINT32_MAX, 0, TEXT,
			 event * 0x1000, TEXT, "[kernel.kallsyms]_text");
		memcpy(f.mk.p + f.mk.n - 8, &event, 8);
		mk_switch(&f.mk, (struct mk_id){ 9 + (uint32_t)event, 10, 100,
						 3 }, false);
		memcpy(f.mk.p + f.mk.n - 8, &event, 8);
	}
	if (!side_open(&f))
		return;
	is_str(timeline_comm(f.tl, 10, 100), "host", "the host's name alone");
	is_str(path_at(timeline_space(f.tl, 10, 100), 0x1000), "host", "maps");
	is_str(path_at(timeline_guest_space(f.tl, 4321, 10, 100), 0x1000),
	       "guest", "apart");
	ok(!space_find(timeline_space(f.tl, 10, 100), TEXT + 0x1000) &&
	   space_find(timeline_guest_space(f.tl, 4321, 10, 100), TEXT + 0x1000),
	   "kernels apart");
	w = timeline_who(f.tl, 3, 100);
	ok(w.tid == 10 && w.pid == 10, "who runs on CPU 3, not in the guest");
	ok(timeline_guest(f.tl, 0, &g) && g.machine == 4321 &&
	   g.n_processes == 2 && g.n_threads == 1, "the guest, by event");
	ok(timeline_space(f.tl, 10, 100)->id !=
	   timeline_guest_space(f.tl, 4321, 10, 100)->id, "different ids");
	side_close(&f);
}

/* Equal contents on two machines are different files. */
static void equal_paths(void)
{
	struct side f = { 0 };

	mk_init(&f.mk, 0);
	mk_mmap1(&f.mk, PERF_RECORD_MISC_USER, 5, 0, 0x1000, 0x1000, 0, "/x");
	mk_mmap1(&f.mk, GUEST_USER, 5, 0, 0x1000, 0x1000, 0, "/x");
	if (!side_open(&f))
		return;
	ok(timeline_space(f.tl, 5, 0)->id !=
	   timeline_guest_space(f.tl, 5, 5, 0)->id,
	   "the same path of two machines: two ids");
	side_close(&f);
}

/* ---- much of everything ---- */

#define N_MANY 200000

static unsigned depth(const struct map_node *n)
{
	unsigned l, r;

	if (!n)
		return 0;
	l = depth(n->left);
	r = depth(n->right);
	return 1 + (l > r ? l : r);
}

struct map_arena_block {
	struct map_arena_block *next;
	size_t used, size;
};

static size_t arena_bytes(const struct map_arena *a)
{
	size_t n = 0;

	for (const struct map_arena_block *b = a->blocks; b; b = b->next)
		n += b->used;
	return n;
}

static void put_many(struct mk *m, uint64_t i)
{
	const uint32_t pid = 100 + (uint32_t)(i / 7 % 1000);
	const struct mk_id id = { pid, pid, i + 1, (uint32_t)(i & 3) };
	const uint64_t text = TEXT + 64 * (i * 7919 % 5000);

	switch (i % 10) {
	case 0:
	case 1:
		mk_mmap(m, id, (i * 7919 % 4096) << 12, 0x3000, i, "/lib");
		break;
	case 2:
		mk_switch(m, id, i & 16);
		break;
	case 3:
		mk_fork(m, (struct mk_id){ pid + 1, pid + 1, i + 1, 0 }, pid,
			pid);
		break;
	case 4:
		mk_exit(m, id);
		break;
	case 5:
		mk_comm(m, id, i & 32, "name");
		break;
	case 6:
		mk_ksymbol(m, i + 1, 0xffffffffc0000000 + text % 65536, 64,
			   i & 16, "bpf_prog_x");
		break;
	case 7:
		mk_lost(m, PERF_RECORD_LOST, id, 1);
		break;
	default:
		mk_poke(m, i + 1, text, "abcde", 5, &i, 5);
	}
}

struct asker {
	const struct timeline *tl;
	uint64_t sum;
};

static void *ask(void *arg)
{
	struct asker *a = arg;

	for (uint64_t t = 0; t < N_MANY; t += 37) {
		uint32_t pid = 100 + (uint32_t)(t % 1000);
		const struct space *s = timeline_space(a->tl, pid, t);

		a->sum = a->sum * 31 + s->id + s->n_maps +
			 (s->from <= t && t < s->until) +
			 (space_find(s, TEXT + 64) != NULL) +
			 timeline_who(a->tl, t & 3, t).tid;
	}
	return NULL;
}

static void ask_at_once(const struct timeline *tl)
{
	struct asker a[4];
	pthread_t t[4];

	for (int i = 0; i < 4; i++) {
		a[i] = (struct asker){ .tl = tl };
		if (pthread_create(&t[i], NULL, ask, &a[i]))
			abort();
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ok(a[0].sum == a[1].sum && a[1].sum == a[2].sum && a[2].sum == a[3].sum,
	   "four threads at once get the same answers");
}

static void many(void)
{
	struct side f = { 0 };
	unsigned deepest = 0;
	size_t bytes;

	mk_init(&f.mk, 0);
	for (uint64_t i = 0; i < N_MANY; i++)
		put_many(&f.mk, i);
	if (!side_open(&f))
		return;
	for (size_t i = 0; i < f.tl->processes.n; i++) {
		unsigned d = depth(f.tl->processes.v[i].root);

		deepest = d > deepest ? d : deepest;
	}
	ok(deepest < 60 && depth(f.tl->machines.v[0].root) < 80,
	   "trees of %u and %u levels", deepest, depth(f.tl->machines.v[0].root));
	bytes = arena_bytes(&f.tl->arena);
	ok(bytes / N_MANY < 6000, "%zu bytes for each record", bytes / N_MANY);
	is_u64(timeline_stats(f.tl)->n_records, N_MANY, "all are read");
	ask_at_once(f.tl);
	side_close(&f);
}

int main(void)
{
	by_cpumode();
	by_event();
	equal_paths();
	many();
	return plan_done();
}
