#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a report gives on paper: report_print.py FILE.html [PDF].

"ok .." or "not ok .." lines, as those of report_browser.py check. With PDF the pages are kept.
"""
import base64
import sys

import report_browser

# Of each lane: how many colours are in the picture where it should be, below its head.
LANES = """(() => {
	const c = $("lanes"), r = c.height / parseFloat(c.style.height), ctx = c.getContext("2d");
	return C.lanes.map((lane) => {
		const y = Math.round((lane.y + HEAD) * r), h = Math.round((lane.h - HEAD - 2) * r);
		const seen = new Set();
		if (y + h <= c.height) {
			const p = ctx.getImageData(0, y, c.width, h).data;
			for (let i = 0; i < p.length; i += 4)
				seen.add(p[i] << 16 | p[i + 1] << 8 | p[i + 2]);
		}
		return [laneName(lane), lane.open, seen.size];
	});
})()"""


def main(path, keep):
    b = report_browser.Browser()
    try:
        c, p = report_browser.Checks(b), report_browser.Page(b)
        c.ok(p.open(path), "the page opens", p.errors())
        p.wait("C.lanes.every((l) => l.data || !l.nodes)")
        p.js("openAll(true)")
        p.settle()
        screen = p.js("[C.h, C.total, C.w]")
        c.ok(screen[1] > 1.5 * screen[0], "the lanes are higher than the screen", screen)
        p.js("dispatchEvent(new Event('beforeprint'))")
        lanes = p.js(LANES)
        c.ok(lanes and all(n > 2 for _, _, n in lanes), "all lanes are drawn for paper", lanes)
        c.ok(p.js("$('lanes').clientHeight >= C.total - 1"), "at their height",
             p.js("[$('lanes').clientHeight, C.total]"))
        c.ok(p.js("$('lanes').clientWidth <= 980"), "in the width of a page",
             p.js("$('lanes').clientWidth"))
        p.js("dispatchEvent(new Event('afterprint'))")
        p.settle()
        c.ok(p.js("[C.h, C.total, C.w]") == screen, "then the screen is as it was",
             [p.js("[C.h, C.total, C.w]"), screen])
        p.js("openAll(false)")
        p.settle()
        p.js("dispatchEvent(new Event('beforeprint'))")
        lanes = p.js(LANES)
        c.ok(all(n > 2 for _, _, n in lanes), "closed lanes, too", lanes)
        p.js("dispatchEvent(new Event('afterprint'))")
        p.js("openAll(true)")
        p.settle()
        pdf = base64.b64decode(p.call("Page.printToPDF", printBackground=True)["data"])
        if keep:
            with open(keep, "wb") as f:
                f.write(pdf)
        # a page of Letter, at the 980 pixels that its width has here, is some 1,270 high
        pages = pdf.count(b"/Type /Page\n")
        c.ok(pages >= screen[1] / 1300, "there are as many pages as that takes",
             [pages, screen])
        c.ok(p.errors() == [], "no error on the console", p.errors())
        return c.n_bad != 0
    finally:
        b.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
