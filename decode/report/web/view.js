/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * View: what all views share: elements, numbers and times as text, colours. M is
 * the recording (the page's json block), with f, the functions' arrays, in it.
 */
const M = { ready: false, lanes: [], tree: null, sites: null };
const GUESSED = 2, GOES_ON = 4, BREAKS = 8;
const MERGED = 1;
const KINDS = ["ran when the trace began", "", "tail call", "signal handler",
	       "interrupt", "system call", "its own stack"];
const ENDS = ["returned", "another function took its place (tail call)",
	      "left without a return (longjmp, throw)", "went back to user code",
	      "lost in a gap: nobody knows when it ended",
	      "the process ran another program", "still ran at the end"];
const END_LOST = 4, END_TRACE = 6, KIND_BASE = 0;

const $ = (id) => document.getElementById(id);

/* An element: make("b", {title: "x"}, "text", another) */
function make(tag, props, ...inside) {
	const e = document.createElement(tag);

	for (const [k, v] of Object.entries(props || {})) {
		if (k.startsWith("on"))
			e.addEventListener(k.slice(2), v);
		else if (k === "class")
			e.className = v;
		else if (v !== undefined && v !== null)
			e.setAttribute(k, v);
	}
	e.append(...inside.filter((x) => x !== null && x !== undefined));
	return e;
}

const button = (text, run, cls = "link", props = {}) =>
	make("button", { type: "button", class: cls, onclick: run, ...props }, text);

function say(text) {
	$("live").textContent = text;
}

/* ---- numbers ---- */

const count = (v) => Math.round(v).toLocaleString("en-US");

function short(v) {
	for (const [unit, s] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
		if (v >= unit * 0.9995)
			return `${+(v / unit).toPrecision(3)}\u202f${s}`;
	return String(Math.round(v));
}

function percent(v, all) {
	const p = 100 * v / all;

	if (!(all > 0))
		return "";
	return v && p < 0.005 ? "<0.01\u202f%" :
		`${p.toFixed(v && p < 0.095 ? 2 : 1)}\u202f%`;
}

function nanoseconds(ns) {
	for (const [unit, s] of [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"]])
		if (ns >= unit * 0.99995)
			return `${+(ns / unit).toPrecision(4)}\u202f${s}`;
	return `${+ns.toPrecision(3)}\u202fns`;
}

/* A length in ticks; without times ticks are instructions. */
function length(ticks) {
	const v = ticks / M.ticks;

	return M.timed ? nanoseconds(v) : `${count(v)} instructions`;
}

/* What a call took, where the trace can tell: see find_took_text(). */
function lasted(ticks) {
	const ns = ticks / M.ticks;

	if (!M.timed || (ns > 0 && ns >= M.resolution))
		return length(ticks);
	return M.resolution ? `<${nanoseconds(M.resolution)}` : "~0\u202fns";
}

/* A place in ticks as the other commands show it: exact seconds. */
function absolute(ticks) {
	const ns = BigInt(M.base) + BigInt(Math.floor(ticks / M.ticks));

	if (!M.timed)
		return count(Number(ns));
	return `${ns / 1000000000n}.${String(ns % 1000000000n).padStart(9, "0")}`;
}

const absoluteNs = (ticks, round) =>
	String(BigInt(M.base) + BigInt(round(ticks / M.ticks)));

/* From the beginning, precise enough for a step of so many ticks. */
function relative(ticks, step) {
	const v = ticks / M.ticks, s = step / M.ticks;

	if (!M.timed)
		return count(v);
	const [unit, name] = v >= 1e9 ? [1e9, "s"] : v >= 1e6 ? [1e6, "ms"] :
		v >= 1e3 ? [1e3, "\u00b5s"] : [1, "ns"];
	const digits = Math.max(0, Math.min(9, Math.ceil(Math.log10(unit / s) - 1e-9)));

	return `${(v / unit).toFixed(digits)}\u202f${name}`;
}

/* ---- names ---- */

const nameOf = (func) => M.name[func] || "[unknown]";
const baseName = (path) => path.slice(path.lastIndexOf("/") + 1) || path;
const dsoOf = (func) => M.dso[func] ? M.dsos[M.dso[func] - 1] : "";

/* As compilers write them, paths go up and down again. */
function tidyPath(path) {
	const out = [];

	for (const part of path.split("/"))
		if (part === ".." && out.length && out[out.length - 1] !== ".." && out[out.length - 1])
			out.pop();
		else if (part !== "." || !out.length)
			out.push(part);
	return out.join("/");
}

function sourceOf(func) {
	return M.src[func] ? `${tidyPath(M.srcs[M.src[func] - 1])}:${M.line[func]}` : "";
}

function laneName(lane) {
	if (lane.tid < 0)
		return lane.nodes ? `stream ${lane.stream}` : "of no thread";
	return `${lane.comm || "thread"} ${lane.tid}`;
}

/* ---- colours: a hue for each file, a shade for each function ---- */

const HUES = [[212, 46], [28, 58], [150, 36], [345, 42], [265, 34], [185, 44],
	      [48, 56], [310, 30], [95, 34], [10, 44]];
const theme = { dark: false, colours: [], ink: [], hue: [] };

function css(name) {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/* The files with most instructions get their hues first. */
function rankFiles() {
	const sums = new Map();

	for (let i = 0; i < M.name.length; i++)
		sums.set(M.dso[i], (sums.get(M.dso[i]) || 0) + M.ownInsns[i]);
	M.files = [...sums].sort((a, b) => b[1] - a[1]).map((e) => e[0]);
	theme.hue = new Map(M.files.map((d, i) => [d, d ? HUES[i % HUES.length] : [210, 6]]));
}

function hash(text) {
	let h = 2166136261;

	for (let i = 0; i < text.length; i++)
		h = Math.imul(h ^ text.charCodeAt(i), 16777619);
	return (h >>> 8) % 1000 / 1000;
}

function colourOf(func) {
	let c = theme.colours[func];

	if (c)
		return c;
	const [h, s] = theme.hue.get(M.dso[func]) || [210, 6];
	const v = hash(nameOf(func)), w = hash(`${nameOf(func)}.`);

	c = theme.dark ?
		`hsl(${h + 28 * v - 14} ${s * 0.72}% ${21 + 9 * w}%)` :
		`hsl(${h + 28 * v - 14} ${s}% ${69 + 15 * w}%)`;
	theme.colours[func] = c;
	return c;
}

function legend() {
	const box = $("legend");

	box.replaceChildren();
	for (const d of M.files.slice(0, 6)) {
		const [h, s] = theme.hue.get(d);
		const c = theme.dark ? `hsl(${h} ${s * 0.72}% 38%)` : `hsl(${h} ${s}% 74%)`;

		box.append(make("span", { style: `--c:${c}`, title: d ? M.dsos[d - 1] : "" },
				d ? baseName(M.dsos[d - 1]) : "no file"));
	}
}

/* The states that this recording has. */
function stateLegend() {
	const box = $("states"), has = new Set();

	for (const lane of C.lanes)
		for (const s of [...lane.off, ...lane.away])
			has.add(s[5]);
	box.replaceChildren(...[[RAN, "runs"], ...STATES.map((n, k) => [k, n]).filter(([k]) => has.has(k))]
		.map(([k, name]) => make("span", { style: `--c:${stateInk(k)}` }, name)));
}

/* The palette of what is drawn; read once for each theme. */
const ink = {};

function readTheme() {
	for (const k of ["bg", "panel", "ink", "soft", "line", "lane", "accent", "bad", "mark"])
		ink[k] = css(`--${k}`);
	ink.font = `11px ${css("--sans")}`;
	ink.label = theme.dark ? "#e8ebef" : "#1a1d21";
	ink.dim = theme.dark ? "#2a2e33" : "#e4e6e9";
	ink.found = theme.dark ? "#c9962e" : "#f2b632";
	theme.colours = [];
}

/* A small pattern, drawn once: stripes or dots. */
function pattern(ctx, kind, colour) {
	const c = document.createElement("canvas"), g = c.getContext("2d");

	c.width = c.height = 8;
	g.strokeStyle = g.fillStyle = colour;
	if (kind === "dots") {
		g.fillRect(1, 1, 1.6, 1.6);
		g.fillRect(5, 5, 1.6, 1.6);
	} else {
		g.lineWidth = 1.6;
		for (const x of [-8, 0, 8]) {
			g.beginPath();
			g.moveTo(x - 1, 9);
			g.lineTo(x + 9, -1);
			g.stroke();
		}
	}
	return ctx.createPattern(c, "repeat");
}

/* The canvas in the size it is shown in. */
function fitCanvas(canvas, w, h) {
	const r = window.devicePixelRatio || 1;
	const pw = Math.max(1, Math.round(w * r)), ph = Math.max(1, Math.round(h * r));

	if (canvas.width !== pw || canvas.height !== ph) {
		canvas.width = pw;
		canvas.height = ph;
		canvas.style.width = `${w}px`;
		canvas.style.height = `${h}px`;
	}
	const ctx = canvas.getContext("2d", { alpha: false });

	ctx.setTransform(r, 0, 0, r, 0, 0);
	ctx.font = ink.font;
	ctx.textBaseline = "middle";
	return ctx;
}

/* As much of a text as fits into so many pixels. */
const widths = new Map();

function clip(ctx, text, room) {
	let w = widths.get(text);

	if (text.length > 300)
		text = text.slice(0, 300);
	if (w === undefined) {
		if (widths.size > 20000)
			widths.clear();
		w = ctx.measureText(text).width;
		widths.set(text, w);
	}
	if (w <= room)
		return text;
	const n = Math.floor(text.length * room / w) - 1;

	return n < 2 ? "" : `${text.slice(0, n)}\u2026`;
}

function tip(x, y, ...inside) {
	const t = $("tip");

	if (!inside.length) {
		t.hidden = true;
		return;
	}
	t.replaceChildren(...inside);
	t.hidden = false;
	const r = t.getBoundingClientRect();

	t.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - r.width - 6))}px`;
	t.style.top = `${y + 18 + r.height > innerHeight ? y - r.height - 10 : y + 18}px`;
}

/* Draws once before the next picture, however often it is asked for. */
function painter(draw) {
	let asked = false;

	return () => {
		if (asked)
			return;
		asked = true;
		requestAnimationFrame(() => {
			asked = false;
			draw();
		});
	};
}

function command(text) {
	const b = button("Copy", () => {
		navigator.clipboard?.writeText(text).catch(() => {});
		b.textContent = "Copied";
		setTimeout(() => { b.textContent = "Copy"; }, 1200);
	}, "small", { "aria-label": `Copy the command ${text}` });

	return make("div", { class: "cmd" }, make("code", {}, text), b);
}
