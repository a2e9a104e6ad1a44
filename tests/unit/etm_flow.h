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
static void begin_flow(struct packets *p)
{
	v4_sync(p, false);
	PUT(p, 0x04);
	v4_context(p, 0, 7);
	v4_address(p, 0x1000);
}

/* Each way to lose the flow, and how it resumes. */
__attribute__((unused))
static void put_losses(struct packets *p)
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
