/* SPDX-License-Identifier: BSD-2-Clause */
/* doctor: the list of lines and what all checks use. */
#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <aux/error.h>

#include "capture/cmd/doctor.h"

void doctor_say(struct doctor *d, enum doctor_state state, const char *topic,
		const char *fix, const char *fmt, ...)
{
	struct doctor_line *l = reallocarray(d->lines, d->n + 1, sizeof(*l));
	va_list ap;

	if (!l) {
		d->nomem = true;
		return;
	}
	d->lines = l;
	l += d->n++;
	memset(l, 0, sizeof(*l));
	l->state = state;
	snprintf(l->topic, sizeof(l->topic), "%s", topic);
	snprintf(l->fix, sizeof(l->fix), "%s", fix);
	va_start(ap, fmt);
	vsnprintf(l->text, sizeof(l->text), fmt, ap);
	va_end(ap);
}

bool doctor_read(const char *root, const char *file, char *buf, size_t len)
{
	char path[1024];
	size_t used = 0;
	ssize_t n = 1;
	int fd;

	buf[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s", root, file);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	while (used < len - 1 && n > 0) {
		n = read(fd, buf + used, len - 1 - used);
		used += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	buf[used] = '\0';
	if (used && buf[used - 1] == '\n')
		buf[used - 1] = '\0';
	return n >= 0;
}

bool doctor_exists(const char *root, const char *file)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s", root, file);
	return !access(path, F_OK);
}

/* Value of a line of cpuinfo, "" when there is none. */
static const char *cpu_line(const struct doctor *d, const char *name)
{
	size_t len = strlen(name);
	const char *p = d->cpuinfo, *q;

	for (; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : p) {
		if (strncmp(p, name, len))
			continue;
		q = p + len;
		q += strspn(q, " \t");
		if (*q == ':')
			return q + 1;
	}
	return "";
}

bool doctor_cpu_flag(const struct doctor *d, const char *flag)
{
	const char *p = cpu_line(d, d->arm64 ? "Features" : "flags");
	const char *end = strchrnul(p, '\n');
	size_t len = strlen(flag);

	for (; (p = strstr(p, flag)) && p < end; p += len)
		if (p[-1] == ' ' && (isspace((unsigned char)p[len]) || !p[len]))
			return true;
	return false;
}

long doctor_cpu_number(const struct doctor *d, const char *name)
{
	const char *p = cpu_line(d, name);
	char *end;
	long v = strtol(p, &end, 0);

	return end == p ? -1 : v;
}

static void append(char *list, size_t len, const char *what)
{
	size_t used = strlen(list);

	snprintf(list + used, len - used, "%s%s", used ? ", " : "", what);
}

void doctor_works(struct doctor *d, const char *what)
{
	d->n_sources++;
	append(d->works, sizeof(d->works), what);
}

void doctor_missing(struct doctor *d, const char *fmt, ...)
{
	char text[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	append(d->missing, sizeof(d->missing), text);
}

static void know_machine(struct doctor *d)
{
	const char *m = d->env->machine;
	const char *vendor;

	d->x86 = !strcmp(m, "x86_64") || (m[0] == 'i' && !strcmp(m + 2, "86"));
	d->arm64 = !strcmp(m, "aarch64");
	doctor_read(d->env->proc, "cpuinfo", d->cpuinfo, sizeof(d->cpuinfo));
	vendor = cpu_line(d, "vendor_id");
	vendor += strspn(vendor, " ");
	d->intel = !strncmp(vendor, "GenuineIntel", 12);
	d->amd = !strncmp(vendor, "AuthenticAMD", 12);
	d->virtual = doctor_cpu_flag(d, "hypervisor") ||
		doctor_exists(d->env->sys, "hypervisor/type") ||
		doctor_exists(d->env->proc, "device-tree/hypervisor");
}

int doctor_run(struct doctor *d, const struct doctor_env *env)
{
	memset(d, 0, sizeof(*d));
	d->env = env;
	explain_system_at(&d->sys, env->proc, env->sys);
	know_machine(d);
	doctor_check_system(d);
	doctor_check_pmus(d);
	doctor_check_soft(d);
	doctor_check_code(d);
	return d->nomem ? -AUX_E_NOMEM : 0;
}

void doctor_summary(const struct doctor *d, char *buf, size_t len)
{
	snprintf(buf, len, "works now: %s%s%s",
		 d->n_sources ? d->works : "nothing",
		 d->missing[0] ? "; not: " : "", d->missing);
}

void doctor_fini(struct doctor *d)
{
	free(d->lines);
	d->lines = NULL;
	d->n = 0;
}
