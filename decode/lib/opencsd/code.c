/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opencsd: the code that the library decodes.
 *
 * The library reads code by a callback into a cache of pages of a few hundred
 * bytes. It has no notion of generations, so when the host's changes the cache
 * must be emptied: removing the accessor and adding it again is the only way to
 * do that.
 */
#include <string.h>

#include "decode/lib/opencsd/impl.h"

static const struct aux_code *find_region(struct opencsd *d, uint64_t ip)
{
	struct opencsd_region *r = &d->code.regions[d->code.last];

	for (unsigned i = 0; i < OPENCSD_REGIONS; i++) {
		if (r->code.bytes && ip >= r->code.start && ip < r->code.end &&
		    r->generation == d->code.generation) {
			d->code.last = (unsigned)(r - d->code.regions);
			return &r->code;
		}
		r = &d->code.regions[i];
	}
	r = &d->code.regions[d->code.next];
	r->code = (struct aux_code){ 0 };
	if (d->host->code(d->host->priv, ip, &r->code) < 0 ||
	    ip < r->code.start || ip >= r->code.end) {
		r->code.bytes = NULL;
		return NULL;
	}
	r->generation = d->code.generation;
	d->code.last = d->code.next;
	d->code.next = (d->code.next + 1) % OPENCSD_REGIONS;
	return &r->code;
}

uint32_t opencsd_copy_code(struct opencsd *d, uint64_t ip, uint32_t n, uint8_t *buf)
{
	const struct aux_code *c = find_region(d, ip);

	if (!c)
		return 0;
	if (n > c->end - ip)
		n = (uint32_t)(c->end - ip);
	memcpy(buf, c->bytes + (ip - c->start), n);
	return n;
}

/*
 * The library wants whole words even where T32 code ends with a half-word. The
 * other half then comes from the next region, or is a zero that is never
 * executed.
 */
uint32_t opencsd_read_code(const void *priv, ocsd_vaddr_t ip,
			   ocsd_mem_space_acc_t space, uint32_t n, uint8_t *buf)
{
	struct opencsd *d = (struct opencsd *)(uintptr_t)priv;
	uint32_t got;

	(void)space;
	if (d->code.walked > OPENCSD_WALK_MAX) {
		d->code.walked_off = true;
		return 0;
	}
	got = opencsd_copy_code(d, ip, n, buf);
	if ((got & 3) == 2 && n - got >= 2) {
		if (opencsd_copy_code(d, ip + got, 2, buf + got) < 2)
			memset(buf + got, 0, 2);
		got += 2;
	}
	d->code.walked += got;
	return got;
}

bool opencsd_update_code(struct opencsd *d)
{
	if (!d->lib.tree || d->host->generation == d->code.generation)
		return true;
	d->code.generation = d->host->generation;
	ocsd_dt_remove_mem_acc(d->lib.tree, 0, OCSD_MEM_SPACE_ANY);
	return ocsd_dt_add_callback_mem_acc(d->lib.tree, 0, OPENCSD_LAST_CODE,
					    OCSD_MEM_SPACE_ANY,
					    opencsd_read_code, d) == OCSD_OK;
}
