/* SPDX-License-Identifier: BSD-2-Clause */
/* The part that draws: the screen, and the views on it. */
#ifndef DECODE_TUI_UI_IMPL_H
#define DECODE_TUI_UI_IMPL_H

#include "decode/tui/impl.h"

/* ---- screen.c: a terminal ---- */

#define SCREEN_MIN_COLS 40
#define SCREEN_MIN_ROWS 10
#define SCREEN_MAX_COLS 512	/* what is wider stays empty */

enum look {
	LOOK_PLAIN = 0,
	LOOK_HEAD,
	LOOK_NUMBER,
	LOOK_NAME,
	LOOK_DIM,
	LOOK_BAD,
	LOOK_GOOD,
	LOOK_TAB,	/* the view that is shown */
	LOOK_N,
	LOOK_CHOSEN = 64,	/* the row of the cursor: added to another */
};

/* Keys that are no characters. */
enum screen_key {
	SCREEN_NONE = 0x200000,	/* nothing was pressed */
	SCREEN_END,		/* the terminal is gone */
	SCREEN_RESIZED,
	SCREEN_UP,
	SCREEN_DOWN,
	SCREEN_LEFT,
	SCREEN_RIGHT,
	SCREEN_PAGE_UP,
	SCREEN_PAGE_DOWN,
	SCREEN_HOME,
	SCREEN_LAST,
	SCREEN_ENTER,
	SCREEN_ESC,
	SCREEN_TAB,
	SCREEN_BACK_TAB,
	SCREEN_BACKSPACE,
	SCREEN_WHEEL_UP,
	SCREEN_WHEEL_DOWN,
	SCREEN_CLICK,		/* at click_x, click_y */
	SCREEN_DOUBLE_CLICK,
};

struct screen {
	void *handle;
	int cols, rows;
	int click_x, click_y;
	uint64_t clicked_ns;
	unsigned n_dead;	/* reads that brought nothing */
	bool is_unicode;	/* of the locale */
	bool colour;
	bool open;
};

/* 0, or -AUX_E_UNSUPPORTED with diag. Signals that end a program leave the
 * terminal as it was; the others end with screen_signal. */
int screen_open(struct screen *s, bool colour, struct aux_diag *diag);
void screen_close(struct screen *s);
/* The signal that came, 0: none. */
int screen_signal(void);
void screen_clear(struct screen *s);
void screen_show(struct screen *s);
/*
 * Foreign text, cleaned, cut to width columns and filled up to it with blanks;
 * width 0: as wide as the text. Returns the columns it took.
 */
int screen_put(struct screen *s, int y, int x, int width, unsigned look,
	       const char *text);
int screen_printf(struct screen *s, int y, int x, int width, unsigned look,
		  const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* How full, in eighths: a column of a lane. */
void screen_bar(struct screen *s, int y, int x, unsigned look, unsigned eighths);
/* A key, or what is in enum screen_key, after at most wait_ms. */
int screen_key(struct screen *s, int wait_ms);

/* ---- ui.c: what all views share ---- */

enum ui_view {
	VIEW_FUNCTIONS = 0,
	VIEW_TREE,
	VIEW_THREADS,
	VIEW_ANNOTATE,
	VIEW_GAPS,
	VIEW_HELP,
	VIEW_N,
};

#define UI_TOP 2	/* first row of a view; above it tabs and a heading */
#define UI_BOTTOM 2	/* rows below: a message, the status */
#define UI_FILTER 64

struct ui_list {
	size_t at, top;
};

struct ui_text {
	char *text;	/* lines, each ended by a NUL */
	const char **lines;
	size_t n;
};

struct ui {
	const struct tui_config *config;
	struct screen screen;
	struct model model;
	struct model_status status;
	unsigned view, back[8], n_back;
	struct ui_list list[VIEW_N];
	char filter[VIEW_N][UI_FILTER];
	bool typing;
	struct rows_query query;	/* but for filter */
	char who[128];			/* the name of query.who */
	bool stale, quit;
	char message[256];
	/* functions */
	struct func_rows funcs;
	/* the call tree */
	struct tree_rows tree;
	struct open_nodes open;
	uint32_t find_func;	/* n, N: places of this one, else of the filter */
	size_t find_k;
	bool finds, placed;
	/* threads */
	struct lane_rows lanes;
	uint64_t from, to;	/* of the axis; to 0: all of it */
	int column;
	/* annotate */
	struct annotator annotator;
	const struct call_func *annotated;	/* NULL: none */
	bool is_annotated;	/* its text is there */
	const struct call_func *callers[16];	/* from which Enter led on */
	size_t n_callers;
	/* text */
	unsigned shift;
	struct ui_text text[VIEW_N];
};

struct view_ops {
	const char *name, *brief;
	/* Makes the rows; 0 or an error. */
	int (*refresh)(struct ui *ui);
	void (*draw)(struct ui *ui);
	/* False: it is no key of this view. */
	bool (*key)(struct ui *ui, int key);
	/* How many rows the cursor goes over. */
	size_t (*count)(const struct ui *ui);
	bool has_filter;	/* / narrows it; else it searches */
};

extern const struct view_ops view_functions, view_tree, view_threads,
	view_annotate, view_gaps, view_help;

int ui_height(const struct ui *ui);
/* Goes to a view, from which Esc comes back. */
void ui_go(struct ui *ui, enum ui_view view);
void ui_say(struct ui *ui, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* What own and total are of: "instructions". */
const char *ui_unit(const struct ui *ui);
/* Only this thread, or with NULL all. */
void ui_follow(struct ui *ui, const struct lane_row *row);
/* Opens the k-th largest place of ui's function in the tree, and goes there. */
void ui_place(struct ui *ui, size_t k);
/* Shows the instructions of a function. */
void ui_annotate(struct ui *ui, const struct call_func *func);
double ui_percent(uint64_t n, uint64_t of);
/* The name up to the end of the line, short unless names are wanted in full; func
 * NULL: it is no function's. Returns the columns. */
int ui_put_name(struct ui *ui, int y, int x, unsigned look,
		const struct call_func *func, const char *name);

/* view_text.c: text takes what out has; 0 or -AUX_E_NOMEM. */
int ui_text_set(struct ui_text *text, const struct outbuf *out);
/* For views of ui->text, as in struct view_ops. */
void ui_text_draw(struct ui *ui);
bool ui_text_key(struct ui *ui, int key);
size_t ui_text_count(const struct ui *ui);
void ui_text_fini(struct ui_text *text);

#endif
