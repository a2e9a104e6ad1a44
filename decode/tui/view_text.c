/* SPDX-License-Identifier: BSD-2-Clause */
/* The views that are lines of text: gaps and losses, help. */
#include <stdlib.h>
#include <string.h>

#include "common/outbuf.h"
#include "decode/tui/ui_impl.h"

#define SHIFT 16	/* columns that Right moves what is too wide */

int ui_text_set(struct ui_text *text, const struct outbuf *out)
{
	size_t len = (size_t)(out->p - out->buf), n = 0;

	ui_text_fini(text);
	text->text = malloc(len + 1);
	for (size_t i = 0; i < len; i++)
		n += out->buf[i] == '\n';
	text->lines = calloc(n + 1, sizeof(char *));
	if (!text->text || !text->lines) {
		ui_text_fini(text);
		return -AUX_E_NOMEM;
	}
	memcpy(text->text, out->buf, len);
	text->text[len] = '\0';
	for (char *p = text->text, *end; (end = strchr(p, '\n')); p = end + 1) {
		*end = '\0';
		text->lines[text->n++] = p;
	}
	return 0;
}

void ui_text_fini(struct ui_text *text)
{
	free(text->text);
	free(text->lines);
	*text = (struct ui_text){ .n = 0 };
}

/* What is left of a line; columns are those of ASCII. */
static const char *shifted(const char *line, unsigned shift)
{
	for (; shift && *line; shift--)
		for (line++; (*line & 0xc0) == 0x80;)
			line++;
	return line;
}

void ui_text_draw(struct ui *ui)
{
	const struct ui_text *t = &ui->text[ui->view];
	const struct ui_list *l = &ui->list[ui->view];

	for (int i = 0; i < ui_height(ui) && l->top + (size_t)i < t->n; i++) {
		size_t k = l->top + (size_t)i;

		screen_put(&ui->screen, UI_TOP + i, 0, ui->screen.cols,
			   k == l->at ? LOOK_CHOSEN : 0, shifted(t->lines[k], ui->shift));
	}
}

/* The next line with what was searched for, after the cursor or before it. */
static void search(struct ui *ui, bool back)
{
	const struct ui_text *t = &ui->text[ui->view];
	struct ui_list *l = &ui->list[ui->view];
	const char *word = ui->filter[ui->view];

	for (size_t i = 1; *word && i <= t->n; i++) {
		size_t k = (l->at + (back ? t->n - i : i)) % t->n;

		if (!strcasestr(t->lines[k], word))
			continue;
		l->at = k;
		return;
	}
	ui_say(ui, *word ? "not found" : "/ searches");
}

bool ui_text_key(struct ui *ui, int k)
{
	switch (k) {
	case 'n':
	case 'N':
		search(ui, k == 'N');
		return true;
	case SCREEN_RIGHT:
		ui->shift += SHIFT;
		return true;
	case SCREEN_LEFT:
		if (!ui->shift)
			return false;
		ui->shift -= SHIFT;
		return true;
	}
	return false;
}

size_t ui_text_count(const struct ui *ui)
{
	return ui->text[ui->view].n;
}

/* ---- gaps and losses ---- */

static int refresh_gaps(struct ui *ui)
{
	struct outbuf *out = outbuf_new(-1);
	int err = out ? rows_gaps(&ui->model, &ui->query, out) : -AUX_E_NOMEM;

	if (!err)
		err = ui_text_set(&ui->text[VIEW_GAPS], out);
	outbuf_free(out);
	return err;
}

const struct view_ops view_gaps = {
	.name = "Gaps", .brief = "Gaps", .refresh = refresh_gaps, .draw = ui_text_draw,
	.key = ui_text_key, .count = ui_text_count,
};

/* ---- help ---- */

static const char help[] =
	"1 to 5, Tab    another view; Esc and Left: the one before\n"
	"up down PgUp PgDn Home End, the wheel: the cursor\n"
	"Enter, a double click: goes on from what the cursor is on\n"
	"/              functions, threads: only names with that; elsewhere: finds it\n"
	"n N            the next, and the one before\n"
	"b              own and total are of instructions, time, cycles, branches: of\n"
	"               what the trace has\n"
	"t              chooses one thread; again: all of them\n"
	"h ?            this; q Ctrl-C: leaves\n"
	"\n"
	"Functions      own: what ran in it; total: with all that it called\n"
	"  s            order: own, total, calls, name (* marks it)\n"
	"  Enter        where it was called, in the call tree; n: other places\n"
	"  a            its instructions, each with how often it ran\n"
	"Call tree\n"
	"  + - Enter    opens, closes; - again: the caller\n"
	"  e c          opens, closes all below\n"
	"  a            the function's instructions\n"
	"Threads        full: ran all the time; . off CPU; k in the kernel; - not traced;\n"
	"               X lost\n"
	"  + - 0        zooms in, out, shows all; Left, Right: the cursor\n"
	"  Enter        what this thread alone ran\n"
	"Annotate       Enter: what is called there; Esc: back\n"
	"               H: where it ran most; /: finds; Right, Left: all of a line\n"
	"Gaps           what is missing of the flow, and why; Right, Left: all of a line\n"
	"\n"
	"The numbers are those of `auxdecode hot`, `flame` and `count`. While the\n"
	"recording is being decoded, they are of what was decoded so far.\n";

static int refresh_help(struct ui *ui)
{
	struct outbuf *out = outbuf_new(-1);
	int err;

	if (!out)
		return -AUX_E_NOMEM;
	outbuf_str(out, help);
	err = ui_text_set(&ui->text[VIEW_HELP], out);
	outbuf_free(out);
	return err;
}

const struct view_ops view_help = {
	.name = "Help", .brief = "Help", .refresh = refresh_help, .draw = ui_text_draw,
	.key = ui_text_key, .count = ui_text_count,
};
