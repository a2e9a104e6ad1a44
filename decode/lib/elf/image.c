/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: opening a file of code, its addresses, and its separate debug file;
 * see elf.h.
 *
 * Program headers turn virtual addresses into file offsets. Offsets do not
 * depend on where a file was loaded, so all processes that map it share one
 * image and its names.
 *
 * Compressed files (kernel modules, vmlinux) are unpacked into a memfd. How
 * much a file may unpack to is limited, and so is what a decompressor may
 * allocate: files come from the recording's machine, or from a server.
 *
 * A debug file is looked for by build id, then by the name in .gnu_debuglink,
 * and used only if its id or checksum says that it belongs to the file; last
 * comes .gnu_debugdata, which the file itself contains. It supplies names and
 * lines, never code.
 *
 * Specification: System V ABI, "Program Loading"; RFC 1952 (gzip), RFC 8878
 * (Zstandard), the .xz file format 1.1; the GDB manual, "Debugging Information
 * in Separate Files" and "MiniDebugInfo".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <aux/error.h>

#include "common/mapped.h"
#include "common/regular.h"

#include "decode/lib/elf/impl.h"

#ifdef HAVE_LZMA
#include <lzma.h>
#endif
#ifdef HAVE_Z
#include <zlib.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

/* ---- compressed files ---- */

#define PIECE	   ((size_t)256 << 10)	/* output buffer */
#define MAX_SIZE   ((uint64_t)512 << 20)	/* bytes of the result */
#define MAX_MEMORY ((uint64_t)256 << 20)	/* xz -9 needs 65 MiB */

struct output {
	int fd;
	uint64_t size;
	uint8_t *buf;	/* PIECE bytes, for the next put_piece() */
};

/* Writes the first n bytes of the buffer. Unused without any of the
 * libraries. */
__attribute__((unused))
static int put_piece(struct output *o, size_t n)
{
	const uint8_t *p = o->buf;

	if (o->size + n > MAX_SIZE || !mapped_charge(n))
		return -AUX_E_LIMIT;
	o->size += n;
	while (n) {
		ssize_t w = write(o->fd, p, n);

		if (w <= 0)
			return -AUX_E_IO;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

#ifdef HAVE_LZMA
static int unpack_xz(const uint8_t *data, uint64_t len, struct output *o)
{
	lzma_stream s = LZMA_STREAM_INIT;
	lzma_ret ret = lzma_stream_decoder(&s, MAX_MEMORY, LZMA_CONCATENATED);
	int rc = ret == LZMA_OK ? 0 : -AUX_E_NOMEM;

	s.next_in = data;
	s.avail_in = len;
	while (!rc && ret == LZMA_OK) {
		s.next_out = o->buf;
		s.avail_out = PIECE;
		ret = lzma_code(&s, LZMA_FINISH);
		rc = put_piece(o, PIECE - s.avail_out);
	}
	lzma_end(&s);
	return rc ? rc : ret == LZMA_STREAM_END ? 0 : -AUX_E_FORMAT;
}
#else
static int unpack_xz(const uint8_t *data, uint64_t len, struct output *o)
{
	(void)data, (void)len, (void)o;
	return -AUX_E_UNSUPPORTED;
}
#endif

#ifdef HAVE_Z
static int unpack_gz(const uint8_t *data, uint64_t len, struct output *o)
{
	z_stream s = { 0 };
	int ret = Z_OK, rc = 0;

	if (inflateInit2(&s, 16 + MAX_WBITS) != Z_OK)
		return -AUX_E_NOMEM;
	s.next_in = (Bytef *)(uintptr_t)data;
	while (!rc && ret == Z_OK) {
		uint64_t left = len - (uint64_t)(s.next_in - data);

		s.avail_in = left < UINT32_MAX ? (uInt)left : UINT32_MAX;
		s.next_out = o->buf;
		s.avail_out = PIECE;
		ret = inflate(&s, Z_NO_FLUSH);
		rc = put_piece(o, PIECE - s.avail_out);
	}
	inflateEnd(&s);
	return rc ? rc : ret == Z_STREAM_END ? 0 : -AUX_E_FORMAT;
}
#else
static int unpack_gz(const uint8_t *data, uint64_t len, struct output *o)
{
	(void)data, (void)len, (void)o;
	return -AUX_E_UNSUPPORTED;
}
#endif

#ifdef HAVE_ZSTD
static int unpack_zst(const uint8_t *data, uint64_t len, struct output *o)
{
	ZSTD_DCtx *z = ZSTD_createDCtx();
	ZSTD_inBuffer in = { data, len, 0 };
	size_t ret = 1;
	int rc = z ? 0 : -AUX_E_NOMEM;

	while (!rc && !ZSTD_isError(ret) && (ret || in.pos < in.size)) {
		ZSTD_outBuffer out = { o->buf, PIECE, 0 };
		size_t before = in.pos;

		ret = ZSTD_decompressStream(z, &out, &in);
		rc = put_piece(o, out.pos);
		if (!rc && !out.pos && in.pos == before)
			break;
	}
	ZSTD_freeDCtx(z);
	return rc ? rc : ret ? -AUX_E_FORMAT : 0;
}
#else
static int unpack_zst(const uint8_t *data, uint64_t len, struct output *o)
{
	(void)data, (void)len, (void)o;
	return -AUX_E_UNSUPPORTED;
}
#endif

/* By the first bytes of a file. table */
static const struct {
	uint8_t magic[6], n;
	int (*unpack)(const uint8_t *data, uint64_t len, struct output *o);
} formats[] = {
	{ { 0xfd, '7', 'z', 'X', 'Z', 0 }, 6, unpack_xz },
	{ { 0x1f, 0x8b, 8 }, 3, unpack_gz },
	{ { 0x28, 0xb5, 0x2f, 0xfd }, 4, unpack_zst },
};

int elfimage_unpack(const uint8_t *data, uint64_t len, int *fd, uint64_t *size)
{
	struct output o = { .fd = -1 };
	size_t i = 0;
	int rc = 0;

	while (i < sizeof(formats) / sizeof(formats[0]) &&
	       (len < formats[i].n ||
		memcmp(data, formats[i].magic, formats[i].n)))
		i++;
	if (i == sizeof(formats) / sizeof(formats[0]))
		return 0;
	o.buf = malloc(PIECE);
	if (!o.buf)
		return -AUX_E_NOMEM;
	o.fd = memfd_create("auxkit-unpacked", MFD_CLOEXEC);
	rc = o.fd < 0 ? -AUX_E_IO : formats[i].unpack(data, len, &o);
	free(o.buf);
	if (rc < 0) {
		mapped_discharge(o.size);
		if (o.fd >= 0)
			close(o.fd);
		return rc;
	}
	*fd = o.fd;
	*size = o.size;
	return 1;
}

/* ---- opening ---- */

/* Reads the headers; *imp is set if that works, else im is freed. */
static int finish_open(struct elfimage **imp, struct elfimage *im)
{
	int rc;

	pthread_mutex_init(&im->lock, NULL);
	rc = elfimage_elf_open(im);
	if (!rc && im->type == ET_REL && !im->segments)
		rc = elfmodule_lay_out(im);
	if (rc < 0) {
		elfimage_close(im);
		return rc;
	}
	*imp = im;
	return 0;
}

static int map_fd(struct elfimage *im, int fd)
{
	if (!im->len)
		return 0;
	if (!im->path)
		return -AUX_E_NOMEM;
	im->data = mapped_open(fd, im->len, im->path);
	if (!im->data)
		return errno == ENOMEM ? -AUX_E_NOMEM : -AUX_E_IO;
	im->mapped = true;
	return 0;
}

/* Replaces the mapping of a compressed file by one of its contents. */
static int unpack(struct elfimage *im)
{
	uint64_t size;
	int rc = elfimage_unpack(im->data, im->len, &im->fd, &size);

	if (rc <= 0)
		return rc;
	mapped_close(im->data, im->len);
	im->mapped = false;
	im->len = im->unpacked = size;
	free(im->path);
	if (asprintf(&im->path, "/proc/self/fd/%d", im->fd) < 0)
		im->path = NULL;
	return map_fd(im, im->fd);
}

static int map_file(struct elfimage *im, const char *path)
{
	struct stat st;
	int fd = regular_open(path, &st), rc;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EINVAL ?
			       -AUX_E_NOENT : -AUX_E_IO;
	im->len = (uint64_t)st.st_size;
	im->path = strdup(path);
	rc = map_fd(im, fd);
	close(fd);
	return rc < 0 ? rc : unpack(im);
}

static struct elfimage *new_image(void)
{
	struct elfimage *im = calloc(1, sizeof(*im));

	if (im)
		im->fd = -1;
	return im;
}

int elfimage_open(struct elfimage **imp, const char *path)
{
	struct elfimage *im = new_image();
	int rc;

	*imp = NULL;
	if (!im)
		return -AUX_E_NOMEM;
	rc = map_file(im, path);
	if (rc < 0) {
		pthread_mutex_init(&im->lock, NULL);
		elfimage_close(im);
		return rc;
	}
	return finish_open(imp, im);
}

int elfimage_open_mem(struct elfimage **imp, const uint8_t *data, size_t len)
{
	struct elfimage *im = new_image();

	*imp = NULL;
	if (!im)
		return -AUX_E_NOMEM;
	im->data = data;
	im->len = len;
	return finish_open(imp, im);
}

void elfimage_close(struct elfimage *im)
{
	if (!im)
		return;
	elfimage_dwarf_close(im->dwarf);
	elfimage_close(im->debug);
	elfimage_close(im->mini);
	elfimage_elf_close(im);
	for (size_t i = 0; i < im->n_made; i++)
		free(im->made[i]);
	free(im->made);
	free(im->unnamed);
	free(im->syms);
	free(im->segments);
	free(im->sections);
	free(im->debug_root);
	free(im->debug_path);
	free(im->path);
	if (im->mapped)
		mapped_close(im->data, im->len);
	mapped_discharge(im->unpacked);
	if (im->fd >= 0)
		close(im->fd);
	pthread_mutex_destroy(&im->lock);
	free(im);
}

bool elfimage_nomem(const struct elfimage *im)
{
	return im && (im->nomem || elfimage_nomem(im->debug) ||
		      elfimage_nomem(im->mini));
}

const uint8_t *elfimage_data(const struct elfimage *im, uint64_t *len)
{
	*len = im->len;
	return im->data;
}

const char *elfimage_path(const struct elfimage *im)
{
	return im->path;
}

size_t elfimage_build_id(const struct elfimage *im, const uint8_t **id)
{
	*id = im->build_id;
	return im->build_id_size;
}

bool elfimage_is_elf(const struct elfimage *im)
{
	return im->elf;
}

bool elfimage_is_object(const struct elfimage *im)
{
	return im->elf && im->type == ET_REL;
}

const struct elf_section *elfimage_named(const struct elfimage *im,
					 const char *name)
{
	for (size_t i = 0; i < im->n_sections; i++) {
		if (!strcmp(im->sections[i].name, name))
			return &im->sections[i];
	}
	return NULL;
}

/* `strip --only-keep-debug` leaves the section headers and turns code into
 * NOBITS. */
bool elfimage_is_debug(const struct elfimage *im)
{
	const struct elf_section *text = elfimage_named(im, ".text");

	return text && text->h.sh_type == SHT_NOBITS;
}

bool elfimage_segment(const struct elfimage *im, size_t *i,
		      struct elfimage_area *area)
{
	while (*i < im->n_segments) {
		const Elf64_Phdr *p = &im->segments[(*i)++];

		if (p->p_type != PT_LOAD || !p->p_filesz)
			continue;
		*area = (struct elfimage_area){
			p->p_vaddr, p->p_vaddr + p->p_filesz, p->p_offset,
		};
		return true;
	}
	return false;
}

bool elfimage_area(const struct elfimage *im, uint64_t addr,
		   struct elfimage_area *area)
{
	size_t i = 0;

	while (elfimage_segment(im, &i, area)) {
		if (addr >= area->start && addr < area->end)
			return true;
	}
	return false;
}

bool elfimage_offset(const struct elfimage *im, uint64_t addr, uint64_t *offset,
		     uint64_t *left)
{
	struct elfimage_area a;

	if (!elfimage_area(im, addr, &a))
		return false;
	*offset = addr - a.start + a.offset;
	*left = a.end - addr;
	return true;
}

bool elfimage_addr(const struct elfimage *im, uint64_t offset, uint64_t *addr)
{
	struct elfimage_area a;
	size_t i = 0;

	while (elfimage_segment(im, &i, &a)) {
		if (offset < a.offset || offset - a.offset >= a.end - a.start)
			continue;
		*addr = offset - a.offset + a.start;
		return true;
	}
	return false;
}

/* ---- the debug file ---- */

#define MAX_LINK 255	/* bytes of a file name */

void elfimage_debug_from(struct elfimage *im, const char *root,
			 const char *path)
{
	pthread_mutex_lock(&im->lock);
	free(im->debug_root);
	free(im->debug_path);
	im->debug_root = strdup(root);
	im->debug_path = strdup(path);
	im->nomem |= !im->debug_root || !im->debug_path;
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

/* Uses a file if it belongs to im. crc NULL: only its build id can say so. */
static bool try_file(struct elfimage *im, const char *path, const uint32_t *crc)
{
	struct elfimage *d;
	bool fits;
	int rc = elfimage_open(&d, path);

	im->nomem |= rc == -AUX_E_NOMEM;
	if (rc < 0)
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

/* The path of a build id's debug file below a directory; NULL: out of memory,
 * which im remembers, or no such id. */
static char *id_path(struct elfimage *im, const char *root, const char *dir,
		     const uint8_t *id, size_t size)
{
	char hex[2 * BUILD_ID_MAX + 1], *path;

	if (size < 2 || size > BUILD_ID_MAX)
		return NULL;
	for (size_t i = 0; i < size; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	if (asprintf(&path, "%s%s/.build-id/%.2s/%s.debug", root, dir, hex,
		     hex + 2) >= 0)
		return path;
	im->nomem = true;
	return NULL;
}

/* Under /usr/lib/debug, and in a symfs root also under its own /.build-id. */
static bool by_build_id(struct elfimage *im, const char *root)
{
	char *path = id_path(im, root, "/usr/lib/debug", im->build_id,
			     im->build_id_size);
	bool found = path && try_file(im, path, NULL);

	free(path);
	if (found || !*root)
		return found;
	path = id_path(im, root, "", im->build_id, im->build_id_size);
	found = path && try_file(im, path, NULL);
	free(path);
	return found;
}

/* .gnu_debuglink: a file name, padded with zeros to four bytes, and a CRC-32 of
 * that file. */
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

/* Beside the file, in .debug beside it, and under /usr/lib/debug, as GDB does
 * it. */
static void by_link(struct elfimage *im, const char *root)
{
	/* table */
	static const struct {
		const char *before, *after; /* the directory */
	} dirs[] = { { "", "" }, { "", "/.debug" }, { "/usr/lib/debug", "" } };
	const char *name, *path = im->debug_path, *slash;
	uint32_t crc;
	char *full;

	slash = path ? strrchr(path, '/') : NULL;
	if (!slash || !get_link(im, &name, &crc))
		return;
	for (size_t i = 0; i < 3 && !im->debug; i++) {
		if (asprintf(&full, "%s%s%.*s%s/%s", root, dirs[i].before,
			     (int)(slash - path), path, dirs[i].after,
			     name) < 0) {
			im->nomem = true;
			return;
		}
		if (!im->path || strcmp(full, im->path))
			try_file(im, full, &crc);
		free(full);
	}
}

/* The file of that build id at a path, which is freed; NULL: there is none. */
static struct elfimage *open_shared(struct elfimage *im, char *path,
				    const void *id, size_t id_size)
{
	struct elfimage *d = NULL;
	int rc = path ? elfimage_open(&d, path) : -AUX_E_NOENT;

	free(path);
	im->nomem |= rc == -AUX_E_NOMEM;
	if (rc < 0)
		return NULL;
	if (d->elf && d->build_id_size == id_size &&
	    !memcmp(d->build_id, id, id_size))
		return d;
	elfimage_close(d);
	return NULL;
}

/* The path that a link means: from the directory of the file that has it. */
static char *link_path(struct elfimage *im, const char *root,
		       const struct elfimage *from, const char *name)
{
	const char *slash = from->path ? strrchr(from->path, '/') : NULL;
	char *path;
	int n;

	if (*name == '/')
		n = asprintf(&path, "%s%s", root, name);
	else
		n = asprintf(&path, "%.*s%s",
			     slash ? (int)(slash + 1 - from->path) : 0,
			     slash ? from->path : "", name);
	if (n >= 0)
		return path;
	im->nomem = true;
	return NULL;
}

/* By its name, and where debug files are by build id. */
struct elfimage *elfimage_find_shared(struct elfimage *im,
				      const struct elfimage *from,
				      const char *name, const void *id,
				      size_t id_size)
{
	const char *root = im->debug_root ? im->debug_root : "";
	struct elfimage *d;

	if (id_size < 2 || id_size > BUILD_ID_MAX)
		return NULL;
	d = open_shared(im, link_path(im, root, from, name), id, id_size);
	if (!d)
		d = open_shared(im, id_path(im, root, "/usr/lib/debug", id,
					    id_size), id, id_size);
	if (!d && *root)
		d = open_shared(im, id_path(im, root, "", id, id_size), id,
				id_size);
	return d;
}

/* MiniDebugInfo: an xz-compressed ELF file with a symbol table, as Fedora ships
 * it. */
static void by_debugdata(struct elfimage *im)
{
	const struct elf_section *s = elfimage_named(im, ".gnu_debugdata");
	struct elfimage *mini;
	char path[32];
	uint64_t size;
	int fd, rc;

	if (!s || !s->bytes)
		return;
	rc = elfimage_unpack(s->bytes, s->h.sh_size, &fd, &size);
	im->nomem |= rc == -AUX_E_NOMEM;
	if (rc <= 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = elfimage_open(&mini, path);
	im->nomem |= rc == -AUX_E_NOMEM;
	if (rc == 0) {
		mini->unpacked += size;
		im->mini = mini;
	} else {
		mapped_discharge(size);
	}
	close(fd);
}

/* In a store of debuginfod's layout: "debuginfo" beside "executable". */
static void beside(struct elfimage *im)
{
	static const char name[] = "/executable";
	size_t n = im->path ? strlen(im->path) : 0, m = sizeof(name) - 1;
	char *path;

	if (n < m || strcmp(im->path + n - m, name))
		return;
	if (asprintf(&path, "%.*s/debuginfo", (int)(n - m), im->path) < 0) {
		im->nomem = true;
		return;
	}
	try_file(im, path, NULL);
	free(path);
}

void elfimage_find_debug(struct elfimage *im)
{
	const char *root = im->debug_root;

	if (im->looked_for_debug)
		return;
	im->looked_for_debug = true;
	beside(im);
	if (root && !im->debug && !by_build_id(im, root))
		by_link(im, root);
	if (!im->debug)
		by_debugdata(im);
}

const char *elfimage_debug_file(struct elfimage *im)
{
	const char *path;

	pthread_mutex_lock(&im->lock);
	elfimage_find_debug(im);
	path = im->debug ? im->debug->path : NULL;
	pthread_mutex_unlock(&im->lock);
	return path;
}
