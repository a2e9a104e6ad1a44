/* SPDX-License-Identifier: BSD-2-Clause */
/* What plan, map, reduce, fleet and compare share: units of many recordings, and what is
 * done with them. */
#ifndef DECODE_CMD_UNITS_H
#define DECODE_CMD_UNITS_H

#include "common/array.h"
#include "decode/cmd/impl.h"
#include "decode/fleet/fleet.h"

#define FLEET_UNIT_SIZE ((uint64_t)64 << 20)

/* Options that several of them have; the member is unsigned. */
#define UNITS_DO(TYPE, MEMBER)						\
	{ .name = "do", .arg = "WHAT", .values = FLEET_DO_VALUES,	\
	  .help = "what is summed up: count (the default), hot, flame, latency, gaps,\n" \
		  "branches, profile, coverage, calls or values",		\
	  OPTION_CHOICE(TYPE, MEMBER) }
#define UNITS_BY(TYPE, MEMBER)						\
	{ .name = "by", .arg = "WHAT", .values = FLEET_BY_VALUES,	\
	  .help = "hot, flame: insns (the default), time, cycles or branches", \
	  OPTION_CHOICE(TYPE, MEMBER) }

struct plan_options {
	unsigned what;		/* fleet_kind */
	uint64_t unit_size;	/* 0: FLEET_UNIT_SIZE */
};

struct reduce_options {
	bool part;
	unsigned by;		/* enum calltree_by */
	const char *units;	/* a plan; NULL: none */
};

struct fleet_plan_list {
	struct fleet_planned {
		struct fleet_unit unit;
		char *path;
	} *v;
	size_t n, cap;
};

/* The units of recordings; a directory stands for those in it. Returns a status:
 * CMD_GAPS, where some files could not be read and others could. */
int fleet_plan_make(struct fleet_plan_list *list, const struct cmd_options *o,
		    const struct plan_options *p, const char *const *words, size_t n);
void fleet_plan_fini(struct fleet_plan_list *list);
void fleet_plan_write(const struct fleet_plan_list *list, const struct fleet_kind *kind,
		      bool json, struct outbuf *out);
/* What fleet_plan_write wrote as text, with its kind. A status. */
int fleet_plan_read(struct fleet_plan_list *list, const struct fleet_kind **kind,
		    const char *path);
/* A part of one unit (NULL: of all of each of o's FILEs) to -o. indexes: the directory of
 * --index, or NULL. A status. */
int fleet_map(const struct cmd_options *o, const struct fleet_kind *kind, const char *unit,
	      const char *indexes);
/* The index of a recording: beside it, or (dir) by its id. NULL: out of memory. */
char *index_path(const char *path, const char *dir, const char *id);
/* Writes it unless it is there and fits. A status. */
int index_make(const struct cmd_options *o, const char *path, const char *dir, bool say);
/* One line of what units had and lost; the status that follows. */
int fleet_say(const struct fleet_head *head, const char *path);
/* From where rows is, to its end. */
void fleet_copy_rows(struct outbuf *out, FILE *rows);
/* The result of parts, which are o's FILEs, to -o. A status. */
int fleet_reduce_to(const struct cmd_options *o, const struct reduce_options *r);

#endif
