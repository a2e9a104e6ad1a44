/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Just enough of OpenCSD's snapshot directories to decode the recorded ones: keys
 * like `X`, `X(0x004)`, `X(id:0x4)`; `offset` and `length` are optional.
 */
#ifndef TESTS_UNIT_OPENCSD_SNAPSHOT_H
#define TESTS_UNIT_OPENCSD_SNAPSHOT_H

#include "decode/lib/packet/packet.h"
#include "tests/unit/opencsd_fixture.h"
#include "tests/unit/tap.h"

#define N_SOURCES 16

struct source {
	char name[64];
	struct aux_etm_config etm;
};

struct snapshot {
	char dir[512];
	char *trace;		/* text of the file with the buffers */
	struct area areas[N_AREAS];
	uint8_t *loaded[N_AREAS];
	unsigned n_areas;
	struct source sources[N_SOURCES];
	unsigned n_sources;
};

static uint8_t *load_file(const char *dir, const char *name, size_t *n)
{
	char path[1024];
	uint8_t *b = NULL;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	*n = 0;
	if (!f)
		return NULL;
	fseek(f, 0, SEEK_END);
	*n = (size_t)ftell(f);
	rewind(f);
	b = calloc(1, *n + 1);
	if (b && fread(b, 1, *n, f) != *n)
		abort();
	fclose(f);
	return b;
}

/* cases.tsv of the corpus; NULL, and the test skipped: it is not here. */
static char *load_cases(const char **corpus)
{
	char *cases;
	size_t n;

	*corpus = getenv("AUXKIT_CORPUS");
	if (!*corpus)
		*corpus = "../shared/corpus";
	cases = (char *)load_file(*corpus, "cases.tsv", &n);
	if (!cases)
		skip("corpus: not here (set AUXKIT_CORPUS)");
	return cases;
}

/*
 * The value of key in the nth section whose name begins so; NULL key: is there
 * one? Returns a buffer that the next call overwrites, or NULL.
 */
static const char *ini_get(const char *text, const char *section, unsigned nth,
			   const char *key)
{
	static char value[256];
	char line[256], sec[64], k[64];
	bool in = false;

	for (; text && *text; text = strchr(text, '\n') ?
					     strchr(text, '\n') + 1 : NULL) {
		snprintf(line, sizeof(line), "%.*s",
			 (int)strcspn(text, "\r\n;#"), text);
		if (sscanf(line, " [%63[^]]]", sec) == 1) {
			in = !strncmp(sec, section, strlen(section)) && !nth--;
			if (in && !key)
				return "";
		} else if (in && sscanf(line, " %63[^=( ]%*[^=]= %255s", k,
					value) != 2 &&
			   sscanf(line, " %63[^=( ]=%255s", k, value) != 2) {
			continue;
		} else if (in && !strcmp(k, key)) {
			return value;
		}
	}
	return NULL;
}

static uint64_t ini_number(const char *text, const char *section, unsigned nth,
			   const char *key)
{
	const char *v = ini_get(text, section, nth, key);

	return v ? strtoull(v, NULL, 0) : 0;
}

static void add_dumps(struct snapshot *s, const char *ini)
{
	for (unsigned i = 0; ini_get(ini, "dump", i, NULL); i++) {
		uint64_t start = ini_number(ini, "dump", i, "address");
		uint64_t offset = ini_number(ini, "dump", i, "offset");
		uint64_t len = ini_number(ini, "dump", i, "length");
		const char *name = ini_get(ini, "dump", i, "file");
		size_t n;
		uint8_t *b = name ? load_file(s->dir, name, &n) : NULL;

		if (!b || offset >= n || s->n_areas == N_AREAS) {
			free(b);
			continue;
		}
		if (!len || len > n - offset)
			len = n - offset;
		s->loaded[s->n_areas] = b;
		s->areas[s->n_areas++] = (struct area){ start, start + len,
							b + offset };
	}
}

static void add_source(struct snapshot *s, const char *ini)
{
	static const struct { const char *type; unsigned arch; } archs[] = {
		{ "ETM3", AUX_ETM_V3 }, { "PTM", AUX_ETM_PTM },
		{ "PFT", AUX_ETM_PTM }, { "ETM4", AUX_ETM_V4 },
		{ "ETE", AUX_ETM_ETE }, { "STM", AUX_ETM_STM },
	};
	const char *type = ini_get(ini, "device", 0, "type");
	struct source *r = &s->sources[s->n_sources++];
	struct aux_etm_config *e = &r->etm;

	for (size_t i = 0; type && i < sizeof(archs) / sizeof(archs[0]); i++)
		if (!strncmp(type, archs[i].type, strlen(archs[i].type)))
			e->arch = archs[i].arch;
	snprintf(r->name, sizeof(r->name), "%s", ini_get(ini, "device", 0, "name"));
#define REG(field, name) e->field = (uint32_t)ini_number(ini, "regs", 0, name)
	REG(trcconfigr, "TRCCONFIGR");
	REG(trcidr0, "TRCIDR0");
	REG(trcidr1, "TRCIDR1");
	REG(trcidr2, "TRCIDR2");
	REG(trcidr8, "TRCIDR8");
	REG(trcdevarch, "TRCDEVARCH");
	REG(etmcr, "ETMCR");
	REG(etmidr, "ETMIDR");
	REG(etmccer, "ETMCCER");
	REG(stmtcsr, "STMTCSR");
	REG(trace_id, "TRCTRACEIDR");
	if (!e->trace_id)
		REG(trace_id, "ETMTRACEIDR");
	if (!e->trace_id)
		e->trace_id = e->stmtcsr >> 16 & 0x7f;
#undef REG
}

static bool open_snapshot(struct snapshot *s, const char *dir)
{
	char *list, name[64], *ini;
	const char *v;
	size_t n;

	memset(s, 0, sizeof(*s));
	snprintf(s->dir, sizeof(s->dir), "%s", dir);
	list = (char *)load_file(dir, "snapshot.ini", &n);
	v = ini_get(list, "trace", 0, "metadata");
	s->trace = v ? (char *)load_file(dir, v, &n) : NULL;
	for (unsigned i = 0; s->trace && i < 32; i++) {
		snprintf(name, sizeof(name), "device%u", i);
		v = ini_get(list, "device_list", 0, name);
		ini = v ? (char *)load_file(dir, v, &n) : NULL;
		if (!ini)
			continue;
		v = ini_get(ini, "device", 0, "class");
		if (v && !strcmp(v, "core"))
			add_dumps(s, ini);
		else if (v && s->n_sources < N_SOURCES)
			add_source(s, ini);
		free(ini);
	}
	free(list);
	return s->n_sources;
}

static void close_snapshot(struct snapshot *s)
{
	free(s->trace);
	s->trace = NULL;
	for (unsigned i = 0; i < s->n_areas; i++)
		free(s->loaded[i]);
}

/* One of OpenCSD's own. A failed test where it cannot be opened. */
static bool open_shipped(struct snapshot *s, const char *corpus, const char *name)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/opencsd/snapshots/%s", corpus, name);
	if (open_snapshot(s, path))
		return true;
	snprintf(path, sizeof(path), "%s/opencsd/snapshots-ete/%s", corpus, name);
	return ok(open_snapshot(s, path), "%s", name);
}

#define N_FIB 4			/* traces of a program for Fibonacci numbers */
#define FIB_INSNS 77438		/* instructions of each */

/* The nth, from 1 on, of those. A failed test where it cannot be opened. */
static bool open_fib(struct snapshot *s, const char *corpus, int nth)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/coresight-decoder/tests/fib/trace%d",
		 corpus, nth);
	return ok(open_snapshot(s, path), "fib-%d", nth);
}

/* n instructions, with addresses of that hash: the same as in cases.tsv? */
static void check_fib(const char *cases, int nth, uint64_t n, const char *hash)
{
	char name[16], want[65];
	const char *line;

	is_u64(n, FIB_INSNS, "so many instructions");
	snprintf(name, sizeof(name), "fib-%d\t", nth);
	line = strstr(cases, name);
	ok(line && sscanf(line, "%*[^\t]\t%*[^\t]\t%*[^\t]\t%*[^\t]\t"
			  "%*[^\t]\t%*[^\t]\t%64s", want) == 1 &&
	   !strcmp(want, hash), "at these addresses: %s", hash);
}

/* The bytes of a source, without frames. */
static uint8_t *source_bytes(const struct snapshot *s, const struct source *r,
			     size_t *n)
{
	struct cs_frame_pick pick;
	const char *v = ini_get(s->trace, "source_buffers", 0, r->name);
	char name[64];
	uint8_t *b;

	snprintf(name, sizeof(name), "%s", v ? v : "");
	*n = 0;
	for (unsigned i = 0; ini_get(s->trace, "buffer", i, NULL); i++) {
		v = ini_get(s->trace, "buffer", i, "name");
		if (!v || strcmp(v, name))
			continue;
		v = ini_get(s->trace, "buffer", i, "file");
		b = v ? load_file(s->dir, v, n) : NULL;
		v = ini_get(s->trace, "buffer", i, "format");
		if (!b || !v || strcmp(v, "coresight"))
			return b;
		cs_frame_pick_init(&pick, (uint8_t)r->etm.trace_id);
		cs_frame_pick_add(&pick, b, *n & ~(size_t)15);
		free(b);
		*n = pick.n;
		b = calloc(1, pick.n + 1);
		memcpy(b, pick.data, pick.n);
		cs_frame_pick_fini(&pick);
		return b;
	}
	return NULL;
}

#endif
