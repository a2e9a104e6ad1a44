/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * container_lldb_code: the processes of an LLDB bundle, and what they map.
 *
 * A module whose file is not there is mapped all the same, as far as a module may
 * reach: so the gap names it. What is there comes later and lies on top.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/lib/import/elf.h"
#include "decode/lib/import/lldb.h"

#define ABSENT_SIZE (UINT64_C(16) << 20)
#define KERNEL_BASE UINT64_C(0xffffffff81000000)
#define MIN_BUILD_ID 8

/* A uuid with that many bytes is a build id; a shorter one is a checksum. */
static void read_uuid(const char *s, struct container_map *m)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = 0;

	memset(m->build_id, 0, sizeof(m->build_id));
	m->build_id_size = 0;
	for (; s && *s; s++) {
		const char *d = strchr(digits, *s | 0x20);

		if (*s == '-')
			continue;
		if (!d || n == 2 * sizeof(m->build_id))
			return;
		m->build_id[n / 2] |= (uint8_t)((d - digits) <<
						(n % 2 ? 0 : 4));
		n++;
	}
	if (n % 2 == 0 && n / 2 >= MIN_BUILD_ID)
		m->build_id_size = (uint8_t)(n / 2);
}

/* Those that are not there, or the others. */
static int put_file(struct lldb_bundle *l, const char *name,
		    struct container_map *m, bool absent)
{
	struct container_file f;
	int rc = container_map_file(&f, l->dir, name, NULL);
	char *path;

	if (rc == 0) {
		if (!absent)
			rc = container_elf_map(l->b, &f, m, true, l->diag);
		container_unmap_file(&f);
		return rc;
	}
	if (!absent)
		return 0;
	path = container_absent(l->dir, name);
	if (!path)
		return -AUX_E_NOMEM;
	m->path = path;
	m->len = ABSENT_SIZE;
	container_build_map(l->b, m);
	free(path);
	return 0;
}

int lldb_put_kernel(struct lldb_bundle *l)
{
	static const struct lldb_place at = { "kernel" };
	const struct json_t *k = container_json_get(l->root, "kernel");
	struct container_map m = { .pid = UINT32_MAX, .addr = KERNEL_BASE };
	const char *file;
	int rc;

	if (!k)
		return 0;
	rc = lldb_text(l, k, &at, "file", true, &file);
	if (rc == 0 && container_json_get(k, "loadAddress"))
		rc = lldb_number(l, k, &at, "loadAddress", UINT64_MAX, &m.addr);
	if (rc == 0)
		rc = put_file(l, file, &m, true);
	return rc == 0 ? put_file(l, file, &m, false) : rc;
}

static int put_module(struct lldb_bundle *l, const struct json_t *module,
		      const struct lldb_place *at, uint32_t pid, bool absent)
{
	struct container_map m = { .pid = pid };
	const char *file, *system, *uuid;
	int rc = lldb_text(l, module, at, "file", false, &file);

	if (rc == 0)
		rc = lldb_text(l, module, at, "systemPath", !file, &system);
	if (rc == 0)
		rc = lldb_number(l, module, at, "loadAddress", UINT64_MAX,
				 &m.addr);
	if (rc == 0)
		rc = lldb_text(l, module, at, "uuid", false, &uuid);
	if (rc < 0)
		return rc;
	read_uuid(uuid, &m);
	return put_file(l, file ? file : system, &m, absent);
}

static int put_modules(struct lldb_bundle *l, const struct json_t *process,
		       const struct lldb_place *at, uint32_t pid, bool absent)
{
	const struct json_t *modules = container_json_get(process, "modules");
	const struct json_t *m;
	int rc = 0;

	if (modules && !container_json_is_array(modules))
		return lldb_fail(l, at, "modules", "is no list");
	for (size_t i = 0; rc == 0 && (m = container_json_at(modules, i));
	     i++) {
		struct lldb_place in = lldb_place(at, "modules", i);

		rc = container_json_is_object(m) ?
			     put_module(l, m, &in, pid, absent) :
			     lldb_fail(l, &in, "", "is no object");
	}
	return rc;
}

/* The name of a process is that of its first module. */
static const char *process_name(const struct json_t *process)
{
	const struct json_t *m = container_json_get(process, "modules");
	const char *path, *slash;

	m = container_json_at(m, 0);
	path = container_json_text(container_json_get(m, "systemPath"));
	slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path ? path : "";
}

static int put_threads(struct lldb_bundle *l, const struct json_t *process,
		       const struct lldb_place *at, uint32_t pid)
{
	const struct json_t *threads = container_json_get(process, "threads");
	const struct json_t *t;
	int rc = 0;

	if (!container_json_is_array(threads))
		return lldb_fail(l, at, "threads", "is missing");
	for (size_t i = 0; rc == 0 && (t = container_json_at(threads, i));
	     i++) {
		struct lldb_place in = lldb_place(at, "threads", i);
		uint64_t tid;

		rc = lldb_number(l, t, &in, "tid", INT32_MAX, &tid);
		if (rc == 0)
			container_build_comm(l->b, (struct container_who){
						   pid, (uint32_t)tid, -1U, 0 },
					     process_name(process));
	}
	return rc;
}

static int put_process(struct lldb_bundle *l, const struct json_t *p,
		       const struct lldb_place *at)
{
	uint64_t pid;
	int rc;

	if (!container_json_is_object(p))
		return lldb_fail(l, at, "", "is no object");
	rc = lldb_number(l, p, at, "pid", INT32_MAX, &pid);
	if (rc == 0)
		rc = put_threads(l, p, at, (uint32_t)pid);
	if (rc == 0)
		rc = put_modules(l, p, at, (uint32_t)pid, true);
	if (rc == 0)
		rc = put_modules(l, p, at, (uint32_t)pid, false);
	return rc;
}

int lldb_put_processes(struct lldb_bundle *l)
{
	static const struct lldb_place top;
	const struct json_t *all = container_json_get(l->root, "processes");
	const struct json_t *p;
	int rc = 0;

	if (all && !container_json_is_array(all))
		return lldb_fail(l, &top, "processes", "is no list");
	for (size_t i = 0; rc == 0 && (p = container_json_at(all, i)); i++) {
		struct lldb_place at = lldb_place(&top, "processes", i);

		rc = put_process(l, p, &at);
	}
	return rc;
}
