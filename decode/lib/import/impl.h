/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of import share: the table's entry of a format, mapped files,
 * the perf.data that is being built, the parsers of the two text formats, and
 * what snapshots say of CoreSight.
 *
 * Everything that a description names is input of a stranger: sizes, counts and
 * how often a file may be used have limits, and no path opens anything but a
 * regular file.
 */
#ifndef DECODE_LIB_IMPORT_IMPL_H
#define DECODE_LIB_IMPORT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/perf_event.h>

#include <aux/error.h>
#include <aux/perfdata.h>
#include <aux/reader.h>

#include "decode/lib/import/import.h"
#include "perfdata/csmeta.h"
#include "perfdata/rewrite.h"

/* ---- formats and mapped files: import.c ---- */

struct import_source {
	const char *path;
	bool is_dir;
	const struct import_options *o;	/* never NULL */
	uint8_t head[512];	/* of a file */
	size_t n_head;
};

struct import_format {
	const char *name;
	bool is_perf;	/* it is read as it is */
	bool (*probe)(const struct import_source *s);
	int (*open)(struct aux_reader **r, const struct import_source *s,
		    struct aux_diag *diag);
};

extern const struct import_format import_dir, import_lldb,
	import_raw, import_snapshot;

/* A whole regular file, read only. Nothing else is opened: no pipe can hang. */
struct import_file {
	const uint8_t *data;
	uint64_t len;
	uint64_t dev, ino;	/* which file it is */
	char *path;		/* absolute, without links */
};

/* dir NULL: path stands alone; an absolute path does always. */
int import_map_file(struct import_file *f, const char *dir,
		    const char *path, struct aux_diag *diag);
/* The same of a file that the description in dir names. Unless anywhere it has
 * to be below dir, links followed: else -AUX_E_UNSUPPORTED with
 * AUX_WHY_OUTSIDE. */
int import_map_named(struct import_file *f, const char *dir, const char *path,
		bool anywhere, struct aux_diag *diag);
/* Is path, which need not exist, outside of dir? Sets diag, if any. */
bool import_is_outside(const char *dir, const char *path, struct aux_diag *diag);
void import_unmap_file(struct import_file *f);

/* The directory that path lies in, for import_map_file; free it. */
char *import_dirname(const char *path);
/* dir/path as above, not resolved; free it. */
char *import_join(const char *dir, const char *path);
/* The same from the root on, of a file that is not there; free it. */
char *import_absent(const char *dir, const char *path);

/* ---- a perf.data in a temporary file: builder.c ---- */

/*
 * What other recorders wrote (snapshot directories, bundles, raw buffers)
 * becomes one, so that everything after the reader is the same for all. Errors
 * stick: after the first one nothing is written, and import_build_open returns
 * it.
 *
 * Order of calls: init, features, info, then processes and maps, then records
 * and streams, open, fini: AUXTRACE_INFO and mappings precede what they
 * explain.
 * Specification: perf.data-file-format.txt.
 */

#define IMPORT_PMU 8		/* attr.type of the trace's event */
#define IMPORT_STREAMS 4096	/* at most */
#define IMPORT_USES 16		/* of one file, so that a small description does
				 * not fill the disk */
#define IMPORT_FEATURES 8	/* at most */

/* The trailer of a record; cpu, pid, tid -1: none. */
struct import_who {
	uint32_t pid, tid, cpu;
	uint64_t time;	/* ns; 0: from the beginning */
};

/* Bytes of a file that lie at an address, in pid (-1: in all). */
struct import_map {
	uint32_t pid;
	uint64_t addr, len, pgoff;
	const char *path;	/* absolute */
	uint8_t build_id[20];
	uint8_t build_id_size;	/* 0: not known */
};

/* One AUX stream: an event id, a queue, and the bytes of one buffer. */
struct import_stream {
	struct import_who who;	/* tid with cpu -1: of a thread */
	const void *data;
	uint64_t len;
	uint64_t flags;		/* of its AUX record */
	const struct import_file *file;	/* that the bytes come from */
};

struct import_use {
	uint64_t dev, ino;
	unsigned n;
};

struct import_build {
	struct rewrite *w;
	uint64_t config;	/* of the trace's event */
	const char *event;	/* its name */
	bool timed;		/* records have times; set it before the first */
	struct import_who *streams;	/* id - 1 is the index */
	struct import_use *uses;	/* as many as streams, at most */
	size_t n_streams, cap_streams, n_uses, cap_uses;
	struct rewrite_bytes features[IMPORT_FEATURES];
	size_t n_features;
};

/* event: the PMU's name, which lives longer than b. Call fini after an error,
 * too, and nothing else. */
int import_build_init(struct import_build *b, const char *event,
		      uint64_t config, struct aux_diag *diag);
void import_build_fini(struct import_build *b);

/* A string of AUX_FEAT_*, CPUID say. */
void import_build_feature(struct import_build *b, unsigned bit,
			  const char *text);
/* Words of AUXTRACE_INFO, which comes first. */
void import_build_info(struct import_build *b, uint32_t type,
		       const uint64_t *priv, size_t n);
/* Then the processes and what they map. */
void import_build_comm(struct import_build *b, struct import_who who,
		       const char *comm);
void import_build_map(struct import_build *b,
		      const struct import_map *m);
/* who runs on its CPU from the beginning. */
void import_build_runs(struct import_build *b, struct import_who who);
/* A record of the kernel: SWITCH_CPU_WIDE, LOST. body: without the trailer. */
void import_build_record(struct import_build *b, uint32_t type,
			 uint16_t misc, const void *body, size_t len,
			 struct import_who who);
/* Then the streams: an AUX record and an AUXTRACE. Queues count from 0. */
void import_build_stream(struct import_build *b,
			 const struct import_stream *s);

/* Completes the file and opens it; name is for messages. */
int import_build_open(struct import_build *b, struct aux_reader **r,
		      const char *name, struct aux_diag *diag);

/* ---- files of code as mappings: elf.c ---- */

/*
 * Maps what f's program headers say, moved so that its first segment comes to
 * m->addr (has_base; else as linked). A file that is no ELF image is mapped as
 * a whole. m names pid and build id; its other fields are filled here.
 * -AUX_E_FORMAT: an ELF image without a segment, or one that cannot be.
 */
int import_elf_map(struct import_build *b, const struct import_file *f,
		   struct import_map *m, bool has_base,
		   struct aux_diag *diag);

/* Maps what "ELF-FILE[@ADDR]" names in pid; setting: for the message. */
int import_elf_arg(struct import_build *b, const char *arg, const char *setting,
		   uint32_t pid, struct aux_diag *diag);

/* ---- the ini files of OpenCSD and DS-5 snapshots: ini.c ---- */

/*
 * [section], then key=value lines. A comment is a line that starts with ; or #,
 * or what follows one of these after white space. Keys and sections keep their
 * order; a section may come more than once, as [dump] does for each piece of
 * memory.
 */

struct ini_item {
	uint32_t section;	/* number of its section, from 0 */
	uint32_t line;		/* from 1 */
	const char *key, *value;
};

struct ini_section {
	const char *name;
	size_t first;		/* of its items */
};

struct ini {
	char *text;		/* a copy, cut into strings */
	struct ini_section *sections;
	size_t n_sections, cap_sections;
	struct ini_item *items;
	size_t n_items, cap_items;
};

/* name is for messages, whose offset is that of the line. Zeroes *ini first;
 * fini is allowed after an error, too. */
int ini_parse(struct ini *ini, const void *text, size_t len, const char *name,
	      struct aux_diag *diag);
void ini_fini(struct ini *ini);

/* The value of a key in any section of that name, or NULL. Case does not
 * matter, nor what is in brackets after the key: X(size:64). */
const char *ini_get(const struct ini *ini, const char *section,
		    const char *key);
/* The same in one section. */
const char *ini_get_in(const struct ini *ini, size_t section, const char *key);
/* A number in any base of C, and nothing else. */
bool ini_number(const char *s, uint64_t *v);

/* ---- CoreSight in snapshots: snapshot_cs.c ---- */

/*
 * What snapshots say of sources and buffers, in the terms of AUXTRACE_INFO
 * (perfdata/csmeta.h) and of formatter frames in memory.
 */

#define AUX_FORMAT_CORESIGHT_RAW 0x100	/* of PERF_RECORD_AUX's flags */

/* Words of one source's block. */
#define IMPORT_CS_BLOCK (AUX_CS_NR_PARAMS + 1 + AUX_CS_OWN_N)

/*
 * Fills a block from a device's [regs]. type: of the source, core_type: of the
 * core (NULL: none), both as the device files have them; cpu -1: of no CPU.
 */
void import_cs_block(uint64_t words[IMPORT_CS_BLOCK],
		     const struct ini *device, const char *type,
		     const char *core_type, uint32_t cpu);

/* 7 or 8: the architecture of a core by its name; 0 not known. */
unsigned import_cs_version(const char *core_type);

/*
 * What DSTREAM stored: blocks of 512 bytes, of which the last 8 are its own.
 * Copies the others to dst, which has room for len; returns their number.
 */
size_t import_cs_dstream(uint8_t *dst, const uint8_t *src, size_t len);

/*
 * A TPIU's stream as frames alone: without half syncs, and full syncs between
 * frames; a frame that a sync cuts is dropped and a barrier put in its place.
 * dst has room for IMPORT_CS_ROOM(len). Returns the number of bytes.
 */
#define IMPORT_CS_ROOM(len) (3 * (len) + 16)
size_t import_cs_frames(uint8_t *dst, const uint8_t *src, size_t len);

#endif
