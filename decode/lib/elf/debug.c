/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: the separate debug file of a stripped one, for its names.
 *
 * Looked for by build id, then by the name in .gnu_debuglink, and taken only
 * when its id or checksum says that it belongs to the file; at last what
 * .gnu_debugdata holds. Never used for code.
 *
 * Specification: the GDB manual, "Debugging Information in Separate Files" and
 * "MiniDebugInfo".
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <aux/error.h>

#include "decode/lib/elf/impl.h"

#define MAX_LINK 255

void elfimage_debug_from(struct elfimage *im, const char *root,
			 const char *path)
{
	pthread_mutex_lock(&im->lock);
	free(im->debug_root);
	free(im->debug_path);
	im->debug_root = strdup(root);
	im->debug_path = strdup(path);
	pthread_mutex_unlock(&im->lock);
}

/* The checksum of .gnu_debuglink: CRC-32 of ISO 3309. */
static uint32_t sum_file(const struct elfimage *im)
{
	uint32_t table[256], crc = UINT32_MAX;

	for (uint32_t i = 0; i < 256; i++) {
		uint32_t v = i;

		for (int bit = 0; bit < 8; bit++)
			v = v >> 1 ^ (v & 1 ? 0xedb88320 : 0);
		table[i] = v;
	}
	for (uint64_t i = 0; i < im->len; i++)
		crc = table[(crc ^ im->data[i]) & 0xff] ^ crc >> 8;
	return ~crc;
}

/* Takes a file that has names and belongs to im. crc NULL: by build id. */
static bool try_file(struct elfimage *im, const char *path, const uint32_t *crc)
{
	struct elfimage *d;
	bool fits;

	if (elfimage_open(&d, path) < 0)
		return false;
	fits = d->elf && d->machine == im->machine && d->wide == im->wide;
	if (im->build_id_size && d->build_id_size)
		fits = fits && im->build_id_size == d->build_id_size &&
		       !memcmp(im->build_id, d->build_id, d->build_id_size);
	else
		fits = fits && crc && sum_file(d) == *crc;
	if (!fits) {
		elfimage_close(d);
		return false;
	}
	im->debug = d;
	return true;
}

static bool by_build_id(struct elfimage *im, const char *root)
{
	char hex[2 * BUILD_ID_MAX + 1], *path;
	bool found;

	if (im->build_id_size < 2)
		return false;
	for (size_t i = 0; i < im->build_id_size; i++)
		snprintf(hex + 2 * i, 3, "%02x", im->build_id[i]);
	if (asprintf(&path, "%s/usr/lib/debug/.build-id/%.2s/%s.debug", root,
		     hex, hex + 2) < 0)
		return false;
	found = try_file(im, path, NULL);
	free(path);
	if (!found && *root &&
	    asprintf(&path, "%s/.build-id/%.2s/%s.debug", root, hex,
		     hex + 2) >= 0) {
		found = try_file(im, path, NULL);
		free(path);
	}
	return found;
}

/* A name, padded to four bytes, and the checksum of the file. */
static bool get_link(const struct elfimage *im, const char **name,
		     uint32_t *crc)
{
	const struct elf_section *s = elfimage_named(im, ".gnu_debuglink");
	struct cursor c;
	size_t len;

	if (!s || !s->bytes)
		return false;
	*name = (const char *)s->bytes;
	len = strnlen(*name, s->h.sh_size);
	if (!len || len > MAX_LINK || len == s->h.sh_size)
		return false;
	c = cursor_init(s->bytes, s->h.sh_size, im->swap);
	cursor_bytes(&c, (len + 4) & ~(size_t)3);
	*crc = cursor_u32(&c);
	return !c.bad && !strchr(*name, '/');
}

static void by_link(struct elfimage *im, const char *root)
{
	/* table */
	static const struct {
		const char *before, *behind; /* of the directory */
	} dirs[] = { { "", "" }, { "", "/.debug" }, { "/usr/lib/debug", "" } };
	const char *name, *path = im->debug_path, *slash;
	uint32_t crc;
	char *full;

	slash = path ? strrchr(path, '/') : NULL;
	if (!slash || !get_link(im, &name, &crc))
		return;
	for (size_t i = 0; i < 3 && !im->debug; i++) {
		if (asprintf(&full, "%s%s%.*s%s/%s", root, dirs[i].before,
			     (int)(slash - path), path, dirs[i].behind,
			     name) < 0)
			return;
		if (!im->path || strcmp(full, im->path))
			try_file(im, full, &crc);
		free(full);
	}
}

static void by_debugdata(struct elfimage *im)
{
	const struct elf_section *s = elfimage_named(im, ".gnu_debugdata");
	struct elfimage *mini;
	char path[32];
	uint64_t size;
	int fd;

	if (!s || !s->bytes ||
	    elfimage_unpack(s->bytes, s->h.sh_size, &fd, &size) <= 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (elfimage_open(&mini, path) == 0)
		im->mini = mini;
	close(fd);
}

void elfimage_find_debug(struct elfimage *im)
{
	const char *root = im->debug_root;

	if (im->looked_for_debug)
		return;
	im->looked_for_debug = true;
	if (root && !by_build_id(im, root))
		by_link(im, root);
	if (!im->debug)
		by_debugdata(im);
}
