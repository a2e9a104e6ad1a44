/* SPDX-License-Identifier: BSD-2-Clause */
/* export_sqlite's text: tables and views. auxdecode.1, section SQLITE. */
#ifndef DECODE_EXPORT_SQLITE_H
#define DECODE_EXPORT_SQLITE_H

/* What is there from the start; then what is made when all is in. */
extern const char export_sqlite_tables[], export_sqlite_views[];

#endif
