/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/* kallsyms: both look-ups, hidden addresses, and lines that are none. */
#include <stdbool.h>
#include <stdlib.h>

#include <aux/error.h>

#include "decode/lib/elf/kallsyms.h"
#include "tests/unit/tap.h"

static const char list[] =
	"ffffffff81000000 T _text\n"
	"ffffffff81000000 T startup_64\n"
	"ffffffff81000100 t local_a\n"
	"ffffffff81000140 T twice\n"
	"ffffffff81000180 T twice\n"
	"ffffffff81000200 D data_here\n"
	"ffffffff81000240 T last\n"
	"no address at all\n"
	"fffffffff81000300 T too_long\n"
	"ffffffff81000400\n"
	"ffffffff81000500 T \n"
	"ffffffffc0000000 t mod_a\t[mod]\n"
	"ffffffffc0000010 t mod_b\t[mod\n"
	"ffffffffc0000020 t bpf_prog_1234\t[bpf]\r\n"
	"0000000000000000 T hidden";

static void check_find(const struct kallsyms *k, uint64_t addr,
		       const char *name, const char *module)
{
	struct kallsyms_symbol s = { 0 };
	bool found = kallsyms_find(k, addr, &s);

	is_str(found ? s.name : NULL, name, name ? name : "nothing");
	if (name)
		ok(s.start <= addr && addr < s.end &&
		   (module ? s.module && !strcmp(s.module, module) : !s.module),
		   "where it is");
}

int main(void)
{
	static const char hidden[] = "0000000000000000 T _text\n";
	struct kallsyms *k;

	ok(kallsyms_new(&k, (const uint8_t *)hidden, sizeof(hidden) - 1) ==
	   -AUX_E_FORMAT && !k, "hidden addresses are none");
	ok(kallsyms_new(&k, NULL, 0) == -AUX_E_FORMAT && !k, "no text");
	if (!ok(kallsyms_new(&k, (const uint8_t *)list, sizeof(list) - 1) == 0,
		"a list"))
		return plan_done();
	/* of two global names the one with fewer underscores in front */
	check_find(k, 0xffffffff81000000, "startup_64", NULL);
	check_find(k, 0xffffffff81000120, "local_a", NULL);
	check_find(k, 0xffffffff81000210, NULL, NULL);
	check_find(k, 0xffffffff80ffffff, NULL, NULL);
	check_find(k, 0xffffffff81000250, "last", NULL);
	check_find(k, 0xffffffff82000250, NULL, NULL);
	check_find(k, 0xffffffffc0000008, "mod_a", "mod");
	check_find(k, 0xffffffffc0000024, "bpf_prog_1234", "bpf");
	is_u64(kallsyms_address(k, "startup_64"), 0xffffffff81000000, "by name");
	is_u64(kallsyms_address(k, "local_a"), 0, "not of a local name");
	is_u64(kallsyms_address(k, "twice"), 0, "not of two");
	is_u64(kallsyms_address(k, "last"), 0xffffffff81000240, "the last");
	is_u64(kallsyms_address(k, "zzz"), 0, "none behind all");
	kallsyms_free(k);
	kallsyms_free(NULL);
	return plan_done();
}
