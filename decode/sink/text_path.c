/* SPDX-License-Identifier: BSD-2-Clause */
/* text_paths: see text.h. */
#include <string.h>

#include "decode/sink/text.h"

#define PATH_BYTES ((size_t)16 << 20)

uint32_t text_needs(const struct sink_config *config)
{
	bool offsets = config->fields && strstr(config->fields, "offset");

	return SINK_NEEDS_TIME | SINK_TAKES_PATHS |
	       (offsets ? SINK_EXACT_OFFSETS : 0);
}

int text_paths_init(struct text_paths *t, const struct columns *c)
{
	text_store_init(&t->store, PATH_BYTES);
	t->min_visits = 4;
	t->steady =
		!(c->has & (COLUMN_BIT(COL_TIME) | COLUMN_BIT(COL_OFFSET)));
	return text_maker_init(&t->maker);
}

void text_paths_fini(struct text_paths *t)
{
	text_store_fini(&t->store);
	text_maker_fini(&t->maker);
}

static size_t lead_len(const struct lead *l)
{
	return (size_t)(l->text->p - l->text->buf);
}

bool text_paths_put(struct text_paths *t, struct outbuf *out, struct lead *lead,
		    const struct text_ends *ends, struct sink_report *report)
{
	const struct text_whole *whole = (const void *)(ends + 1);
	const struct text *text = (const void *)(ends + 1);

	if (!t->steady) {
		text_put(out, lead->text->buf, lead_len(lead), text, text->n);
		report->n_lines += text->n;
		report->n_filtered += text->n_left_out;
		return true;
	}
	if (whole->lead != lead_id(lead))
		return false;
	outbuf_put(out, whole->lines, whole->size);
	report->n_lines += whole->n;
	report->n_filtered += whole->n_left_out;
	return true;
}

bool text_paths_is_due(struct text_paths *t, struct aux_path *path)
{
	return path->kept && ++path->user[2] >= t->min_visits;
}

/* A place of so many bytes: where the path's text of another lead was, or new. */
static struct text_ends *find_place(struct text_paths *t,
				    const struct aux_path *path, size_t size)
{
	struct text_ends *old = text_store_find(&t->store, path->user);
	const struct text_whole *whole;

	if (t->steady && old) {
		whole = (const void *)(old + 1);
		if (sizeof(*whole) + whole->size >= size)
			return old;
	}
	size += sizeof(*old);
	if (!text_store_has_room(&t->store, size))
		t->min_visits *= 2;
	return text_store_get(&t->store, size);
}

void text_paths_keep(struct text_paths *t, struct lead *lead,
		     struct aux_path *path)
{
	const struct aux_step *step = path->steps[path->n_steps - 1];
	size_t size = t->steady ? text_maker_size_whole(&t->maker,
							lead_len(lead))
				: text_maker_size(&t->maker);
	struct text_ends *at = size ? find_place(t, path, size) : NULL;

	if (!at)
		return;
	if (t->steady)
		text_maker_write_whole(&t->maker, at + 1, lead->text->buf,
				       lead_len(lead))
			->lead = lead_id(lead);
	else
		text_maker_write(&t->maker, at + 1);
	at->first = path->steps[0]->ranges[0].range.first;
	at->last = step->ranges[step->n_ranges - 1];
	path->user[0] = t->store.epoch;
	path->user[1] = (uintptr_t)at;
}
