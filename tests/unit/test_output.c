/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Rotation: every file is complete, dated names never collide, and only the oldest files are
 * deleted.
 */
#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

#include "capture/record/record.h"
#include "tests/unit/tap.h"
#include "tests/unit/writer_dir.h"

static int n_finished;

static int finish(void *priv, struct writer *w)
{
	n_finished++;
	return writer_feature(w, AUX_FEAT_HOSTNAME, priv, 12);
}

static struct output_options options(unsigned keep)
{
	static char host[] = "\x08\0\0\0" "ahost\0\0";

	return (struct output_options){
		.path = path, .keep = keep, .finish = finish, .priv = host,
	};
}

static void fill(struct output *o)
{
	struct perf_event_attr a[N_ATTRS];
	const uint64_t id = 11;

	fill_attrs(a);
	writer_attr_add(output_writer(o), &a[0], "intel_pt//u", &id, 1);
	put_info(output_writer(o));
	put_trace(output_writer(o), pt, sizeof(pt), 0);
}

/* Dated files; complete ones are counted in *n_good. */
static size_t count_dated(size_t *n_good)
{
	char pattern[96];
	glob_t g;
	size_t i, n;

	*n_good = 0;
	snprintf(pattern, sizeof(pattern), "%s.[0-9]*", path);
	if (glob(pattern, 0, NULL, &g))
		return 0;
	for (i = 0; i < g.gl_pathc; i++) {
		struct file f = load_file(g.gl_pathv[i]);
		uint64_t aux, size;

		*n_good += count_records(&f, &aux) > 6 && aux == 48 &&
			   feature(&f, AUX_FEAT_HOSTNAME, &size) &&
			   strlen(g.gl_pathv[i]) == strlen(path) + 17;
		free(f.data);
	}
	n = g.gl_pathc;
	globfree(&g);
	return n;
}

static void clean(void)
{
	char cmd[96];

	snprintf(cmd, sizeof(cmd), "rm -f %s*", path);
	ok(!system(cmd), "clean");
}

static void test_single(void)
{
	struct output_options opt = options(0);
	struct output *o;
	struct file f;
	size_t good;

	ok(!output_open(&o, &opt, NULL), "open");
	fill(o);
	ok(!output_close(o, NULL) && n_finished == 1, "close finishes the file");
	f = load_file(path);
	ok(f.len > 500 && has_features(&f) && !count_dated(&good),
	   "one file keeps its name");
	free(f.data);
	ok(!output_open(&o, &opt, NULL), "open again");
	output_discard(o, NULL);
	ok(!access(path, F_OK) && n_finished == 1, "discard brings it back");
	output_discard(NULL, NULL);
	ok(!output_close(NULL, NULL), "NULL");
}

static void test_switch(void)
{
	struct output_options opt = options(0);
	struct aux_diag diag = { 0 };
	struct output *o;
	size_t good, n, i;
	int ret = 0;

	clean();
	n_finished = 0;
	output_open(&o, &opt, NULL);
	for (i = 0; i < 6; i++) {	/* within 1/100 s */
		fill(o);
		ret |= output_switch(o, &diag);
	}
	ok(!ret && output_n_switched(o) == 6 && n_finished == 6, "6 switches");
	fill(o);
	ok(!output_close(o, NULL), "close");
	n = count_dated(&good);
	ok(n == 7 && good == 7 && access(path, F_OK),
	   "7 dated files, all complete");
	ok(access("x.old", F_OK), "no file was taken for an old one");
}

static void test_keep(void)
{
	struct output_options opt = options(2);
	struct output *o;
	char alien[96];
	size_t good, i;
	int fd;

	clean();
	snprintf(alien, sizeof(alien), "%s.2001010100000000", path);
	fd = open(alien, O_WRONLY | O_CREAT, 0600);
	close(fd);
	output_open(&o, &opt, NULL);
	for (i = 0; i < 5; i++) {
		fill(o);
		output_switch(o, NULL);
	}
	fill(o);
	ok(count_dated(&good) == 3 && good == 2, "two are kept");
	ok(!access(alien, F_OK), "what is not ours is not touched");
	output_discard(o, NULL);
	ok(count_dated(&good) == 3 && good == 2 && access(path, F_OK),
	   "discard removes the present one only");
}

static void test_trouble(void)
{
	struct output_options opt = options(0);
	struct aux_diag diag = { 0 };
	struct output *o;

	clean();
	opt.path = "/nonexistent/x";
	ok(output_open(&o, &opt, &diag) == -AUX_E_IO && !o, "a bad path");
	opt.path = path;
	opt.w.pipe = true;
	ok(!output_open(&o, &opt, &diag), "a pipe");
	ok(output_switch(o, &diag) == -AUX_E_UNSUPPORTED &&
	   output_writer(o), "cannot be switched");
	fill(o);
	ok(!output_close(o, &diag), "and is completed");
	opt.w.pipe = false;
	output_open(&o, &opt, &diag);
	fill(o);
	unlink(path);
	ok(output_switch(o, &diag) == -AUX_E_IO && !output_writer(o) &&
	   strstr(diag.text, "cannot name"), "a file that is gone");
	ok(!output_close(o, &diag), "then there is nothing to close");
}

int main(void)
{
	if (!make_dir())
		return 1;
	test_single();
	test_switch();
	test_keep();
	test_trouble();
	if (!remove_dir())
		return 1;
	return plan_done();
}
