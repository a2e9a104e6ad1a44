/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_info_cs: the CoreSight sources of a file: whose trace is in which AUX
 * stream, and the registers that its decoder goes by.
 */
#include <inttypes.h>

#include "common/diag.h"

#include "decode/cmd/info.h"

static const char *arch_name(uint32_t arch)
{
	static const char *const names[] = {
		[AUX_ETM_V3] = "ETMv3", [AUX_ETM_PTM] = "PTM",
		[AUX_ETM_V4] = "ETMv4", [AUX_ETM_ETE] = "ETE",
		[AUX_ETM_STM] = "STM", [AUX_ETM_ITM] = "ITM",
	};

	return arch && arch < sizeof(names) / sizeof(*names) ? names[arch] :
							       "unknown";
}

struct reg {
	const char *name;
	uint32_t value;
};

static void put_regs(struct outbuf *o, const struct reg *regs, size_t n)
{
	const char *sep = ": ";

	for (size_t i = 0; i < n; i++) {
		if (!regs[i].value && i)
			continue;
		outbuf_printf(o, "%s%s %#x", sep, regs[i].name, regs[i].value);
		sep = ", ";
	}
}

/* The first register also when it is 0. */
static void put_config(struct outbuf *o, const struct aux_etm_config *e)
{
	const struct reg v4[] = {
		{ "TRCCONFIGR", e->trcconfigr }, { "TRCIDR0", e->trcidr0 },
		{ "TRCIDR1", e->trcidr1 }, { "TRCIDR2", e->trcidr2 },
		{ "TRCIDR8", e->trcidr8 }, { "TRCDEVARCH", e->trcdevarch },
		{ "TRCAUTHSTATUS", e->trcauthstatus },
	};
	const struct reg v3[] = {
		{ "ETMCR", e->etmcr }, { "ETMIDR", e->etmidr },
		{ "ETMCCER", e->etmccer },
	};
	const struct reg sw[] = {
		{ "STMTCSR", e->stmtcsr }, { "ITMTCR", e->itmtcr },
		{ "STMFEAT1R", e->stmfeat1r }, { "STMFEAT3R", e->stmfeat3r },
		{ "STMDEVID", e->stmdevid },
	};

	if (e->arch == AUX_ETM_V4 || e->arch == AUX_ETM_ETE)
		put_regs(o, v4, sizeof(v4) / sizeof(*v4));
	else if (e->arch == AUX_ETM_V3 || e->arch == AUX_ETM_PTM)
		put_regs(o, v3, sizeof(v3) / sizeof(*v3));
	else if (e->arch == AUX_ETM_STM || e->arch == AUX_ETM_ITM)
		put_regs(o, sw, sizeof(sw) / sizeof(*sw));
	if (e->pid_in_vmid)
		outbuf_str(o, "; the VMID is the thread");
	if (e->ts_is_clock)
		outbuf_str(o, "; timestamps are of the clock");
}

static void print_source(struct info *in, size_t i)
{
	const struct chunk_source *s = &in->chunks.sources[i];
	struct outbuf *o = in->out;

	outbuf_printf(o, "  %zu: in AUX stream %u, ", i,
		      in->chunks.queues[s->queue].idx);
	if (s->id)
		outbuf_printf(o, "trace id %#x, ", s->id);
	else if (s->raw)
		outbuf_str(o, "raw, ");
	else
		outbuf_str(o, "no trace ids, ");
	if (s->cpu >= 0)
		outbuf_printf(o, "cpu %d, ", s->cpu);
	if (s->meta)
		outbuf_printf(o, "%s, ", arch_name(s->meta->etm.arch));
	outbuf_printf(o, "%" PRIu64 " byte%s", s->n_bytes,
		      s->n_bytes == 1 ? "" : "s");
	if (s->meta)
		put_config(o, &s->meta->etm);
	else if (s->n_bytes)
		outbuf_str(o, ": the file does not say whose this is");
	outbuf_str(o, "\n");
	in->n_nobodys += !s->meta && s->n_bytes;
}

int info_sources(struct info *in)
{
	struct chunks *c = &in->chunks;

	if (c->trace_type != AUX_TRACE_CS_ETM)
		return 0;
	if (c->cs_error.code) {
		outbuf_printf(in->out, "trace sources: %s\n", c->cs_error.text);
		in->bad_sources = true;
	}
	if (chunks_find_sources(c) < 0)
		return -AUX_E_NOMEM;
	if (!c->n_sources)
		return 0;
	outbuf_printf(in->out, "trace sources: %zu (--stream and the flow go by "
			       "these numbers)\n", c->n_sources);
	for (size_t i = 0; i < c->n_sources; i++)
		print_source(in, i);
	return 0;
}
