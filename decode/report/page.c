/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_report_page: the parts of the page, as they lie in report*.html, .css and .js,
 * put into the program by the assembler. Paths are from the project's root, where the
 * compiler runs; the Makefile says that this file depends on them.
 */
#include <stddef.h>

#include "decode/report/report.h"

#define PART(name, file)						\
	__asm__(".pushsection .rodata\n"				\
		".globl report_part_" #name "\n"			\
		".hidden report_part_" #name "\n"			\
		"report_part_" #name ":\n"				\
		".incbin \"decode/report/web/" file "\"\n"				\
		".globl report_part_" #name "_end\n"			\
		".hidden report_part_" #name "_end\n"			\
		"report_part_" #name "_end:\n"				\
		".byte 0\n"						\
		".popsection\n");					\
	extern const char report_part_##name[], report_part_##name##_end[]

#define GET(name)							\
	((struct report_part){ report_part_##name,			\
		(size_t)(report_part_##name##_end - report_part_##name) })

PART(html, "report.html");
PART(css, "report.css");
PART(data, "data.js");
PART(view, "view.js");
PART(chart, "chart.js");
PART(draw, "draw.js");
PART(detail, "detail.js");
PART(flame, "flame.js");
PART(table, "table.js");
PART(main, "report.js");

struct report_part report_page_html(void)
{
	return GET(html);
}

struct report_part report_page_css(void)
{
	return GET(css);
}

struct report_part report_page_js(unsigned i)
{
	const struct report_part parts[] = {
		GET(data), GET(view), GET(chart), GET(draw),
		GET(detail), GET(flame), GET(table), GET(main),
	};

	return i < sizeof(parts) / sizeof(parts[0]) ?
		       parts[i] :
		       (struct report_part){ NULL, 0 };
}
