/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * Branches younger than the decoders: etm follows those that it knows, and neither it
 * nor the reference takes one for a plain instruction. What they cannot follow is a
 * GAP with its cause, up to the next address; what ran before it is shown.
 */
#include "tests/unit/test_etm.h"

/* table */
static const uint32_t young[] = {
	0xd503201f,		/* 2000 nop */
	0xf4df0045,		/* 2004 cbeq x5, xzr, 200c */
	0xd503201f,		/* 2008 nop */
	0x7423bfa5,		/* 200c cbbge w5, w3, 2000 */
	0x75e3a042,		/* 2010 cbne w2, #7, 2018+ */
	0x551fffbf,		/* 2014 retaasppc */
	0xd65f0bf7,		/* 2018 retaasppc x23 */
	0xd503201f,		/* 201c nop */
	0xd6ff03e0,		/* 2020 texit */
	0x54000050,		/* 2024 bc.eq 202c */
	0xd503201f,		/* 2028 nop */
	0x14000000,		/* 202c b 202c */
	0xd503201f,		/* 2030 nop */
	0x56000000,		/* 2034 not allocated */
	0x14000000,		/* 2038 b 2038 */
	0x94000006,		/* 203c bl 2054 */
	0xd503201f,		/* 2040 nop */
	0x14000000,		/* 2044 b 2044 */
	0xd503201f,		/* 2048 nop */
	0xd503201f,		/* 204c nop */
	0xd503201f,		/* 2050 nop */
	0xd67f03c0,		/* 2054 not allocated: opc 3 */
	0xd65f03c0,		/* 2058 ret */
};

/* What the decoder of that name gives. */
static void gives_by(const char *decoder, struct registers r,
		     const struct packet_bytes *p, const char *want, const char *name)
{
	static struct fixture f;

	if (!decoders_find(decoder, 0, NULL))
		return;
	set_up(&f, decoder, r);
	start_decoder(&f);
	add_area(&f, 0x2000, young, sizeof(young));
	ok(run_exact(&f, p->b, p->n, 1000) == 0, "%s, %s: ends", name, decoder);
	is_str(text(&f), want, name);
	f.ops->close(f.dec);
}

static void both_give(struct registers r, const struct packet_bytes *p,
		      const char *want, const char *name)
{
	gives_by("etm", r, p, want, name);
	gives_by("opencsd", r, p, want, name);
}

static void begin_at(struct packet_bytes *p, uint64_t ip)
{
	p->n = 0;
	v4_sync(p, false);
	PUT(p, 0x04);
	v4_context(p, 0, 7);
	v4_address(p, ip);
}

/* The addresses of the instructions that ran, and whether there is a gap. */
static size_t list_insns(const char *decoder, struct registers r,
			 const struct packet_bytes *p, uint64_t *to, bool *gap)
{
	static struct fixture f;
	size_t n = 0;

	set_up(&f, decoder, r);
	start_decoder(&f);
	add_area(&f, 0x2000, young, sizeof(young));
	run_exact(&f, p->b, p->n, 1000);
	*gap = false;
	for (size_t i = 0; i < f.n; i++) {
		*gap |= f.ev[i].kind == AUX_FLOW_GAP;
		for (uint32_t k = 0; f.ev[i].kind == AUX_FLOW_RANGE && k < f.ev[i].n;
		     k++)
			to[n++] = f.ev[i].range.first + 4 * k;
	}
	f.ops->close(f.dec);
	return n;
}

/* The reference, whatever its version knows: no instruction that did not run, and a
 * gap if any is missing. */
static void shows_part(struct registers r, const struct packet_bytes *p,
		       const char *name)
{
	uint64_t all[64], part[64];
	size_t n, n_part, i = 0, k = 0;
	bool gap;

	if (!has_reference())
		return;
	n = list_insns("etm", r, p, all, &gap);
	n_part = list_insns("opencsd", r, p, part, &gap);
	for (; i < n && k < n_part; i++)
		k += all[i] == part[k];
	ok(n_part && k == n_part && (gap || n == n_part),
	   "%s: %zu of %zu, %zu in order", name, n_part, n, k);
}

static void known(void)
{
	struct registers r = { AUX_ETM_V4, CID, false };
	struct packet_bytes p;

	begin_at(&p, 0x2000);
	v4_atoms(&p, "EENEENNE");
	v4_address(&p, 0x2018);
	v4_atoms(&p, "E");
	v4_address(&p, 0x201c);
	v4_atoms(&p, "E");
	v4_address(&p, 0x2024);
	v4_atoms(&p, "EE");
	gives_by("etm", r, &p,
		 "on:2000 el4/7/0 2000-2004/2:taken 200c-200c/1:taken "
		 "2000-2004/2:not 2008-200c/2:taken 2000-2004/2:taken "
		 "200c-200c/1:not 2010-2010/1:not 2014-2014/1:ret "
		 "2018-2018/1:ret 201c-2020/2:far 2024-2024/1:taken "
		 "202c-202c/1:jump ", "young branches");
	shows_part(r, &p, "what the reference does not know is a gap");
}

/* In the middle of a packet of atoms, and at the end of one. */
static void unknown(void)
{
	struct registers r = { AUX_ETM_V4, CID, false };
	struct packet_bytes p;

	begin_at(&p, 0x2030);
	v4_atoms(&p, "E");
	v4_address(&p, 0x2038);
	v4_atoms(&p, "E");
	both_give(r, &p, "on:2030 el4/7/0 2030-2030/1:fall gap13:2034 "
		  "2038-2038/1:jump ", "a word that is not allocated");
	begin_at(&p, 0x203c);
	PUT(&p, 0xff, 0xfb);	/* EEE EEN */
	v4_address(&p, 0x2040);
	PUT(&p, 0xf7);
	both_give(r, &p, "on:203c el4/7/0 203c-203c/1:call gap13:2054 "
		  "2040-2044/2:jump ", "the rest of the packet is lost");
	r.configr |= RS;
	both_give(r, &p, "on:203c el4/7/0 203c-203c/1:call gap13:2054 "
		  "2040-2044/2:jump ", "with a return stack");
	begin_at(&p, 0x203c);
	PUT(&p, 0xff);
	v4_address(&p, 0x2058);	/* ret: to 2040, if the word above was no call */
	PUT(&p, 0xff);
	v4_address(&p, 0x2040);
	PUT(&p, 0xf7);
	both_give(r, &p, "on:203c el4/7/0 203c-203c/1:call gap13:2054 "
		  "2058-2058/1:ret gap13:2054 2040-2044/2:jump ",
		  "nor is the return stack known");
}

/* Up to an exception nothing was taken, known or not. */
static void exceptions(void)
{
	struct registers r = { AUX_ETM_V4, CID, false };
	struct packet_bytes p;

	begin_at(&p, 0x2030);
	v4_exception(&p, 1, 1, 0x2034);	/* it is undefined */
	v4_address(&p, 0x2038);
	v4_atoms(&p, "E");
	both_give(r, &p, "on:2030 el4/7/0 2030-2030/1:fall async2:2034>2038 "
		  "2038-2038/1:jump ", "the undefined word itself");
	begin_at(&p, 0x2030);
	v4_atoms(&p, "E");
	v4_exception(&p, 14, 1, 0x2044);
	v4_address(&p, 0x2038);
	v4_atoms(&p, "E");
	gives_by("etm", r, &p, "on:2030 el4/7/0 2030-2030/1:fall gap13:2034 "
		 "async1:2044>2038 2038-2038/1:jump ",
		 "an exception where the branch led");
	gives_by("opencsd", r, &p, "on:2030 el4/7/0 2030-2030/1:fall gap13:2034 "
		 "gap10:2030 ", "which the reference cannot go on from");
}

static void sources(void)
{
	struct registers r = { AUX_ETM_ETE, CID, false };
	struct packet_bytes p;

	begin_at(&p, 0x2030);
	PUT(&p, 0xb4, 0x0d);	/* 2034 */
	v4_address(&p, 0x2038);
	v4_atoms(&p, "E");
	both_give(r, &p, "on:2030 el4/7/0 gap13:2034 2038-2038/1:jump ",
		  "a source address");
}

static void open_speculating(struct fixture *f)
{
	set_up(f, "opencsd", (struct registers){ AUX_ETM_V4, CID, false });
	f->config.etm.trcidr0 &= ~0x20000000u;
	f->config.etm.trcidr8 = 8;
	start_decoder(f);
	add_area(f, 0x2000, young, sizeof(young));
}

/* The library drops what is not committed at the end: that is no silent loss. */
static void uncommitted(void)
{
	static struct fixture f;
	struct packet_bytes p;

	if (!has_reference())
		return;
	begin_at(&p, 0x2038);
	v4_atoms(&p, "EEEE");
	PUT(&p, 0x2d, 0x02);	/* commit 2 */
	open_speculating(&f);
	ok(run_exact(&f, p.b, p.n, 1000) == 0, "uncommitted: ends");
	is_str(text(&f), "on:2038 el4/7/0 2038-2038/1:jump 2038-2038/1:jump "
	       "gap14:2038 ", "two atoms are committed, two are a gap");
	ok(f.ev[f.n - 1].gap.detail == 2, "which says how many");
	PUT(&p, 0x2d, 0x02);
	ok(run_exact(&f, p.b, p.n, 1000) == 0, "committed: ends");
	is_str(text(&f), "on:2038 el4/7/0 2038-2038/1:jump 2038-2038/1:jump "
	       "2038-2038/1:jump 2038-2038/1:jump ", "all are committed");
	f.ops->close(f.dec);
}

/* With speculation the reference alone decodes: up to the next sync point. */
static void speculation(void)
{
	static struct fixture f;
	struct packet_bytes p;

	if (!has_reference())
		return;
	begin_at(&p, 0x2000);
	v4_atoms(&p, "EE");
	PUT(&p, 0x2d, 0x02);	/* commit 2 */
	v4_address(&p, 0x2038);
	v4_atoms(&p, "E");
	PUT(&p, 0x2d, 0x01);
	PUT(&p, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x01, 0x00);
	v4_context(&p, 0, 7);
	v4_address(&p, 0x2038);
	v4_atoms(&p, "E");
	PUT(&p, 0x2d, 0x01);
	open_speculating(&f);
	ok(run_exact(&f, p.b, p.n, 1000) == 0, "speculation: ends");
	is_str(text(&f), "on:2000 el4/7/0 2000-2000/1:fall gap13:2004 el4/7/0 "
	       "2038-2038/1:jump ", "speculation");
	f.ops->close(f.dec);
}

/* ---- A32 and T32: the reference alone decodes them ---- */

/* The flow begins at ip, in T32 or A32. */
static void begin_arm(struct packet_bytes *p, bool t32, uint32_t ip)
{
	uint8_t b[5] = { t32 ? 0x9b : 0x9a, t32 ? ip >> 1 & 0x7f : ip >> 2 & 0x7f,
			 t32 ? ip >> 8 & 0xff : ip >> 9 & 0x7f,
			 (uint8_t)(ip >> 16), (uint8_t)(ip >> 24) };

	v4_sync(p, false);
	PUT(p, 0x04, 0x81, 0x20);
	put(p, b, sizeof(b));
}

static void arm_gives(bool t32, char profile, const void *code, size_t len,
		      const char *want, const char *name)
{
	static struct fixture f;
	struct packet_bytes p = { .n = 0 };

	if (!has_reference())
		return;
	set_up(&f, "opencsd", (struct registers){ AUX_ETM_V4, 0, false });
	f.config.etm.core_profile = profile;
	start_decoder(&f);
	add_area(&f, 0x3000, code, len);
	begin_arm(&p, t32, 0x3000);
	v4_atoms(&p, "EE");
	ok(run_exact(&f, p.b, p.n, 1000) == 0, "%s: ends", name);
	is_str(text(&f), want, name);
	f.ops->close(f.dec);
}

static void arm(void)
{
	/* nop; then the word; b . */
	uint32_t a32[] = { 0xe320f000, 0, 0xeafffffe };
	static const struct {
		uint32_t word;
		bool young;
		const char *name;
	} all[] = {
		{ 0xe160006e, true, "eret" },
		{ 0xe1000010, true, "beside bx" },
		{ 0xe1400020, true, "beside bxj" },
		{ 0xe1600030, true, "beside blx" },
		{ 0xf8000a00, true, "beside rfe" },
		{ 0xf84d0510, false, "srs" },
		{ 0xe16f0f11, false, "clz r0, r1" },
		{ 0xe1020051, false, "qadd r0, r1, r2" },
		{ 0xe10f0000, false, "mrs r0, apsr" },
		{ 0xe1600070, false, "smc #0" },
		{ 0xe1020081, false, "smlabb" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		a32[1] = all[i].word;
		arm_gives(false, 'A', a32, sizeof(a32), all[i].young ?
			  "on:3000 el4/0/0 3000-3000/1:fall gap13:3004 " :
			  "on:3000 el4/0/0 3000-3008/3:jump 3008-3008/1:jump ",
			  all[i].name);
	}
}

static void thumb(void)
{
	/* nop; nop.w; the instruction; b . */
	uint16_t t32[] = { 0xbf00, 0xf3af, 0x8000, 0, 0, 0xe7fe };
	static const struct {
		uint16_t a, b;
		bool young;
		const char *name;
	} all[] = {
		{ 0xf02f, 0xc005, true, "le" },
		{ 0xf00f, 0xc005, true, "le lr" },
		{ 0xf01f, 0xc005, true, "letp lr" },
		{ 0xf043, 0xc005, true, "wls lr, r3" },
		{ 0xf013, 0xc005, true, "wlstp.16 lr, r3" },
		{ 0xf0c0, 0xe803, true, "bf" },
		{ 0xf080, 0xc803, true, "bfl" },
		{ 0xf0e3, 0xe001, true, "bfx r3" },
		{ 0xf084, 0xe803, true, "bfcsel" },
		{ 0xfb51, 0xcf12, true, "bxaut" },
		{ 0xf043, 0xe001, false, "dls lr, r3" },
		{ 0xf013, 0xe001, false, "dlstp.16 lr, r3" },
		{ 0xf00f, 0xe001, false, "lctp" },
		{ 0xfb51, 0x2013, false, "smmlar" },
		{ 0xf3bf, 0x8f4f, false, "dsb" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		t32[3] = all[i].a;
		t32[4] = all[i].b;
		arm_gives(true, 'M', t32, sizeof(t32), all[i].young ?
			  "on:3000 el4/0/0 3000-3002/2:fall gap13:3006 " :
			  "on:3000 el4/0/0 3000-300a/4:jump 300a-300a/1:jump ",
			  all[i].name);
	}
}

int main(void)
{
	known();
	unknown();
	exceptions();
	sources();
	speculation();
	uncommitted();
	arm();
	thumb();
	return plan_done();
}
