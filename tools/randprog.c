/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * randprog SEED: a C program with random control flow, on standard output.
 *
 * Functions that call each other directly, through tables and as tail calls;
 * loops, switches, computed gotos, and what tests/programs/random.h has to offer.
 * Every program ends by itself. Equal seeds give equal programs.
 *
 *	randprog 7 | cc -O2 -D_GNU_SOURCE -Itests/programs -x c -o p - -lpthread &&
 *		./p [SEED [GENERATION [still]]]
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_FUNCTIONS 40
#define MAX_NEST 4

struct gen {
	uint64_t state;
	unsigned n_functions;
	unsigned self;		/* the function being written */
	unsigned nest;		/* statements around */
	unsigned n_loops, n_labels;	/* names taken, in the function */
	unsigned rare;		/* of 100 statements so many call the run time */
	unsigned rest;		/* statements that the function may still have */
};

static uint64_t draw(struct gen *g)
{
	g->state += UINT64_C(0x9e3779b97f4a7c15);
	uint64_t z = g->state;

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static unsigned below(struct gen *g, unsigned n)
{
	return (unsigned)(draw(g) % n);
}

static void indent(const struct gen *g)
{
	for (unsigned i = 0; i <= g->nest; i++)
		putchar('\t');
}

static void write_block(struct gen *g);

static void write_sum(struct gen *g)
{
	static const char *const forms[] = {
		"x = x * %u + 1;\n", "x ^= x >> %u;\n", "x += %u;\n",
		"x = mix(x + %u);\n", "y += x ^ %u;\n", "x -= y | %u;\n",
		"x = x << 3 | x >> %u;\n",
	};
	const char *form = forms[below(g, sizeof(forms) / sizeof(forms[0]))];

	indent(g);
	/* table */
	printf(form, 1 + below(g, 31));
}

static void write_condition(struct gen *g)
{
	switch (below(g, 5)) {
	case 0:
		printf("x & %u", 1 << below(g, 8));
		break;
	case 1:
		printf("x %% %u == %u", 2 + below(g, 9), below(g, 3));
		break;
	case 2:
		printf("(x & 255) < %u", below(g, 256));
		break;
	case 3:
		printf("x > y && (y & %u)", 1 + below(g, 31));
		break;
	default:
		printf("x & %u || y %% %u == 0", 1 << below(g, 8), 2 + below(g, 5));
		break;
	}
}

static void write_if(struct gen *g)
{
	indent(g);
	printf("if (");
	write_condition(g);
	printf(") {\n");
	write_block(g);
	if (below(g, 2)) {
		indent(g);
		printf("} else {\n");
		write_block(g);
	}
	indent(g);
	printf("}\n");
}

static void write_loop(struct gen *g)
{
	unsigned i = g->n_loops++;

	indent(g);
	if (below(g, 2)) {
		printf("for (word i%u = x %% %u; i%u && spend(1); i%u--) {\n", i,
		       2 + below(g, 12), i, i);
	} else {
		printf("for (int i%u = 0; i%u < %u && spend(1); i%u++) {\n", i, i,
		       1 + below(g, 6), i);
	}
	write_block(g);
	if (below(g, 3) == 0) {
		g->nest++;
		indent(g);
		g->nest--;
		printf("if (");
		write_condition(g);
		printf(")\n");
		indent(g);
		printf("\t\t%s;\n", below(g, 2) ? "break" : "continue");
	}
	indent(g);
	printf("}\n");
}

static void write_switch(struct gen *g)
{
	unsigned n = 2 + below(g, 14);

	indent(g);
	printf("switch (%s %% %u) {\n", below(g, 2) ? "x" : "(x >> 7)",
	       n + below(g, 3));
	for (unsigned i = 0; i < n; i++) {
		indent(g);
		printf("case %u:\n", i);
		if (i < 3)
			write_block(g);
		g->nest++;
		write_sum(g);
		if (below(g, 4)) {
			indent(g);
			printf("break;\n");
		} else if (i + 1 < n) {
			indent(g);
			printf("/* fall through */\n");
		}
		g->nest--;
	}
	indent(g);
	printf("}\n");
}

/* Jumps by a table of labels; from each of them on to the end. */
static void write_goto(struct gen *g)
{
	unsigned n = 2 + below(g, 5), at = g->n_labels, end;

	g->n_labels += n + 1;
	end = at + n;
	indent(g);
	printf("{\n");
	g->nest++;
	indent(g);
	printf("static const void *const to[] = {");
	for (unsigned i = 0; i < n; i++)
		printf(" &&l%u,", at + i);
	printf(" };\n\n");
	indent(g);
	printf("goto *to[x %% %u];\n", n);
	for (unsigned i = 0; i < n; i++) {
		printf("l%u:\n", at + i);
		write_sum(g);
		indent(g);
		printf("if (x & %u)\n", 1 << below(g, 6));
		indent(g);
		printf("\tgoto l%u;\n", i + 1 < n ? at + i + 1 : end);
	}
	printf("l%u:\n", end);
	indent(g);
	printf(";\n");
	g->nest--;
	indent(g);
	printf("}\n");
}

static void write_call(struct gen *g)
{
	indent(g);
	switch (below(g, 4)) {
	case 0:
		printf("x = call_any(x, d);\n");
		break;
	case 1:
		printf("y ^= table[(x >> 3) %% n_table](x, d - 1);\n");
		break;
	default:
		printf("x %s f%u(x + %u, d - 1);\n", below(g, 2) ? "=" : "+=",
		       below(g, g->n_functions), below(g, 9));
		break;
	}
}

static void write_rare(struct gen *g)
{
	/* table */
	static const char *const calls[] = {
		"rt_catch(x, d)", "rt_catch(y, d)", "rt_leap(x, d)",
		"rt_leap(y, d)", "rt_deep(x, x % 150, d)",
		"rt_deep(x, 60 + x % 10, d)", "rt_raise(x)", "rt_fault(x)",
		"rt_fault_leap(x)", "rt_illegal(x)", "rt_string(x)",
		"rt_loop(x)", "rt_odd(x)", "rt_odd(y)", "rt_generated(x)",
		"rt_generated(y)", "rt_threads(x)", "rt_fork(x)",
		"x + (word)getppid()", "x + (word)write(-1, &x, 1)",
	};

	indent(g);
	printf("x %s %s;\n", below(g, 2) ? "=" : "^=",
	       calls[below(g, sizeof(calls) / sizeof(calls[0]))]);
}

static void write_return(struct gen *g)
{
	indent(g);
	printf("if (");
	write_condition(g);
	printf(")\n");
	indent(g);
	if (below(g, 2))
		printf("\treturn f%u(x ^ y, d - 1);\n", below(g, g->n_functions));
	else
		printf("\treturn x + %u;\n", below(g, 9));
}

static void write_statement(struct gen *g)
{
	bool deep = g->nest >= MAX_NEST || !g->rest;

	g->rest -= g->rest > 0;
	if (below(g, 100) < g->rare) {
		write_rare(g);
		return;
	}
	switch (deep ? below(g, 3) : below(g, 12)) {
	case 0:
	case 1:
		write_sum(g);
		break;
	case 2:
	case 3:
		write_call(g);
		break;
	case 4:
	case 5:
	case 6:
		write_if(g);
		break;
	case 7:
	case 8:
		write_loop(g);
		break;
	case 9:
		write_switch(g);
		break;
	case 10:
		write_goto(g);
		break;
	default:
		write_return(g);
		break;
	}
}

static void write_block(struct gen *g)
{
	g->nest++;
	for (unsigned n = 1 + below(g, 3); n; n--)
		write_statement(g);
	g->nest--;
}

/* How it ends: with its value, or with a tail call, direct or not. */
static void write_function(struct gen *g, unsigned i)
{
	g->self = i;
	g->nest = g->n_loops = g->n_labels = 0;
	g->rest = 4 + below(g, 16);
	printf("%sword f%u(word x, int d)\n{\n\tword y = x ^ %u;\n\n"
	       "\tif (d <= 0 || !spend(1))\n\t\treturn x;\n",
	       below(g, 3) ? "__attribute__((noinline)) static " : "static ", i,
	       below(g, 1000));
	for (unsigned n = 2 + below(g, 4); n; n--)
		write_statement(g);
	switch (below(g, 4)) {
	case 0:
		printf("\treturn f%u(x ^ y, d - 1);\n}\n\n",
		       below(g, g->n_functions));
		break;
	case 1:
		printf("\treturn table[(x + y) %% n_table](x, d - 1);\n}\n\n");
		break;
	default:
		printf("\treturn x + y;\n}\n\n");
		break;
	}
}

static void write_main(struct gen *g)
{
	printf("int main(int argc, char **argv)\n{\n\tword x = %uU;\n\n"
	       "\trt_begin(argc, argv, &x, %u);\n", below(g, 1000000),
	       1000 + below(g, 6000));
	if (below(g, 4) == 0)
		printf("\trt_timer();\n");
	printf("\twhile (fuel > 0) {\n\t\tspend(1);\n\t\tx = call_any(x, %u);\n\t}\n",
	       4 + below(g, 30));
	if (below(g, 3) == 0)
		printf("\trt_exec(argv[0], x);\n");
	printf("\treturn (int)(x & 1);\n}\n");
}

int main(int argc, char **argv)
{
	struct gen g = { 0 };
	char *end;

	if (argc == 2)
		g.state = strtoull(argv[1], &end, 0);
	if (argc != 2 || !*argv[1] || *end) {
		fprintf(stderr, "usage: randprog SEED\n");
		return 2;
	}
	printf("/* randprog %s */\n#include \"random.h\"\n\n", argv[1]);
	g.n_functions = 2 + below(&g, MAX_FUNCTIONS - 2);
	g.rare = below(&g, 3) * 8;
	for (unsigned i = 0; i < g.n_functions; i++)
		printf("static word f%u(word x, int d);\n", i);
	printf("\nconst function table[] = {");
	for (unsigned i = 0; i < g.n_functions; i++)
		printf("%sf%u,", i % 10 ? " " : "\n\t", i);
	printf("\n};\nconst unsigned int n_table = %u;\n\n", g.n_functions);
	for (unsigned i = 0; i < g.n_functions; i++)
		write_function(&g, i);
	write_main(&g);
	return ferror(stdout) ? 1 : 0;
}
