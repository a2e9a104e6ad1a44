/* SPDX-License-Identifier: BSD-2-Clause */
/* The view of the call tree: who called whom, how often, and what it took. */
#include <stdio.h>
#include <string.h>

#include "decode/tui/ui_impl.h"

#define MAX_OPEN 100000	/* nodes that one key opens */
#define WIDE 110

static uint32_t chosen(const struct ui *ui)
{
	const struct ui_list *l = &ui->list[VIEW_TREE];

	return l->at < ui->tree.n ? ui->tree.v[l->at].node : 0;
}

static void choose(struct ui *ui, uint32_t node)
{
	for (size_t i = 0; node && i < ui->tree.n; i++)
		if (ui->tree.v[i].node == node)
			ui->list[VIEW_TREE].at = i;
}

static int refresh(struct ui *ui)
{
	uint32_t node = chosen(ui);
	int err;

	model_lock(&ui->model);
	err = rows_tree(&ui->model, &ui->query, &ui->open, &ui->tree);
	if (!err && !ui->open.n && ui->tree.n) {	/* the largest thread, at first */
		err = open_nodes_set(&ui->open, ui->tree.v[0].node, true);
		if (!err)
			err = rows_tree(&ui->model, &ui->query, &ui->open, &ui->tree);
	}
	model_unlock(&ui->model);
	if (!err && ui->list[VIEW_TREE].at)
		choose(ui, node);
	return err;
}

void ui_place(struct ui *ui, size_t k)
{
	struct rows_query q = ui->query;
	uint32_t node;

	q.filter = ui->filter[VIEW_TREE];
	model_lock(&ui->model);
	node = rows_place(&ui->model, &q, ui->finds ? ui->find_func : CALLTREE_ROOT, k);
	if (node) {
		rows_open_above(&ui->model, &ui->open, node);
		rows_tree(&ui->model, &ui->query, &ui->open, &ui->tree);
	}
	model_unlock(&ui->model);
	if (!node) {
		ui_say(ui, k ? "there are %zu places, this is the last" : "not found", k);
		return;
	}
	ui->find_k = k;
	ui->placed = true;
	ui_go(ui, VIEW_TREE);
	choose(ui, node);
	ui_say(ui, "place %zu, by total; n and N go to the next and the one before", k + 1);
}

static void draw_row(struct ui *ui, int y, const struct tree_row *r, unsigned look)
{
	struct screen *s = &ui->screen;
	double total = ui_percent(r->total, ui->tree.all);
	double own = ui_percent(r->own, ui->tree.all);
	const char *sign = !r->has_more ? " " : r->is_open ? "-" : "+";
	int x, indent = (int)r->depth * (s->cols < WIDE ? 1 : 2), room;

	if (look)
		screen_put(s, y, 0, s->cols, LOOK_PLAIN | look, "");
	if (s->cols >= WIDE)
		x = screen_printf(s, y, 0, 0, LOOK_NUMBER | look,
				  "%6.2f %14llu %6.2f %14llu %12llu ", total,
				  (unsigned long long)r->total, own,
				  (unsigned long long)r->own,
				  (unsigned long long)r->calls);
	else
		x = screen_printf(s, y, 0, 0, LOOK_NUMBER | look,
				  "%6.2f %12llu %6.2f %9llu ", total,
				  (unsigned long long)r->total, own,
				  (unsigned long long)r->calls);
	room = s->cols - x - 20;	/* of a deep one, the depth as a number */
	if (indent > room)
		x += screen_printf(s, y, x, 0, LOOK_DIM | look, "%u> ", r->depth);
	else
		x += indent;
	x += screen_printf(s, y, x, 0, LOOK_PLAIN | look, "%s ", sign);
	ui_put_name(ui, y, x, LOOK_NAME | look, r->func, r->name);
}

static void draw(struct ui *ui)
{
	const struct ui_list *l = &ui->list[VIEW_TREE];
	struct screen *s = &ui->screen;

	if (s->cols >= WIDE)
		screen_printf(s, 1, 0, s->cols, LOOK_HEAD,
			      "total%% %14s   own%% %14s %12s   call tree (by %s)",
			      "total", "own", "calls", ui_unit(ui));
	else
		screen_printf(s, 1, 0, s->cols, LOOK_HEAD,
			      "total%% %12s   own%% %9s   call tree (%s)", "total",
			      "calls", ui_unit(ui));
	for (int i = 0; i < ui_height(ui); i++) {
		size_t k = l->top + (size_t)i;

		if (k >= ui->tree.n)
			break;
		draw_row(ui, UI_TOP + i, &ui->tree.v[k], k == l->at ? LOOK_CHOSEN : 0);
	}
	if (l->at < ui->tree.n && !*ui->message)
		screen_printf(s, s->rows - 2, 0, s->cols, LOOK_DIM, "depth %u: %s",
			      ui->tree.v[l->at].depth, ui->tree.v[l->at].name);
}

static void open_one(struct ui *ui, bool open)
{
	open_nodes_set(&ui->open, chosen(ui), open);
	ui->stale = true;
}

/* - on what is closed goes to its parent, as Left in other trees. */
static void close_or_up(struct ui *ui)
{
	const struct ui_list *l = &ui->list[VIEW_TREE];
	size_t i = l->at;

	if (l->at >= ui->tree.n)
		return;
	if (ui->tree.v[l->at].is_open) {
		open_one(ui, false);
		return;
	}
	while (i && ui->tree.v[i].depth >= ui->tree.v[l->at].depth)
		i--;
	if (ui->tree.v[i].depth < ui->tree.v[l->at].depth)
		ui->list[VIEW_TREE].at = i;
}

static void open_all(struct ui *ui, bool open)
{
	model_lock(&ui->model);
	if (open)
		rows_open_below(&ui->model, &ui->open, chosen(ui), MAX_OPEN);
	else
		rows_close_below(&ui->model, &ui->open, chosen(ui));
	model_unlock(&ui->model);
	ui->stale = true;
}

static bool key(struct ui *ui, int k)
{
	const struct ui_list *l = &ui->list[VIEW_TREE];

	switch (k) {
	case SCREEN_ENTER:
		if (l->at < ui->tree.n)
			open_one(ui, !ui->tree.v[l->at].is_open);
		return true;
	case '+':
	case '=':
	case SCREEN_RIGHT:
		open_one(ui, true);
		return true;
	case '-':
		close_or_up(ui);
		return true;
	case 'a':
		if (l->at < ui->tree.n && ui->tree.v[l->at].func)
			ui_annotate(ui, ui->tree.v[l->at].func);
		return true;
	case 'e':
	case 'c':
		open_all(ui, k == 'e');
		return true;
	case 'n':
		ui_place(ui, ui->placed ? ui->find_k + 1 : 0);
		return true;
	case 'N':
		ui_place(ui, ui->find_k ? ui->find_k - 1 : 0);
		return true;
	}
	return false;
}

static size_t count(const struct ui *ui)
{
	return ui->tree.n;
}

const struct view_ops view_tree = {
	.name = "Call tree", .brief = "Tree", .refresh = refresh, .draw = draw,
	.key = key, .count = count,
};
