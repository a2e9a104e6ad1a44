/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * Q elements (IHI 0064): instructions that the trace counts and has no atoms of. Both
 * decoders show what the code leaves no choice about, and a GAP for all else; what the
 * reference's library cannot follow it says.
 */
#include "tests/unit/test_etm.h"

#define ON "on:1014 el4/7/0 "
#define TAIL "1000-1004/2:taken "	/* after an address: the flow is found again */

static struct packet_bytes p;
static bool stack;		/* the trace unit has a return stack */

static void begin_at(uint64_t ip)
{
	p.n = 0;
	v4_sync(&p, false);
	PUT(&p, 0x04);
	v4_context(&p, 0, 7);
	v4_address(&p, ip);
}

static void end(void)
{
	v4_address(&p, 0x1000);
	v4_atoms(&p, "E");
}

static void gives_by(const char *decoder, const char *want, const char *name)
{
	static struct fixture f;

	if (!decoders_find(decoder, 0, NULL))
		return;
	set_up(&f, decoder, (struct registers){
		AUX_ETM_V4, CID | TS | 3u << 13 | (stack ? RS : 0), false });
	f.config.etm.trcidr0 |= 3u << 15;	/* QSUPP */
	start_decoder(&f);
	add_area(&f, 0x1000, etm_code, sizeof(etm_code));
	ok(run_exact(&f, p.b, p.n, 64) == 0, "%s, %s: ends", name, decoder);
	is_str(text(&f), want, name);
	f.ops->close(f.dec);
}

static void both_give(const char *want, const char *name)
{
	gives_by("etm", want, name);
	gives_by("opencsd", want, name);
}

/* Each way to say where the flow is after two instructions, 1014 and 1018. */
static void forms(void)
{
	static const char want[] = ON "1014-1018/2:fall 101c-101c/1:jump " TAIL;
	static const struct {
		const char *name;
		uint8_t b[6], n;
	} all[] = {
		{ "short address", { 0xa5, 0x07, 2 }, 3 },
		{ "short address of 15 bits", { 0xa5, 0x87, 0x08, 2 }, 4 },
		{ "long address", { 0xaa, 0x07, 0x08, 0, 0, 2 }, 6 },
		{ "a count of two bytes", { 0xa5, 0x07, 0x82, 0 }, 4 },
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		begin_at(0x1014);
		put(&p, all[i].b, all[i].n);
		v4_atoms(&p, "E");
		end();
		both_give(want, all[i].name);
	}
	begin_at(0x1014);
	PUT(&p, 0xac, 2);
	v4_address(&p, 0x101c);
	v4_atoms(&p, "E");
	end();
	both_give(want, "the address in a packet of its own");
	begin_at(0x101c);
	v4_address(&p, 0x1014);
	PUT(&p, 0xa1, 2);	/* the last address but one */
	v4_atoms(&p, "E");
	end();
	both_give("on:101c el4/7/0 1014-1018/2:fall 101c-101c/1:jump " TAIL,
		  "an address as before");
}

/* The last instruction is a branch: where the flow is says whether it was taken. */
static void last_branches(void)
{
	begin_at(0x1000);
	PUT(&p, 0xa5, 0x00, 2);
	end();
	both_give("on:1000 el4/7/0 1000-1004/2:taken " TAIL, "a branch that was taken");
	begin_at(0x1000);
	PUT(&p, 0xa5, 0x02, 2);
	end();
	both_give("on:1000 el4/7/0 1000-1004/2:not " TAIL, "a branch that was not");
	begin_at(0x1014);
	PUT(&p, 0xa5, 0x07, 3);
	end();
	both_give(ON "1014-101c/3:jump " TAIL, "a jump");
	begin_at(0x1010);
	PUT(&p, 0xa5, 0x05, 1);
	v4_atoms(&p, "E");
	end();
	both_give("on:1010 el4/7/0 1010-1010/1:ijump 1014-101c/3:jump " TAIL,
		  "a branch to anywhere");
	begin_at(0x1000);
	PUT(&p, 0xa5, 0x05, 2);
	v4_atoms(&p, "E");
	end();
	both_give("on:1000 el4/7/0 gap4:1000 1014-101c/3:jump " TAIL,
		  "a branch that does not lead there");
}

/* What is not known is a GAP, with the number of instructions. */
static void unknown(void)
{
	static const char lost[] = "gap17:1014 101c-101c/1:jump " TAIL;
	char want[200];

	begin_at(0x1000);
	PUT(&p, 0xa5, 0x05, 9);
	v4_atoms(&p, "E");
	end();
	both_give("on:1000 el4/7/0 gap17:1000 1014-101c/3:jump " TAIL,
		  "a branch in the middle");
	begin_at(0x1014);
	PUT(&p, 0xaf);
	v4_address(&p, 0x101c);
	v4_atoms(&p, "E");
	end();
	snprintf(want, sizeof(want), ON "%s", lost);
	both_give(want, "no count");
	begin_at(0x1014);
	PUT(&p, 0xa5, 0x07, 0xff, 0xff, 0xff, 0xff, 0x7f);
	v4_atoms(&p, "E");
	end();
	both_give(want, "more than any program has");
	begin_at(0x1014);
	PUT(&p, 0xac, 2);
	v4_context(&p, 1, 7);
	v4_address(&p, 0x101c);
	v4_atoms(&p, "E");
	end();
	snprintf(want, sizeof(want), ON "el5/7/0 %s", lost);
	both_give(want, "a context on the way: whose code ran?");
	begin_at(0x1014);
	PUT(&p, 0xa5, 0x05, 2);
	v4_atoms(&p, "E");
	end();
	both_give(ON "gap4:1014 1014-101c/3:jump " TAIL, "code that leads elsewhere");
	begin_at(0x5000);
	PUT(&p, 0xaa, 0x07, 0x08, 0, 0, 2);
	v4_atoms(&p, "E");
	end();
	both_give("on:5000 el4/7/0 gap2:5000 101c-101c/1:jump " TAIL, "no code");
}

/* Nothing that ran is lost without a word. */
static void endings(void)
{
	begin_at(0x1014);
	PUT(&p, 0xac, 2);
	both_give(ON "gap17:0 ", "the trace ends before the address");
	PUT(&p, 0x00, 0x05);	/* overflow */
	v4_sync(&p, false);
	PUT(&p, 0x04);
	v4_context(&p, 0, 7);
	end();
	both_give(ON "gap17:0 gap1:1000 on:1000 el4/7/0 " TAIL, "an overflow does");
	begin_at(0x1014);
	PUT(&p, 0xac, 2);
	v4_atoms(&p, "E");
	both_give(ON "gap4:0 ", "an atom before the address");
	begin_at(0x1014);
	PUT(&p, 0xac, 2);
	v4_time(&p, 500);
	v4_address(&p, 0x101c);
	both_give(ON "t500+0 gap4:0 ", "a timestamp before the address");
	begin_at(0x1014);
	PUT(&p, 0xac, 2);
	v4_exception(&p, 14, 1, 0x101c);
	both_give(ON "gap4:0 ", "an exception before the address");
	begin_at(0x1014);
	PUT(&p, 0xac, 2, 0x12);	/* a cycle count that commits */
	both_give(ON "gap4:0 ", "a commit before the address");
	begin_at(0x1014);
	PUT(&p, 0xa3, 2);
	both_give(ON "gap3:0 ", "a reserved type");
	begin_at(0x1014);
	PUT(&p, 0xa5);
	both_give(ON "gap4:0 ", "the trace ends inside of the packet");
	begin_at(0x1014);
	PUT(&p, 0xa5, 0x07, 2);
	v4_exception(&p, 2, 1, 0x101c);
	v4_address(&p, 0x1000);
	v4_atoms(&p, "E");
	both_give(ON "1014-1018/2:syscall async2:101c>1000 " TAIL, "an exception after it");
}

/* Where the flow was is not known. With a return stack the library cannot go on. */
static void adrift(void)
{
	static const char branch[] = "on:1010 el4/7/0 1010-1010/1:ijump ";
	char want[200];

	begin_at(0x1010);
	v4_atoms(&p, "EN");
	PUT(&p, 0xa5, 0x05, 2);
	end();
	snprintf(want, sizeof(want), stack ? "%sgap4:1010 " : "%sgap17:0 " TAIL, branch);
	gives_by("etm", want, "after a branch to anywhere");
	if (!stack)
		gives_by("opencsd", want, "after a branch to anywhere, the reference");
	begin_at(0x1010);
	v4_atoms(&p, "E");
	PUT(&p, 0xa5, 0x05, 2);
	end();
	gives_by("etm", want, "right after it");
	snprintf(want, sizeof(want), stack ? "%sgap10:1010 " : "%sgap17:0 " TAIL, branch);
	gives_by("opencsd", want, "right after it, the reference");
	begin_at(0x5000);
	v4_atoms(&p, "E");
	PUT(&p, 0xaa, 0x07, 0x08, 0, 0, 2);
	v4_atoms(&p, "E");
	end();
	snprintf(want, sizeof(want), "on:5000 el4/7/0 gap2:5000 %s",
		 "101c-101c/1:jump " TAIL);
	both_give(want, "after code that is missing");
	p.n = 0;
	v4_sync(&p, false);
	PUT(&p, 0x04);
	v4_context(&p, 0, 7);
	PUT(&p, 0xaa, 0x07, 0x08, 0, 0, 2);
	v4_atoms(&p, "E");
	gives_by("etm", "on el4/7/0 gap17:0 101c-101c/1:jump ", "at the start");
	gives_by("opencsd", stack ? "on el4/7/0 gap10:0 " :
		 "on el4/7/0 gap17:0 101c-101c/1:jump ", "at the start, the reference");
}

/* Calls that are not traced may be on the trace unit's stack, or not. */
static void returns(void)
{
	begin_at(0x1008);
	v4_atoms(&p, "EE");	/* call, return */
	PUT(&p, 0xa5, 0x04, 1);	/* svc, at the address on the stack */
	end();
	gives_by("etm", "on:1008 el4/7/0 1008-1008/1:call 1020-1020/1:ret "
		 "100c-100c/1:fall " TAIL, "at an address on the stack");
	gives_by("opencsd", "on:1008 el4/7/0 1008-1008/1:call 1020-1020/1:ret "
		 "gap10:1020 ", "at an address on the stack, the reference");
	begin_at(0x1008);
	PUT(&p, 0xa5, 0x08, 1);	/* call */
	v4_atoms(&p, "EE");	/* return to where? */
	end();
	both_give("on:1008 el4/7/0 1008-1008/1:call 1020-1020/1:ret gap17:1008 " TAIL,
		  "a return from a call that was not traced");
	begin_at(0x1008);
	v4_atoms(&p, "E");	/* call */
	PUT(&p, 0xa5, 0x08, 9);
	v4_atoms(&p, "EE");
	end();
	both_give("on:1008 el4/7/0 1008-1008/1:call gap17:1020 1020-1020/1:ret "
		  "gap17:1020 " TAIL, "a return after calls that are not known");
}

/* A trace unit without Q elements has no such packets. */
static void reserved(void)
{
	struct registers r = { AUX_ETM_V4, CID, false };

	begin_at(0x1014);
	PUT(&p, 0xa5, 0x07, 2);
	gives(r, &p, ON "gap3:0 ", "without QSUPP");
}

int main(void)
{
	for (unsigned i = 0; i < 2; i++) {
		stack = i;
		forms();
		last_branches();
		unknown();
		endings();
		adrift();
	}
	returns();
	reserved();
	return plan_done();
}
