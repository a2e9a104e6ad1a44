/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * advice: what a user can do about code or trace that is missing: which option,
 * which file. The library gives causes alone, as it knows no options.
 */
#include <stdio.h>
#include <string.h>

#include <aux/error.h>

#include "decode/cmd/impl.h"
#include "decode/lib/code/code.h"
#include "decode/lib/trace/gap.h"

/* The recording is a snapshot or a buffer: it names no programs. */
static bool has_no_files;

/* An interpreter was recorded that was not told to name the script's functions:
 * what to do about it. NULL: none was. */
static const char *script_names;

/* Is a word of the command line a program of this name, as "/usr/bin/python3.11"? */
static bool ran(const char *cmdline, const char *program)
{
	const char *p = cmdline;
	size_t n = strlen(program);

	while ((p = strstr(p, program))) {
		bool begins = p == cmdline || p[-1] == ' ' || p[-1] == '/';

		p += n;
		p += strspn(p, "0123456789.");
		if (begins && (!*p || *p == ' '))
			return true;
	}
	return false;
}

static const char *find_script_names(const char *cmdline)
{
	if (!cmdline)
		return NULL;
	if (ran(cmdline, "python"))
		return "; functions of a Python script have names from Python 3.12 "
		       "on, recorded as `auxcap -- python3 -X perf app.py`";
	if (ran(cmdline, "node") && !strstr(cmdline, "--interpreted-frames-native-stack"))
		return "; functions of a script have names with `auxcap -- node "
		       "--perf-basic-prof --interpreted-frames-native-stack app.js`";
	return NULL;
}

void advice_of(const struct aux_reader *r)
{
	const struct aux_file_info *info = aux_reader_info(r);

	has_no_files = info->container && strncmp(info->container, "LLDB", 4) != 0;
	script_names = find_script_names(info->cmdline);
}

const char *advice_script(void)
{
	return script_names;
}

bool advice_is_place(const char *name)
{
	size_t n = strlen(name);

	return n > 4 && name[0] == '[' && name[n - 1] == ']' && strstr(name, "+0x");
}

/* A setting of the library and the option that fills it have the same name. */
const char *advice_before(int why)
{
	return why == AUX_WHY_SETTING || why == AUX_WHY_OWN_FILES ? "--" : "";
}

const char *advice_after(int why)
{
	switch (why) {
	case AUX_WHY_NO_DECODER:
		return "; `auxdecode raw` shows the bytes, --plugin loads a "
		       "decoder";
	case AUX_WHY_OTHER_DECODER:
		return "; --decoder opencsd knows more";
	case AUX_WHY_MEMORY:
		return "; raise it with --max-memory";
	case AUX_WHY_OUTSIDE:
		return "; --any-path reads it all the same";
	case AUX_WHY_OWN_FILES:
		return "; --symfs DIR says where to look for them";
	default:
		return "";
	}
}

/*
 * gap_text() and the fix, as one string: sinks print gaps in their inner loops
 * and keep the pointer, so it must be constant.
 */
const char *advice_gap(unsigned cause)
{
	switch (cause) {
	case AUX_GAP_NO_CODE:
		if (has_no_files)
			return "the code that ran is in no file given; see --elf";
		return "the code that ran is in no file given; see --symfs and "
		       "--vdso";
	case AUX_GAP_AUX_TRUNCATED:
		return "the AUX buffer was full; record with a larger one (-m)";
	case GAP_UNKNOWN_ID:
		return "the file does not say whose trace this is; `auxdecode info` "
		       "shows the trace ids";
	default:
		return gap_text(cause);
	}
}

static const char *fix_no_file(const struct code_cause *c)
{
	if (c->in_bundle)
		return ": give its place with --symfs";
	if (!c->has_id)
		return "; give its place with --symfs";
	/* Only a build id can be looked up in a cache or asked of a server. */
	if (c->asked_servers)
		return "; give its place with --symfs, or a build-id cache with "
		       "--buildid-dir";
	return "; give its place with --symfs, or a build-id cache with "
	       "--buildid-dir, or try --debuginfod";
}

static const char *fix_code(const struct code_cause *c)
{
	switch (c->why) {
	case CODE_WHY_UNMAPPED:
	case CODE_WHY_ANONYMOUS:
		if (has_no_files)
			return "; give the program that was there with --elf "
			       "FILE[@ADDR]";
		return c->jit_log ? ", give its place with --symfs" : "";
	case CODE_WHY_NO_FILE:
		return fix_no_file(c);
	case CODE_WHY_OTHER_ID:
		return "; give the recorded file's root with --symfs, or a "
		       "build-id cache with --buildid-dir";
	case CODE_WHY_VDSO:
		return "; give the recorded machine's with --vdso";
	case CODE_WHY_KERNEL:
		return "; give the recorded kernel's memory with --kcore, or "
		       "its file with --vmlinux";
	case CODE_WHY_MODULE:
		return "; give the recorded kernel's memory with --kcore, or "
		       "the module with --symfs";
	case CODE_WHY_ONLY_KCORE:
		return "; give the recorded kernel's memory with --kcore";
	default:
		return "";
	}
}

void advice_code(struct codeview *cv, const struct space *space, uint64_t ip,
		 char *buf, size_t len)
{
	struct code_cause c;

	codeview_cause(cv, space, ip, &c);
	if (*c.kernel)
		snprintf(buf, len, "%s%s (%s%s)", c.text, fix_code(&c),
			 c.kernel, c.no_kallsyms ? "; give one with --kallsyms" :
						   "");
	else
		snprintf(buf, len, "%s%s", c.text, fix_code(&c));
}

/* table */
static const struct advice_next nexts[] = {
	{ "summary", "tui FILE", "look around in it, on this terminal" },
	{ "summary", "calls FILE", "who called whom, when, how long" },
	{ "summary", "hot FILE", "functions, blocks, edges that ran most" },
	{ "summary", "report -o report.html FILE", "all of it in a browser" },
	{ "summary", "flame --svg -o flame.svg FILE", "a flame graph" },
	{ "summary", "latency FUNCTION FILE", "how long its calls took" },
	{ "summary", "insn --last 1ms FILE",
	  "every instruction, at the end" },
	{ "summary", "diff FILE OTHER", "what another run did differently" },
	{ "summary", "info FILE", "streams, losses, how it was made" },
	{ "count", "hot FILE", "which functions ran most" },
	{ "count", "insn FILE", "the instructions that were counted" },
	{ "count", "diff FILE OTHER", "what another run did differently" },
	{ "hot", "annotate FUNCTION FILE",
	  "its source and instructions, each with its count" },
	{ "hot", "latency FUNCTION FILE", "how long its calls took" },
	{ "hot", "flame --svg -o flame.svg FILE", "who called them" },
	{ "latency", "find FUNCTION --longer TIME FILE",
	  "all of its calls that took longer" },
	{ "latency", "calls --symbol FUNCTION FILE", "what its calls called" },
	{ "find", "latency FUNCTION FILE", "how long its calls took" },
	{ "find", "calls --symbol FUNCTION FILE", "what its calls called" },
	{ "coverage", "annotate FUNCTION FILE",
	  "which lines and branches of it ran" },
	{ "coverage", "coverage --to lcov -o app.info FILE", "for genhtml" },
	{ "info", "summary FILE", "what ran, and what is missing" },
	{ "info", "dump FILE", "the records, one by one" },
	{ "verify", "raw FILE", "the packets around a difference" },
	{ "verify", "info FILE", "streams, losses, how it was made" },
	{ "diff", "insn FILE", "every instruction of the first one" },
	{ "diff", "hot FILE", "what ran most in the first one" },
};

/* Only commands that this build has. */
const struct advice_next *advice_next(const char *command, size_t i)
{
	for (size_t k = 0; k < sizeof(nexts) / sizeof(nexts[0]); k++) {
		char name[16] = "";

		sscanf(nexts[k].words, "%15s", name);
		if (!strcmp(nexts[k].of, command) && cmd_find(name) && !i--)
			return &nexts[k];
	}
	return NULL;
}
