/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timelineview: what auxdecode's timeline says of a perf.data, as text, so that it
 * can be compared with what perf says of the same file.
 *
 *	timelineview FILE		each SAMPLE with a time: who runs on its CPU,
 *					pid/tid, time, ip, "comm", and what is
 *					mapped at ip
 *	timelineview FILE PID TIME	the mappings of a process at a time (ns), the
 *					kernel's behind them; PID -1: the kernel's
 *
 * Exit status: 0, 1 unreadable, 2 usage.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "decode/lib/sideband/sideband.h"

#define SHOWN 64	/* saved bytes of a mapping */

static void print_sample(const struct timeline *tl, const struct aux_event *ev)
{
	const struct space *s = timeline_space(tl, ev->id.pid, ev->id.time);
	const struct mapping *m = space_find(s, ev->sample.ip);

	if (!(ev->id.present & PERF_SAMPLE_TIME) ||
	    !(ev->id.present & PERF_SAMPLE_TID))
		return;
	if (ev->id.present & PERF_SAMPLE_CPU)
		printf("cpu %u: %d ", ev->id.cpu,
		       (int)timeline_who(tl, ev->id.cpu, ev->id.time).tid);
	printf("%d/%d %" PRIu64 " %" PRIx64 " \"%s\" %s\n",
	       timeline_pid(tl, ev->id.tid, ev->id.time), (int)ev->id.tid,
	       ev->id.time, ev->sample.ip,
	       timeline_comm(tl, ev->id.tid, ev->id.time),
	       m ? m->path : "[unknown]");
}

static void print_mapping(const struct mapping *m)
{
	static const char *const kinds[] = { "user", "kernel", "module",
					     "ksymbol" };

	printf("%" PRIx64 "-%" PRIx64 " %s pgoff %" PRIx64 " %s", m->start,
	       m->end, kinds[m->kind], m->pgoff, m->path);
	if (m->ref_name)
		printf(" %s %" PRIx64, m->ref_name, m->ref_addr);
	if (m->saved)
		printf(" bytes ");
	for (uint64_t i = 0; m->saved && i < m->end - m->start && i < SHOWN; i++)
		printf("%02x", m->saved[i]);
	printf("\n");
}

static void print_space(const struct space *s)
{
	const struct mapping *m;

	for (m = space_next(s, 0); m; m = space_next(s, m->end))
		print_mapping(m);
	for (m = space_next_kernel(s, 0); m; m = space_next_kernel(s, m->end))
		print_mapping(m);
}

int main(int argc, char **argv)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct aux_reader *r = NULL;
	struct timeline *tl = NULL;
	struct aux_event ev;
	int rc;

	if (argc != 2 && argc != 4) {
		fprintf(stderr, "usage: timelineview FILE [PID TIME]\n");
		return 2;
	}
	rc = aux_reader_open(&r, argv[1], &diag);
	if (rc == 0)
		rc = timeline_new(&tl, r, 0, &diag);
	if (rc < 0) {
		fprintf(stderr, "timelineview: %s: %s\n", argv[1], diag.text);
	} else if (argc == 4) {
		print_space(timeline_space(tl, (uint32_t)strtol(argv[2], NULL, 0),
					   strtoull(argv[3], NULL, 0)));
	} else {
		aux_reader_rewind(r);
		while (aux_reader_next(r, &ev, &diag) == 1)
			if (ev.type == PERF_RECORD_SAMPLE)
				print_sample(tl, &ev);
	}
	timeline_free(tl);
	aux_reader_close(r);
	return rc < 0;
}
