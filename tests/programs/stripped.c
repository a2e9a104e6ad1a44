/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -O2 -rdynamic -s */
/*
 * Without a symbol table: exported functions have names, static ones have none. Named
 * ones jump to nameless ones, which are called by named ones, as in an interpreter.
 */
struct object {
	void (*dealloc)(struct object *o);
	int n;
};

void object_dealloc(struct object *o);
void object_visit(struct object *o);
void work(void);

static volatile int sink;

/* So that the jumps through pointers stay. */
#define APART __attribute__((noinline))

APART void object_dealloc(struct object *o)
{
	o->dealloc(o);
}

APART static void leaf_dealloc(struct object *o)
{
	sink += o->n;
}

static struct object leaf = { leaf_dealloc, 3 };

APART void work(void)
{
	object_dealloc(&leaf);
	sink++;
}

APART static void tree_dealloc(struct object *o)
{
	work();
	sink += o->n;
}

static struct object tree = { tree_dealloc, 5 };

APART void object_visit(struct object *o)
{
	o->dealloc(o);
}

int main(void)
{
	object_visit(&tree);
	sink++;
	return 0;
}
