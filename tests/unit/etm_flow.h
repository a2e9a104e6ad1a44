/* SPDX-License-Identifier: BSD-2-Clause */
/* The code and the packets by which both ETMv4 decoders are tested. */
#ifndef TESTS_UNIT_ETM_FLOW_H
#define TESTS_UNIT_ETM_FLOW_H

#include "tests/unit/opencsd_fixture.h"

/* TRCCONFIGR */
#define CID 0x40u
#define CCI 0x10u
#define TS 0x800u
#define RS 0x1000u

/* table */
static const uint32_t etm_code[] = {
	0xd503201f,		/* 1000 nop */
	0xb5ffffe0,		/* 1004 cbnz x0, 1000 */
	0x94000006,		/* 1008 bl 1020 */
	0xd4000001,		/* 100c svc #0 */
	0xd61f0020,		/* 1010 br x1 */
	0xd503201f,		/* 1014 nop */
	0xd503201f,		/* 1018 nop */
	0x14000000,		/* 101c b 101c */
	0xd65f03c0,		/* 1020 ret */
	0xd63f0020,		/* 1024 blr x1 */
	0xd69f03e0,		/* 1028 eret */
	0xd503201f,		/* 102c nop */
	0xd5033fdf,		/* 1030 isb */
	0xd503205f,		/* 1034 wfe */
	0x14000000,		/* 1038 b 1038 */
};

/* Its bytes without the waypoints, isb and wfe. */
#define ETM_CODE_BASE 48

/* The flow begins at 1000. */
__attribute__((unused))
static void begin_flow(struct packet_bytes *p)
{
	v4_sync(p, false);
	PUT(p, 0x04);
	v4_context(p, 0, 7);
	v4_address(p, 0x1000);
}

/* All kinds of branches, a system call, a return from it, and an interrupt. */
__attribute__((unused))
static void put_small_flow(struct packet_bytes *p)
{
	begin_flow(p);
	v4_time(p, 5);
	v4_atoms(p, "ENE");	/* loop, leave it, call */
	v4_atoms(p, "E");	/* ret */
	v4_address(p, 0x100c);
	v4_exception(p, 2, 1, 0x1010);
	v4_address(p, 0x1028);
	v4_context(p, 1, 7);
	v4_atoms(p, "E");	/* eret */
	v4_context(p, 0, 7);
	v4_address(p, 0x1010);
	v4_time(p, 300);
	v4_atoms(p, "E");	/* br */
	v4_address(p, 0x1014);
	v4_exception(p, 14, 1, 0x1018);
	PUT(p, 0x04);
	v4_address(p, 0x1024);
	v4_atoms(p, "E");
}

/* Its text, with context ids and timestamps. */
#define SMALL_FLOW \
	"on:1000 el4/7/0 t5+0 1000-1004/2:taken 1000-1004/2:not " \
	"1008-1008/1:call 1020-1020/1:ret 100c-100c/1:syscall " \
	"async2:1010>1028 el5/7/0 1028-1028/1:far el4/7/0 t300+0 " \
	"1010-1010/1:ijump 1014-1014/1:fall async1:1018>0 off on:1024 " \
	"1024-1024/1:icall "

/* The flow begins at 1000 with cycle counts: one is between two atoms. */
__attribute__((unused))
static void begin_cycles(struct packet_bytes *p)
{
	v4_sync(p, true);
	PUT(p, 0x04, 0x81, 0x30);
	v4_address(p, 0x1000);
	v4_atoms(p, "E");
	PUT(p, 0x12);		/* cycle count, format 3 */
	v4_atoms(p, "E");
}

/* Each way to lose the flow, and how it resumes. */
__attribute__((unused))
static void put_losses(struct packet_bytes *p)
{
	begin_flow(p);
	v4_atoms(p, "E");
	v4_address(p, 0x5000);	/* no code */
	v4_atoms(p, "EE");
	v4_address(p, 0x1004);
	v4_atoms(p, "E");
	PUT(p, 0x00, 0x05);	/* overflow */
	begin_flow(p);
	v4_atoms(p, "E");
	PUT(p, 0x84);		/* reserved */
	v4_atoms(p, "E");
	begin_flow(p);
	v4_atoms(p, "E");
	PUT(p, 0x30);		/* mispredict: nothing is speculated */
	v4_atoms(p, "E");
	begin_flow(p);
	v4_atoms(p, "N");
}

#endif
