/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * buildid: the NT_GNU_BUILD_ID note of an ELF file.
 *
 * Invariant: the id is the one the kernel would put into an MMAP2 record, so
 * the notes of program headers come first; sections are asked only when no
 * program header has one (relocatable and separate debug files).
 * Specification: elf(5), "Notes (Nhdr)".
 */
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

#include <aux/error.h>

#include "common/regular.h"
#include "perfdata/perfdata.h"

/* Looks through one block of notes. Returns the id's size or 0. */
static int scan_notes(Elf_Data *data, uint8_t id[BUILDID_MAX])
{
	size_t pos = 0, name, desc;
	GElf_Nhdr note;

	if (!data)
		return 0;
	while ((pos = gelf_getnote(data, pos, &note, &name, &desc)) > 0) {
		const char *bytes = data->d_buf;

		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    memcmp(bytes + name, "GNU", 4))
			continue;
		if (note.n_descsz == 0 || note.n_descsz > BUILDID_MAX)
			continue;
		memcpy(id, bytes + desc, note.n_descsz);
		return (int)note.n_descsz;
	}
	return 0;
}

static int scan_segments(Elf *elf, uint8_t id[BUILDID_MAX])
{
	size_t i, n;
	int size;

	if (elf_getphdrnum(elf, &n))
		return 0;
	for (i = 0; i < n; i++) {
		GElf_Phdr ph;
		Elf_Type type;

		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_NOTE)
			continue;
		type = ph.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR;
		size = scan_notes(elf_getdata_rawchunk(elf, (int64_t)ph.p_offset,
						       ph.p_filesz, type), id);
		if (size)
			return size;
	}
	return 0;
}

static int scan_sections(Elf *elf, uint8_t id[BUILDID_MAX])
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr sh;
		int size;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type != SHT_NOTE)
			continue;
		size = scan_notes(elf_getdata(scn, NULL), id);
		if (size)
			return size;
	}
	return 0;
}

/* A small file into buf, as far as it fits; its length, or -1. sysfs gives no
 * size in advance. */
static ssize_t read_small(const char *path, void *buf, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t got = 0;
	ssize_t n = 0;

	if (fd < 0)
		return -1;
	while (got < len && (n = read(fd, (char *)buf + got, len - got)) > 0)
		got += (size_t)n;
	close(fd);
	return n < 0 ? -1 : (ssize_t)got;
}

int buildid_notes(const char *path, uint8_t id[BUILDID_MAX])
{
	uint32_t bytes[2048];
	ssize_t got = read_small(path, bytes, sizeof(bytes));
	const char *p = (const char *)bytes;
	size_t left = got < 0 ? 0 : (size_t)got;

	while (left >= 12) {
		uint32_t h[3];	/* namesz, descsz, type; each padded to 4 */
		size_t name, desc;

		memcpy(h, p, sizeof(h));
		name = (h[0] + 3ul) & ~3ul;
		desc = (h[1] + 3ul) & ~3ul;
		if (name > left - 12 || desc > left - 12 - name)
			break;
		if (h[2] == NT_GNU_BUILD_ID && h[0] == 4 && h[1] &&
		    h[1] <= BUILDID_MAX && !memcmp(p + 12, "GNU", 4)) {
			memcpy(id, p + 12 + name, h[1]);
			return (int)h[1];
		}
		p += 12 + name + desc;
		left -= 12 + name + desc;
	}
	return got < 0 ? -AUX_E_IO : 0;
}

int buildid_read(const char *path, uint8_t id[BUILDID_MAX])
{
	struct stat st;
	int fd, size = 0;
	Elf *elf;

	fd = regular_open(path, &st);
	if (fd < 0)
		return -AUX_E_IO;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF) {
		size = scan_segments(elf, id);
		if (!size)
			size = scan_sections(elf, id);
	}
	elf_end(elf);
	close(fd);
	return size;
}
