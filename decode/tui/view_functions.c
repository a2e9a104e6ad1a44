/* SPDX-License-Identifier: BSD-2-Clause */
/* The view of functions: what ran in each, as hot counts it. */
#include <stdio.h>

#include "decode/tui/ui_impl.h"

#define WIDE 110	/* columns from which on there is room for all */

static int refresh(struct ui *ui)
{
	struct ui_list *l = &ui->list[VIEW_FUNCTIONS];
	const struct call_func *chosen = l->at && l->at < ui->funcs.n ?
					 ui->funcs.v[l->at].func : NULL;
	int err;

	model_lock(&ui->model);
	err = rows_functions(&ui->model, &ui->query, &ui->funcs);
	model_unlock(&ui->model);
	for (size_t i = 0; chosen && !err && i < ui->funcs.n; i++)
		if (ui->funcs.v[i].func == chosen)
			l->at = i;
	return err;
}

/* The column that the rows are ordered by has a mark. */
static const char *mark(const struct ui *ui, enum rows_order order, const char *name,
			char buf[24])
{
	snprintf(buf, 24, "%s%s", ui->query.order == order ? "*" : "", name);
	return buf;
}

static void draw_head(struct ui *ui, bool wide)
{
	char own[24], total[24], calls[24], name[24];

	mark(ui, ROWS_BY_OWN, "own", own);
	mark(ui, ROWS_BY_TOTAL, wide ? "total" : "total%", total);
	mark(ui, ROWS_BY_CALLS, "calls", calls);
	mark(ui, ROWS_BY_NAME, "function", name);
	if (wide)
		screen_printf(&ui->screen, 1, 0, ui->screen.cols, LOOK_HEAD,
			      "  own%% %14s total%% %14s %12s  %s (by %s)", own, total,
			      calls, name, ui_unit(ui));
	else
		screen_printf(&ui->screen, 1, 0, ui->screen.cols, LOOK_HEAD,
			      "  own%% %12s %7s %9s  %s (%s)", own, total, calls, name,
			      ui_unit(ui));
}

static void draw_row(struct ui *ui, int y, const struct func_row *r, unsigned chosen,
		     bool wide)
{
	struct screen *s = &ui->screen;
	double own = ui_percent(r->own, ui->funcs.all);
	double total = ui_percent(r->total, ui->funcs.all);
	int x;

	if (chosen)
		screen_put(s, y, 0, s->cols, LOOK_PLAIN | chosen, "");
	if (wide)
		x = screen_printf(s, y, 0, 0, LOOK_NUMBER | chosen,
				  "%6.2f %14llu %6.2f %14llu %12llu  ", own,
				  (unsigned long long)r->own, total,
				  (unsigned long long)r->total,
				  (unsigned long long)r->calls);
	else
		x = screen_printf(s, y, 0, 0, LOOK_NUMBER | chosen,
				  "%6.2f %12llu %7.2f %9llu  ", own,
				  (unsigned long long)r->own, total,
				  (unsigned long long)r->calls);
	x += ui_put_name(ui, y, x, LOOK_NAME | chosen, r->func, r->name);
	if (wide)
		screen_printf(s, y, x, 0, LOOK_DIM | chosen, " (%s)",
			      r->dso ? r->dso : "-");
}

/* Why there is nothing. */
static void draw_empty(struct ui *ui)
{
	const char *why = ui->status.state != MODEL_DONE ? "" :
		ui->funcs.n_all ? "no function has that in its name" :
		"nothing that ran was traced; 5 shows gaps and losses";

	screen_put(&ui->screen, UI_TOP, 2, 0, LOOK_PLAIN, why);
}

static void draw(struct ui *ui)
{
	const struct ui_list *l = &ui->list[VIEW_FUNCTIONS];
	bool wide = ui->screen.cols >= WIDE;

	draw_head(ui, wide);
	if (!ui->funcs.n)
		draw_empty(ui);
	for (int i = 0; i < ui_height(ui); i++) {
		size_t k = l->top + (size_t)i;

		if (k >= ui->funcs.n)
			break;
		draw_row(ui, UI_TOP + i, &ui->funcs.v[k], k == l->at ? LOOK_CHOSEN : 0,
			 wide);
	}
	if (ui->funcs.n && !*ui->filter[VIEW_FUNCTIONS] && !*ui->message)
		screen_printf(&ui->screen, ui->screen.rows - 2, 0, ui->screen.cols, LOOK_DIM,
			      "%zu of %zu: %s (%s)", l->at + 1, ui->funcs.n,
			      ui->funcs.v[l->at].name,
			      ui->funcs.v[l->at].dso ? ui->funcs.v[l->at].dso : "-");
}

static bool key(struct ui *ui, int k)
{
	const struct ui_list *l = &ui->list[VIEW_FUNCTIONS];

	switch (k) {
	case 's':
		ui->query.order = (ui->query.order + 1) % ROWS_N_ORDERS;
		ui->list[VIEW_FUNCTIONS] = (struct ui_list){ 0 };
		ui->stale = true;
		return true;
	case 'a':
		if (l->at < ui->funcs.n)
			ui_annotate(ui, ui->funcs.v[l->at].func);
		return true;
	case SCREEN_ENTER:
	case SCREEN_RIGHT:
		if (l->at < ui->funcs.n) {
			ui->find_func = ui->funcs.v[l->at].func->id;
			ui->finds = true;
			ui_place(ui, 0);
		}
		return true;
	}
	return false;
}

static size_t count(const struct ui *ui)
{
	return ui->funcs.n;
}

const struct view_ops view_functions = {
	.name = "Functions", .brief = "Fun", .refresh = refresh, .draw = draw,
	.key = key, .count = count, .has_filter = true,
};
