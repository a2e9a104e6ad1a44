/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to decode/gdb: packet.c has the packets, server.c what they ask for, target.c
 * what the debugger must know of the program, monitor.c the commands after `monitor`.
 */
#ifndef DECODE_GDB_IMPL_H
#define DECODE_GDB_IMPL_H

#include "common/outbuf.h"
#include "decode/gdb/gdb.h"

#define GDB_PACKET 16384	/* bytes between $ and # */

struct link {
	int in;
	struct outbuf *to;
	bool no_ack;
	bool ended;		/* the other side is gone */
	bool broke;		/* it asked to stop what runs */
	uint8_t buf[4096];
	size_t at, n;
	char packet[GDB_PACKET + 1];
	size_t len;
};

/* The next packet is in l->packet. 1; 0: there are no more. */
int link_read(struct link *l);
/* Sends a packet, with what is not text escaped. 0 or -AUX_E_IO. */
int link_send(struct link *l, const char *p, size_t n);
/* Whether the debugger asked to stop; does not wait. */
bool link_is_broken(struct link *l);

struct points {
	uint64_t *v;		/* sorted */
	size_t n, cap;
};

/* Registers of one kind: a name, or several with blanks between. */
struct machine_regs {
	const char *names;
	unsigned bits;
	const char *type;	/* as target descriptions have them */
};

/* The registers of an architecture, in the order of its numbers. */
struct machine {
	const char *name;	/* as <architecture> has it */
	const char *triple;	/* as LLVM has it */
	const char *feature;	/* of the target description */
	unsigned n_before;	/* registers before the program counter, */
	unsigned size;		/* and bytes of each, and of it */
	struct machine_regs regs[6];
};

struct server {
	const struct gdb_config *config;
	struct link link;
	struct replay *replay;
	struct codeview *codeview;
	struct sink_host host;
	const struct machine *machine;
	struct replay_place at;
	uint32_t tid;		/* of at */
	uint32_t chosen;	/* whose registers are asked for (Hg); 0: tid */
	uint32_t stepping;	/* who steps (Hc); 0: tid */
	struct points points;
	bool btrace;		/* the debugger records: what ran is told in blocks */
	struct outbuf *out;	/* the answer */
	struct outbuf *object;	/* what is read in pieces (qXfer), */
	char object_of[32];	/* and which it is */
	struct aux_diag *diag;
	bool ended;
};

/* The cause of a gap in words. */
const char *server_gap_text(const struct server *s, unsigned cause);
/* Moves to a place. */
int server_go(struct server *s, const struct replay_place *at);

/* target.c: makes s->object for a qXfer of this name. -AUX_E_NOENT: there is no such
 * object. */
int target_object(struct server *s, const char *name, const char *annex);
/* Bytes at an address that cannot have changed, at most n; how many. */
size_t target_memory(struct server *s, uint64_t addr, uint8_t *buf, size_t n);
const struct machine *target_machine(uint16_t mode);
/* Bytes of a register; 0: there is none of that number. */
unsigned target_register(const struct machine *m, unsigned long n);

/* slowest.c: where the longest call of a function begins; what there is to say of it, or why
 * there is none, goes to s->out. 1; 0: none. */
int slowest_find(struct server *s, const char *func, struct replay_place *at);

/* monitor.c: runs a command; its text goes to s->out. 0 or -AUX_E_*. */
int monitor_run(struct server *s, const char *words);

#endif
