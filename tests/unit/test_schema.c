/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/* schema: rules that are right, which one fits, bits of values; and every mistake,
 * told with its line. */
#include <stdlib.h>

#include "decode/export/impl.h"
#include "tests/unit/tap.h"

static bool find_symbol_of(void *priv, uint64_t ip, const char **name,
			   uint64_t *offset)
{
	unsigned *asked = priv;

	++*asked;
	*name = ip < 0x2000 ? "main" : "f";
	*offset = ip & 0xfff;
	return ip >= 0x1000;
}

static struct aux_flow payload(unsigned what, uint64_t ip, uint64_t value)
{
	return (struct aux_flow){ .kind = AUX_FLOW_PAYLOAD,
				  .what = (uint8_t)what,
				  .flags = AUX_FLOW_HAS_IP,
				  .n = 8,
				  .payload = { .ip = ip, .value = value } };
}

static const char text[] =
	"# a comment\n"
	"\n"
	"ptwrite main+0x12 span-begin request id:8-31\t# behind a rule\n"
	"ptwrite main counter depth value:0-15:signed\r\n"
	"ptwrite 0x500 event low a:0 b:63 all:0-63\n"
	"ptwrite * event tagged tag:56-63=0x10\n"
	"ptwrite * event any\n"
	"stm 2/7 event exact\n"
	"stm */7 event channel\n"
	"itm 3 counter temp\n"
	"marker * event m";

static const char *name_of(struct schema *s, unsigned what, uint64_t ip,
			   uint64_t value)
{
	struct aux_flow ev = payload(what, ip, value);
	unsigned asked = 0;
	const struct schema_rule *r = schema_find(s, &ev, find_symbol_of,
						  &asked);

	return r ? r->name : NULL;
}

static void test_rules(struct schema *s)
{
	struct aux_flow ev = payload(AUX_PAYLOAD_PTWRITE, 0x1012, 0);
	unsigned asked = 0;

	is_str(name_of(s, 0, 0x1012, 0), "request", "a place in a function");
	is_str(name_of(s, 0, 0x1013, 0), "depth", "anywhere in a function");
	is_str(name_of(s, 0, 0x500, 0), "low", "an address");
	is_str(name_of(s, 0, 0x2012, UINT64_C(0x10) << 56), "tagged",
	       "a field that must have a value");
	is_str(name_of(s, 0, 0x2012, UINT64_C(0x11) << 56), "any",
	       "and has not");
	is_str(name_of(s, 1, AUX_STM_IP(2, 7), 0), "exact", "an STM place");
	is_str(name_of(s, 1, AUX_STM_IP(3, 7), 0), "channel", "any master");
	ok(!name_of(s, 1, AUX_STM_IP(2, 8), 0), "another channel: no rule");
	is_str(name_of(s, 2, 3, 0), "temp", "a port");
	ok(!name_of(s, 2, 4, 0), "another port: no rule");
	is_str(name_of(s, 3, 4, 0), "m", "a marker");
	ok(!schema_find(NULL, &ev, find_symbol_of, &asked), "no schema");
	ev.flags = 0;
	is_str(schema_find(s, &ev, find_symbol_of, &asked)->name, "any",
	       "without an address only rules for anywhere fit");
	is_u64(asked, 0, "and nobody is asked for a symbol");
}

static void test_values(struct schema *s)
{
	struct aux_flow ev = payload(AUX_PAYLOAD_PTWRITE, 0x500,
				     UINT64_C(0x8000000000000001));
	unsigned asked = 0;
	const struct schema_rule *r = schema_find(s, &ev, find_symbol_of,
						  &asked);
	const struct schema_field f = { .low = 4, .high = 7,
					.is_signed = true };
	const struct schema_field all = { .high = 63, .is_signed = true };

	is_u64(r->n_fields, 3, "fields");
	is_u64(schema_value(&r->fields[0], ev.payload.value), 1, "bit 0");
	is_u64(schema_value(&r->fields[1], ev.payload.value), 1, "bit 63");
	is_u64(schema_value(&r->fields[2], ev.payload.value),
	      ev.payload.value, "all bits");
	is_u64(schema_value(&f, 0x70), 7, "signed, not negative");
	is_u64(schema_value(&f, 0x80), (uint64_t)-8, "signed, negative");
	is_u64(schema_value(&all, UINT64_MAX), UINT64_MAX, "signed, 64 bits");
	ok(schema_field(r, "b") == &r->fields[1] && !schema_field(r, "c"),
	   "fields by name");
}

/* table */
static const struct {
	const char *text, *say;
} wrong[] = {
	{ "", "line 0: no rule in it" },
	{ "# nothing\n", "line 1: no rule in it" },
	{ "ptwrite *\n", "line 1: a rule is: KIND PLACE WHAT NAME [FIELD...]" },
	{ "\nptw * event x\n", "line 2: \"ptw\" is not one of ptwrite, stm, itm, "
			       "marker, ite" },
	{ "itm * thing x", "line 1: \"thing\" is not one of counter, span-begin, "
			   "span-end, event" },
	{ "itm port event x", "line 1: port is no port" },
	{ "stm 5 event x", "line 1: 5: a place of STM is MASTER/CHANNEL" },
	{ "stm 0x100000000/1 event x",
	  "line 1: 0x100000000/1: a place of STM is MASTER/CHANNEL" },
	{ "ptwrite 12x event x", "line 1: 12x is no address" },
	{ "ptwrite f+x event x", "line 1: x is no offset" },
	{ "itm 1 event x a", "line 1: a is no field: name:LOW-HIGH" },
	{ "itm 1 event x :1", "line 1: :1 is no field: name:LOW-HIGH" },
	{ "itm 1 event x a=1:2", "line 1: a is no field: name:LOW-HIGH" },
	{ "itm 1 event x a:0-64",
	  "line 1: field a: bits are LOW-HIGH, from 0 to 63" },
	{ "itm 1 event x a:9-8",
	  "line 1: field a: bits are LOW-HIGH, from 0 to 63" },
	{ "itm 1 event x a:-1",
	  "line 1: field a: bits are LOW-HIGH, from 0 to 63" },
	{ "itm 1 event x a:1:big", "line 1: field a: \"big\" is not \"signed\"" },
	{ "itm 1 event x a:1=y", "line 1: field a: \"y\" is no number" },
	{ "itm 1 event x a:1 b:1 c:1 d:1 e:1 f:1 g:1 h:1 i:1 j:1 k:1 l:1 m:1 "
	  "n:1 o:1 p:1 q:1", "line 1: more than 16 fields" },
};

static void test_wrong(void)
{
	struct aux_diag diag;
	struct schema *s;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char want[200];

		memset(&diag, 0, sizeof(diag));
		snprintf(want, sizeof(want), "S, %s", wrong[i].say);
		if (!ok(schema_parse(&s, wrong[i].text, strlen(wrong[i].text),
				     "S", &diag) == -AUX_E_INVAL && !s,
			"refused: %s", wrong[i].say))
			schema_free(s);
		is_str(diag.text, want, "and told so");
	}
	ok(schema_parse(&s, "itm 1 event x\n\0y", 16, "S", &diag) ==
		   -AUX_E_INVAL, "a NUL byte is refused");
	ok(schema_load(&s, "/nonexistent/schema", &diag) == -AUX_E_INVAL,
	   "so is a file that is not there");
	ok(strstr(diag.text, "/nonexistent/schema"), "by its name");
}

int main(void)
{
	struct aux_diag diag = { 0 };
	struct schema *s;

	if (ok(!schema_parse(&s, text, strlen(text), "S", &diag), "parsed: %s",
	       diag.text)) {
		test_rules(s);
		test_values(s);
		schema_free(s);
	}
	test_wrong();
	return plan_done();
}
