/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * screen: a terminal, by ncurses: the one file that includes it.
 *
 * The terminal is given back however the program ends. A signal that asks it to
 * end is noted, and the loop of keys ends; one that says that the program is
 * broken writes what puts the terminal right, which was looked up before, and
 * goes on to whoever had that signal.
 */
#ifdef HAVE_NCURSES
#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "common/clean.h"
#include "common/clock.h"
#include "common/diag.h"
#include "decode/tui/ui_impl.h"
#include <term.h>	/* last: it has macros of common words */

#define ESC_MS 50		/* how long the rest of a key's sequence may take */
#define DOUBLE_NS UINT64_C(400000000)
#define N_DEAD 5

/* ---- signals ---- */

static const int asking[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
static const int broken[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

#define N_OF(a) (sizeof(a) / sizeof((a)[0]))

static volatile sig_atomic_t came;
static struct sigaction before_asking[N_OF(asking)], before_broken[N_OF(broken)];
static struct termios before_mode;
static char restore[256];	/* what the terminal is to be sent */
static size_t n_restore;

static void on_asking(int sig)
{
	came = sig;
}

int screen_signal(void)
{
	return came;
}

static void on_broken(int sig, siginfo_t *info, void *context)
{
	ssize_t n = write(STDOUT_FILENO, restore, n_restore);

	(void)n;
	tcsetattr(STDIN_FILENO, TCSANOW, &before_mode);
	for (size_t i = 0; i < N_OF(broken); i++) {
		if (broken[i] != sig)
			continue;
		sigaction(sig, &before_broken[i], NULL);
		if (before_broken[i].sa_flags & SA_SIGINFO)
			before_broken[i].sa_sigaction(sig, info, context);
	}
	raise(sig);	/* it waits until this returns, to where it came from */
}

static void add_restore(const char *capability)
{
	const char *s = tigetstr(capability);
	size_t n = s && s != (const char *)-1 ? strlen(s) : 0;

	if (n && n_restore + n < sizeof(restore)) {
		memcpy(restore + n_restore, s, n);
		n_restore += n;
	}
}

static void take_signals(void)
{
	struct sigaction ask = { .sa_handler = on_asking };
	struct sigaction bad = { .sa_sigaction = on_broken, .sa_flags = SA_SIGINFO };

	n_restore = 0;
	add_restore("sgr0");
	add_restore("rmkx");
	add_restore("cnorm");
	add_restore("rmcup");
	for (size_t i = 0; i < N_OF(asking); i++)
		sigaction(asking[i], &ask, &before_asking[i]);
	for (size_t i = 0; i < N_OF(broken); i++)
		sigaction(broken[i], &bad, &before_broken[i]);
}

static void give_signals(void)
{
	for (size_t i = 0; i < N_OF(asking); i++)
		sigaction(asking[i], &before_asking[i], NULL);
	for (size_t i = 0; i < N_OF(broken); i++)
		sigaction(broken[i], &before_broken[i], NULL);
}

/* ---- the terminal ---- */

static const short colours[LOOK_N] = {	/* 0: the terminal's own */
	[LOOK_NUMBER] = COLOR_YELLOW, [LOOK_NAME] = COLOR_CYAN,
	[LOOK_BAD] = COLOR_RED, [LOOK_GOOD] = COLOR_GREEN,
};

static bool begin_colour(bool colour)
{
	if (!colour || !has_colors() || start_color() == ERR ||
	    use_default_colors() == ERR)
		return false;
	for (short i = 1; i < LOOK_N; i++)
		if (colours[i])
			init_pair(i, colours[i], -1);
	return true;
}

static attr_t attribute(const struct screen *s, unsigned look)
{
	static const attr_t plain[LOOK_N] = {
		[LOOK_HEAD] = A_BOLD, [LOOK_DIM] = A_DIM, [LOOK_BAD] = A_BOLD,
		[LOOK_TAB] = A_REVERSE,
	};
	unsigned i = look & (LOOK_CHOSEN - 1);
	attr_t a = plain[i] | (look & LOOK_CHOSEN ? A_REVERSE : 0);

	if (look & LOOK_CHOSEN)
		return a & ~A_DIM;
	/* a pair that was not made is black on black */
	return s->colour && colours[i] ? a | (attr_t)COLOR_PAIR((short)i) : a;
}

/* What a look around needs; "dumb" has none of it. */
static bool can_address(void)
{
	const char *cup = tigetstr("cup"), *clear_it = tigetstr("clear");

	return cup && cup != (const char *)-1 && clear_it &&
	       clear_it != (const char *)-1;
}

static int refuse(struct aux_diag *diag)
{
	const char *term = getenv("TERM");

	if (!term || !*term)
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"TERM is not set, so what the terminal understands "
				"is not known; try TERM=xterm");
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"the terminal \"%s\" (TERM) is not known, or cannot place "
			"text; try TERM=xterm", term);
}

static void get_size(struct screen *s)
{
	getmaxyx(stdscr, s->rows, s->cols);
	if (s->cols > SCREEN_MAX_COLS)
		s->cols = SCREEN_MAX_COLS;
}

int screen_open(struct screen *s, bool colour, struct aux_diag *diag)
{
	SCREEN *handle;
	bool can;
	int err;

	setlocale(LC_CTYPE, "");
	tcgetattr(STDIN_FILENO, &before_mode);
	if (setupterm(NULL, STDOUT_FILENO, &err) == ERR)
		return refuse(diag);
	can = can_address();
	del_curterm(cur_term);
	if (!can)
		return refuse(diag);
	came = 0;
	handle = newterm(NULL, stdout, stdin);
	if (!handle)
		return refuse(diag);
	*s = (struct screen){ .handle = handle, .open = true };
	s->is_unicode = !strcmp(nl_langinfo(CODESET), "UTF-8");
	take_signals();
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESC_MS);
	curs_set(0);
	mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
	mouseinterval(0);
	s->colour = begin_colour(colour);
	get_size(s);
	return 0;
}

void screen_close(struct screen *s)
{
	if (!s->open)
		return;
	mousemask(0, NULL);
	endwin();
	delscreen(s->handle);
	give_signals();
	s->open = false;
}

void screen_clear(struct screen *s)
{
	get_size(s);
	erase();
}

void screen_show(struct screen *s)
{
	(void)s;
	refresh();
}

/* ---- text ---- */

/* The character at *p, which clean_text let through; moves *p. What the
 * terminal's locale cannot show, or has no place, is "?". */
static wchar_t next_char(const struct screen *s, const char **p, const char *end)
{
	const unsigned char *c = (const unsigned char *)*p;
	size_t n = *c < 0x80 ? 1 : *c < 0xe0 ? 2 : *c < 0xf0 ? 3 : 4;
	wchar_t w = n == 1 ? *c : *c & (0x7f >> n);

	if (n > (size_t)(end - *p)) {
		*p = end;
		return L'?';
	}
	for (size_t i = 1; i < n; i++)
		w = w << 6 | (c[i] & 0x3f);
	*p += n;
	if (n > 1 && (!s->is_unicode || wcwidth(w) < 0))
		return L'?';
	return w;
}

int screen_put(struct screen *s, int y, int x, int width, unsigned look,
	       const char *text)
{
	size_t len = strnlen(text, SCREEN_MAX_COLS * 4);
	char clean[SCREEN_MAX_COLS * 4];
	wchar_t out[SCREEN_MAX_COLS + 1];
	int room = s->cols - x, at = 0, n = 0, w;
	const char *p = clean, *end = clean + clean_text(clean, text, len);

	if (width && width < room)
		room = width;
	if (y < 0 || y >= s->rows || x < 0 || room <= 0)
		return 0;
	while (p < end && at < room) {
		wchar_t c = next_char(s, &p, end);

		w = c < 0x80 ? 1 : wcwidth(c);
		if (!w)
			continue;
		if (at + w > room)
			break;
		out[n++] = c;
		at += w;
	}
	for (; at < room && width; at++)
		out[n++] = L' ';
	attrset(attribute(s, look));
	mvaddnwstr(y, x, out, n);
	attrset(A_NORMAL);
	return at;
}

int screen_printf(struct screen *s, int y, int x, int width, unsigned look,
		  const char *fmt, ...)
{
	char text[SCREEN_MAX_COLS * 4];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return screen_put(s, y, x, width, look, text);
}

void screen_bar(struct screen *s, int y, int x, unsigned look, unsigned eighths)
{
	static const char plain[] = " ..::=##@";
	char text[4] = { 0 };

	if (s->is_unicode && eighths) {	/* U+2581 to U+2588 */
		text[0] = (char)0xe2;
		text[1] = (char)0x96;
		text[2] = (char)(0x80 + eighths);
	} else {
		text[0] = plain[eighths];
	}
	screen_put(s, y, x, 1, look, text);
}

/* ---- keys ---- */

static int mouse(struct screen *s)
{
	uint64_t now = clock_ns();
	bool twice;
	MEVENT e;

	if (getmouse(&e) != OK)
		return SCREEN_NONE;
	if (e.bstate & BUTTON4_PRESSED)
		return SCREEN_WHEEL_UP;
	if (e.bstate & BUTTON5_PRESSED)
		return SCREEN_WHEEL_DOWN;
	if (!(e.bstate & BUTTON1_PRESSED))
		return SCREEN_NONE;
	twice = e.y == s->click_y && now - s->clicked_ns < DOUBLE_NS;
	s->click_x = e.x;
	s->click_y = e.y;
	s->clicked_ns = twice ? 0 : now;
	return twice ? SCREEN_DOUBLE_CLICK : SCREEN_CLICK;
}

/* table */
static const struct {
	int curses, key;
} keys[] = {
	{ KEY_RESIZE, SCREEN_RESIZED }, { KEY_UP, SCREEN_UP },
	{ KEY_DOWN, SCREEN_DOWN }, { KEY_LEFT, SCREEN_LEFT },
	{ KEY_RIGHT, SCREEN_RIGHT }, { KEY_PPAGE, SCREEN_PAGE_UP },
	{ KEY_NPAGE, SCREEN_PAGE_DOWN }, { KEY_HOME, SCREEN_HOME },
	{ KEY_END, SCREEN_LAST }, { KEY_ENTER, SCREEN_ENTER },
	{ '\r', SCREEN_ENTER }, { '\n', SCREEN_ENTER }, { 27, SCREEN_ESC },
	{ '\t', SCREEN_TAB }, { KEY_BTAB, SCREEN_BACK_TAB },
	{ KEY_BACKSPACE, SCREEN_BACKSPACE }, { 127, SCREEN_BACKSPACE },
	{ 8, SCREEN_BACKSPACE }, { 2, SCREEN_PAGE_UP }, { 6, SCREEN_PAGE_DOWN },
	{ 3, 'q' },
};

static int translate(struct screen *s, int c)
{
	if (c == KEY_MOUSE)
		return mouse(s);
	for (size_t i = 0; i < N_OF(keys); i++)
		if (keys[i].curses == c)
			return keys[i].key;
	return c < KEY_MIN ? c : SCREEN_NONE;
}

/* A terminal that is gone is always ready, and has nothing. */
int screen_key(struct screen *s, int wait_ms)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	int c = getch();

	if (c == ERR && poll(&p, 1, wait_ms) > 0) {
		c = getch();
		if (c == ERR && ++s->n_dead >= N_DEAD)
			return SCREEN_END;
	} else if (c == ERR) {
		c = getch();	/* a signal: the size may be another */
	}
	if (c == ERR)
		return SCREEN_NONE;
	s->n_dead = 0;
	return translate(s, c);
}
#endif
