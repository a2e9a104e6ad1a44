/* SPDX-License-Identifier: BSD-2-Clause */
/* copy_file: see copy_file.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/outbuf.h"
#include "decode/export/copy_file.h"

#define NUMBER 24	/* bytes of a number and its tab, and of the line's end, at most */

struct copy_file {
	const struct table *t;
	struct outbuf *out;
	char end[NUMBER];	/* of each line */
	unsigned n_end;
};

struct copy_file *copy_file_new(int fd, const struct table *t, const int64_t *recording)
{
	struct copy_file *f = calloc(1, sizeof(*f));
	char *p;

	if (!f)
		return NULL;
	f->t = t;
	f->out = outbuf_new(fd);
	if (!f->out) {
		copy_file_free(f);
		return NULL;
	}
	p = f->end;
	if (recording) {
		*p++ = '\t';
		p = fmt_sdec(p, *recording);
	}
	*p++ = '\n';
	f->n_end = (unsigned)(p - f->end);
	return f;
}

void copy_file_free(struct copy_file *f)
{
	if (!f)
		return;
	outbuf_free(f->out);
	free(f);
}

/* Backslashes and what ends a column or a row; p has room for twice the text. */
static char *put_text(char *p, const struct export_name *n)
{
	for (uint32_t i = 0; i < n->len; i++) {
		char c = n->text[i];

		if (c == '\\' || c == '\t' || c == '\n' || c == '\r') {
			*p++ = '\\';
			c = c == '\\' ? '\\' : c == '\t' ? 't' : c == '\n' ? 'n' : 'r';
		}
		*p++ = c;
	}
	return p;
}

/* Most are small: flags, depths, what is not counted. */
static inline char *put_number(char *p, int64_t v)
{
	if ((uint64_t)v > 9)
		return fmt_sdec(p, v);
	*p = (char)('0' + v);
	return p + 1;
}

/* Room is asked for once for all numbers up to the next text, not for each. */
int copy_file_put(struct copy_file *f, const struct table_row *r)
{
	const struct table_column *c = f->t->columns;
	struct outbuf *out = f->out;
	char *p = outbuf_room(out, (size_t)(r->n + 1) * NUMBER);

	for (unsigned i = 0; i < r->n && p; i++) {
		if (i)
			*p++ = '\t';
		if (table_is_null(r, i)) {
			memcpy(p, "\\N", 2);
			p += 2;
		} else if (c[i].kind == COLUMN_TEXT) {
			size_t room = 2 * (size_t)r->values[i].text->len;

			out->p = p;
			p = outbuf_room(out, room + (size_t)(r->n + 1 - i) * NUMBER);
			if (p)
				p = put_text(p, r->values[i].text);
		} else {
			p = put_number(p, (int64_t)r->values[i].v);
		}
	}
	if (p) {
		memcpy(p, f->end, NUMBER);
		out->p = p + f->n_end;
	}
	if (!outbuf_failed(out))
		return 0;
	errno = out->error;
	return errno == ENOMEM ? -AUX_E_NOMEM : -AUX_E_IO;
}

int copy_file_finish(struct copy_file *f)
{
	int err = outbuf_flush(f->out);

	errno = f->out->error;
	return err;
}
