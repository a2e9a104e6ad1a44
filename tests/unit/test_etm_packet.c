/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: OPENCSD */
/* links: decode */
/*
 * etmpkt: packets of every type, of any bytes and for every kind of source end where
 * those of OpenCSD's packet processor do, and their text has what its printer prints,
 * field by field. What is no packet is none for both.
 *
 * The printer does not show numbers of events, commits of cycle counts, and the fields
 * of conditional instructions; these are compared with the packets themselves, which
 * only ETMv4 gives to a caller in C.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <opencsd/c_api/opencsd_c_api.h>

#include "decode/lib/packet/packet.h"
#include "tests/unit/tap.h"
#include "tests/unit/xorshift.h"

#define N_BYTES 64
#define N_TRACES 100
#define N_SOURCES 150
#define N_MAX 200

struct theirs {
	size_t at;
	char text[500];
	ocsd_etmv4_i_pkt p;
};

static uint64_t rng = 88172645463325252;
static uint8_t trace[128 + 16];	/* zeros after the end, so that fields can be looked at */
static size_t n_trace;
static struct theirs theirs[N_MAX];
static size_t n_theirs;
static bool is_ete;
static unsigned n_compared, seen[256], n_none;

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)(next_random(&rng) >> 32) % n;
}

/* ---- OpenCSD's ---- */

static void take_line(const void *ctx, const char *line, const int len)
{
	struct theirs *t = &theirs[n_theirs];
	int n = 0;

	(void)ctx;
	(void)len;
	if (n_theirs == N_MAX || sscanf(line, "Idx:%zu; ID:0; %n", &t->at, &n) < 1 ||
	    !n)
		return;
	snprintf(t->text, sizeof(t->text), "%s", line + n);
	t->text[strcspn(t->text, "\n")] = '\0';
	n_theirs++;
}

static ocsd_datapath_resp_t take_packet(const void *ctx, const ocsd_datapath_op_t op,
					const ocsd_trc_index_t index,
					const void *packet)
{
	struct theirs *t = &theirs[n_theirs];

	(void)ctx;
	if (op != OCSD_OP_DATA || n_theirs == N_MAX)
		return OCSD_RESP_CONT;
	t->at = (size_t)index;
	t->p = *(const ocsd_etmv4_i_pkt *)packet;
	ocsd_pkt_str(OCSD_PROTOCOL_ETMV4I, &t->p, t->text, sizeof(t->text));
	n_theirs++;
	return OCSD_RESP_CONT;
}

static dcd_tree_handle_t open_theirs(const struct aux_etm_config *e)
{
	dcd_tree_handle_t t = ocsd_create_dcd_tree(OCSD_TRC_SRC_SINGLE, 0);
	const ocsd_etmv4_cfg v4 = {
		.reg_idr0 = e->trcidr0, .reg_idr1 = e->trcidr1,
		.reg_idr2 = e->trcidr2, .reg_idr8 = e->trcidr8,
		.reg_configr = e->trcconfigr, .arch_ver = ARCH_V8,
		.core_prof = e->core_profile == 'M' ? profile_CortexM :
						      profile_CortexA,
	};
	const ocsd_ete_cfg ete = {
		.reg_idr0 = e->trcidr0, .reg_idr1 = e->trcidr1,
		.reg_idr2 = e->trcidr2, .reg_idr8 = e->trcidr8,
		.reg_configr = e->trcconfigr, .reg_devarch = e->trcdevarch,
		.arch_ver = ARCH_AA64, .core_prof = profile_CortexA,
	};
	unsigned char id;

	if (ocsd_dt_create_decoder(t, is_ete ? OCSD_BUILTIN_DCD_ETE :
					       OCSD_BUILTIN_DCD_ETMV4I,
				   OCSD_CREATE_FLG_PACKET_PROC,
				   is_ete ? (const void *)&ete : &v4, &id) ||
	    (is_ete ? ocsd_def_errlog_set_strprint_cb(t, NULL, take_line) ||
			      ocsd_dt_set_pkt_protocol_printer(t, id, 0) :
		      ocsd_dt_attach_packet_callback(t, id, OCSD_C_API_CB_PKT_SINK,
						     (void *)take_packet, NULL)))
		abort();
	return t;
}

/* Theirs, up to what is no packet. */
static bool is_packet(const struct theirs *t)
{
	return strncmp(t->text, "I_NOT_SYNC", 10) && strncmp(t->text, "I_RESERVED", 10) &&
	       strncmp(t->text, "I_BAD", 5) && strncmp(t->text, "I_INCOMPLETE", 12);
}

static void run_theirs(dcd_tree_handle_t t)
{
	uint32_t done = 0;

	n_theirs = 0;
	ocsd_dt_process_data(t, OCSD_OP_RESET, 0, 0, NULL, NULL);
	ocsd_dt_process_data(t, OCSD_OP_DATA, 0, (uint32_t)n_trace, trace, &done);
	ocsd_dt_process_data(t, OCSD_OP_EOT, 0, 0, NULL, NULL);
}

/* ---- their text as ours ---- */

static void add(char *to, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void add(char *to, const char *format, ...)
{
	size_t n = strlen(to);
	va_list ap;

	va_start(ap, format);
	vsnprintf(to + n, ETMPKT_TEXT - n, format, ap);
	va_end(ap);
}

static bool number(const char *text, const char *key, int base, uint64_t *v)
{
	const char *at = strstr(text, key);

	*v = at ? strtoull(at + strlen(key), NULL, base) : 0;
	return at;
}

static void add_number(char *to, const char *text, const char *key, int base,
		       const char *format)
{
	uint64_t v;

	if (number(text, key, base, &v)) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		add(to, format, v);
#pragma GCC diagnostic pop
	}
}

static void add_context(char *to, const char *text)
{
	const char *at = strstr(text, "Ctxt: AArch");
	uint64_t el;

	if (!at)
		return;
	number(at, "EL", 10, &el);
	add(to, " aarch%.2s el%u %s", at + 11, (unsigned)el,
	    strstr(at, " NS;") || strstr(at, " Realm;") ? "ns" : "s");
	add_number(to, at, "VMID=", 16, " vmid 0x%" PRIx64);
	add_number(to, at, "CID=", 16, " cid 0x%" PRIx64);
}

static void add_address(char *to, const char *text)
{
	const char *match = strchr(text, '[');

	if (match && match[-1] == ' ' && match[-2] != '~')
		add(to, " %.3s", match);
	add_number(to, text, "Addr=", 16, " 0x%" PRIx64);
	add_context(to, text);
}

/* "Inst Debug" is inst-debug. */
static void add_exception(char *to, const struct theirs *t, bool m)
{
	const char *name = strchr(t->text, ';');
	uint8_t a = trace[t->at + 1], b = a & 0x80 ? trace[t->at + 2] : 0;

	add(to, " %u", (a >> 1 & 0x1f) | (b & 0x1fu) << 5);
	if (name && strncmp(name += 3, "Reserved", 8)) {
		char s[32] = "", *p = s;

		for (; *name != ';' && p < s + sizeof(s) - 2; name++) {
			if (p > s && (*name == ' ' || (isupper(*name) && islower(name[-1]))))
				*p++ = '-';
			if (*name != ' ')
				*p++ = (char)tolower(*name);
		}
		*p = '\0';
		add(to, " %s", !strcmp(s, "pe-reset") ? "reset" :
		    !strcmp(s, "lazy-fp-push") ? "lazy-fp" : s);
	}
	if (m && strstr(t->text, "Fault Pending"))
		add(to, " fault-pending");
	if (strstr(t->text, "Ret Addr Follows"))
		add(to, strstr(t->text, "Match Prev") ? " ret-addr branch-target" :
							" ret-addr");
	else if (a & 0x41)
		add(to, " reserved-addr");
}

static void add_trace_info(char *to, const struct theirs *t)
{
	uint8_t sections = trace[t->at + 1];

	if (sections & 1)
		add_number(to, t->text, "INFO=", 16, " info 0x%" PRIx64);
	if (sections & 2 && !is_ete)
		add(to, " key 0x%x", t->p.p0_key);
	if (sections & 4 && !is_ete)
		add(to, " spec 0x%x", t->p.curr_spec_depth);
	if (sections & 8 && !is_ete)
		add(to, " threshold 0x%x", t->p.cc_threshold);
	else if (sections & 8)
		add_number(to, t->text, "CC_THRESHOLD=", 16, " threshold 0x%" PRIx64);
}

static void add_conditional(char *to, const struct theirs *t)
{
	const ocsd_etmv4_i_pkt *p = &t->p;
	uint8_t h = trace[t->at];

	if (h <= 0x42)
		add(to, " %u%s", p->cond_instr.num_c_elem,
		    p->cond_instr.f2_cond_incr ? " key +1" : "");
	else if (h >= 0x44 && h <= 0x46)
		add(to, " %u", p->cond_result.f2f4_token);
	else if (h >= 0x48 && h < 0x50)
		add(to, " token %u key +%u", p->cond_result.f2f4_token,
		    p->cond_result.f2_key_incr);
	else if (h >= 0x50 && h < 0x60)
		add(to, " 0x%x", p->cond_result.f3_tokens);
	else if (h == 0x6d)
		add(to, " %u%s", p->cond_instr.num_c_elem,
		    p->cond_instr.f3_final_elem ? " last" : "");
	else if (h >= 0x68 && h != 0x6c)
		add(to, " result 0x%x key 0x%x%s", p->cond_result.res_0,
		    p->cond_result.cond_r_key_0, p->cond_result.ci_0 ? " ci" : "");
	if (h >= 0x68 && h < 0x6c)
		add(to, " result 0x%x key 0x%x%s", p->cond_result.res_1,
		    p->cond_result.cond_r_key_1, p->cond_result.ci_1 ? " ci" : "");
}

static void add_speculation(char *to, const struct theirs *t)
{
	const char *atoms = strstr(t->text, "Atom: ");
	uint8_t h = trace[t->at];

	if (atoms)
		add(to, " %.*s", (int)strcspn(atoms + 6, ","), atoms + 6);
	if (h == 0x2d)
		add_number(to, t->text, "Commit(", 10, " %" PRIu64);
	else if (h < 0x34 ? h < 0x30 : h > 0x37)
		add_number(to, t->text, "Cancel(", 10, " %" PRIu64);
}

static void add_q(char *to, const struct theirs *t)
{
	add_address(to, t->text);
	if (!strstr(t->text, "Count(Unknown)"))
		add_number(to, t->text, "Count(", 10, " count %" PRIu64);
}

/* What the text of etmpkt is by theirs. */
static void translate(char *to, const struct theirs *t, bool m)
{
	uint8_t h = trace[t->at];

	snprintf(to, ETMPKT_TEXT, "%.*s", (int)strcspn(t->text, " "), t->text);
	if (!strncmp(to, "I_SCR", 5))	/* a slip of theirs */
		memcpy(to, "I_SRC", 5);
	if (h >= 0xc0)
		add(to, " %s", strchr(t->text, ';') + 2);
	else if (h >= 0xa0 && h < 0xb0)
		add_q(to, t);
	else if (h >= 0x80)
		add_address(to, t->text);
	else if (h > 0x70)
		add(to, " 0x%x", is_ete ? h & 0xfu : t->p.event_val);
	else if (h >= 0x40 && h < 0x70)
		add_conditional(to, t);
	else if (h >= 0x2d)
		add_speculation(to, t);
	else if (h == 0x06 && strncmp(to, "I_TRANS", 7) && strncmp(to, "I_PE", 4))
		add_exception(to, t, m);
	else if (h == 0x0f)
		add(to, " unknown");
	else if (h >= 0x0c)
		add_number(to, t->text, "Count=", 16, " 0x%" PRIx64);
	else if (h == 0x01)
		add_trace_info(to, t);
	add_number(to, t->text, "Updated val = ", 16, " 0x%" PRIx64);
	if (h == 0x03)
		add_number(to, t->text, "CC=", 16, " cc 0x%" PRIx64);
}

/* ---- comparing ---- */

/* Without what theirs does not show: the window of Trace Info; of ETE, key and depth,
 * and commits of cycle counts. */
static void leave_out(char *text, const char *key)
{
	char *at = strstr(text, key), *end;

	if (!at)
		return;
	end = at + strlen(key);
	end += strcspn(end, " ");
	memmove(at, end, strlen(end) + 1);
}

static void replace(char *text, const char *from, const char *to)
{
	char *at = strstr(text, from);

	if (!at)
		return;
	memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
	memcpy(at, to, strlen(to));
}

static bool is_alike(const char *ours, const struct theirs *t,
		     const struct aux_etm_config *e)
{
	char got[ETMPKT_TEXT], want[ETMPKT_TEXT];
	uint8_t h = trace[t->at];

	snprintf(got, sizeof(got), "%s", ours);
	translate(want, t, e->core_profile == 'M');
	leave_out(got, " window ");
	replace(got, " root", " s");	/* they know no realms */
	replace(got, " realm", " ns");
	if (is_ete && h == 1) {
		leave_out(got, " key ");
		leave_out(got, " spec ");
		if (!strstr(want, "threshold"))	/* not shown where cycles are off */
			leave_out(got, " threshold ");
	}
	if (h == 0x6c)	/* OpenCSD reads it, and forgets it */
		leave_out(got, " key ");
	if (h >= 0x0c && h < 0x20 && !(e->trcidr0 >> 29 & 1)) {
		/* of format 2 they take a bit of the count for one of the header */
		if (!is_ete && (h < 0x0c || h > 0x0d) &&
		    t->p.pkt_valid.bits.commit_elem_valid)
			add(want, " commit %u", t->p.commit_elements);
		else
			leave_out(got, " commit ");
	}
	if (!strcmp(got, want))
		return true;
	printf("# at %zu of %s: ours \"%s\", theirs \"%s\": \"%s\"\n# ", t->at,
	       is_ete ? "ETE" : "ETMv4", got, want, t->text);
	for (size_t i = t->at; i < t->at + 12; i++)
		printf("%02x ", trace[i]);
	printf("\n");
	return false;
}

static bool compare(const struct aux_etm_config *e)
{
	char text[ETMPKT_TEXT];
	struct etmpkt s;
	size_t at = 0, i = 0;

	etmpkt_init(&s, e);
	for (;; i++) {
		int n = at < n_trace ? etmpkt_next(&s, trace + at, n_trace - at, text) :
				       0;
		bool more = i < n_theirs && is_packet(&theirs[i]);

		if (n <= 0 && !more) {
			n_none += n < 0;
			return true;
		}
		if (n <= 0 || !more || theirs[i].at != at) {
			printf("# byte %02x at %zu of %s: ours \"%s\", theirs \"%s\" at %zu\n",
			       trace[at], at, is_ete ? "ETE" : "ETMv4",
			       n > 0 ? text : "", i < n_theirs ? theirs[i].text : "",
			       i < n_theirs ? theirs[i].at : 0);
			return false;
		}
		if (!is_alike(text, &theirs[i], e))
			return false;
		seen[trace[at]]++;
		n_compared++;
		at += (size_t)n;
	}
}

/* ---- traces ---- */

static void put(uint8_t b)
{
	trace[n_trace++] = b;
}

/* The longest that a field of this packet may be: n bytes. What is longer has no
 * meaning, nor a length. */
static void put_long(uint8_t header, unsigned n, uint8_t last)
{
	put(header);
	if (header == 0x01)
		put(0x08);
	while (--n)
		put((uint8_t)(0x80 | rnd(128)));
	put((uint8_t)rnd(last + 1u));
}

/* Three addresses and a context first, so that the bits which packets leave out are
 * known. No field of what is random is longer than three bytes. */
static void make_trace(void)
{
	static const uint8_t start[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80,
					 0x01, 0x00, 0x81, 0x11 };

	memset(trace, 0, sizeof(trace));
	memcpy(trace, start, sizeof(start));
	n_trace = sizeof(start);
	for (unsigned i = 0; i < 3; i++) {
		put(0x9d);
		for (unsigned k = 0; k < 8; k++)
			put((uint8_t)rnd(256));
	}
	switch (rnd(16)) {
	case 0:
		put_long(0x02, 9, 255);
		break;
	case 1:
		put_long(0x2d, 5, 15);
		break;
	case 2:
		put_long(0x2e, 5, 15);
		break;
	case 3:
		put_long(0x01, 5, 15);
		break;
	}
	for (unsigned i = 0; i < N_BYTES; i++) {
		bool two = trace[n_trace - 1] & trace[n_trace - 2] & 0x80;

		put((uint8_t)rnd(two ? 128 : 256));
	}
}

/* Registers that a source can have: TRCCONFIGR has nothing that TRCIDR0 does not
 * offer. */
static struct aux_etm_config make_source(void)
{
	static const uint32_t sizes[] = { 0x488, 0x484, 0x888, 0x1088 };
	struct aux_etm_config e = { .arch = is_ete ? AUX_ETM_ETE : AUX_ETM_V4 };

	e.core_version = 8;
	e.core_profile = is_ete || rnd(3) ? 'A' : 'M';
	e.trcidr0 = 0x08000ea1 | rnd(2) << 29 | rnd(4) << 15;
	e.trcidr1 = 0x4100f400 | rnd(7) << 4;
	/* ETMv4.0 has VMIDs of 8 bits */
	e.trcidr2 = e.trcidr1 >> 4 & 0xf ? sizes[rnd(4)] : 0x488;
	e.trcidr8 = rnd(2) ? rnd(64) : 0;
	e.trcconfigr = 0xd9;
	if (!is_ete && rnd(2)) {
		e.trcidr0 |= 0x40;
		e.trcconfigr |= (1 + rnd(3)) << 8;
	}
	/* without instrumentation packets, which are younger than OpenCSD 1.3 */
	e.trcdevarch = 0x47705a13 | rnd(3) << 16;
	return e;
}

static void compare_sources(const char *name)
{
	bool alike = true;

	memset(seen, 0, sizeof(seen));
	n_compared = n_none = 0;
	for (unsigned i = 0; alike && i < N_SOURCES; i++) {
		struct aux_etm_config e = make_source();
		dcd_tree_handle_t t = open_theirs(&e);

		for (unsigned k = 0; alike && k < N_TRACES; k++) {
			make_trace();
			run_theirs(t);
			alike = compare(&e);
		}
		ocsd_destroy_dcd_tree(t);
	}
	ok(alike, "%s: %u packets as OpenCSD prints them, and what is none for both", name,
	   n_compared);
	ok(n_none > N_TRACES, "%s: there were such: %u", name, n_none);
}

/* The headers of all types. */
static void has_all(const char *name)
{
	unsigned n = 0;

	for (unsigned h = 0; h < 256; h++) {
		bool is_type = h <= 4 || h == 6 || (h >= 0x0c && h <= 0x1f) ||
			       (h >= 0x2d && h <= 0x3f) || (h >= 0x70 && h <= 0x83) ||
			       h == 0x85 || h == 0x86 || (h >= 0x90 && h <= 0x92) ||
			       h == 0x95 || h == 0x96 || h == 0x9a || h == 0x9b ||
			       h == 0x9d || h == 0x9e || h >= 0xc0 ||
			       (h >= 0xa0 && h <= 0xaf && 0x9c67 >> (h & 15) & 1);

		is_type |= is_ete ? h == 0x0a || h == 0x0b || h == 0x88 ||
					    (h >= 0xb0 && h <= 0xb9 && h != 0xb3) :
				    h == 5 || h == 7 ||
				    (h >= 0x40 && h <= 0x5f && h % 16 != 7 &&
				     h != 0x4b && h != 0x4f) ||
				    (h >= 0x68 && h <= 0x6f);
		if (is_type && !seen[h]) {
			printf("# none with header %02x\n", h);
			n++;
		}
	}
	ok(!n, "%s: every type was there", name);
}

int main(void)
{
	ocsd_def_errlog_init(OCSD_ERR_SEV_NONE, 1);
	ocsd_def_errlog_config_output(C_API_MSGLOGOUT_FLG_NONE, NULL);
	for (is_ete = false;; is_ete = true) {
		compare_sources(is_ete ? "ETE" : "ETMv4");
		has_all(is_ete ? "ETE" : "ETMv4");
		if (is_ete)
			break;
	}
	return plan_done();
}
