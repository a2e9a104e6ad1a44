/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of files where there may be many: @LIST stands for the files that LIST names, one
 * a line, for a command line has no room for so many. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/cmd/impl.h"

static int add_name(struct cmd_files *files, const char *name)
{
	char *copy = strdup(name);

	if (!copy || array_grow(&files->v, files->n, &files->cap, sizeof(*files->v))) {
		free(copy);
		return -AUX_E_NOMEM;
	}
	files->v[files->n++] = copy;
	return 0;
}

/* The names in a file; "-" is standard input. A line is a name, whatever it has. */
static int read_names(struct cmd_files *files, const char *path, struct aux_diag *diag)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
	char line[PATH_MAX + 1];
	uint64_t n = 0;
	int rc = 0;

	if (!f)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s", strerror(errno));
	while (!rc && fgets(line, sizeof(line), f)) {
		size_t len = strlen(line);

		n++;
		if (len && line[len - 1] == '\n')
			line[--len] = '\0';
		else if (!feof(f))	/* too long, or a zero is in it */
			rc = diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				      "line %" PRIu64 " is no name of a file", n);
		if (!rc && len)
			rc = add_name(files, line);
	}
	if (!rc && ferror(f))
		rc = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s", strerror(errno));
	if (f != stdin)
		fclose(f);
	return rc;
}

int cmd_files_take(struct cmd_files *files, const char *const *words, size_t n)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int rc = 0, status = CMD_OK;

	for (size_t i = 0; i < n && !rc; i++) {
		rc = words[i][0] == '@' ? read_names(files, words[i] + 1, &diag) :
					  add_name(files, words[i]);
		if (rc < 0)
			status = cmd_failed(words[i], rc, &diag);
	}
	return status;
}

int cmd_files_add(struct cmd_files *files, const char *name)
{
	return add_name(files, name);
}

void cmd_files_fini(struct cmd_files *files)
{
	while (files->n)
		free(files->v[--files->n]);
	free(files->v);
	*files = (struct cmd_files){ 0 };
}
