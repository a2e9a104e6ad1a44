/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etm: headers of packets: what comes behind, and the atoms of those that have
 * some. Arm IHI 0064, "Trace protocol descriptions"; DDI 0487, "ETE protocol".
 */
#include "decode/lib/etm/engine.h"

static uint32_t get_atoms(uint8_t h)
{
	static const uint8_t four[4] = { 0x0e, 0x00, 0x0a, 0x05 };
	uint32_t n, bits;

	if (h >= 0xf8) {
		n = 3;
		bits = h & 7;
	} else if (h >= 0xf6) {
		n = 1;
		bits = h & 1;
	} else if (h >= 0xd8 && h <= 0xdb) {
		n = 2;
		bits = h & 3;
	} else if (h >= 0xdc && h <= 0xdf) {
		n = 4;
		bits = four[h & 3];
	} else if (h == 0xf5 || (h >= 0xd5 && h <= 0xd7)) {
		n = 5;
		bits = h == 0xf5 ? 0x1e : h == 0xd5 ? 0 : h == 0xd6 ? 0x0a :
								      0x15;
	} else {
		n = (h & 0x1f) + 4u;
		bits = (UINT32_C(1) << (n - 1)) - 1;
		if (!(h & 0x20))
			bits |= UINT32_C(1) << (n - 1);
	}
	return n << ETM_ATOM_BITS | bits;
}

static void set_classes(struct etm *d, unsigned from, unsigned to,
			enum etm_class class)
{
	for (unsigned i = from; i <= to; i++)
		d->class[i] = (uint8_t)class;
}

static void set_addresses(struct etm *d)
{
	static const struct { uint8_t from, to, class; } all[] = {
		{ 0x82, 0x83, ETM_LONG32 }, { 0x85, 0x86, ETM_LONG64 },
		{ 0x90, 0x92, ETM_MATCH }, { 0x95, 0x96, ETM_SHORT },
		{ 0x9a, 0x9b, ETM_LONG32 }, { 0x9d, 0x9e, ETM_LONG64 },
		{ 0xb0, 0xb2, ETM_MATCH }, { 0xb4, 0xb5, ETM_SHORT },
		{ 0xb6, 0xb7, ETM_LONG32 }, { 0xb8, 0xb9, ETM_LONG64 },
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (d->ete || all[i].from < 0xb0)
			set_classes(d, all[i].from, all[i].to,
				    (enum etm_class)all[i].class);
}

void etm_fill_classes(struct etm *d)
{
	set_classes(d, 0x00, 0x07, ETM_OTHER);
	set_classes(d, 0x05, 0x05, ETM_BAD);
	if (d->ete) {
		set_classes(d, 0x07, 0x07, ETM_BAD);
		set_classes(d, 0x0a, 0x0b, ETM_UNSUPPORTED);
		set_classes(d, 0x88, 0x88, ETM_OTHER);
	}
	set_classes(d, 0x0c, 0x1f, ETM_OTHER);
	set_classes(d, 0x2d, 0x3f, ETM_OTHER);
	if (d->version >= 0x43)
		set_classes(d, 0x70, 0x70, ETM_OTHER);
	set_classes(d, 0x71, 0x7f, ETM_OTHER);
	set_classes(d, 0x80, 0x81, ETM_OTHER);
	if (d->version >= 0x46 && !d->ete)
		set_classes(d, 0x88, 0x88, ETM_UNSUPPORTED);
	set_addresses(d);
	if (d->config->etm.trcidr0 >> 15 & 3)
		for (unsigned i = 0xa0; i < 0xb0; i++)
			if (0x9c67 >> (i & 0xf) & 1)
				d->class[i] = ETM_UNSUPPORTED;
	set_classes(d, 0xc0, 0xff, ETM_ATOMS);
	for (unsigned i = 0; i < 64; i++)
		d->atoms[i] = get_atoms((uint8_t)(0xc0 + i));
}
