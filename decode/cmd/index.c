/* SPDX-License-Identifier: BSD-2-Clause */
/* cmd_index: the side-band of a large recording as a file that many processes open, each for
 * a part of the trace. See perfdata/index.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/diag.h"
#include "common/outfile.h"
#include "decode/cmd/units.h"
#include "perfdata/perfdata.h"

static int write_index(struct aux_reader *r, const char *path, struct aux_diag *diag)
{
	struct outfile to = OUTFILE_NONE;
	struct outbuf *out = NULL;
	int rc = outfile_open(&to, path, 0666, OUTFILE_REGULAR, diag);

	if (!rc) {
		out = outbuf_new(to.fd);
		rc = out ? reader_index_write(r, out, diag) : -AUX_E_NOMEM;
	}
	if (!rc && outbuf_flush(out))
		rc = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s", path,
			      strerror(out->error));
	outbuf_free(out);
	if (!rc)
		return outfile_commit(&to, diag);
	outfile_discard(&to);
	return rc;
}

char *index_path(const char *path, const char *dir, const char *id)
{
	char *text = NULL;
	int n = dir ? asprintf(&text, "%s/%s" SESSION_INDEX, dir, id) :
		      asprintf(&text, "%s" SESSION_INDEX, path);

	return n < 0 ? NULL : text;
}

int index_make(const struct cmd_options *o, const char *path, const char *dir, bool say)
{
	struct session_config config = cmd_session_config(o);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	char id[FLEET_ID + 1], *to = NULL;
	struct session *s = NULL;
	bool there = false;
	int rc;

	config.path = path;
	rc = session_open(&s, &config, &diag);
	if (!rc) {
		fleet_recording_id(id, s);
		to = index_path(path, dir, id);
		rc = to ? 0 : -AUX_E_NOMEM;
	}
	if (!rc) {
		int used = reader_index_use(session_reader(s), to);

		there = used > 0 || reader_has_index(session_reader(s));
		rc = used < 0 ? used : there ? 0 : write_index(session_reader(s), to, &diag);
	}
	if (!rc && say)
		cmd_say(path, there ? "has an index already" : "indexed: %s", to);
	free(to);
	session_close(s);
	return rc ? cmd_failed(path, rc, &diag) : CMD_OK;
}

int cmd_index(const struct cmd_options *o)
{
	const char *dir = o->output.path;
	struct cmd_files files = { 0 };
	struct aux_diag diag;
	int status = cmd_files_take(&files, o->paths, o->n_paths);

	if (!status && dir && mkdir(dir, 0777) && errno != EEXIST) {
		diag_set(&diag, AUX_E_IO, AUX_NO_OFFSET, "%s", strerror(errno));
		status = cmd_error(dir, &diag);
	}
	/* a bad file costs itself, not the others */
	for (size_t i = 0; i < files.n && (!status || status == CMD_FAILED); i++)
		if (index_make(o, files.v[i], dir, true))
			status = CMD_FAILED;
	cmd_files_fini(&files);
	return status;
}
