/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ui: the loop of keys, and what all views share: tabs, the list's cursor, the
 * filter, the status. A view is made anew when the model has more, a few times a
 * second; and at most so often that most of the time is left for decoding.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/diag.h"
#include "decode/callstack/names.h"
#include "decode/tui/ui_impl.h"

#define REFRESH_NS UINT64_C(250000000)
#define REFRESH_SHARE 8		/* of the time that a refresh takes */
#define BUSY_MS 100
#define IDLE_MS 1000
#define WHEEL 3

static const struct view_ops *const views[VIEW_N] = {
	[VIEW_FUNCTIONS] = &view_functions, [VIEW_TREE] = &view_tree,
	[VIEW_THREADS] = &view_threads,
	[VIEW_ANNOTATE] = &view_annotate, [VIEW_GAPS] = &view_gaps, [VIEW_HELP] = &view_help,
};

int ui_put_name(struct ui *ui, int y, int x, unsigned look,
		const struct call_func *func, const char *name)
{
	struct screen *s = &ui->screen;
	char *cut = NULL;
	int n;

	if (func && func->raw && !ui->model.config->full_names && s->cols > x)
		cut = names_short(func->raw, NAMES_SHORT, (unsigned)(s->cols - x));
	n = screen_put(s, y, x, 0, look, cut ? cut : name);
	free(cut);
	return n;
}

double ui_percent(uint64_t n, uint64_t of)
{
	return of ? 100.0 * (double)n / (double)of : 0;
}

int ui_height(const struct ui *ui)
{
	int n = ui->screen.rows - UI_TOP - UI_BOTTOM;

	return n > 0 ? n : 0;
}

void ui_say(struct ui *ui, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ui->message, sizeof(ui->message), fmt, ap);
	va_end(ap);
}

const char *ui_unit(const struct ui *ui)
{
	static const char *const units[] = {
		[CALLTREE_BY_INSNS] = "instructions", [CALLTREE_BY_NS] = "ns",
		[CALLTREE_BY_CYCLES] = "cycles", [CALLTREE_BY_BRANCHES] = "branches",
	};

	return units[ui->query.by];
}

void ui_go(struct ui *ui, enum ui_view view)
{
	if (view == ui->view)
		return;
	if (ui->n_back == sizeof(ui->back) / sizeof(ui->back[0]))
		memmove(ui->back, ui->back + 1,
			--ui->n_back * sizeof(ui->back[0]));
	ui->back[ui->n_back++] = ui->view;
	ui->view = view;
	ui->shift = 0;
	ui->stale = true;
}

static void go_back(struct ui *ui)
{
	if (!ui->n_back)
		return;
	ui->view = ui->back[--ui->n_back];
	ui->stale = true;
}

void ui_follow(struct ui *ui, const struct lane_row *row)
{
	ui->query.who = (struct model_who){ .one = row };
	if (row) {
		ui->query.who.tid = row->tid;
		ui->query.who.stream = row->stream;
		snprintf(ui->who, sizeof(ui->who), "%s", row->name);
	}
	ui->list[VIEW_FUNCTIONS] = ui->list[VIEW_TREE] = (struct ui_list){ 0 };
	ui->stale = true;
}

/* ---- what is drawn ---- */

static void draw_tabs(struct ui *ui)
{
	bool brief = ui->screen.cols < 76;
	int x = 0;

	for (unsigned i = 0; i < VIEW_N; i++) {
		const char *key = i == VIEW_HELP ? "?" : (char[]){ (char)('1' + i), 0 };

		if (!views[i])
			continue;
		x += screen_printf(&ui->screen, 0, x, 0,
				   i == ui->view ? LOOK_TAB : LOOK_PLAIN, " %s %s ",
				   key, brief ? views[i]->brief : views[i]->name);
	}
	if (x + 3 < ui->screen.cols)
		screen_put(&ui->screen, 0, x + 1, ui->screen.cols - x - 1, LOOK_DIM,
			   ui->config->session->path);
}

/* The view whose tab is at a column; VIEW_N: none. */
static unsigned tab_at(const struct ui *ui, int x)
{
	bool brief = ui->screen.cols < 76;

	for (unsigned i = 0; i < VIEW_N; i++) {
		if (!views[i])
			continue;
		x -= (int)strlen(brief ? views[i]->brief : views[i]->name) + 4;
		if (x < 0)
			return i;
	}
	return VIEW_N;
}

static void state_text(const struct ui *ui, char *buf, size_t len)
{
	const struct model_status *st = &ui->status;

	switch (st->state) {
	case MODEL_OPENS:
		snprintf(buf, len, "opening");
		break;
	case MODEL_DECODES:
		snprintf(buf, len, "decoding %.0f %%", ui_percent(st->done, st->wanted));
		break;
	case MODEL_FAILED:
		snprintf(buf, len, "failed");
		break;
	default:
		snprintf(buf, len, "done");
	}
}

static void draw_status(struct ui *ui)
{
	const struct model_status *st = &ui->status;
	char state[32], loss[64] = "complete";
	int y = ui->screen.rows - 1, x;
	unsigned look = st->lossy || st->n_gaps || st->lost ? LOOK_BAD : LOOK_GOOD;

	state_text(ui, state, sizeof(state));
	if (st->lost)
		snprintf(loss, sizeof(loss), "%llu gaps, %llu bytes lost",
			 (unsigned long long)st->n_gaps, (unsigned long long)st->lost);
	else if (st->n_gaps)
		snprintf(loss, sizeof(loss), "%llu gap%s",
			 (unsigned long long)st->n_gaps, st->n_gaps == 1 ? "" : "s");
	else if (st->lossy)
		snprintf(loss, sizeof(loss), "parts are missing");
	else if (st->state != MODEL_DONE)
		snprintf(loss, sizeof(loss), "no gaps so far");
	x = screen_printf(&ui->screen, y, 0, 0, LOOK_PLAIN, "%s, %llu insns, %u thread%s, ",
			  state, (unsigned long long)st->n_insns, st->n_threads,
			  st->n_threads == 1 ? "" : "s");
	x += screen_put(&ui->screen, y, x, 0, look, loss);
	if (ui->query.who.one)
		screen_printf(&ui->screen, y, x, 0, LOOK_NAME, ", only %s", ui->who);
}

static void draw_message(struct ui *ui)
{
	const struct view_ops *v = views[ui->view];
	const char *filter = ui->filter[ui->view];
	int y = ui->screen.rows - 2;

	if (ui->typing)
		screen_printf(&ui->screen, y, 0, ui->screen.cols, LOOK_HEAD, "/%s_", filter);
	else if (*ui->message)
		screen_put(&ui->screen, y, 0, ui->screen.cols, LOOK_HEAD, ui->message);
	else if (*filter && v->has_filter)
		screen_printf(&ui->screen, y, 0, ui->screen.cols, LOOK_HEAD,
			      "only with \"%s\"; / and Esc ends that", filter);
}

static void draw(struct ui *ui)
{
	struct screen *s = &ui->screen;

	screen_clear(s);
	if (s->cols < SCREEN_MIN_COLS || s->rows < SCREEN_MIN_ROWS) {
		screen_printf(s, 0, 0, 0, LOOK_PLAIN, "%dx%d is too small:", s->cols,
			      s->rows);
		screen_printf(s, 1, 0, 0, LOOK_PLAIN, "%dx%d is needed", SCREEN_MIN_COLS,
			      SCREEN_MIN_ROWS);
	} else {
		draw_tabs(ui);
		views[ui->view]->draw(ui);
		draw_message(ui);
		draw_status(ui);
	}
	screen_show(s);
}

/* ---- keys ---- */

/* Keeps the cursor in the list, and what is shown around it. */
static void clamp(struct ui *ui)
{
	struct ui_list *l = &ui->list[ui->view];
	size_t n = views[ui->view]->count(ui), h = (size_t)ui_height(ui);

	if (l->at >= n)
		l->at = n ? n - 1 : 0;
	if (l->at < l->top)
		l->top = l->at;
	if (h && l->at >= l->top + h)
		l->top = l->at - h + 1;
	if (l->top && n - l->top < h)
		l->top = n > h ? n - h : 0;
}

static void move(struct ui *ui, int64_t by)
{
	struct ui_list *l = &ui->list[ui->view];
	size_t n = views[ui->view]->count(ui);

	if (by < 0)
		l->at = (uint64_t)-by < l->at ? l->at - (uint64_t)-by : 0;
	else if (n)
		l->at = (uint64_t)by < n - l->at ? l->at + (uint64_t)by : n - 1;
}

static bool move_key(struct ui *ui, int key)
{
	int page = ui_height(ui) > 1 ? ui_height(ui) - 1 : 1;

	switch (key) {
	case SCREEN_UP:
	case 'k':
		move(ui, -1);
		return true;
	case SCREEN_DOWN:
	case 'j':
		move(ui, 1);
		return true;
	case SCREEN_PAGE_UP:
		move(ui, -page);
		return true;
	case SCREEN_PAGE_DOWN:
	case ' ':
		move(ui, page);
		return true;
	case SCREEN_HOME:
		move(ui, INT32_MIN);
		return true;
	case SCREEN_LAST:
		move(ui, INT32_MAX);
		return true;
	case SCREEN_WHEEL_UP:
		move(ui, -WHEEL);
		return true;
	case SCREEN_WHEEL_DOWN:
		move(ui, WHEEL);
		return true;
	}
	return false;
}

/* A click on a tab goes there, one on a row chooses it. */
static void click(struct ui *ui, bool twice)
{
	struct ui_list *l = &ui->list[ui->view];
	int y = ui->screen.click_y;
	unsigned tab;

	if (y == 0) {
		tab = tab_at(ui, ui->screen.click_x);
		if (tab < VIEW_N)
			ui_go(ui, tab);
		return;
	}
	if (y < UI_TOP || y >= UI_TOP + ui_height(ui) ||
	    l->top + (size_t)(y - UI_TOP) >= views[ui->view]->count(ui))
		return;
	l->at = l->top + (size_t)(y - UI_TOP);
	if (twice)
		views[ui->view]->key(ui, SCREEN_ENTER);
}

/* Not every trace has times, or cycles. */
static bool has_amount(struct ui *ui, enum calltree_by by)
{
	const struct calltree *t = &ui->model.tree.tree;
	bool has;

	model_lock(&ui->model);
	has = by == CALLTREE_BY_INSNS || (t->n && calltree_get(&t->nodes[0].total, by));
	model_unlock(&ui->model);
	return has;
}

/* The cycle of what own and total are of. */
static void next_amount(struct ui *ui)
{
	do {
		ui->query.by = (ui->query.by + 1) % (CALLTREE_BY_BRANCHES + 1);
	} while (!has_amount(ui, ui->query.by));
	ui_say(ui, "by %s%s", ui_unit(ui),
	       ui->query.by == CALLTREE_BY_NS && ui->model.is_virtual ?
		       ", of a virtual clock: software made this trace" : "");
	ui->stale = true;
}

static void next_view(struct ui *ui, unsigned step)
{
	unsigned view = ui->view;

	do {
		view = (view + step) % VIEW_N;
	} while (!views[view]);
	ui_go(ui, view);
}

static void type(struct ui *ui, int key)
{
	char *filter = ui->filter[ui->view];
	size_t n = strlen(filter);

	if (key == SCREEN_ENTER || key == SCREEN_ESC) {
		ui->typing = false;
		if (key == SCREEN_ESC)
			*filter = '\0';
		else if (!views[ui->view]->has_filter)
			views[ui->view]->key(ui, 'n');
	} else if (key == SCREEN_BACKSPACE && n) {
		/* bytes of one character of UTF-8 together */
		while (n && (filter[--n] & 0xc0) == 0x80)
			;
		filter[n] = '\0';
	} else if (key >= ' ' && key < 256 && n + 1 < UI_FILTER) {
		filter[n] = (char)key;
		filter[n + 1] = '\0';
	}
	if (views[ui->view]->has_filter)
		ui->list[ui->view] = (struct ui_list){ 0 };
	ui->stale = true;
}

static void thread_key(struct ui *ui)
{
	if (ui->query.who.one)
		ui_follow(ui, NULL);
	else if (ui->view != VIEW_THREADS)
		ui_go(ui, VIEW_THREADS);
	if (ui->view == VIEW_THREADS)
		ui_say(ui, "Enter shows one thread alone");
}

static void start_typing(struct ui *ui)
{
	ui->typing = true;
	*ui->filter[ui->view] = '\0';
	ui->find_k = 0;
	ui->finds = ui->placed = false;
	ui->stale = true;
}

/* What is a key in every view. */
static void common_key(struct ui *ui, int key)
{
	switch (key) {
	case 'q':
	case SCREEN_END:
		ui->quit = true;
		break;
	case '?':
	case 'h':
		ui_go(ui, VIEW_HELP);
		break;
	case SCREEN_TAB:
		next_view(ui, 1);
		break;
	case SCREEN_BACK_TAB:
		next_view(ui, VIEW_N - 1);
		break;
	case SCREEN_ESC:
	case SCREEN_LEFT:
		go_back(ui);
		break;
	case '/':
		start_typing(ui);
		break;
	case 'b':
		next_amount(ui);
		break;
	case 't':
		thread_key(ui);
		break;
	case SCREEN_CLICK:
	case SCREEN_DOUBLE_CLICK:
		click(ui, key == SCREEN_DOUBLE_CLICK);
		break;
	default:
		if (key >= '1' && key < '1' + VIEW_HELP && views[key - '1'])
			ui_go(ui, (enum ui_view)(key - '1'));
	}
}

static void take_key(struct ui *ui, int key)
{
	bool small = ui->screen.cols < SCREEN_MIN_COLS ||
		     ui->screen.rows < SCREEN_MIN_ROWS;

	if (key == SCREEN_NONE || key == SCREEN_RESIZED)
		return;
	*ui->message = '\0';
	if (small && key != 'q' && key != SCREEN_END)
		return;
	if (ui->typing && key != SCREEN_END)
		type(ui, key);
	else if (!views[ui->view]->key(ui, key) && !move_key(ui, key))
		common_key(ui, key);
}

/* ---- the loop ---- */

static bool differs(const struct model_status *a, const struct model_status *b)
{
	return a->state != b->state || a->n_insns != b->n_insns ||
	       a->n_gaps != b->n_gaps || a->done != b->done;
}

static bool is_busy(const struct ui *ui)
{
	return ui->status.state != MODEL_DONE ||
	       (ui->view == VIEW_ANNOTATE && ui->annotated && !ui->is_annotated);
}

/* 0 or an error. *next is when the model may be looked at again. */
static int refresh(struct ui *ui, uint64_t *next)
{
	uint64_t began = clock_ns();
	struct model_status now;
	int err;

	/* a key that only moves waits for no step of decoding */
	if (!ui->stale && (began < *next || !is_busy(ui)))
		return 0;
	now = model_status(&ui->model);
	if (ui->view == VIEW_ANNOTATE && ui->annotated && !ui->is_annotated)
		ui->stale |= began >= *next;
	ui->stale |= differs(&now, &ui->status) &&
		     (began >= *next || now.state == MODEL_DONE);
	if (!ui->stale)
		return 0;
	ui->status = now;
	ui->query.filter = views[ui->view]->has_filter ? ui->filter[ui->view] : "";
	err = views[ui->view]->refresh(ui);
	ui->stale = false;
	*next = clock_ns();
	*next += (*next - began) * REFRESH_SHARE > REFRESH_NS ?
			 (*next - began) * REFRESH_SHARE : REFRESH_NS;
	return err;
}

static int loop(struct ui *ui, struct aux_diag *diag)
{
	uint64_t next = 0;
	int err = 0;

	ui->stale = true;
	while (!ui->quit && !screen_signal() && !err) {
		err = refresh(ui, &next);
		if (ui->status.state == MODEL_FAILED) {
			*diag = ui->model.diag;
			return ui->model.error;
		}
		clamp(ui);
		draw(ui);
		take_key(ui, screen_key(&ui->screen,
					is_busy(ui) ? BUSY_MS : IDLE_MS));
	}
	return err;
}

static void free_views(struct ui *ui)
{
	func_rows_fini(&ui->funcs);
	tree_rows_fini(&ui->tree);
	lane_rows_fini(&ui->lanes);
	free(ui->open.v);
	for (unsigned i = 0; i < VIEW_N; i++)
		ui_text_fini(&ui->text[i]);
}

int tui_run(const struct tui_config *config, int *sig, struct aux_diag *diag)
{
	struct ui *ui = calloc(1, sizeof(*ui));
	int err;

	*sig = 0;
	if (!ui)
		return -AUX_E_NOMEM;
	ui->config = config;
	err = screen_open(&ui->screen, config->colour, diag);
	if (!err)
		err = model_start(&ui->model, config);
	if (!err)
		err = loop(ui, diag);
	*sig = screen_signal();
	screen_close(&ui->screen);
	annotator_end(&ui->annotator);
	model_end(&ui->model);
	free_views(ui);
	free(ui);
	if (err == -AUX_E_NOMEM)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	return err;
}
