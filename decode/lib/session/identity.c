/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What identifies a recording, wherever it lies: its size, the machine and the command,
 * and of each stream the sizes of its AUX records and its first bytes. All of it was read
 * when the recording was opened, and recordings that agree in all of it are copies.
 */
#include <stdlib.h>
#include <string.h>

#include "common/sha256.h"
#include "decode/lib/session/impl.h"

#define HEAD 4096	/* bytes of each stream */

static void add_number(struct sha256 *h, uint64_t v)
{
	uint8_t b[8];

	for (unsigned i = 0; i < 8; i++)
		b[i] = (uint8_t)(v >> 8 * i);
	sha256_update(h, b, sizeof(b));
}

static void add_text(struct sha256 *h, const char *s)
{
	sha256_update(h, s ? s : "", s ? strlen(s) + 1 : 1);
}

static void add_queue(struct sha256 *h, const struct queue *q)
{
	uint64_t left = HEAD;

	add_number(h, q->idx);
	add_number(h, (uint64_t)(int64_t)q->cpu);
	add_number(h, (uint64_t)(int64_t)q->tid);
	for (size_t i = 0; i < q->n_pieces; i++) {
		const struct piece *p = &q->pieces[i];
		uint64_t n = p->len < left ? p->len : left;

		add_number(h, p->len);
		add_number(h, p->reference);
		sha256_update(h, p->data, n);
		left -= n;
	}
}

uint64_t session_identity(const struct session *s)
{
	const struct aux_file_info *info = aux_reader_info(s->reader);
	const struct chunks *c = &s->chunks;
	struct sha256 h;
	char text[65];

	sha256_init(&h);
	add_number(&h, info->size);
	add_number(&h, info->data_size);
	add_text(&h, info->container);
	add_text(&h, info->hostname);
	add_text(&h, info->os_release);
	add_text(&h, info->cmdline);
	add_number(&h, c->trace_type);
	for (uint32_t i = 0; i < c->n_metadata; i++)
		add_number(&h, c->metadata[i]);
	for (size_t i = 0; i < c->n; i++)
		add_queue(&h, &c->queues[i]);
	sha256_final(&h, text);
	text[16] = '\0';
	return strtoull(text, NULL, 16);
}
