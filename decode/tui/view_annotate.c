/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The view of one function: its source and instructions, each with how often it
 * ran, as annotate prints them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/outbuf.h"
#include "decode/tui/ui_impl.h"

void ui_annotate(struct ui *ui, const struct call_func *func)
{
	if (!func->raw) {
		ui_say(ui, "no symbol is known for it, and so not where it ends; "
			   "`auxdecode insn` shows what ran there");
		return;
	}
	if (ui->view != VIEW_ANNOTATE)
		ui->n_callers = 0;
	ui->annotated = func;
	ui->is_annotated = false;
	ui_go(ui, VIEW_ANNOTATE);
	ui->stale = true;
	if (ui->query.who.one)
		ui_say(ui, "here counts are of all threads together");
}

/* What a line calls, as annotate has it: "call 0x401126 <work>", and of an indirect
 * call "# to work 5, ...". NULL: nothing that ran. */
static const struct call_func *target(struct ui *ui, const char *line)
{
	const char *from = strstr(line, " <"), *end = strstr(line, "  # ");
	const struct call_func *f = NULL;
	size_t len;

	if (!end)
		end = line + strlen(line);
	if (from && from < end && end[-1] == '>') {
		from += 2;
		len = (size_t)(end - 1 - from);
	} else if (!strncmp(end, "  # to ", 7)) {
		from = end + 7;
		len = strcspn(from, ",");
		while (len && from[len - 1] != ' ')
			len--;
		len -= len > 0;
	} else {
		return NULL;
	}
	model_lock(&ui->model);
	f = rows_named(&ui->model, from, len);
	model_unlock(&ui->model);
	return f;
}

static void follow(struct ui *ui)
{
	const struct ui_text *t = &ui->text[VIEW_ANNOTATE];
	const struct ui_list *l = &ui->list[VIEW_ANNOTATE];
	const struct call_func *f = l->at < t->n ? target(ui, t->lines[l->at]) : NULL;

	if (!f || !f->raw) {
		ui_say(ui, "Enter on a call of a function that ran goes there");
		return;
	}
	if (ui->n_callers == sizeof(ui->callers) / sizeof(ui->callers[0]))
		memmove(ui->callers, ui->callers + 1,
			--ui->n_callers * sizeof(ui->callers[0]));
	ui->callers[ui->n_callers++] = ui->annotated;
	ui_annotate(ui, f);
}

static void put_waiting(struct ui *ui, struct outbuf *out)
{
	const struct annotator *a = &ui->annotator;
	uint64_t wanted = atomic_load(&a->wanted);

	outbuf_printf(out, "%s\n\ncounting each instruction, for all functions: "
			   "%.0f %%\n", ui->annotated->name,
		      ui_percent(atomic_load(&a->done), wanted));
}

static void put_error(struct ui *ui, struct outbuf *out)
{
	const struct annotator *a = &ui->annotator;

	outbuf_printf(out, "%s\n\ncannot be shown: %s\n", ui->annotated->name,
		      *a->diag.text ? a->diag.text : aux_strerror(a->error));
}

/* Where it ran most is what is looked for first, as in perf. */
static void go_to_hottest(struct ui *ui)
{
	const struct ui_text *t = &ui->text[VIEW_ANNOTATE];
	uint64_t most = 0, n;

	for (size_t i = 0; i < t->n; i++) {
		n = *t->lines[i] == ' ' ? strtoull(t->lines[i], NULL, 10) : 0;
		if (n <= most)
			continue;
		most = n;
		ui->list[VIEW_ANNOTATE].at = i;
	}
}

static int fill(struct ui *ui, struct outbuf *out)
{
	struct annotator *a = &ui->annotator;
	const struct call_func *f = ui->annotated;
	int err = 0;

	if (annotator_is_busy(a)) {
		put_waiting(ui, out);
	} else if (a->error) {
		put_error(ui, out);
	} else {
		err = annotator_text(a, f->raw, f->dso, out);
		ui->is_annotated = !err;
		if (err == 1)
			outbuf_printf(out, "%s\n\nno instruction of it can be shown: "
					   "its code is in no file\n", f->name);
	}
	return err < 0 ? err : 0;
}

static int refresh(struct ui *ui)
{
	struct outbuf *out;
	int err = 0;

	if (ui->annotated && ui->is_annotated)
		return 0;
	out = outbuf_new(-1);
	if (!out)
		return -AUX_E_NOMEM;
	if (ui->annotated)
		err = annotator_start(&ui->annotator, ui->config);
	else
		outbuf_str(out, "a on a function shows its instructions here\n");
	if (!err && ui->annotated)
		err = fill(ui, out);
	if (!err)
		err = ui_text_set(&ui->text[VIEW_ANNOTATE], out);
	if (!err && ui->is_annotated) {
		ui->list[VIEW_ANNOTATE] = (struct ui_list){ 0 };
		go_to_hottest(ui);
	}
	outbuf_free(out);
	return err;
}

static bool key(struct ui *ui, int k)
{
	if (ui_text_key(ui, k))
		return true;
	switch (k) {
	case 'H':
		go_to_hottest(ui);
		return true;
	case SCREEN_ENTER:
		follow(ui);
		return true;
	case SCREEN_ESC:
	case SCREEN_LEFT:
		if (!ui->n_callers)
			return false;
		ui_annotate(ui, ui->callers[--ui->n_callers]);
		return true;
	}
	return false;
}

const struct view_ops view_annotate = {
	.name = "Annotate", .brief = "Ann", .refresh = refresh, .draw = ui_text_draw,
	.key = key, .count = ui_text_count,
};
