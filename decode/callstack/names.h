/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * names: how functions are shown and how they are asked for: one rule for every
 * command.
 *
 * A name is shown as it stands in the source (C++, Rust, D), or as the file has
 * it where that was asked for. A pattern (--symbol, --from, --caller) is a
 * name, a glob (foo*), or an extended regular expression between slashes
 * (/^foo_[0-9]/). It fits a function by any of
 *
 *	the name as the file has it	_Z3addIiET_S0_S0_
 *	the name in the source		int add<int>(int, int)
 *	that without its arguments	add<int>
 *
 * and a name that is no glob also by what is left of that without template arguments
 * (add<>, as terminals have it, or add), and by the end of any of these after a "::":
 * push is queue::push and stack::push, and ::push only what is in no class. What one
 * name has meant is said (names_note()). In names of Go the end may also stand after a "."
 * or "/", and type arguments, brackets and the star of a receiver may be left out: Put,
 * Store.Put, (*Store).Put are main.(*Store[...]).Put. ABI tags ([abi:cxx11]) are left out on both
 * sides. Several patterns mean any of them.
 *
 * On a terminal a name is short (names_cut()): what is between the brackets of
 * templates and calls is left out, and what is still wider than there is room for
 * is cut in its middle, because the end says most. A text means one function only:
 * another that would be the same gets its template arguments, all of its name, or
 * a number.
 *
 * A module (--module) is the path of a file or its last part, or a glob of one.
 * With both, a function has to fit a pattern and lie in a module.
 */
#ifndef DECODE_CALLSTACK_NAMES_H
#define DECODE_CALLSTACK_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include <aux/error.h>

struct names;

/* option is its name, for messages; texts outlive n, n_texts 0: everything
 * fits. mangled: names are shown as the file has them. 0, -AUX_E_NOMEM, or
 * -AUX_E_INVAL with diag. */
int names_new(struct names **n, const char *option, const char *const *texts,
	      size_t n_texts, bool mangled, struct aux_diag *diag);
/* Modules, before any name comes; texts outlive n. 0 or -AUX_E_NOMEM. */
int names_modules(struct names *n, const char *const *texts, size_t n_texts);
void names_free(struct names *n);

/* For one thread at a time, for they remember each name. n NULL: every name
 * fits, and is shown as the file has it. What is returned lives as long as n
 * and raw do. */
const char *names_shown(struct names *n, const char *raw);
/* The same, short, in so many columns: at least 16. width 0, or names are shown as
 * the file has them: as names_shown(). */
const char *names_cut(struct names *n, const char *raw, unsigned width);
/* raw NULL fits no pattern; dso, as in struct symbol, NULL no module. */
bool names_fit(struct names *n, const char *raw, const char *dso);
/* There are patterns, or modules. */
bool names_select(const struct names *n);
/* What came fits one of each. */
bool names_met(const struct names *n);
bool names_are_mangled(const struct names *n);
/*
 * For each pattern that has fitted none of the names so far, what is said:
 * "no function "fo" ran; near to it: foo, bar", and for each module "nothing of
 * "x" ran; there ran libc.so.6, ls". "" if all have fitted. Always terminated.
 */
void names_hint(const struct names *n, char *hint, size_t len);

/* For each name that has fitted several functions, beside overloads, which:
 * "\"push\" is 2 functions: a::push, b::push"; "" if there is none. */
void names_note(const struct names *n, char *note, size_t len);

/* As it may be typed: without arguments, where it is shown as in the source. A name that
 * is too long for buf is "". */
void names_typed(const struct names *n, const char *raw, char *buf, size_t len);

/* As it stands in the source, what was appended to it ("@plt") included; to be
 * freed. NULL: it is not mangled, or the build has no demangler. */
char *names_demangle(const char *raw);
/* The same without arguments and the type that it returns. */
char *names_demangle_bare(const char *raw);

/* ---- names_short.c ---- */

enum names_how {
	NAMES_SHORT = 0,	/* shop::add<> */
	NAMES_BARE,		/* shop::add<int> */
	NAMES_FULL,		/* int shop::add<int>(int, int) */
};

/* In so many columns, 0: all of it; to be freed. NULL: out of memory. Two names may
 * give the same. */
char *names_short(const char *raw, enum names_how how, unsigned width);
/* Cuts the middle out of what is wider, in place. */
void names_cut_middle(char *name, unsigned width);

#endif
