/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * soft_emulate on aarch64 programs: the blocks that the object in qemu-aarch64 reports are
 * the instructions that ran, which are those that qemu itself logs for the same program.
 */
#include <elf.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/qemu.h"
#include "tests/unit/fakesoft.h"

static const char *build(void)
{
	static char dir[256];
	const char *set = getenv("BUILD");

	if (!dir[0])
		snprintf(dir, sizeof(dir), "%s", set ? set : "build");
	return dir;
}

/* What does not begin with a slash is a program of ours. */
static char *program(const char *name)
{
	static char path[4][512];
	static unsigned int i;

	i = (i + 1) % 4;
	snprintf(path[i], sizeof(path[i]), "%s%s%s", name[0] == '/' ? "" : build(),
		 name[0] == '/' ? "" : "/tests/programs/aarch64/", name);
	return path[i];
}

#define MAX_WORDS 16

/* "@NAME" is a program of ours, too. */
static void take_words(char *argv[MAX_WORDS], const char *const words[])
{
	argv[0] = program(words[0]);
	for (int i = 1; i < MAX_WORDS - 1 && words[i]; i++)
		argv[i] = words[i][0] == '@' ? program(words[i] + 1) :
					       (char *)(uintptr_t)words[i];
}

/* Keeps up to max_kept addresses of the first thread's truth. */
static int run(struct soft *s, const char *const words[], int *status,
	       uint64_t max_kept, struct aux_diag *diag)
{
	char *argv[MAX_WORDS] = { 0 };
	struct soft_program p = {
		.machine = EM_AARCH64, .argv = argv, .self_dir = build(),
		.truth = true,
	};
	int out = dup(1), null = open("/dev/null", O_WRONLY), ret;

	take_words(argv, words);
	memset(s, 0, sizeof(*s));
	memset(diag, 0, sizeof(*diag));
	if (max_kept)
		s->kept = malloc(max_kept * sizeof(*s->kept));
	s->max_kept = max_kept;
	fflush(stdout);
	dup2(null, 1);
	ret = soft_emulate_run(s, &p, status, diag);
	dup2(out, 1);
	close(out);
	close(null);
	return ret;
}

struct expect {
	const char *words[MAX_WORDS];
	int status;		/* exit status, or minus the signal */
	unsigned int n_threads, n_killed, n_not_traced;	/* at most killed */
	uint64_t least;		/* instructions */
};

static bool status_is(int status, int want)
{
	return want >= 0 ? WIFEXITED(status) && WEXITSTATUS(status) == want :
			   WIFSIGNALED(status) && WTERMSIG(status) == -want;
}

static bool emulated;

/* Where this test itself is emulated on another machine, which has no loader of arm64
 * where qemu and we, on arm64, take it from. */
static bool left_out(const char *const words[])
{
	bool dynamic = false;

	for (size_t i = 0; words[i]; i++)
		dynamic |= strstr(words[i], "hello_dynamic") || !strcmp(words[i], "dlopen");
	if (!dynamic || !emulated)
		return false;
	skip("emulated: programs with a loader need an arm64 system");
	return true;
}

static void check_program(const struct expect *x)
{
	struct aux_diag diag;
	struct soft s;
	int status = 0, ret;

	if (left_out(x->words))
		return;
	ret = run(&s, x->words, &status, 0, &diag);

	ok(!ret && !s.n_bad && s.stats.n_insns >= x->least,
	   "%s %s: %llu instructions, %llu mappings, %llu pages: %d differences "
	   "(%s)", x->words[0], x->words[1] ? x->words[1] : "",
	   (unsigned long long)s.stats.n_insns, (unsigned long long)s.n_maps,
	   (unsigned long long)s.n_code, s.n_bad, diag.text);
	ok(status_is(status, x->status) && s.stats.n_threads == x->n_threads &&
	   s.stats.n_killed <= x->n_killed &&
	   s.stats.n_not_traced == x->n_not_traced,
	   "status %#x, %llu threads, %llu killed, %llu not traced (%s: %s)",
	   status, (unsigned long long)s.stats.n_threads,
	   (unsigned long long)s.stats.n_killed,
	   (unsigned long long)s.stats.n_not_traced, s.program, s.why);
}

static const struct expect programs[] = {
	{ { "hello_asm" }, 0, 1, 0, 0, 50 },
	{ { "hello_static" }, 0, 1, 0, 0, 1000 },
	{ { "hello_dynamic" }, 0, 1, 0, 0, 50000 },
	{ { "feature" }, 0, 1, 0, 0, 10000 },
	{ { "feature", "timer" }, 0, 1, 0, 0, 10000 },
	{ { "threads" }, 0, 6, 0, 0, 10000 },
	{ { "atomics" }, 0, 5, 0, 0, 10000 },
	{ { "atomics_lse" }, 0, 5, 0, 0, 10000 },
	{ { "forkexec" }, 0, 6, 1, 0, 10000 },
	{ { "run", "@hello_dynamic" }, 0, 2, 0, 0, 50000 },
	{ { "run", "-e", "@crash", "exit" }, 3, 1, 0, 0, 10000 },
	{ { "run", "-t", "@crash", "exit" }, 3, 1, 0, 0, 10000 },
	{ { "run", "/bin/true" }, 0, 2, 0, 1, 5000 },
	{ { "run", "-e", "/bin/true" }, 0, 1, 0, 1, 5000 },
	{ { "run", "/nonexistent" }, 127, 2, 0, 0, 5000 },
	{ { "dlopen" }, 0, 1, 0, 0, 10000 },
	{ { "vdso" }, 0, 1, 0, 0, 1000 },
	{ { "jit", "once" }, 0, 1, 0, 0, 1000 },
	{ { "crash", "segv" }, -SIGSEGV, 1, 0, 0, 100 },
	{ { "crash", "ill" }, -SIGILL, 1, 0, 0, 100 },
	{ { "crash", "abort" }, -SIGABRT, 1, 0, 0, 100 },
	{ { "crash", "exit" }, 3, 1, 0, 0, 100 },
	{ { "crash", "kill" }, -SIGKILL, 1, 1, 0, 100 },
	{ { "crash", "spin" }, -SIGALRM, 1, 1, 0, 100 },
	{ { "stress", "join" }, 0, 7, 0, 0, 10000 },
	{ { "stress", "exit" }, 0, 7, 0, 0, 10000 },
	{ { "stress", "exec" }, 0, 7, 0, 0, 10000 },
	{ { "stress", "abort" }, -SIGABRT, 7, 6, 0, 10000 },
	{ { "stress", "kill" }, -SIGKILL, 7, 7, 0, 10000 },
	{ { "bench" }, 0, 1, 0, 0, 10000000 },
};

/* ---- qemu's own log ---- */

/* Program counters in the lines "Trace 0: 0x... [.../pc/...". */
static uint64_t compare_log(FILE *f, const struct soft *s, uint64_t *n_bad)
{
	unsigned long long pc;
	char line[512];
	uint64_t n = 0;

	*n_bad = 0;
	while (fgets(line, sizeof(line), f)) {
		char *at = strstr(line, "Trace 0: ");

		at = at ? strchr(at, '/') : NULL;
		if (!at || sscanf(at + 1, "%llx/", &pc) != 1)
			continue;
		if ((n >= s->n_kept || s->kept[n] != pc) && (*n_bad)++ == 0)
			printf("# instruction %llu: qemu's log has %#llx, the "
			       "truth %#llx\n", (unsigned long long)n, pc,
			       n < s->n_kept ? (unsigned long long)s->kept[n] :
					       0);
		n++;
	}
	return n;
}

/*
 * Programs that do the same whenever they run, and raise no exception (what does
 * is logged twice). What is in the environment makes a difference, too.
 */
static void check_log(const char *const words[], const char *args)
{
	char log[] = "/tmp/auxkit-a64-XXXXXX", command[2048];
	const char *name = words[0];
	struct aux_diag diag;
	uint64_t n = 0, n_bad = 1;
	struct soft s;
	int status, fd = left_out(words) ? -1 : mkstemp(log);
	FILE *f;

	if (fd < 0)
		return;
	run(&s, words, &status, 4000000, &diag);
	/* qemu 8.1 has another name for -singlestep, 10.0 that alone */
	snprintf(command, sizeof(command), "one=-one-insn-per-tb; qemu-aarch64 -h | "
		 "grep -q -e $one || one=-singlestep; exec env -i qemu-aarch64 "
		 "-cpu max,pauth-impdef=on -L /usr/aarch64-linux-gnu -0 %s "
		 "$one -d exec,nochain -D %s %s %s >/dev/null",
		 program(name), log, program(name), args);
	f = system(command) == 0 ? fdopen(fd, "r") : NULL;
	if (f)
		n = compare_log(f, &s, &n_bad);
	ok(n && n == s.n_kept && !n_bad, "%s: %llu instructions as qemu logs them, "
	   "%llu truth, %llu differ", name, (unsigned long long)n,
	   (unsigned long long)s.n_kept, (unsigned long long)n_bad);
	if (f)
		fclose(f);
	unlink(log);
	free(s.kept);
}

/* ---- exec ---- */

/* An interpreter line that names a program of ours. */
static void check_script(void)
{
	char path[] = "/tmp/auxkit-a64-XXXXXX", real[PATH_MAX];
	struct expect x = { { "run", path }, 0, 2, 0, 0, 10000 };
	int fd = mkstemp(path);
	FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (!f || !realpath(program("hello_static"), real))
		return;
	fprintf(f, "#!%s\n", real);
	fclose(f);
	chmod(path, 0755);
	check_program(&x);
	unlink(path);
}

/* ---- refusals ---- */

static void check_refused(const char *path, const char *text)
{
	const char *const words[] = { path, NULL };
	struct aux_diag diag;
	struct soft s;
	int status, ret;

	if (left_out(words))
		return;
	ret = run(&s, words, &status, 0, &diag);
	ok(ret < 0 && strstr(diag.text, text), "%s: %s", path, diag.text);
}

/* Guest addresses that are not the host's: a qemu started so is refused. */
static void check_base(void)
{
	char dir[] = "/tmp/auxkit-a64-XXXXXX", path[64];
	FILE *f;

	if (!mkdtemp(dir))
		return;
	snprintf(path, sizeof(path), "%s/qemu-aarch64", dir);
	f = fopen(path, "w");
	if (f) {
		fprintf(f, "#!/bin/sh\nexec /usr/bin/qemu-aarch64 "
			"-B 0x100000000 \"$@\"\n");
		fclose(f);
		chmod(path, 0755);
		setenv("PATH", dir, 1);
		check_refused("hello_asm", "guest memory");
		unsetenv("PATH");
	}
	unlink(path);
	rmdir(dir);
}

int main(int argc, char **argv)
{
	const char *lacks = qemu_lacks("qemu-aarch64");

	emulated = getenv("EMULATED") != NULL;
	if (access(program("hello_asm"), X_OK)) {
		ok(0, "programs made by a cross compiler (tools/deps install test)");
		return plan_done();
	}
	if (lacks) {
		skip(lacks);
		return plan_done();
	}
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		if (argc < 2 || !strcmp(argv[1], programs[i].words[0]))
			check_program(&programs[i]);
	if (argc > 1)
		return plan_done();
	check_script();
	clearenv();
	check_log((const char *[]){ "hello_asm", NULL }, "");
	check_log((const char *[]){ "hello_static", NULL }, "");
	check_log((const char *[]){ "hello_dynamic", NULL }, "");
	check_log((const char *[]){ "feature", "qsort", "recursion", "longjmp",
				    "indirect", "tail", "loops", "callret",
				    "pauth", "sync", NULL },
		  "qsort recursion longjmp indirect tail loops callret pauth sync");
	check_refused("/bin/true", "not an AArch64 ELF program");
	check_refused("/nonexistent", "no such program");
	setenv("QEMU_LD_PREFIX", "/nonexistent", 1);
	check_refused("hello_dynamic", "QEMU_LD_PREFIX");
	unsetenv("QEMU_LD_PREFIX");
	check_base();
	return plan_done();
}
