/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The AUX area: bytes from the encoder, room from the reader.
 *
 * Packets reach the area in whole, so what perf_aux_output_end() publishes can
 * be decoded to its end. When the reader is too slow the stream says OVF, the
 * record TRUNCATED, and the event stops until its reader starts it again.
 * In overwrite mode the head is an offset inside the area, as Intel PT has it.
 */
#include <linux/vmalloc.h>

#include "pmu_step.h"

static unsigned long position(const struct step_cpu *c)
{
	return (c->handle.head + c->written) % c->buf->size;
}

static int put_bytes(void *ctx, const u8 *bytes, size_t n)
{
	struct step_cpu *c = ctx;
	unsigned long pos, in_page, part;

	step_count(STEP_N_BYTES, n);
	while (n) {
		pos = position(c);
		in_page = pos % PAGE_SIZE;
		part = min_t(unsigned long, n, PAGE_SIZE - in_page);
		memcpy((u8 *)c->buf->pages[pos / PAGE_SIZE] + in_page, bytes,
		       part);
		c->written += part;
		bytes += part;
		n -= part;
	}
	return 0;
}

void *step_aux_setup(struct perf_event *event, void **pages, int nr,
		     bool overwrite)
{
	u64 bits = event->attr.config;
	struct pt_encode_config config = {
		.tsc = bits & STEP_CONFIG_TSC,
		.retcomp = !(bits & STEP_CONFIG_NORETCOMP),
		.branch = !(bits & STEP_CONFIG_PT) ||
			  bits & STEP_CONFIG_BRANCH,
		.psb_period = (bits & STEP_CONFIG_PSB) >> STEP_CONFIG_PSB_SHIFT,
	};
	struct step_buf *buf = vzalloc(sizeof(*buf));

	if (!buf)
		return NULL;
	buf->pages = pages;
	buf->size = (unsigned long)nr << PAGE_SHIFT;
	buf->overwrite = overwrite;
	pt_encode_init(&buf->e, &config, buf->stage, sizeof(buf->stage),
		       put_bytes, NULL);
	return buf;
}

void step_aux_free(void *aux)
{
	vfree(aux);
}

/* Tells perf how far the area is filled. */
static void end_handle(struct step_cpu *c)
{
	unsigned long n = c->written;

	if (c->buf->overwrite) {
		c->handle.head = position(c);
		n = c->buf->size;
	}
	c->written = 0;
	perf_aux_output_end(&c->handle, n);
}

static bool begin_handle(struct step_cpu *c, struct perf_event *event)
{
	c->buf = perf_aux_output_begin(&c->handle, event);
	c->written = 0;
	if (!c->buf)
		return false;
	c->buf->e.sink_ctx = c;
	return true;
}

static bool has_room(const struct step_cpu *c)
{
	return c->buf->overwrite ||
	       c->handle.size >= c->written + STEP_ROOM;
}

static void stop_overrun(struct step_cpu *c)
{
	step_count(STEP_N_OVERRUNS, 1);
	perf_aux_output_flag(&c->handle, PERF_AUX_FLAG_TRUNCATED);
	end_handle(c);
	if (c->event)
		c->event->hw.state = PERF_HES_STOPPED;
	c->event = NULL;
	c->buf = NULL;
}

/* OVF; where the stream goes on a reader finds PSB+. */
static void put_loss(struct step_cpu *c)
{
	pt_encode_lose(&c->buf->e);
	c->buf->e.next_psb = 0;
	pt_encode_flush(&c->buf->e);
	c->owed = false;
}

bool step_aux_open(struct step_cpu *c, struct perf_event *event)
{
	if (!begin_handle(c, event)) {
		c->owed = true;
		return false;
	}
	if (!has_room(c)) {
		c->owed = true;
		stop_overrun(c);
		return false;
	}
	c->event = event;
	c->buf->e.next_psb = 0;	/* as hardware that is switched on */
	if (c->owed)
		put_loss(c);
	return true;
}

void step_aux_close(struct step_cpu *c)
{
	pt_encode_flush(&c->buf->e);
	end_handle(c);
	c->event = NULL;
	c->buf = NULL;
}

bool step_aux_room(struct step_cpu *c)
{
	struct perf_event *event = c->event;

	if (has_room(c) && (c->buf->overwrite ||
			    c->handle.head + c->written < c->handle.wakeup))
		return true;
	end_handle(c);
	if (!begin_handle(c, event)) {
		/* the area went away: its encoder with it */
		event->hw.state = PERF_HES_STOPPED;
		c->event = NULL;
		c->owed = true;
		return false;
	}
	if (has_room(c))
		return true;
	put_loss(c);
	stop_overrun(c);
	return false;
}

void step_aux_spill(struct step_cpu *c)
{
	struct pt_encoder *e = &c->buf->e;

	if (e->pos - e->buf >= STEP_SPILL)
		pt_encode_flush(e);
}
