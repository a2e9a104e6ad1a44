/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The etm decoder and its host: paths instead of ranges, code that changes, timestamps that
 * nobody asked for, and chunks that it leaves to another decoder.
 */
#include "tests/unit/test_etm.h"

static void make_trace(struct packet_bytes *p)
{
	for (unsigned i = 0; i < 6; i++) {
		v4_sync(p, false);
		PUT(p, 0x04);
		v4_context(p, 0, 7);
		v4_address(p, 0x1000);
		PUT(p, 0xc3, 0xf7, 0xd9);	/* round and round, leave */
		v4_time(p, 900 + 10 * i);
		v4_atoms(p, "E");
		v4_address(p, 0x1010);
		v4_exception(p, 14, 1, 0x1010);
		v4_address(p, 0x1030);
		v4_atoms(p, "E");
		v4_exception(p, 2, 1, 0x1034);
	}
}

static unsigned n_forgotten;

static void forget(void *priv, void (*release)(void *what), void *what)
{
	(void)priv;
	n_forgotten++;
	release(what);
}

static void paths(uint32_t configr)
{
	static struct fixture a, b;
	static struct aux_flow all[N_EVENTS];
	struct registers r = { AUX_ETM_V4, configr, false };
	struct packet_bytes p = { .n = 0 };
	const struct aux_path *first = NULL;
	unsigned n_paths = 0, n_same = 0;
	bool sound = true;
	size_t n;

	make_trace(&p);
	open_one(&a, "etm", r);
	open_one(&b, "etm", r);
	b.host.paths = AUX_PATHS_PACKET;
	b.host.forget = forget;
	for (int i = 0; i < 3; i++) {
		ok(!run_exact(&a, p.b, p.n, 64) && !run_exact(&b, p.b, p.n, 16),
		   "both end");
		n = expand(&b, all, &sound);
		ok(sound, "paths add up");
		ok(n == a.n && !memcmp(all, a.ev, n * sizeof(all[0])),
		   "paths are the same ranges");
	}
	for (size_t i = 0; i < b.n; i++) {
		struct aux_path *path = b.ev[i].path.path;

		if (b.ev[i].kind != AUX_FLOW_PATH)
			continue;
		n_paths++;
		sound &= path->kept && !path->user[1] && !path->user[2];
		first = first ? first : path;
		n_same += path == first;
		path->user[0]++;
	}
	ok(sound && n_paths > 12, "paths are kept, with users of 0");
	ok(n_same == 6 && first && first->user[0] == 6,
	   "and are the same ones each time");
	is_u64(b.asked, 1, "code is asked for once");
	is_u64(n_forgotten, 0, "nothing was dropped");
	a.ops->close(a.dec);
	b.ops->close(b.dec);
}

static void make_rounds(struct packet_bytes *p)
{
	v4_sync(p, false);
	PUT(p, 0x04);
	v4_context(p, 0, 7);
	v4_address(p, 0x1010);
	for (unsigned i = 0; i < 40; i++) {
		PUT(p, 0xf7, 0x95, 0x09, 0xf7, 0x91);	/* br, blr, and back */
		if (i % 2)
			/* round and round, leave, call, return */
			PUT(p, 0xf7, 0x95, 0x80, 0x08, 0xdb, 0xf6, 0xf7, 0xf7,
			    0x95, 0x04);
		else
			/* twice the same, and back to the one before */
			PUT(p, 0xf7, 0x91, 0xf7, 0x92, 0xf7, 0x92);
		if (i % 8 == 7)
			v4_time(p, 900 + i);
	}
	v4_exception(p, 2, 1, 0x1010);
}

/* Packets that come again are one path, whatever the code then is. */
static void joined(uint32_t configr, size_t part)
{
	static const uint64_t generations[] = { 1, 1, 1, 2, 2, 2, 1, 2, 3 };
	static struct fixture a, b;
	static struct aux_flow all[N_EVENTS];
	static uint32_t other[sizeof(etm_code) / 4];
	struct registers r = { AUX_ETM_V4, configr, false };
	struct packet_bytes p = { .n = 0 };
	size_t n, packets = 0, least = SIZE_MAX;
	bool sound = true, same = true;

	memcpy(other, etm_code, sizeof(other));
	other[0] = other[2] = 0xb5000020;	/* cbnz x0, behind */
	make_rounds(&p);
	open_one(&a, "etm", r);
	open_one(&b, "etm", r);
	b.host.paths = AUX_PATHS_PACKET;
	run_exact(&b, p.b, p.n, 64);
	packets = b.n;
	b.host.paths = AUX_PATHS_JOINED;
	for (size_t i = 0; i < sizeof(generations) / 8; i++) {
		const void *code = generations[i] == 2 ? other : etm_code;

		a.host.generation = b.host.generation = generations[i];
		a.n_areas = b.n_areas = 0;
		add_area(&a, 0x1000, code, sizeof(other));
		add_area(&b, 0x1000, code, sizeof(other));
		same &= !run_exact(&a, p.b, p.n, 64);
		/* the same in small batches, which go through the queue */
		same &= !run_exact(&b, p.b, p.n, i % 3 == 1 ? 16 : 300);
		n = expand(&b, all, &sound);
		same &= n == a.n && is_joined(all, a.ev, n);
		least = b.n < least ? b.n : least;
	}
	ok(sound, "joined paths add up");
	ok(same, "and are the same ranges");
	ok(least <= packets / part, "what comes again is fewer paths: %zu, not %zu",
	   least, packets);
	a.ops->close(a.dec);
	b.ops->close(b.dec);
}

/* As many paths as there are addresses: the store has an end. */
static void full(enum aux_paths paths)
{
	static struct fixture f;
	static uint32_t code[1 << 17];
	static uint8_t trace[1 << 20];
	struct aux_chunk c = { .size = sizeof(c), .data = trace };
	struct packet_bytes p = { .n = 0 };
	uint64_t insns = 0, want = 0;
	int rc = 0;

	n_forgotten = 0;
	for (size_t i = 0; i < sizeof(code) / 4; i++)
		code[i] = 0xb5000020;		/* cbnz x0, behind */
	set_up(&f, "etm", (struct registers){ AUX_ETM_V4, CID, false });
	f.host.paths = paths;
	f.host.forget = forget;
	start_decoder(&f);
	add_area(&f, 0x100000, code, sizeof(code));
	v4_sync(&p, false);
	v4_context(&p, 0, 7);
	for (uint32_t round = 0; round < 12 && rc >= 0; round++) {
		memcpy(trace, p.b, p.n);
		c.len = p.n;
		for (uint32_t i = 0; i < 100000; i++) {
			uint64_t ip = 0x100000 + 4 * i;

			trace[c.len++] = 0x9a;
			trace[c.len++] = ip >> 2 & 0x7f;
			trace[c.len++] = ip >> 9 & 0x7f;
			trace[c.len++] = (uint8_t)(ip >> 16);
			trace[c.len++] = (uint8_t)(ip >> 24);
			trace[c.len++] = (uint8_t)(0xc0 + round);
			want += 4 + round;
		}
		f.ops->start(f.dec, &c);
		while ((rc = f.ops->decode(f.dec, f.ev, N_EVENTS)) > 0)
			for (int i = 0; i < rc; i++)
				insns += f.ev[i].kind == AUX_FLOW_PATH ||
						 f.ev[i].kind == AUX_FLOW_RANGE ?
						 f.ev[i].n : 0;
	}
	ok(rc == 0 && insns == want, "more paths than are kept");
	ok(n_forgotten > 0, "the host was told to forget");
	f.ops->close(f.dec);
}

static void generations(void)
{
	static const uint32_t other[] = { 0xd503201f, 0xd503201f, 0xb5ffffc0 };
	static struct fixture f;
	struct packet_bytes p = { .n = 0 };

	open_one(&f, "etm", (struct registers){ AUX_ETM_V4, CID, false });
	v4_sync(&p, false);
	v4_context(&p, 0, 7);
	v4_address(&p, 0x1000);
	PUT(&p, 0xf7);
	run_exact(&f, p.b, p.n, 64);
	is_str(text(&f), "el4/7/0 1000-1004/2:taken ", "code");
	f.host.generation = 2;
	f.n_areas = 0;
	add_area(&f, 0x1000, other, sizeof(other));
	run_exact(&f, p.b, p.n, 64);
	is_str(text(&f), "el4/7/0 1000-1008/3:taken ", "other code there");
	f.host.generation = 1;
	f.n_areas = 0;
	add_area(&f, 0x1000, etm_code, sizeof(etm_code));
	run_exact(&f, p.b, p.n, 64);
	is_str(text(&f), "el4/7/0 1000-1004/2:taken ", "the first again");
	f.host.generation = 3;
	run_exact(&f, p.b, p.n, 64);
	is_str(text(&f), "el4/7/0 1000-1004/2:taken ", "the same by a new number");
	f.host.generation = 4;
	f.n_areas = 0;
	run_exact(&f, p.b, p.n, 64);
	is_str(text(&f), "el4/7/0 gap2:1000 ", "none");
	f.ops->close(f.dec);
}

static void times(void)
{
	static struct fixture f;
	struct packet_bytes p = { .n = 0 };

	open_one(&f, "etm", (struct registers){ AUX_ETM_V4, TS, false });
	f.host.time_step = 100;
	v4_sync(&p, false);
	for (unsigned i = 0; i < 25; i++)
		v4_time(&p, 1000 + 10 * i);
	v4_time(&p, 900);
	run_exact(&f, p.b, p.n, 64);
	is_str(text(&f), "t1000+0 t1100+0 t1200+0 t900+0 ", "times a step apart");
	f.ops->close(f.dec);
}

static void refuses(void)
{
	static const struct registers v4 = { AUX_ETM_V4, CID, false };
	static struct fixture f;
	struct packet_bytes p = { .n = 0 };
	struct aux_diag diag = { 0 };

	for (unsigned arch = 0; arch < 8; arch++) {
		if (arch == AUX_ETM_V4 || arch == AUX_ETM_ETE)
			continue;
		set_up(&f, "etm", (struct registers){ arch, 0, false });
		ok(f.ops->open(&f.dec, &f.config, &f.host, &diag) ==
			   -AUX_E_UNSUPPORTED && !f.dec && diag.text[0],
		   "architecture %u is not opened", arch);
	}
	v4_sync(&p, false);
	v4_context(&p, 0, 7);
	v4_address(&p, 0x1000);
	v4_atoms(&p, "E");
	for (unsigned i = 0; i < 5; i++) {
		set_up(&f, "etm", v4);
		f.config.etm.trcidr8 = i == 0 ? 4 : 0;
		f.config.etm.core_profile = i == 1 ? 'M' : 'A';
		f.config.etm.trcconfigr |= i == 2 ? 0x10000 : i == 3 ? 0x100 : 0;
		f.config.etm.core_version = i == 4 ? 7 : 8;
		start_decoder(&f);
		ok(run_exact(&f, p.b, p.n, 16) == -AUX_E_UNSUPPORTED && !f.n,
		   "registers %u: left to another decoder", i);
		f.ops->close(f.dec);
	}
	open_one(&f, "etm", v4);
	PUT(&p, 0x81, 0x20);		/* AArch32 */
	v4_address(&p, 0x1000);
	v4_atoms(&p, "EE");
	ok(run_exact(&f, p.b, p.n, 16) == -AUX_E_UNSUPPORTED,
	   "AArch32: left to another decoder");
	is_str(text(&f), "el4/7/0 ", "what is before it is given, but for the "
	       "last, which an exception might change");
	p.n = 0;
	v4_sync(&p, false);
	ok(run_exact(&f, p.b, p.n, 16) == 0, "but not the next chunk");
	f.ops->close(f.dec);
	f.ops->close(NULL);
}

int main(void)
{
	paths(CID | TS);
	paths(CID | TS | RS);
	joined(CID | TS, 2);
	joined(CID | TS | RS, 1);
	full(AUX_PATHS_PACKET);
	full(AUX_PATHS_JOINED);
	generations();
	times();
	refuses();
	return plan_done();
}
