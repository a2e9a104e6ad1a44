/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * container: opens whatever holds a recording.
 *
 * perf.data is the only container inside: every other format is one file here that
 * makes a perf.data of what it finds (builder.h), and one line in the table of
 * import.c.
 */
#ifndef DECODE_LIB_IMPORT_IMPORT_H
#define DECODE_LIB_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>
#include <aux/reader.h>

/* What the command line says of a buffer that says nothing of itself. */
struct container_options {
	const char *pt;			/* --pt FILE[:BEGIN-END], NULL: none */
	const char *const *images;	/* --image, --elf: see raw.c */
	size_t n_images;
	const char *cpu_model;		/* --cpu-model F/M[/S], NULL */
};

/*
 * As aux_reader_open, of anything the table knows; o may be NULL. path is kept
 * for messages. A path that no format claims is left to the reader.
 */
int container_open(struct aux_reader **r, const char *path,
		   const struct container_options *o, struct aux_diag *diag);

/* The kernel's memory that perf copied into a directory (--kcore), for
 * codeview_config.kcore; NULL: it has none. free it */
char *container_kcore(const char *path);

/* ---- for the formats ---- */

struct container_source {
	const char *path;
	bool is_dir;
	const struct container_options *o;	/* never NULL */
	uint8_t head[512];	/* of a file */
	size_t n_head;
};

struct container_format {
	const char *name;
	bool is_perf;	/* it is read as it is */
	bool (*probe)(const struct container_source *s);
	int (*open)(struct aux_reader **r, const struct container_source *s,
		    struct aux_diag *diag);
};

extern const struct container_format container_dir, container_lldb,
	container_raw, container_snapshot;

/* A whole regular file, read only. Nothing else is opened: no pipe can hang. */
struct container_file {
	const uint8_t *data;
	uint64_t len;
	uint64_t dev, ino;	/* which file it is */
	char *path;		/* absolute, without links */
};

/* dir NULL: path stands alone; an absolute path does always. */
int container_map_file(struct container_file *f, const char *dir,
		       const char *path, struct aux_diag *diag);
void container_unmap_file(struct container_file *f);

/* The directory that path lies in, for container_map_file; free it. */
char *container_dirname(const char *path);
/* dir/path as above, not resolved; free it. */
char *container_join(const char *dir, const char *path);
/* The same from the root on, of a file that is not there; free it. */
char *container_absent(const char *dir, const char *path);

#endif
