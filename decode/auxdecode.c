/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxdecode: command line and dispatch. What commands there are stands in
 * cmd/commands.c, what options in the tables of commands, sinks and
 * cmd/options.c.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/diag.h"
#include "common/mapped.h"
#include "common/options.h"
#include "common/version.h"

#include "decode/cmd/cmd.h"

static const char *nearest_command(const char *word)
{
	const struct command *c;

	for (size_t i = 0; (c = cmd_get(i)); i++)
		if (text_distance(word, strlen(word), c->name,
				  strlen(c->name)) <= 2)
			return c->name;
	return NULL;
}

/* Some command has such an option. */
static bool is_known(const char *name)
{
	const struct command *c;

	for (size_t i = 0; (c = cmd_get(i)); i++) {
		if (option_find(cmd_rows(c), name))
			return true;
		for (size_t k = 0; c->groups[k]; k++)
			if (option_find(c->groups[k]->rows, name))
				return true;
	}
	return false;
}

/* Own options come first: where a command has an option under the name of a
 * shared one (--tid of diff), its own is meant. Returns 0, OPTION_STOP, or an
 * error with a message in diag. */
static int parse_options(const struct command *c, struct cmd_options *o,
			 void *own, struct option_given *given, int argc,
			 char **argv, int *first, struct aux_diag *diag)
{
	struct option_group groups[CMD_GROUPS_MAX];
	struct option_line line = { .command = c->name, .groups = groups,
				    .is_known = is_known,
				    .habits = cmd_habits,
				    .given = given,
				    .max_given = (size_t)argc };
	char help[64];
	int rc;

	snprintf(help, sizeof(help), "auxdecode %s --help", c->name);
	line.help = help;
	groups[line.n_groups++] = (struct option_group){ cmd_rows(c), own };
	for (size_t i = 0; c->groups[i]; i++) {
		if (line.n_groups == CMD_GROUPS_MAX)
			return option_refuse(diag, "%s has more than %d groups "
					     "of options", c->name,
					     CMD_GROUPS_MAX);
		groups[line.n_groups++] =
			(struct option_group){ c->groups[i]->rows, o };
	}
	rc = options_parse(&line, argc, argv, first, diag);
	o->given = given;
	o->n_given = line.n_given;
	return rc;
}

/* The words are words[0..n): a FILE that is to be a command, or several.
 * Returns CMD_OK if they are one FILE after all. */
static int check_one_file(const struct command *c, bool named, char **words,
			  int n)
{
	const char *near, *habit;

	if (n == 1 && (named || access(words[0], F_OK) == 0))
		return CMD_OK;
	if (named)
		return cmd_usage("%s takes one FILE, not also \"%s\"", c->name,
				 words[1]);
	if (cmd_find(words[0]))
		return cmd_usage("the command comes first: auxdecode %s "
				 "[OPTIONS] FILE", words[0]);
	habit = habit_find(cmd_habits, words[0]);
	if (habit)
		return cmd_usage("no command \"%s\": %s", words[0], habit);
	near = nearest_command(words[0]);
	if (near)
		return cmd_usage("no command \"%s\"; did you mean %s?",
				 words[0], near);
	return n == 1 ? CMD_OK :
		cmd_usage("no command \"%s\"; `auxdecode --help` lists "
			  "them; a command comes before all options", words[0]);
}

/* Where no FILE is named. */
static int take_default(struct cmd_options *o)
{
	static const char *const standard = CMD_DEFAULT_FILE;
	const struct command *c = o->command;

	if (c->many)
		return cmd_usage("no FILE given; see `auxdecode %s --help`",
				 c->name);
	if (c->edits)
		return cmd_usage("%s may write to its FILE, so it wants one to "
				 "be named", c->name);
	if (access(standard, F_OK))
		return cmd_usage("no FILE given, and no perf.data here; see "
				 "`auxdecode --help`");
	o->path = standard;
	o->paths = &standard;
	o->n_paths = 1;
	return CMD_OK;
}

/* -i FILE is as the word FILE. */
static int take_inputs(struct cmd_options *o, char **words, int n)
{
	if (n)
		return cmd_usage("-i names the FILE; \"%s\" is one too many",
				 words[0]);
	if (o->n_inputs > 1 && !o->command->many)
		return cmd_usage("%s takes one FILE, not also \"%s\"",
				 o->command->name, o->inputs[1]);
	o->path = o->inputs[0];
	o->paths = o->inputs;
	o->n_paths = o->n_inputs;
	return CMD_OK;
}

/* FUNCTION stands before FILE; alone it is one where there is no such file. */
static bool is_function(const struct cmd_options *o, char **words, int n)
{
	bool elsewhere = o->import.options.pt || o->n_inputs;

	if (!o->command->named || o->filter.n_symbols || !n)
		return false;
	return elsewhere ? n == 1 : n == 2 || (n == 1 && access(words[0], F_OK) &&
					       !strchr(words[0], '/') &&
					       !access(CMD_DEFAULT_FILE, F_OK));
}

/* The words after the options: FILE, or what else the command takes. */
static int take_operands(struct cmd_options *o, bool named, char **words, int n)
{
	const struct command *c = o->command;
	const struct import_options *im = &o->import.options;

	if (c->none)
		return n ? cmd_usage("%s reads what its options name, not \"%s\"", c->name,
				     words[0]) : CMD_OK;
	if (is_function(o, words, n)) {
		o->filter.symbols[o->filter.n_symbols++] = *words++;
		n--;
	}
	if (im->pt && o->n_inputs)
		return cmd_usage("--pt names the FILE; -i %s is one too many",
				 o->inputs[0]);
	if (im->pt && c->compares)
		return cmd_usage("--pt is one FILE, and %s wants two: `auxdecode bundle "
				 "--pt T --elf E -o A` makes a recording of each",
				 c->name);
	if (im->pt) {
		o->path = im->pt;
		return n == 0 ? CMD_OK :
			cmd_usage("--pt names the FILE; %s is one too many",
				  words[0]);
	}
	if (im->n_images)
		return cmd_usage("--image goes with --pt; a snapshot takes --elf "
				 "FILE[@ADDR]");
	if (o->n_inputs)
		return take_inputs(o, words, n);
	if (!n)
		return take_default(o);
	o->path = words[0];
	o->paths = (const char *const *)words;
	o->n_paths = (size_t)n;
	return c->many ? CMD_OK : check_one_file(c, named, words, n);
}

static unsigned output_width(const struct cmd_options *o)
{
	const char *columns = getenv("COLUMNS");
	struct winsize w = { 0 };

	if (o->output.path || o->output.json || o->filter.full_names ||
	    o->filter.mangled || !isatty(STDOUT_FILENO))
		return 0;
	if ((ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_col) && columns)
		w.ws_col = (unsigned short)strtoul(columns, NULL, 10);
	return w.ws_col < 40 ? 80 : w.ws_col;
}

/* Progress and pager exclude each other where lines come while decoding: the
 * line of progress would be overwritten, or stand among the results. */
static int run_command(struct cmd_options *o)
{
	const struct command *c = o->command;
	struct pager pager = { 0 };
	int status;

	o->output.colour = pager_wants_colour(o->output.color, o->output.path);
	if (c->streamed && !o->output.path && o->output.progress < 0 &&
	    isatty(STDOUT_FILENO))
		o->output.progress = 0;
	o->output.width = output_width(o); /* before a pager hides it */
	if (c->paged && !o->output.path)
		pager_start(&pager, !o->output.no_pager, o->output.colour);
	status = c->run(o);
	pager_wait(&pager);
	return status;
}

/* Allocates the struct of the command's own options, with their defaults; the
 * caller frees it. NULL: out of memory. */
static void *new_own_options(const struct command *c)
{
	size_t size = c->sink ? c->sink->config_size :
		      c->own  ? c->own->config_size : 0;
	void (*defaults)(void *) = c->sink ? c->sink->defaults :
				   c->own  ? c->own->defaults : NULL;
	void *own = calloc(1, size ? size : 1);

	if (own && defaults)
		defaults(own);
	return own;
}

/* named: argv[0] is the command's name. own: the struct of its own options.
 * given has room for argc options: none of one letter alone leaves more to parse
 * in its word. */
static int parse_and_run(struct cmd_options *o, void *own,
			 struct option_given *given, bool named, int argc,
			 char **argv)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int first, status;

	if (parse_options(o->command, o, own, given, argc, argv, &first, &diag) < 0)
		return cmd_error(NULL, &diag);
	if (o->help)
		return cmd_help(named ? o->command : NULL);
	if (o->completion)
		return cmd_completion(o->completion);
	if (o->version)
		return printf("auxdecode %s\n", AUXKIT_VERSION) < 0 ?
			       CMD_FAILED : CMD_OK;
	status = take_operands(o, named, argv + first, argc - first);
	if (status)
		return status;
	follow_init(o);
	if (o->filter.in_shares)
		status = cmd_time_of_share(o);
	return status ? status : run_command(o);
}

/*
 * Somebody cuts a file that is being read. What was read of it is of no use, and
 * outputs are complete or not there (common/outfile.h), so the process ends. Another
 * SIGBUS is a fault of this program.
 */
static void on_bus(int sig, siginfo_t *info, void *context)
{
	char line[MAPPED_LINE];
	size_t n = mapped_cut(info->si_addr, "auxdecode: error: ", line, sizeof(line));

	(void)context;
	if (!n) {
		signal(sig, SIG_DFL);
		return; /* to the same instruction */
	}
	if (write(STDERR_FILENO, line, n) < 0)
		_exit(CMD_FAILED);
	_exit(CMD_FAILED);
}

static void handle_signals(void)
{
	struct sigaction bus = { .sa_sigaction = on_bus,
				 .sa_flags = SA_SIGINFO };

	signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write */
	signal(SIGXFSZ, SIG_IGN); /* so is a file that grows too large */
	sigaction(SIGBUS, &bus, NULL);
}

/* `auxdecode help [COMMAND]`, as git and perf have it; a file of that name is
 * ./help. -1: the words are something else. */
static int run_word(int argc, char **argv)
{
	const struct command *c;

	if (argc == 2 && !strcmp(argv[1], "version"))
		return printf("auxdecode %s\n", AUXKIT_VERSION) < 0 ?
			       CMD_FAILED : CMD_OK;
	if (argc < 2 || argc > 3 || strcmp(argv[1], "help"))
		return -1;
	c = argc == 3 ? cmd_find(argv[2]) : NULL;
	if (argc == 3 && !c)
		return cmd_usage("no command \"%s\"; `auxdecode help` lists them",
				 argv[2]);
	return cmd_help(c);
}

/* A command of others, before its options are taken for those of insn. */
static int check_first_word(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "-";
	const char *habit = *word == '-' || !access(word, F_OK) ? NULL :
			    habit_find(cmd_habits, word);

	return habit ? cmd_usage("no command \"%s\": %s", word, habit) : CMD_OK;
}

int main(int argc, char **argv)
{
	const struct command *c = argc > 1 ? cmd_find(argv[1]) : NULL;
	struct cmd_options o = {
		.filter = { .tid = -1, .cpu = -1, .stream = -1,
			    .time_to = UINT64_MAX },
		.output = { .progress = -1 },
	};
	struct option_given *given;
	bool named = c;
	void *own;
	int status;

	cmd_prepare_heap();
	handle_signals();
	status = run_word(argc, argv);
	if (status >= 0)
		return status;
	/* a file alone, for a person: what there is to see */
	o.quick = !named && (argc < 2 || (argc == 2 && argv[1][0] != '-')) &&
		  isatty(STDOUT_FILENO);
	if (!named)
		c = o.quick ? cmd_find("summary") : cmd_get(0);
	status = named ? CMD_OK : check_first_word(argc, argv);
	if (status != CMD_OK)
		return status;
	o.command = c;
	own = new_own_options(c);
	given = calloc((size_t)argc + 1, sizeof(*given));
	if (!own || !given) {
		free(own);
		free(given);
		fputs("auxdecode: error: out of memory\n", stderr);
		return CMD_FAILED;
	}
	o.own = own;
	status = parse_and_run(&o, own, given, named, argc - named, argv + named);
	follow_init(NULL);
	free(own);
	free(given);
	return status;
}
