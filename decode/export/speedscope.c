/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A profile for each stack of each thread, evented: frames that open and close,
 * at nanoseconds, or with --by insns (and where the trace has no times) at
 * instructions of the thread.
 *
 * The file wants each profile in one piece, but threads take turns: their text
 * waits in a spool (spool.c), and is written one profile after the other, the
 * table of frames last.
 *
 * Specification: speedscope's file-format-schema.json.
 */
#include <stdlib.h>

#include "common/array.h"
#include "decode/export/export.h"

/* export_track.user. */
struct profile {
	struct export_piece *text;
	uint64_t start, end;
	bool started;
};

struct frame {
	const struct export_name *name, *file;
};

struct speedscope {
	struct export *x;
	struct export_spool *spool;
	struct frame *frames;
	struct export_ids frame_of;	/* one more; 0: none */
	size_t n_frames, max_frames;
	bool by_insns;
};

/* Its text is spooled from the start. */
static int track_speedscope(void *format, struct export_track *t)
{
	struct speedscope *f = format;
	struct profile *p = calloc(1, sizeof(*p));

	t->user = p;
	if (!p)
		return -AUX_E_NOMEM;
	p->text = export_spool_piece(f->spool);
	return p->text ? 0 : -AUX_E_NOMEM;
}

/* The file it is from belongs to the frame, not to the event. */
static int add_frame(struct speedscope *f, const struct export_slice *s)
{
	const char *dso = s->frame ? s->frame->func->dso : NULL;
	struct frame *v;

	if (array_grow(&f->frames, f->n_frames, &f->max_frames, sizeof(*v)))
		return -AUX_E_NOMEM;
	v = &f->frames[f->n_frames++];
	*v = (struct frame){
		.name = s->name,
		.file = dso ? export_intern(f->x, dso) : NULL,
	};
	return dso && !v->file ? -AUX_E_NOMEM : 0;
}

/* The index of a name in the table of frames, which has each name once. */
static int find_frame(struct speedscope *f, const struct export_slice *s,
		      uint32_t *frame)
{
	uint32_t *at = export_ids_at(&f->frame_of, s->name->id);
	int err;

	if (!at)
		return -AUX_E_NOMEM;
	if (!*at) {
		err = add_frame(f, s);
		if (err)
			return err;
		*at = (uint32_t)f->n_frames;
	}
	*frame = *at - 1;
	return 0;
}

/* Never less than the one before: speedscope refuses files whose events go
 * back. */
static uint64_t stamp(const struct speedscope *f, struct profile *p,
		      const struct export_slice *s)
{
	uint64_t at = s->ns;

	if (f->by_insns)
		at = s->thread ? s->thread->now.insns : p->end;
	if (p->started && at < p->end)
		at = p->end;
	if (!p->started)
		p->start = at;
	p->started = true;
	return p->end = at;
}

/* The first event of a profile has no comma before it. */
static int put_event(struct speedscope *f, struct export_track *t, char type,
		     const struct export_slice *s)
{
	struct profile *p = t->user;
	char buf[96], *at = buf;
	bool first = !p->started;
	uint32_t frame;
	int err = find_frame(f, s, &frame);

	if (err)
		return err;
	if (!first)
		*at++ = ',';
	*at++ = '\n';
	memcpy(at, "{\"type\":\"", 9);
	at += 9;
	*at++ = type;
	memcpy(at, "\",\"frame\":", 10);
	at = fmt_dec(at + 10, frame);
	memcpy(at, ",\"at\":", 6);
	at = fmt_dec(at + 6, stamp(f, p, s));
	*at++ = '}';
	return export_spool_put(f->spool, p->text, buf, (size_t)(at - buf));
}

/* O: open. */
static int begin_speedscope(void *format, struct export_track *t,
			    const struct export_slice *s)
{
	return put_event(format, t, 'O', s);
}

/* C: close. */
static int end_speedscope(void *format, struct export_track *t,
			  const struct export_slice *s)
{
	return put_event(format, t, 'C', s);
}

static void put_u64(struct outbuf *out, const char *key, uint64_t v)
{
	char buf[20];

	outbuf_str(out, key);
	outbuf_put(out, buf, (size_t)(fmt_dec(buf, v) - buf));
}

/* One profile, with its text out of the spool. */
static int put_profile(struct speedscope *f, const struct export_track *t,
		       bool first)
{
	const struct profile *p = t->user;
	struct outbuf *out = f->x->out;
	char name[128];
	int err;

	export_track_name(t, name, sizeof(name));
	outbuf_str(out, first ? "\n{" : ",\n{");
	outbuf_str(out, "\"type\":\"evented\",\"name\":");
	export_json_string(out, name);
	outbuf_str(out, f->by_insns || !f->x->timed
				? ",\"unit\":\"none\""
				: ",\"unit\":\"nanoseconds\"");
	put_u64(out, ",\"startValue\":", p->start);
	put_u64(out, ",\"endValue\":", p->end);
	outbuf_str(out, ",\"events\":[");
	err = export_spool_write(f->spool, p->text, out);
	outbuf_str(out, "]}");
	return err;
}

/* The shared table of frames. */
static void put_frames(struct speedscope *f)
{
	struct outbuf *out = f->x->out;

	outbuf_str(out, "],\n\"shared\":{\"frames\":[");
	for (size_t i = 0; i < f->n_frames; i++) {
		const struct frame *v = &f->frames[i];

		outbuf_str(out, i ? ",\n{\"name\":\"" : "\n{\"name\":\"");
		export_json_text(out, v->name->text, v->name->len);
		if (v->file) {
			outbuf_str(out, "\",\"file\":\"");
			export_json_text(out, v->file->text, v->file->len);
		}
		outbuf_str(out, "\"}");
	}
	outbuf_str(out, "]}}\n");
}

/* Profiles in the order in which tracks were met; those without an event are
 * left out. */
static int finish_speedscope(void *format, struct aux_diag *diag)
{
	struct speedscope *f = format;
	struct outbuf *out = f->x->out;
	bool first = true;
	int err = 0;

	outbuf_str(out, "{\"$schema\":\"https://www.speedscope.app/"
			"file-format-schema.json\",\n\"exporter\":\"auxdecode\","
			"\"name\":");
	export_json_string(out, f->x->env.path ? f->x->env.path : "");
	outbuf_str(out, ",\"activeProfileIndex\":0,\n\"profiles\":[");
	for (struct export_track *t = f->x->tracks; t && !err; t = t->next) {
		const struct profile *p = t->user;

		if (!p->started)
			continue;
		err = put_profile(f, t, first);
		first = false;
	}
	put_frames(f);
	if (err && !diag->code) {
		diag->code = abs(err);
		strncpy(diag->text, "the temporary file cannot be read",
			sizeof(diag->text) - 1);
	}
	return err;
}

static int open_speedscope(void **format, struct export *x,
			   struct aux_diag *diag)
{
	struct speedscope *f = calloc(1, sizeof(*f));

	*format = f;
	if (!f)
		return -AUX_E_NOMEM;
	f->x = x;
	f->by_insns = x->config.by == 1;
	(void)diag;
	f->spool = export_spool_new();
	return f->spool ? 0 : -AUX_E_NOMEM;
}

static void close_speedscope(void *format)
{
	struct speedscope *f = format;

	for (struct export_track *t = f->x->tracks; t; t = t->next)
		free(t->user);
	export_spool_free(f->spool);
	free(f->frames);
	export_ids_fini(&f->frame_of);
	free(f);
}

const struct export_ops export_speedscope = {
	.name = "speedscope",
	.help = "profiles of speedscope, one for each thread",
	.open = open_speedscope,
	.track = track_speedscope,
	.begin = begin_speedscope,
	.end = end_speedscope,
	.finish = finish_speedscope,
	.close = close_speedscope,
};
