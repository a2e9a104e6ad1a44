/* SPDX-License-Identifier: BSD-2-Clause */
/* flamesvg_text: the style and the script of the picture. */
#ifndef DECODE_SINK_FLAME_SVG_TEXT_H
#define DECODE_SINK_FLAME_SVG_TEXT_H

extern const char flamesvg_style[], flamesvg_script[];

#endif
