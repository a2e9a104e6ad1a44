/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The view of threads: a lane for each, over time: how much of a column it ran,
 * and where it did not, whether it was off CPU, not traced, or is lost.
 */
#include <stdio.h>

#include "common/outbuf.h"
#include "decode/tui/ui_impl.h"

#define NAME 22
#define NAME_NARROW 13
#define NARROW 60
#define SHARE 8			/* columns of the percentage */

static int name_width(const struct ui *ui)
{
	return ui->screen.cols < NARROW ? NAME_NARROW : NAME;
}

static int lane_x(const struct ui *ui)
{
	return name_width(ui) + SHARE;
}

static int lane_width(const struct ui *ui)
{
	int n = ui->screen.cols - lane_x(ui);

	return n > 1 ? n : 1;
}

/* The part of the axis that is shown; to is above from. */
static void window(const struct ui *ui, uint64_t *from, uint64_t *to)
{
	const struct lanes *l = &ui->model.lanes;

	*from = ui->to ? ui->from : l->from;
	*to = ui->to ? ui->to : l->to + 1;
	if (*to <= *from)
		*to = *from + 1;
}

/* Where a column begins; that of the last one + 1 is the end. */
static uint64_t place(const struct ui *ui, int column)
{
	uint64_t from, to;

	window(ui, &from, &to);
	return from + (uint64_t)((unsigned __int128)(to - from) * (unsigned)column /
				 (unsigned)lane_width(ui));
}

static struct lane_bucket column_sum(const struct ui *ui, const struct lane *lane, int column)
{
	uint64_t from = place(ui, column), to = place(ui, column + 1);

	return lane_sum(&ui->model.lanes, lane, from, to > from ? to : from + 1);
}

static int refresh(struct ui *ui)
{
	struct ui_list *l = &ui->list[VIEW_THREADS];
	const struct lane *chosen = l->at && l->at < ui->lanes.n ?
				    ui->lanes.v[l->at].lane : NULL;
	int err;

	model_lock(&ui->model);
	err = rows_lanes(&ui->model, &ui->query, &ui->lanes);
	model_unlock(&ui->model);
	for (size_t i = 0; chosen && !err && i < ui->lanes.n; i++)
		if (ui->lanes.v[i].lane == chosen)
			l->at = i;
	return err;
}

/* ---- what is drawn: with the model's lock ---- */

static void place_text(const struct ui *ui, uint64_t at, char buf[40])
{
	if (ui->model.lanes.timed)
		*fmt_time(buf, at) = '\0';
	else
		snprintf(buf, 40, "%llu insns", (unsigned long long)at);
}

static void draw_head(struct ui *ui)
{
	int x = lane_x(ui), w = lane_width(ui), used;
	char from[40], to[40];

	screen_printf(&ui->screen, 1, 0, x, LOOK_HEAD, "%-*s insns%%", name_width(ui),
		      "thread");
	if (!ui->lanes.n)
		return;
	place_text(ui, place(ui, 0), from);
	place_text(ui, place(ui, w), to);
	used = screen_put(&ui->screen, 1, x, w, LOOK_HEAD, from);
	used = (int)(used && w > 40 ? snprintf(NULL, 0, "%s", to) : 0);
	if (used)
		screen_put(&ui->screen, 1, x + w - used, used, LOOK_HEAD, to);
}

/* Where the thread did not run: what took most. */
static const char *mark_of(const struct lane_bucket *b)
{
	static const char *const marks[LANE_N_WHATS] = {
		[LANE_OFF] = ".", [LANE_KERNEL] = "k", [LANE_UNTRACED] = "-",
	};
	const char *mark = " ";
	float most = 0;

	for (unsigned i = 0; i < LANE_N_WHATS; i++) {
		if (!marks[i] || b->part[i] <= most)
			continue;
		most = b->part[i];
		mark = marks[i];
	}
	return mark;
}

static void draw_cell(struct ui *ui, int y, const struct lane *lane, int column,
		      unsigned look)
{
	struct lane_bucket b = column_sum(ui, lane, column);
	float whole = (float)(place(ui, column + 1) - place(ui, column));
	int x = lane_x(ui) + column;
	unsigned n;

	if (b.part[LANE_LOST] > 0) {
		screen_put(&ui->screen, y, x, 1, LOOK_BAD | look, "X");
	} else if (b.part[LANE_SELF] > 0 || b.insns > 0.5f) {
		n = (unsigned)(8 * b.part[LANE_SELF] / (whole > 0 ? whole : 1) + 0.99f);
		screen_bar(&ui->screen, y, x, LOOK_GOOD | look, n < 1 ? 1 : n > 8 ? 8 : n);
	} else {
		screen_put(&ui->screen, y, x, 1, LOOK_DIM | look,
			   mark_of(&b));
	}
}

static void draw_lane(struct ui *ui, int y, const struct lane_row *r, bool chosen)
{
	unsigned look = chosen ? LOOK_CHOSEN : 0;

	screen_put(&ui->screen, y, 0, name_width(ui), LOOK_NAME | look, r->name);
	screen_printf(&ui->screen, y, name_width(ui), SHARE - 1, LOOK_NUMBER | look,
		      "%7.2f", r->percent);
	for (int i = 0; i < lane_width(ui); i++)
		draw_cell(ui, y, r->lane, i,
			  chosen && i == ui->column ? LOOK_CHOSEN : 0);
}

/* What the cursor is on, with what other commands take for it. */
static void draw_cursor(struct ui *ui, const struct lane_row *r)
{
	struct lane_bucket b = column_sum(ui, r->lane, ui->column);
	float all = b.part[LANE_SELF] + b.part[LANE_OFF] + b.part[LANE_KERNEL] +
		    b.part[LANE_UNTRACED] + b.part[LANE_LOST];
	const struct call_func *f = calls_func(ui->model.tree.calls, b.func);
	char from[40], to[40], name[64] = "";

	place_text(ui, place(ui, ui->column), from);
	place_text(ui, place(ui, ui->column + 1), to);
	if (f)
		call_func_name(f, name, sizeof(name));
	all = all > 0 ? all / 100 : 1;
	screen_printf(&ui->screen, ui->screen.rows - 2, 0, ui->screen.cols, LOOK_DIM,
		      "--time %s,%s: ran %.0f %%, off %.0f %%, kernel %.0f %%, not "
		      "traced %.0f %%, lost %.0f %%%s%s", from, to,
		      (double)(b.part[LANE_SELF] / all),
		      (double)(b.part[LANE_OFF] / all),
		      (double)(b.part[LANE_KERNEL] / all),
		      (double)(b.part[LANE_UNTRACED] / all),
		      (double)(b.part[LANE_LOST] / all), *name ? "; in " : "",
		      f && f->name ? f->name : name);
}

static void draw(struct ui *ui)
{
	const struct ui_list *l = &ui->list[VIEW_THREADS];

	if (ui->column >= lane_width(ui))
		ui->column = lane_width(ui) - 1;
	model_lock(&ui->model);
	draw_head(ui);
	for (int i = 0; i < ui_height(ui) && l->top + (size_t)i < ui->lanes.n; i++) {
		size_t k = l->top + (size_t)i;

		draw_lane(ui, UI_TOP + i, &ui->lanes.v[k], k == l->at);
	}
	if (l->at < ui->lanes.n && !*ui->message && !*ui->filter[VIEW_THREADS])
		draw_cursor(ui, &ui->lanes.v[l->at]);
	model_unlock(&ui->model);
}

/* ---- keys ---- */

/* Shows from on, a part as long as len, which stays where something is. */
static void show(struct ui *ui, uint64_t from, uint64_t len)
{
	const struct lanes *l = &ui->model.lanes;
	uint64_t all = l->to + 1 - l->from;

	if (len >= all) {
		ui->from = ui->to = 0;
		return;
	}
	if (from < l->from)
		from = l->from;
	if (from - l->from > all - len)
		from = l->from + all - len;
	ui->from = from;
	ui->to = from + len;
}

/* The place under the cursor stays there. */
static void zoom(struct ui *ui, bool in)
{
	uint64_t from, to, len, at = place(ui, ui->column);
	uint64_t least = (uint64_t)lane_width(ui);

	window(ui, &from, &to);
	len = in ? (to - from) / 2 : (to - from) * 2;
	if (len < least && in)
		return;
	from = (uint64_t)((double)(at - from) * (double)len / (double)(to - from));
	show(ui, at > from ? at - from : 0, len);
}

/* Over the edge, a quarter of the part comes in. */
static void step(struct ui *ui, int by)
{
	uint64_t from, to, quarter;
	int w = lane_width(ui), column = ui->column + by;

	window(ui, &from, &to);
	quarter = (to - from) / 4;
	if (column >= 0 && column < w) {
		ui->column = column;
	} else if (ui->to && by < 0) {
		show(ui, from > quarter ? from - quarter : 0, to - from);
	} else if (ui->to) {
		show(ui, from + quarter, to - from);
	}
}

static void move(struct ui *ui, int k)
{
	model_lock(&ui->model);
	if (ui->model.lanes.from == UINT64_MAX)
		k = 0;
	if (k == SCREEN_LEFT || k == SCREEN_RIGHT)
		step(ui, k == SCREEN_LEFT ? -1 : 1);
	else if (k == '+' || k == '-')
		zoom(ui, k == '+');
	model_unlock(&ui->model);
}

static bool key(struct ui *ui, int k)
{
	const struct ui_list *l = &ui->list[VIEW_THREADS];

	switch (k) {
	case SCREEN_LEFT:
	case SCREEN_RIGHT:
	case '+':
	case '-':
		move(ui, k);
		return true;
	case '=':
		move(ui, '+');
		return true;
	case '0':
		ui->from = ui->to = 0;
		return true;
	case SCREEN_ENTER:
		if (l->at < ui->lanes.n) {
			ui_follow(ui, &ui->lanes.v[l->at]);
			ui_go(ui, VIEW_FUNCTIONS);
		}
		return true;
	case SCREEN_CLICK:	/* also chooses the row, as everywhere */
		if (ui->screen.click_x >= lane_x(ui) && ui->screen.click_y >= UI_TOP)
			ui->column = ui->screen.click_x - lane_x(ui);
		return false;
	}
	return false;
}

static size_t count(const struct ui *ui)
{
	return ui->lanes.n;
}

const struct view_ops view_threads = {
	.name = "Threads", .brief = "Thr", .refresh = refresh, .draw = draw,
	.key = key, .count = count, .has_filter = true,
};
