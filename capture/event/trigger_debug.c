/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file that has the symbols and the DWARF of a stripped program or library.
 *
 * It is where GDB's manual says ("Separate Debug Files"): by the build id below
 * /usr/lib/debug/.build-id, else by the name in .gnu_debuglink beside the file, in .debug
 * there, or in the same directory below /usr/lib/debug. It is taken only if it has the same
 * build id; where the stripped file has none, the checksum that its link gives.
 */
#include <elf.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capture/event/impl.h"
#include "common/regular.h"

#define ID_MAX 64
#define DEBUG_DIR "/usr/lib/debug"

struct wanted {
	uint8_t id[ID_MAX];
	size_t id_size;		/* 0: it has none */
	char name[NAME_MAX + 1];	/* of the link; "": it has none */
	uint32_t crc;
};

/* The section of that name; NULL: there is none with contents. */
static Elf_Data *section(Elf *elf, const char *name, GElf_Shdr *h)
{
	Elf_Scn *scn = NULL;
	size_t shstr;

	if (elf_getshdrstrndx(elf, &shstr))
		return NULL;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *s = gelf_getshdr(scn, h) ?
				elf_strptr(elf, shstr, h->sh_name) : NULL;

		if (s && !strcmp(s, name) && h->sh_type != SHT_NOBITS)
			return elf_getdata(scn, NULL);
	}
	return NULL;
}

static size_t read_build_id(Elf *elf, uint8_t id[ID_MAX])
{
	GElf_Shdr h;
	Elf_Data *data = section(elf, ".note.gnu.build-id", &h);
	size_t at = 0, name, desc;
	GElf_Nhdr note;

	while (data && data->d_buf && (at = gelf_getnote(data, at, &note, &name, &desc)))
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp((const char *)data->d_buf + name, "GNU", 4) &&
		    note.n_descsz && note.n_descsz <= ID_MAX) {
			memcpy(id, (const uint8_t *)data->d_buf + desc, note.n_descsz);
			return note.n_descsz;
		}
	return 0;
}

/* A name, padded to four bytes, then the checksum. */
static void read_link(Elf *elf, struct wanted *w)
{
	GElf_Shdr h;
	Elf_Data *data = section(elf, ".gnu_debuglink", &h);
	size_t n, at;

	if (!data || !data->d_buf)
		return;
	n = strnlen(data->d_buf, data->d_size);
	at = (n + 4) & ~(size_t)3;
	if (!n || n > NAME_MAX || at + 4 > data->d_size || memchr(data->d_buf, '/', n))
		return;
	memcpy(w->name, data->d_buf, n + 1);
	memcpy(&w->crc, (const uint8_t *)data->d_buf + at, 4);
}

/* CRC-32 of IEEE 802.3, four bits at a time. */
static uint32_t checksum(int fd)
{
	static const uint32_t table[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
		0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	uint32_t crc = UINT32_MAX;
	uint8_t buf[16384];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			crc ^= buf[i];
			crc = crc >> 4 ^ table[crc & 15];
			crc = crc >> 4 ^ table[crc & 15];
		}
		at += n;
	}
	return ~crc;
}

static bool is_wanted(const struct wanted *w, Elf *elf, int fd)
{
	uint8_t id[ID_MAX];
	size_t n = read_build_id(elf, id);

	if (w->id_size)
		return n == w->id_size && !memcmp(id, w->id, n);
	return checksum(fd) == w->crc;
}

static Elf *try_file(const struct wanted *w, const char *file, int *fd)
{
	struct stat st;
	Elf *elf;

	*fd = regular_open(file, &st);
	elf = *fd >= 0 ? elf_begin(*fd, ELF_C_READ, NULL) : NULL;
	if (elf && elf_kind(elf) == ELF_K_ELF && is_wanted(w, elf, *fd))
		return elf;
	elf_end(elf);
	if (*fd >= 0)
		close(*fd);
	return NULL;
}

static Elf *try_id(const struct wanted *w, int root, const char *file, int *fd)
{
	char name[PATH_MAX];
	int n = snprintf(name, sizeof(name), "%.*s" DEBUG_DIR "/.build-id/%02x/", root, file,
			 w->id[0]);

	if (w->id_size < 2 || n < 0 || (size_t)n + 2 * w->id_size + 8 > sizeof(name))
		return NULL;
	for (size_t i = 1; i < w->id_size; i++)
		n += snprintf(name + n, sizeof(name) - (size_t)n, "%02x", w->id[i]);
	snprintf(name + n, sizeof(name) - (size_t)n, ".debug");
	return try_file(w, name, fd);
}

static Elf *try_link(const struct wanted *w, int root, const char *file, int *fd)
{
	const char *slash = strrchr(file, '/');
	int dir = slash ? (int)(slash - file) : 0;
	char names[3][PATH_MAX];
	Elf *elf = NULL;

	if (!slash || !*w->name || dir < root)
		return NULL;
	snprintf(names[0], PATH_MAX, "%.*s/%s", dir, file, w->name);
	snprintf(names[1], PATH_MAX, "%.*s/.debug/%s", dir, file, w->name);
	snprintf(names[2], PATH_MAX, "%.*s" DEBUG_DIR "%.*s/%s", root, file, dir - root,
		 file + root, w->name);
	for (size_t i = 0; i < 3 && !elf; i++)
		elf = try_file(w, names[i], fd);
	return elf;
}

void *trigger_debug_open(void *elf, const char *path, const char *file, int *fd)
{
	size_t n = strlen(file), k = strlen(path);
	/* what comes before the path that the process knows: /proc/PID/root */
	int root = n > k && !strcmp(file + n - k, path) ? (int)(n - k) : 0;
	struct wanted w = { .id_size = 0 };
	Elf *found = NULL;

	w.id_size = read_build_id(elf, w.id);
	read_link(elf, &w);
	if (w.id_size)
		found = try_id(&w, root, file, fd);
	return found ? found : try_link(&w, root, file, fd);
}
