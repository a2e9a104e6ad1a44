/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lines of what is no instruction, see columns.h: values that the program
 * wrote, and where flow is missing, and why. They begin with "# ptwrite" or "#
 * gap", whatever the columns are, so that a program can tell them from
 * instructions. The reason is the host's explanation of a missing file, or the
 * text of the cause.
 */
#include "common/clean.h"
#include "decode/sink/columns.h"
#include "decode/lib/trace/gap.h"
#include "common/outbuf.h"

/* "# gap CAUSE at offset 0x.. after 0x..: " */
static void print_gap_start(struct outbuf *out, unsigned cause, uint64_t offset,
			    uint64_t after)
{
	outbuf_printf(out, "# gap %s at offset 0x%llx ", gap_name(cause),
		      (unsigned long long)offset);
	if (after)
		outbuf_printf(out, "after 0x%llx: ", (unsigned long long)after);
	else
		outbuf_str(out, "after nothing: ");
}

static void print_gap_end(struct outbuf *out, const struct flow_ctx *ctx)
{
	outbuf_printf(out, " (stream %u", ctx->stream);
	if (ctx->cpu >= 0)
		outbuf_printf(out, ", cpu %d", ctx->cpu);
	outbuf_printf(out, ", tid %d)\n", (int32_t)ctx->tid);
}

void print_gap(struct outbuf *out, const struct sink_host *host,
	       const struct flow_ctx *ctx, const struct aux_flow *ev,
	       uint64_t after)
{
	bool has_ip = ev->flags & AUX_FLOW_HAS_IP;
	char why[512] = "";

	print_gap_start(out, ev->what, ev->offset, after);
	if (ev->what == AUX_GAP_NO_CODE && has_ip && host->explain &&
	    ctx->space)
		host->explain(host->priv, ctx->space, ev->gap.ip, why,
			      sizeof(why));
	if (why[0])
		outbuf_clean(out, why);
	else
		outbuf_str(out, sink_gap_text(host, ev->what));
	if (ev->what == GAP_UNKNOWN_ID && ev->gap.detail)
		outbuf_printf(out, "; trace id 0x%llx",
			      (unsigned long long)ev->gap.detail);
	if (ev->what == AUX_GAP_OVERFLOW && has_ip)
		outbuf_printf(out, "; goes on at 0x%llx",
			      (unsigned long long)ev->gap.ip);
	else if (has_ip && ev->gap.ip && ev->gap.ip != after && !why[0])
		outbuf_printf(out, "; at 0x%llx",
			      (unsigned long long)ev->gap.ip);
	print_gap_end(out, ctx);
}

void print_mismatch(struct outbuf *out, const struct sink_host *host,
		    const struct flow_ctx *ctx, const struct aux_flow *ev,
		    int err)
{
	char why[512] = "";

	print_gap_start(out,
			err == -AUX_E_NOENT ? AUX_GAP_NO_CODE : AUX_GAP_DESYNC,
			ev->offset, 0);
	outbuf_printf(out,
		      "%u instructions from 0x%llx to 0x%llx do not fit the "
		      "code there and are not shown",
		      ev->n, (unsigned long long)ev->range.first,
		      (unsigned long long)ev->range.last);
	if (err == -AUX_E_NOENT && host->explain && ctx->space)
		host->explain(host->priv, ctx->space, ev->range.first, why,
			      sizeof(why));
	if (why[0]) {
		outbuf_str(out, ": ");
		outbuf_clean(out, why);
	}
	print_gap_end(out, ctx);
}

/* Where a value comes from: an address, or the channel of a trace source. */
static void print_source(struct outbuf *out, const struct sink_host *host,
			 const struct flow_ctx *ctx, const struct aux_flow *ev)
{
	static const struct columns aligned = { .aligned = true };
	struct symbol sym;

	if (ev->what == AUX_PAYLOAD_ITE) {
		outbuf_printf(out, " el%u", (unsigned)ev->payload.ip & 3);
	} else if (ev->what == AUX_PAYLOAD_ITM) {
		outbuf_printf(out, " at port %llu",
			      (unsigned long long)ev->payload.ip);
	} else if (ev->what != AUX_PAYLOAD_PTWRITE) {
		outbuf_printf(out, " at master %u channel %u",
			      (unsigned)(ev->payload.ip >> 32),
			      (unsigned)ev->payload.ip);
	} else if (ev->flags & AUX_FLOW_HAS_IP) {
		outbuf_printf(out, " at 0x%llx ",
			      (unsigned long long)ev->payload.ip);
		find_symbol(host, ctx->space, ev->payload.ip, &sym);
		column_symbol(&aligned, out, host, &sym, ev->payload.ip);
	}
}

void print_payload(struct outbuf *out, const struct sink_host *host,
		   const struct flow_ctx *ctx, uint64_t ns,
		   const struct aux_flow *ev)
{
	static const char *const names[] = {
		[AUX_PAYLOAD_PTWRITE] = "ptwrite", [AUX_PAYLOAD_STM] = "stm",
		[AUX_PAYLOAD_ITM] = "itm", [AUX_PAYLOAD_MARKER] = "marker",
		[AUX_PAYLOAD_ITE] = "ite",
	};
	static const struct columns aligned = { .aligned = true };
	struct flow_ctx at = *ctx;

	at.time_ns = ns;
	outbuf_printf(out, "# %s 0x%llx",
		      ev->what < sizeof(names) / sizeof(names[0]) ?
			      names[ev->what] : "payload",
		      (unsigned long long)ev->payload.value);
	print_source(out, host, ctx, ev);
	outbuf_str(out, " (");
	if (ctx->cpu >= 0)
		outbuf_printf(out, "cpu %d, ", ctx->cpu);
	outbuf_str(out, "pid/tid ");
	column_ctx(&aligned, out, COL_WHO, &at, host, ev->offset);
	outbuf_str(out, ", at ");
	column_ctx(&aligned, out, COL_TIME, &at, host, ev->offset);
	outbuf_str(out, ")\n");
}
