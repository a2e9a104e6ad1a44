/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * branchlist: how often each branch went where, and how often each run of
 * instructions without a taken branch ran. Counts are exact, and lists of
 * several recordings add up.
 *
 * Places are offsets in the file that is mapped there (a module), so that they
 * mean the same in every process and every run. As text (see auxdecode.1,
 * BRANCH LISTS) a list is a file of its own, which branchlist_read does not
 * trust.
 */
#ifndef DECODE_PROFILE_BRANCHLIST_H
#define DECODE_PROFILE_BRANCHLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

struct outbuf;

#define BRANCHLIST_NOWHERE UINT32_MAX	/* to_module: the target is not known */
#define BRANCHLIST_MAGIC "# auxdecode branch list 1\n"

/* What made control move. The first are those of enum aux_range_end. */
enum branchlist_kind {
	BRANCHLIST_COND = 1,	/* taken */
	BRANCHLIST_JUMP = 3,
	BRANCHLIST_CALL,
	BRANCHLIST_RET,
	BRANCHLIST_IND_JUMP,
	BRANCHLIST_IND_CALL,
	BRANCHLIST_SYSCALL,
	BRANCHLIST_FAR,
	BRANCHLIST_ASYNC = 11,	/* a signal, or another change of flow */
	BRANCHLIST_INTERRUPT,
	BRANCHLIST_EXCEPTION,
	BRANCHLIST_N_KINDS,
};

/* The word for it in lists; NULL: there is no such kind. */
const char *branchlist_kind_name(unsigned kind);

struct branchlist_module {
	char *path;		/* as mapped; "[unknown]": nothing known there */
	char id[41];		/* build id in hex; "" unknown */
	char *file;		/* where it can be read; NULL: nowhere */
	bool main;		/* the program of a process, not a library */
	uint64_t n_insns;	/* that ran; branchlist_sum */
};

/* Where no module is known, offset is the address itself. */
struct branchlist_branch {
	uint32_t from_module, to_module; /* to: may be BRANCHLIST_NOWHERE */
	uint64_t from, to;
	uint32_t kind;
	uint32_t reserved;	/* 0 */
	uint64_t count;		/* the key ends before this */
	uint32_t entry;		/* enum branchlist_entry */
	uint32_t unused;
};

/* Whether a branch leads to another function, as far as symbols say. */
enum branchlist_entry {
	BRANCHLIST_ENTRY_UNKNOWN = 0,
	BRANCHLIST_INSIDE,
	BRANCHLIST_OUTSIDE,
};

/* From a branch's target (or where flow began) to the next branch taken. */
struct branchlist_range {
	uint32_t module;
	uint32_t outside;	/* 1: entered by a call, a return, or from
				 * another function */
	uint64_t first, last;	/* of the first and the last instruction */
	uint32_t n_insns;
	uint32_t reserved;	/* 0 */
	uint64_t count;
};

/*
 * A run that is cut by a border between two parts of a stream (--chunk): it came
 * from the part before, goes on in the next, or both. The cuts are offsets in the
 * stream, which the parts on both sides of them know.
 */
#define BRANCHLIST_NO_CUT UINT64_MAX

struct branchlist_piece {
	uint32_t stream;
	uint32_t module;
	uint64_t head, tail;	/* cuts; NO_CUT: it begins or ends here */
	uint64_t first, last;	/* as of a range; without instructions: first is
				 * where it begins */
	uint32_t n_insns;	/* 0: a branch leads to the cut itself */
	uint32_t outside;	/* as of a range; without head alone */
};

/* A hash table of entries of size bytes, the first key bytes of which identify
 * them. */
struct branchlist_table {
	void *v;
	uint32_t *slots;
	size_t n, max, n_slots;
	size_t size, key;
};

struct branchlist {
	struct branchlist_module *modules;
	size_t n_modules, max_modules;
	struct branchlist_table branches, ranges;
	struct branchlist_piece *pieces;
	size_t n_pieces, max_pieces;
	uint64_t n_gaps;	/* places where flow is missing */
};

/*
 * key is a multiple of 8 and has no padding. branchlist_table_find returns the
 * index of the entry with a key, which is a new one of zeros if need be; or
 * -AUX_E_NOMEM, -AUX_E_LIMIT. Indexes stay valid until the table is sorted,
 * pointers until the next call.
 */
void branchlist_table_init(struct branchlist_table *t, size_t size, size_t key);
void branchlist_table_fini(struct branchlist_table *t);
int branchlist_table_find(struct branchlist_table *t, const void *key);

void branchlist_init(struct branchlist *l);
void branchlist_fini(struct branchlist *l);

/* Return the index of the entry, a new one with count 0 if need be, or
 * -AUX_E_NOMEM, -AUX_E_LIMIT. */
int branchlist_module(struct branchlist *l, const char *path, const char *id);
int branchlist_branch(struct branchlist *l, const struct branchlist_branch *b);
int branchlist_range(struct branchlist *l, const struct branchlist_range *r);

/* Adds a piece. 0 or -AUX_E_NOMEM. */
int branchlist_piece(struct branchlist *l, const struct branchlist_piece *p);
/* Joins pieces that meet; the whole ones become ranges, the others are kept: of
 * parts that are not here. 0; -AUX_E_INVAL: two are of one place; -AUX_E_NOMEM,
 * -AUX_E_LIMIT. */
int branchlist_join(struct branchlist *l);
/* What is left become ranges, too, cut as they are. */
int branchlist_close(struct branchlist *l);
/* Adds n to a count, which does not wrap around. */
void branchlist_add_count(uint64_t *sum, uint64_t n);

static inline struct branchlist_branch *
branchlist_branches(const struct branchlist *l)
{
	return l->branches.v;
}

static inline struct branchlist_range *
branchlist_ranges(const struct branchlist *l)
{
	return l->ranges.v;
}

/* Sets n_insns of all modules. */
void branchlist_sum(struct branchlist *l);
/* Entries by module (path, id), then by address. Their indexes change. 0, or
 * -AUX_E_NOMEM. */
int branchlist_sort(struct branchlist *l);

/* Writes the list as text (see auxdecode.1, BRANCH LISTS), but no entries whose
 * count is 0. Returns how many lines are branches or ranges, at most max (0: no
 * limit). */
uint64_t branchlist_write(const struct branchlist *l, struct outbuf *out,
			  uint64_t max);
/* Adds what a text has, which is not trusted; counts of equal entries are added
 * up. -AUX_E_FORMAT (diag names the line), -AUX_E_TRUNCATED, -AUX_E_NOMEM,
 * -AUX_E_LIMIT. */
int branchlist_read(struct branchlist *l, const char *text, size_t len,
		    struct aux_diag *diag);
/* The same from a file. */
int branchlist_read_file(struct branchlist *l, const char *path,
			 struct aux_diag *diag);
/* True if a file is a list of any version, by its first line. */
bool branchlist_is_file(const char *path);

#endif
