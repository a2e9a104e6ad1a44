/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CoreSight frames of any bytes: each id has the same bytes as a simple deframer finds, at
 * growing offsets, however the input is cut into parts; and the scan counts as many. The
 * same input, read as words of AUXTRACE_INFO, gives sources or an error. Its first two
 * bytes are the size of the parts.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "decode/lib/packet/packet.h"
#include "decode/lib/trace/trace.h"

#define ASSERT(c)                                                              \
	do {                                                                   \
		if (!(c))                                                      \
			abort();                                               \
	} while (0)

struct byte {
	uint8_t id, value;
	uint32_t frame;
};

/* The offset in the framed bytes of the byte picked at pos. */
static uint64_t place_of(struct cs_frame_pick *p, size_t pos)
{
	struct cs_frame_run run = cs_frame_run(p, pos);

	return cs_frame_at(&run, pos);
}

/* Up to a barrier. Returns the number of frames. */
static size_t deframe(const uint8_t *in, size_t n_frames, struct byte *out,
		      size_t *n)
{
	uint8_t id = CS_FRAME_NO_ID, next;
	size_t f;

	*n = 0;
	for (f = 0; f < n_frames; f++, in += 16) {
		if (cs_frame_is_barrier(in))
			return f;
		for (unsigned i = 0; i < 15; i++) {
			unsigned bit = in[15] >> i / 2 & 1;

			if (i % 2 == 0 && in[i] & 1) {
				next = in[i] >> 1;
				if (bit && i < 14)
					out[(*n)++] = (struct byte){
						id, in[++i], (uint32_t)f };
				id = next;
				continue;
			}
			out[(*n)++] = (struct byte){
				id, i % 2 ? in[i] : (uint8_t)(in[i] | bit),
				(uint32_t)f };
		}
	}
	return f;
}

static void check_id(uint8_t id, const uint8_t *in, size_t n_frames,
		     const struct byte *want, size_t n, size_t step)
{
	struct cs_frame_pick p;
	size_t at = 0, i = 0;
	uint64_t last = 0;

	cs_frame_pick_init(&p, id);
	while (at < n_frames) {
		size_t part = n_frames - at < step ? n_frames - at : step;

		ASSERT(cs_frame_pick_add(&p, in + at * 16, part * 16) ==
		       (int64_t)part * 16);
		at += part;
	}
	ASSERT(p.n_frames == n_frames);
	for (size_t k = 0; k < n; k++) {
		uint64_t place = place_of(&p, i);

		if (want[k].id != id)
			continue;
		ASSERT(i < p.n && p.data[i] == want[k].value);
		ASSERT(place / 16 == want[k].frame && place >= last);
		last = place;
		i++;
	}
	ASSERT(i == p.n);
	for (; i; i /= 3)	/* and anywhere else */
		ASSERT(place_of(&p, i) / 16 < n_frames);
	cs_frame_pick_fini(&p);
}

static void check_frames(const uint8_t *in, size_t n_frames, size_t step)
{
	struct byte *want = malloc((n_frames + 1) * 15 * sizeof(*want));
	struct cs_frame_ids ids = { .id = CS_FRAME_NO_ID };
	uint64_t count[256] = { 0 };
	size_t n;

	ASSERT(want);
	n_frames = deframe(in, n_frames, want, &n);
	for (size_t i = 0; i < n; i++)
		count[want[i].id]++;
	cs_frame_scan(&ids, in, n_frames * 16);
	ASSERT(ids.n_unowned == count[CS_FRAME_NO_ID] && !ids.n_barriers);
	ASSERT(cs_frame_unowned(in, n_frames * 16) == count[CS_FRAME_NO_ID]);
	for (unsigned id = 0; id < CS_FRAME_N_IDS; id++) {
		ASSERT(ids.n[id] == count[id]);
		if (count[id] || id % 16 == 0)
			check_id((uint8_t)id, in, n_frames, want, n, step);
	}
	free(want);
}

static void check_words(const uint8_t *in, size_t len)
{
	uint64_t words[512];
	size_t n = len / 8 < 512 ? len / 8 : 512;
	struct csmeta m = { 0 };
	struct aux_diag diag = { 0 };
	int rc;

	memcpy(words, in, n * 8);
	for (size_t i = 0; i < n && i < 8; i++)
		if (csmeta_add_id(&m, words[i], (uint32_t)i, &diag) < 0)
			ASSERT(diag.code && diag.text[0]);
	diag = (struct aux_diag){ 0 };
	rc = csmeta_read(&m, words, n, &diag);
	ASSERT(rc == 0 || (rc == -diag.code && diag.text[0]));
	ASSERT(m.n_sources <= n / 2);
	for (unsigned id = 0; id < 256; id++) {
		const struct csmeta_source *s = csmeta_find_id(&m, 0, id);

		ASSERT(!s || (id && id <= CS_FRAME_ID_MAX));
	}
	csmeta_find_cpu(&m, 0);
	csmeta_fini(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t *copy;
	size_t step, n;

	if (len < 2)
		return 0;
	step = 1 + (data[0] | (size_t)data[1] << 8) % 300;
	n = (len - 2) / 16 * 16;
	copy = malloc(n ? n : 1);	/* so that reads behind it are seen */
	ASSERT(copy);
	memcpy(copy, data + 2, n);
	check_frames(copy, n / 16, step);
	free(copy);
	check_words(data + 2, len - 2);
	return 0;
}
