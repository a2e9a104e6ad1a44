#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Drives headless Chromium over its debugging pipe (DevTools protocol).

As a module: Browser and Page. As a program it runs the checks of t_report.sh, and
measures for make bench:

  report_browser.py check FILE.html WORD        "ok .." or "not ok .." lines; WORD is in
                                                names
  report_browser.py names FILE.html NAME        a function's name that looks like HTML
  report_browser.py shots FILE.html DIRECTORY   screenshots, to be looked at
  report_browser.py tasks FILE.html             milliseconds until it is ready, and of CPU
                                                of the longest task of a user's minute
"""
import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

LONG_TASKS = """
window.longTasks = [];
new PerformanceObserver((l) => {
	for (const e of l.getEntries())
		window.longTasks.push([Math.round(e.startTime), Math.round(e.duration)]);
}).observe({ entryTypes: ["longtask"] });
"""


def find_chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    return None


class Browser:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="auxkit-chromium-")
        to_r, self.to = os.pipe()
        self.got, from_w = os.pipe()
        args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--remote-debugging-pipe", "--disable-dev-shm-usage", "--hide-scrollbars",
                "--user-data-dir=" + self.dir, "about:blank"]
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$0" "$@" 3<&{to_r} 4>&{from_w}', find_chromium(), *args],
            pass_fds=(to_r, from_w), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_r)
        os.close(from_w)
        self.rest, self.n, self.events = b"", 0, []

    def read(self, timeout):
        end = time.monotonic() + timeout
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.got], [], [], left)[0]:
                return None
            more = os.read(self.got, 1 << 20)
            if not more:
                raise RuntimeError("Chromium went away")
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, timeout=120, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            got = self.read(timeout)
            if got is None:
                raise RuntimeError(f"no answer to {method}")
            if got.get("id") == self.n:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']}")
                return got["result"]
            self.events.append(got)

    def close(self):
        try:
            self.call("Browser.close", timeout=10)
        except (RuntimeError, OSError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Page:
    def __init__(self, browser, width=1360, height=820, dark=False):
        self.b = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target,
                                    flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.size(width, height)
        self.dark(dark)
        self.call("Page.addScriptToEvaluateOnNewDocument", source=LONG_TASKS)

    def call(self, method, **params):
        return self.b.call(method, self.session, **params)

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=mobile)

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if on else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])

    def js(self, text):
        r = self.call("Runtime.evaluate", expression=text, awaitPromise=True,
                      returnByValue=True)
        if "exceptionDetails" in r:
            raise RuntimeError(r["exceptionDetails"].get("exception", {}).get("description")
                               or r["exceptionDetails"]["text"])
        return r["result"].get("value")

    def wait(self, text, timeout=60):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.js(f"!!({text})"):
                return True
            time.sleep(0.02)
        return False

    def open(self, path):
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        return self.wait('document.documentElement?.dataset.ready === "1"')

    def settle(self):
        """Two pictures later everything that was asked for is drawn."""
        self.js("new Promise((d) => requestAnimationFrame(() => requestAnimationFrame(d)))")

    def errors(self):
        found = []
        for e in self.b.events:
            p = e.get("params", {})
            if e.get("method") == "Runtime.exceptionThrown":
                d = p["exceptionDetails"]
                found.append(d.get("exception", {}).get("description") or d["text"])
            elif e.get("method") == "Log.entryAdded" and p["entry"]["level"] == "error":
                found.append(p["entry"]["text"])
            elif e.get("method") == "Runtime.consoleAPICalled" and p["type"] in ("error", "assert"):
                found.append(json.dumps(p["args"]))
        return found

    def requests(self):
        """What the page loaded: nothing but itself and its worker."""
        return self.js("performance.getEntriesByType('resource').map((e) => e.name)"
                       ".filter((n) => !n.startsWith('blob:'))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.settle()

    def click_on(self, selector):
        r = self.js(f"(() => {{ const r = document.querySelector({json.dumps(selector)})"
                    ".getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        self.click(*r)

    def wheel(self, x, y, dy, shift=False):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=dy, modifiers=8 if shift else 0)
        self.settle()

    def key(self, key, text=None):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key,
                  text=text if text is not None else key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def shot(self, path):
        self.settle()
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))


def shots(path, where):
    b = Browser()
    try:
        p = Page(b)
        print("ready", p.open(path), "errors", p.errors())
        print("long tasks", p.js("window.longTasks"), "first",
              p.js("performance.getEntriesByType('paint').map((e) => [e.name, e.startTime])"))
        print("at", p.js("performance.now()"))
        p.shot(f"{where}/light.png")
        p.js("(() => { const l = C.lanes.find((x) => x.data); const d = l.data; let n = 0;"
             "for (let i = 0; i < d.n; i++) if (d.depth[i] === Math.min(9, d.rows - 1)) { n = i; break; }"
             "reveal(l, n, true); })()")
        p.shot(f"{where}/zoom.png")
        p.js("goRelative('parent')")
        p.js("zoomChosen(); zoom(0.02)")
        p.shot(f"{where}/deep.png")
        p.key("2")
        p.shot(f"{where}/flame.png")
        p.key("3")
        p.js("showFunction(T.rows[Math.min(3, T.rows.length - 1)])")
        p.shot(f"{where}/table.png")
        p.key("4")
        p.shot(f"{where}/code.png")
        p.key("5")
        p.wait("H.values")
        p.shot(f"{where}/heat.png")
        p.key("6")
        p.shot(f"{where}/gaps.png")
        p.key("1")
        p.key("t")
        p.shot(f"{where}/dark.png")
        p.key("2")
        p.shot(f"{where}/darkflame.png")
        p.key("4")
        p.shot(f"{where}/darkcode.png")
        p.key("1")
        p.key("?")
        p.shot(f"{where}/help.png")
        p.js("$('help').close()")
        p.key("t")
        p.size(390, 844, True)
        p.shot(f"{where}/narrow.png")
        print("long tasks", p.js("window.longTasks"), "errors", p.errors())
    finally:
        b.close()


def main_tasks(browser, page):
    """Milliseconds of CPU of the longest tasks of the page's main thread, traced. The browser
    has pages of its own, whose tasks are none of ours: ours is where its scripts run."""
    browser.call("Tracing.end")
    events = []
    while True:
        e = browser.read(120)
        if e is None:
            return []
        if e.get("method") == "Tracing.dataCollected":
            events += e["params"]["value"]
        elif e.get("method") == "Tracing.tracingComplete":
            break
        else:
            browser.events.append(e)
    main = {(e["pid"], e["tid"]) for e in events if e["name"] == "FireAnimationFrame"
            and e["args"]["data"]["frame"] == page.target}
    return sorted((e.get("tdur", e.get("dur", 0)) / 1000 for e in events
                   if e.get("ph") == "X" and (e["pid"], e["tid"]) in main
                   and e["name"].endswith("RunTask")), reverse=True)


FRAME = """(() => {
	/* a frame that is wide enough to be hit, as deep as can be; its place and name. Not one
	 * with a gap over its middle, which is what a click there shows */
	const tick = (C.b - C.a) / C.w, r = $("lanes").getBoundingClientRect();
	let best = null;
	for (const lane of C.lanes) {
		const d = lane.data;
		for (let i = 0; d && lane.open && i < d.n; i++) {
			const y = frameTop(lane) + d.depth[i] * ROW + ROW / 2 - $("scroller").scrollTop;
			const x = (d.start[i] + d.len[i] / 2 - C.a) / tick;
			const mid = d.start[i] + d.len[i] / 2;

			if (lane.spans.some((s) => s[4] && mid >= s[0] - 4 * tick && mid <= s[1] + 4 * tick))
				continue;
			if (d.len[i] / tick > 12 && !(d.what[i] >> 6 & MERGED) && y > 0 && y < C.h - 20 &&
			    x > 0 && x < C.w && (!best || d.depth[i] > best.depth))
				best = { x: r.x + x, y: r.y + y, name: nameOf(d.func[i]),
					 depth: d.depth[i], len: d.len[i] };
		}
	}
	return best;
})()"""

COLOURS = """(() => {
	const c = $("%s"), p = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
	const seen = new Set();
	for (let i = 0; i < p.length; i += 4)
		seen.add(p[i] << 16 | p[i + 1] << 8 | p[i + 2]);
	return seen.size;
})()"""

NAMELESS = """[...document.querySelectorAll("button, input, select, canvas, [role=tab], [role=region]")].filter((e) =>
	!(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length ||
	  e.getAttribute("aria-labelledby") || e.getAttribute("aria-hidden") === "true" ||
	  e.closest("[role=application]"))).map((e) => e.outerHTML.slice(0, 80))"""

# WCAG 2.1, 1.4.3 and 1.4.11: contrast of text, 4.5 to 1 (3 to 1 where it is large), and of
# what says where a control is, 3 to 1. Of all text that is to be seen, of the page's own
# variables, and of what is drawn. [what, ratio] of each that has less.
CONTRAST = r"""(() => {
	const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
		.getContext("2d", { willReadFrequently: true });
	const seen = new Map();
	const rgba = (c) => {
		if (!seen.has(c)) {
			pen.clearRect(0, 0, 1, 1);
			pen.fillStyle = c;
			pen.fillRect(0, 0, 1, 1);
			seen.set(c, [...pen.getImageData(0, 0, 1, 1).data]);
		}
		return seen.get(c);
	};
	const light = (c) => {
		const [r, g, b] = rgba(c).map((v) => v / 255)
			.map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);

		return .2126 * r + .7152 * g + .0722 * b;
	};
	const ratio = (a, b) => {
		const [x, y] = [light(a), light(b)];

		return (Math.max(x, y) + .05) / (Math.min(x, y) + .05);
	};
	const bad = [], wants = (what, a, b, least) => {
		if (!(ratio(a, b) >= least))
			bad.push([what, +ratio(a, b).toFixed(2)]);
	};
	let n = 0;

	for (const on of ["--bg", "--panel", "--lane", "--hover"]) {
		for (const text of ["--ink", "--soft", "--accent", "--good", "--bad"])
			wants(`${text} on ${on}`, css(text), css(on), 4.5);
		wants(`--edge on ${on}`, css("--edge"), css(on), 3);
	}
	wants("--on-accent on --accent", css("--on-accent"), css("--accent"), 4.5);
	const hues = theme.hue;

	/* as if all functions were in the first file, in the second, ... */
	for (const hue of [...HUES, [210, 6]]) {
		theme.hue = new Map([...new Set(M.dso)].map((d) => [d, hue]));
		theme.colours = [];
		for (let f = 0; f < Math.min(M.name.length, 500); f++)
			wants(`a frame of hue ${hue}`, ink.label, colourOf(f), 4.5);
	}
	theme.hue = hues;
	theme.colours = [];
	wants("a frame that was found", "#1a1d21", ink.found, 4.5);
	wants("a frame that was not", ink.soft, ink.dim, 4.5);
	for (const e of document.querySelectorAll("body *")) {
		const style = getComputedStyle(e);
		let on = e;

		if (![...e.childNodes].some((t) => t.nodeType === 3 && t.data.trim()) ||
		    !e.checkVisibility({ visibilityProperty: true }) || e.disabled ||
		    e.closest("canvas, script, style, option"))
			continue;
		while (on && rgba(getComputedStyle(on).backgroundColor)[3] < 255)
			on = on.parentElement;
		const size = parseFloat(style.fontSize), large = size >= 24 ||
			(size >= 18.66 && style.fontWeight >= 700);

		n++;
		wants(`"${e.textContent.trim().slice(0, 30)}" in ${e.tagName}`, style.color,
		      on ? getComputedStyle(on).backgroundColor : css("--bg"), large ? 3 : 4.5);
	}
	return n > 10 ? bad : [["texts that were looked at", n]];
})()"""

OLD_BROWSER = """(async () => {
	const stream = window.DecompressionStream;
	delete window.DecompressionStream;
	try {
		await makeDecoder(() => {})({ kind: "sites", z: true, text: "eJwDAAAAAAE=" });
		return "";
	} catch (e) {
		return String(e);
	} finally {
		window.DecompressionStream = stream;
	}
})()"""


# How far to the right a drawing reaches that has no canvas, against the end of what it shows.
WITHIN = """(() => {
    const tick = (C.b - C.a) / C.w;
    const reach = (draw) => {
        let right = 0;
        const fillRect = (x, y, w) => { if (x || w < C.w) right = Math.max(right, x + w); };
        draw(new Proxy({ fillRect }, { get: (t, k) => t[k] || (() => ({ width: 0 })), set: () => true }));
        return right;
    };
    const ends = (list) => list.reduce((m, x) => Math.max(m, x), C.a);
    const lanes = C.lanes.filter((l) => l.data && l.data.n).map((l) =>
        [reach((ctx) => drawActivity(ctx, l, 0, tick)),
         ends([...l.data.start.map((s, i) => s + l.data.len[i]), ...l.away.map((s) => s[1])])]);
    const cpus = C.cpus.rows.map((r) =>
        [reach((ctx) => drawCpu(ctx, r, 0, tick)), ends(r.runs.map((x) => x.to))]);
    return lanes.length > 0 && [...lanes, ...cpus].every(([right, end]) => right < (end - C.a) / tick + 3);
})()"""


class Checks:
    def __init__(self, browser):
        self.b, self.n_bad = browser, 0

    def ok(self, good, text, more=""):
        print(("ok " if good else "not ok ") + text + ("" if good else f" | {more}"), flush=True)
        self.n_bad += not good

    def timeline(self, p):
        self.ok(p.js(COLOURS % "lanes") > 20, "lanes are drawn")
        self.ok(p.js(COLOURS % "mini") > 2, "the overview is drawn")
        p.js("$('scroller').scrollTop = 0")
        p.settle()
        before = p.js("[C.a, C.b]")
        x, y = p.js('(() => { const r = $("lanes").getBoundingClientRect();'
                    'return [r.x + r.width / 4, r.y + frameTop(C.lanes[0]) + 9]; })()')
        at = "C.a + (C.b - C.a) / 4"
        was = p.js(at)
        p.wheel(x, y, -240)
        now = p.js("[C.a, C.b]")
        self.ok(now[1] - now[0] < 0.8 * (before[1] - before[0]), "the wheel zooms", now)
        self.ok(abs(p.js(at) - was) < (before[1] - before[0]) / 100, "around the pointer")
        p.key("a")
        self.ok(p.js("C.a") < now[0], "a key moves")
        p.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        was = p.js("C.a")
        p.mouse("mouseMoved", x - 150, y, button="left", buttons=1)
        p.mouse("mouseReleased", x - 150, y, button="left")
        p.settle()
        self.ok(p.js("C.a") > was, "dragging moves", [was, p.js("C.a")])
        p.key("0")
        self.ok(abs(p.js("C.b - C.a") - p.js("M.span * 1.02")) < p.js("M.span / 100"),
                "0 shows everything")
        self.frame(p)

    def frame(self, p):
        f = p.js(FRAME)
        p.click(f["x"], f["y"])
        self.ok(p.js('$("detail").querySelector("h2").textContent') == f["name"],
                "a click shows the frame's function", f)
        text = p.js('$("detail").textContent')
        self.ok(all(w in text for w in ("Instructions", "Its own", "Thread", "auxdecode insn")),
                "with times, instructions and commands", text[:300])
        p.key("p")
        self.ok(p.js("C.chosen.lane.data.depth[C.chosen.node]") == max(0, f["depth"] - 1),
                "p goes to the caller")
        p.key("Escape")

    def search(self, p, wanted):
        p.js('$("search").focus()')
        p.call("Input.insertText", text=wanted)
        p.settle()
        self.ok(p.js('C.match && C.match.includes(1)'), "search finds functions")
        self.ok("call" in p.js('$("hits").textContent'), "and says how many calls")
        p.key("Enter", "\r")
        p.key("Enter", "\r")
        p.js("C.finding.then(() => 0)")		# hits are looked for in short tasks
        self.ok(wanted in (p.js("nameOf(C.chosen.lane.data.func[C.chosen.node])") or "").lower(),
                "the next hit is one")
        lens = []
        for _ in range(3):
            p.js("goHit(1)")
            lens.append(p.js("C.chosen.lane.data.len[C.chosen.node]"))
        self.ok(p.js("C.hits[0].len") >= lens[0] and lens == sorted(lens, reverse=True) or
                p.js("C.hits.length") < 6, "hits come the slowest first", lens)
        p.key("Escape")
        self.ok(p.js("C.match === null && $('search').value === ''"), "Escape ends the search")

    def table(self, p):
        p.click_on("#tab-table")
        self.ok(p.js('$("functions").tBodies[0].rows.length') > 5, "functions are listed")
        p.click_on("#by-max button")
        top = p.js("[T.rows[0], nameOf(T.rows[0]), quantile(T.rows[0], 1)]")
        p.click_on("#functions tbody tr:nth-child(2) td.max button")
        got = p.js("[C.chosen.lane.data.func[C.chosen.node], activeTab(),"
                   "C.chosen.lane.data.len[C.chosen.node],"
                   "C.lanes[0].data && C.a <= C.chosen.lane.data.start[C.chosen.node] &&"
                   "C.b >= C.chosen.lane.data.start[C.chosen.node]]")
        self.ok(got[0] == top[0] and got[1] == "chart", "the slowest call's link leads to it", got)
        self.ok(abs(got[2] - top[2]) <= 1 and got[3], "it took as long, and is in view", [top, got])
        p.click_on("#tab-table")
        p.js('$("filter").focus()')
        p.call("Input.insertText", text="libc")
        p.settle()
        self.ok(p.js("T.rows.length < M.name.length"), "the filter filters")
        p.js('$("filter").value = ""; $("filter").oninput({ target: $("filter") })')

    def flame(self, p):
        p.click_on("#tab-flame")
        self.ok(p.js(COLOURS % "flame") > 10, "the flame graph is drawn")
        self.ok(p.js("M.tree.total[1][0] === M.total.insns"), "its sum is all instructions")
        r = p.js('(() => { const r = $("flame").getBoundingClientRect(); return [r.x, r.y]; })()')
        p.click(r[0] + 40, r[1] + 2 + 18 * 3 + 9)
        self.ok(p.js("F.root > 0 && M.tree.depth[F.root] === 3"), "a click zooms")
        p.key("ArrowUp")
        self.ok(p.js("M.tree.depth[F.chosen]") == 2, "an arrow goes to the caller")
        p.key("Escape")
        self.ok(p.js("F.root") == 0, "Escape shows all")

    def lanes(self, p):
        p.click_on("#tab-chart")
        p.key("0")
        self.ok(p.js("$('states').textContent.startsWith('runs')"), "states have a legend")
        p.js("openAll(false)")
        p.settle()
        self.ok(p.js(COLOURS % "lanes") > 12, "closed lanes show what they did")
        self.ok(p.js(WITHIN), "neither closed lanes nor CPUs show more than there was")
        self.ok(p.js("C.lanes.every((l) => l.away.every((s, i) => !i || s[0] >= l.away[i - 1][1]))"),
                "a thread leaves the CPU once at a time")
        if p.js("C.cpus.rows.length"):
            self.ok(p.js("C.cpus.rows.every((c) => c.runs.every((r, i) => !i || r.from >= c.runs[i - 1].to))"),
                    "a CPU has one thread at a time")
            at = p.js("""(() => { const r = $("lanes").getBoundingClientRect(), tick = (C.b - C.a) / C.w;
                const run = C.cpus.rows[0].runs.reduce((m, x) => x.to - x.from > m.to - m.from ? x : m);
                return { x: r.x + ((run.from + run.to) / 2 - C.a) / tick, y: r.y + HEAD + CPU_ROW / 2,
                         name: laneName(run.lane) }; })()""")
            p.js("$('scroller').scrollTop = 0")
            p.click(at["x"], at["y"])
            self.ok(p.js('$("detail").querySelector("h2").textContent') == at["name"] and
                    "On" in p.js('$("detail").textContent'), "a click on a CPU shows who ran there", at)
        p.js("openAll(true); choose(null)")

    def range(self, p):
        r = p.js("""(async () => {
            const all = totalOf(await rangeStats(0, M.span)), cut = M.span * 0.37;
            const one = totalOf(await rangeStats(0, cut)), two = totalOf(await rangeStats(cut, M.span));
            return { all, one, two, want: M.total,
                     lanes: C.lanes.reduce((n, l) => n + l.insns, 0) }; })()""")
        a, one, two = r["all"], r["one"], r["two"]
        self.ok(a["calls"] == r["want"]["calls"], "a range of all time has all calls", [a, r["want"]])
        self.ok(abs(a["insns"] - r["lanes"]) <= 1e-6 * r["lanes"], "and all instructions", [a, r["lanes"]])
        self.ok(all(abs(one[k] + two[k] - a[k]) <= 1e-6 * a[k] + 1 for k in ("calls", "insns", "ns")),
                "two parts of it add up", [one, two, a])
        x, y, w = p.js('(() => { const r = $("lanes").getBoundingClientRect();'
                       'return [r.x, r.y + 90, r.width]; })()')
        p.mouse("mousePressed", x + w * 0.3, y, button="left", buttons=1, clickCount=1, modifiers=8)
        p.mouse("mouseMoved", x + w * 0.6, y, button="left", buttons=1, modifiers=8)
        p.mouse("mouseReleased", x + w * 0.6, y, button="left", modifiers=8)
        self.ok(p.wait("C.range && C.range.sum && $('detail').textContent.includes('Calls begun')"),
                "dragging with Shift chooses a range, with its sums")
        want = p.js("[C.a + (C.b - C.a) * 0.3, C.a + (C.b - C.a) * 0.6, C.range.a, C.range.b]")
        self.ok(abs(want[0] - want[2]) + abs(want[1] - want[3]) < 0.02 * p.js("M.span"), "the one that was meant", want)
        p.js("setSource('range'); selectTab('flame')")
        p.settle()
        self.ok(p.js("F.tree === C.range.sum.tree && Math.abs(F.tree.total[1][0] - totalOf(C.range.sum).insns) < 1"),
                "the flame graph is that of the range")
        self.ok(p.wait("location.hash.includes('range=') && location.hash.includes('tab=flame')"),
                "the address says so")
        hash_ = p.js("location.hash")
        p.js("setSource('all'); selectRange(0, 0); selectTab('table')")
        p.wait("!location.hash.includes('range=')")
        p.js(f"location.hash = {json.dumps(hash_)}")
        self.ok(p.wait("C.range && C.range.sum && activeTab() === 'flame' && F.tree === C.range.sum.tree"),
                "and leads back there")
        p.js("setSource('all'); selectTab('chart'); selectRange(0, 0)")

    def views(self, p):
        p.js("selectTab('flame')")
        off = p.js("M.tree.total[0][0] > M.tree.total[ON_CPU][0]")
        self.ok(p.js("F.metric === ON_CPU") == off, "the flame graph is of the time on the CPU, where it is known")
        p.js("setMode('up')")
        p.settle()
        self.ok(p.js("M.tree.total.every((t, k) => Math.abs(t[0] - M.tree.own[k][0] - F.tree.total[k][0]) <="
                     " M.tree.own[k].reduce((n, v, i) => n + (M.tree.func[i] === ROOT_NODE && i ? v : 0), 0))"),
                "inverted, it has the same sum", p.js("[M.tree.total.map((t) => t[0]), F.tree.total.map((t) => t[0])]"))
        self.ok(p.js(COLOURS % "flame") > 10, "and is drawn")
        f = p.js("topFunctions(M.tree)[0][0]")
        p.js(f"setMode('sandwich', {f})")
        p.settle()
        self.ok(p.js(f"""(() => {{ const t = M.tree, inside = new Uint8Array(t.n); let sum = 0, up = 0;
            for (let i = 1; i < t.n; i++) {{
                inside[i] = inside[t.parent[i]] || t.func[i] === {f};
                if (inside[i] && !inside[t.parent[i]]) sum += t.total[1][i]; }}
            for (let i = 1; i < F.tree.n; i++)
                if (F.tree.up[i] && !F.tree.parent[i]) up += F.tree.total[1][i];
            return F.tree.func[0] === {f} && sum === F.tree.total[1][0] && Math.abs(up - sum) <= 1; }})()"""),
                "a sandwich has all of the function, and all of its callers")
        self.ok(p.js('$("flamedetail").querySelector("h2").textContent') == p.js(f"nameOf({f})"), "with what it is")
        p.js("setMode('down')")

    def heat(self, p):
        p.click_on("#tab-heat")
        self.ok(p.wait("H.values"), "the heat map is added up")
        p.settle()
        self.ok(p.js("Math.abs(H.values.reduce((n, v) => n + v, 0) / C.lanes.reduce((n, l) => n + (l.data ? l.insns : 0), 0)"
                     " - 1) < 1e-3"), "it has all instructions",
                p.js("[H.values.reduce((n, v) => n + v, 0), M.total.insns]"))
        self.ok(p.js(COLOURS % "heat") > 4, "it is drawn")
        r = p.js('(() => { const r = $("heat").getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })()')
        p.click(r[0] + r[2] * 0.25, r[1] + r[3] * 0.5)
        self.ok(p.wait("activeTab() === 'chart' && C.range && C.range.sum &&"
                       " Math.abs(C.range.b - C.range.a - H.cell) < 1"), "a click shows that time",
                p.js("[C.range?.a, C.range?.b, H.cell, activeTab()]"))
        p.js("selectRange(0, 0)")
        p.key("0")

    def code(self, p):
        f = p.js("[...S.ids].sort((a, b) => M.ownInsns[b] - M.ownInsns[a])[0]")
        self.ok(f is not None and p.js("S.ids.size") > 0, "there is code of functions", p.js("S.ids.size"))
        p.js(f"showFunction({f})")
        p.click_on("#funcdetail .tocode")
        self.ok(p.js(f"activeTab() === 'code' && S.func === {f} && $('codefunc').value === '{f}'"),
                "a function's link leads to its code")
        self.ok(p.js("$('code').tBodies[0].rows.length") > 4, "rows are drawn")
        self.ok(p.js("S.rows[S.at][1] === S.most && $('code').querySelector('tr.chosen') !== null"),
                "the hottest instruction is chosen, and in view")
        at = p.js("S.at")
        p.key("ArrowDown" if at + 1 < p.js("S.rows.length") else "ArrowUp")
        self.ok(abs(p.js("S.at") - at) == 1, "an arrow goes to the next")
        p.key("h")
        self.ok(p.js("S.at") == at, "and h back to the hottest")
        self.ok(p.wait("location.hash.includes('tab=code') && location.hash.includes('function=')"),
                "the address says which")
        hash_ = p.js("location.hash")
        p.js("selectTab('chart')")
        p.wait("!location.hash.includes('tab=code')")
        p.js(f"S.func = -1; location.hash = {json.dumps(hash_)}")
        self.ok(p.wait(f"activeTab() === 'code' && nameOf(S.func) === nameOf({f})"), "and leads back there")
        none = p.js("M.name.findIndex((n, i) => n && !hasCode(i) && M.calls[i])")
        if none >= 0:
            p.js(f"showCode({none})")
            self.ok("auxdecode annotate" in p.js("$('codedetail').textContent"), "of others there is the command")
        p.js("selectTab('chart'); choose(null)")
        shown = p.js(f"(() => {{ for (const l of C.lanes) for (let i = 0; l.data && i < l.data.n; i++)"
                     f" if (l.data.func[i] === {f} && !(l.data.what[i] >> 6 & MERGED)) {{"
                     " reveal(l, i); return true; } })()")
        if shown:
            p.key("o")
            self.ok(p.js(f"activeTab() === 'code' && S.func === {f}"), "o shows that of the chosen frame")
        p.js("S.func = -1; selectTab('chart'); choose(null)")

    def gaps(self, p):
        p.click_on("#tab-gaps")
        if p.js("document.querySelectorAll('.gap').length"):
            p.click_on(".gap")
            self.ok(p.js("activeTab() === 'chart' && C.chosen.span[4] === 1 &&"
                         "C.a < C.chosen.span[0] && C.b > C.chosen.span[1]"),
                    "a gap's link leads to it")
        self.ok("Losses at capture" in p.js('$("gaps").textContent'), "losses are listed")

    def contrast(self, p, theme):
        """On each page, for text comes and goes with it."""
        bad = {}
        for key in "123456":
            p.key(key)
            p.settle()
            bad.update({what: ratio for what, ratio in p.js(CONTRAST)})
        p.key("1")
        self.ok(not bad, f"{theme}: contrast is that of WCAG 2.1, level AA", list(bad.items())[:20])

    def looks(self, p):
        light = p.js("getComputedStyle(document.body).backgroundColor")
        p.dark(True)
        p.settle()
        dark = p.js("getComputedStyle(document.body).backgroundColor")
        self.ok(light != dark, "dark mode follows the system")
        self.contrast(p, "dark")
        p.key("t")
        self.ok(p.js("getComputedStyle(document.body).backgroundColor") == light, "t switches it")
        self.contrast(p, "light")
        p.key("?", "?")
        self.ok(p.js('$("help").open'), "? lists the keys")
        p.js('$("help").close()')
        self.ok(p.js(NAMELESS) == [], "everything has a name", p.js(NAMELESS))
        p.size(390, 800, True)
        p.settle()
        self.ok(p.js("document.documentElement.scrollWidth <= innerWidth"),
                "a narrow screen needs no scrolling aside",
                p.js("[document.documentElement.scrollWidth, innerWidth]"))
        p.size(1360, 820)

    def old_browser(self, p):
        text = p.js(OLD_BROWSER)
        self.ok("DecompressionStream" in text and "2023" in text,
                "a browser without DecompressionStream is told what is wrong", text)


def drive(p):
    """What a user does in a minute, for the length of tasks."""
    p.settle()
    for i in range(12):
        p.wheel(400 + 20 * i, 420, -300)
    for key in "sssaadd0[]pc2":
        p.key(key)
    p.click(300, 330)
    p.key("Escape")
    for key in "3456":
        p.key(key)
    p.key("5")
    p.wait("H.values")
    p.key("1")
    p.key("r")
    p.wait("C.range && C.range.sum")
    p.js("setSource('range'); setMode('up'); setMode('down'); setSource('all')")
    for key in "1":
        p.key(key)
    for i in range(8):
        p.wheel(700, 420, 300)
    p.js("search('e')")
    p.settle()
    p.key("n")
    p.js("search('')")


def tasks(path):
    """A machine's load decides on the figures, too: of several runs the best one counts."""
    b = Browser()
    try:
        p = Page(b)
        b.call("Tracing.start", transferMode="ReportEvents",
               traceConfig={"includedCategories": ["toplevel", "devtools.timeline"]})
        if not p.open(path):
            return 1
        ready = p.js("Math.round(performance.now())")
        drive(p)
        longest = main_tasks(b, p)
        if longest:
            print(ready, round(longest[0], 1))
        return not longest
    finally:
        b.close()


def check(path, wanted):
    b = Browser()
    try:
        c, p = Checks(b), Page(b)
        c.ok(p.open(path), "the page opens", p.errors())
        drive(p)
        p.key("0")
        c.timeline(p)
        c.search(p, wanted)
        c.table(p)
        c.flame(p)
        c.views(p)
        c.lanes(p)
        c.range(p)
        c.heat(p)
        c.code(p)
        c.gaps(p)
        c.looks(p)
        c.old_browser(p)
        c.ok(p.requests() == [], "nothing else is loaded", p.requests())
        c.ok(p.errors() == [], "no error on the console", p.errors())
        return c.n_bad != 0
    finally:
        b.close()


def names(path, wanted):
    """Names out of a recording are text and nothing else."""
    b = Browser()
    try:
        c, p = Checks(b), Page(b)
        c.ok(p.open(path), "the page opens", p.errors())
        c.ok(p.js(f"M.name.includes({json.dumps(wanted)})"), "the name is there as it is",
             p.js("M.name.filter((n) => n.includes('script'))"))
        p.js(f"showFunction(M.name.indexOf({json.dumps(wanted)}))")
        c.ok(p.js('$("funcdetail").querySelector("h2").textContent') == wanted, "it is shown")
        c.ok(p.js("document.images.length + document.querySelectorAll('b.x').length +"
                  "(window.hacked || 0)") == 0, "and makes no element, runs no script")
        c.ok(p.errors() == [], "no error on the console", p.errors())
        return c.n_bad != 0
    finally:
        b.close()


if __name__ == "__main__":
    if sys.argv[1] == "shots":
        shots(sys.argv[2], sys.argv[3])
    elif sys.argv[1] == "check":
        sys.exit(check(sys.argv[2], sys.argv[3]))
    elif sys.argv[1] == "tasks":
        sys.exit(tasks(sys.argv[2]))
    elif sys.argv[1] == "names":
        sys.exit(names(sys.argv[2], sys.argv[3]))
