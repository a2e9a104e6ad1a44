/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfimage: compressed files into memory files, a piece at a time. What a file
 * unpacks to is limited, and so is what a decompressor may allocate.
 *
 * Specification: RFC 1952 (gzip), RFC 8878 (Zstandard), the .xz file format.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef HAVE_LZMA
#include <lzma.h>
#endif
#ifdef HAVE_Z
#include <zlib.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include <aux/error.h>

#include "decode/lib/elf/impl.h"

#define PIECE	   ((size_t)256 << 10)
#define MAX_SIZE   ((uint64_t)512 << 20)
#define MAX_MEMORY ((uint64_t)256 << 20)

struct output {
	int fd;
	uint64_t size;
	uint8_t *buf;	/* PIECE bytes */
};

__attribute__((unused)) /* without any of the libraries */
static int put_piece(struct output *o, size_t n)
{
	const uint8_t *p = o->buf;

	if (o->size + n > MAX_SIZE)
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

/* table */
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
		if (o.fd >= 0)
			close(o.fd);
		return rc;
	}
	*fd = o.fd;
	*size = o.size;
	return 1;
}
