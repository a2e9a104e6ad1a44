/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls: in which activation of a function an exception is caught. The
 * unwinder's tables say, for the address of each call, where an exception that
 * leaves it goes (its landing pad). A recursive function may be on the stack
 * many times; only one of its calls leads to the address where control
 * appeared.
 */
#include "decode/callstack/impl.h"
#include "decode/lib/elf/eh_frame.h"
#include "decode/lib/elf/elf.h"

/* Whether an exception that leaves the call with return address back is caught
 * at land, in im. The call lies before back, so back - 1 is in it. */
static bool leads_to(const struct calls *c, uint64_t back, const struct elfimage *im,
		     uint64_t land)
{
	const struct sink_host *h = c->code.host;
	struct elfimage *other;
	uint64_t offset, from;

	return h->image(h->priv, c->space, back - 1, &other, &offset) >= 0 &&
	       im == other && elfimage_addr(im, offset, &from) &&
	       eh_frame_landing(im, from) == land;
}

/* The file at an address, and the address there. NULL: there is none. */
static const struct elfimage *find_image(const struct calls *c, uint64_t ip, uint64_t *addr)
{
	const struct sink_host *h = c->code.host;
	struct elfimage *im;
	uint64_t offset;

	if (!h->image || !c->space || h->image(h->priv, c->space, ip, &im, &offset) < 0 ||
	    !elfimage_addr(im, offset, addr))
		return NULL;
	return im;
}

bool calls_unwind_leads(const struct calls *c, uint64_t back, uint64_t to)
{
	uint64_t land;
	const struct elfimage *im = back ? find_image(c, to, &land) : NULL;

	return im && leads_to(c, back, im, land);
}

#define MAX_CALLS 4096		/* that are looked at */
#define MAX_CALLS_PART 64	/* the same where any function may be meant */

uint32_t calls_unwind_find(const struct calls *c, const struct thread *t,
			  const struct func *f, uint64_t to)
{
	const struct call_frame *frames = t->pub.frames;
	bool any = f->roles & FUNC_PART;
	uint32_t max = any ? MAX_CALLS_PART : MAX_CALLS;
	uint64_t last = 0, land;
	const struct elfimage *im = find_image(c, to, &land);

	for (uint32_t i = t->pub.depth, n = 0; im && i > 1 && n < max; i--, n++) {
		uint64_t back = frames[i - 1].back;

		if (!back || back == last ||
		    (!any && !func_is_same(func_of(frames[i - 2].func), f)))
			continue;
		if (leads_to(c, back, im, land))
			return i - 1;
		last = back;
	}
	return 0;
}
