/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lanes: what a thread did at each moment, whether its frames are shown or not: a strip
 * of states below its head, its activity while it is closed; and the CPUs with the
 * threads that they ran.
 *
 * A state is a span [from, to, missing, times, is gap, why]: why counts as
 * enum report_why of decode/report/impl.h does.
 */
const STRIP = 8, ACTIVITY = 28, CPU_ROW = 17;
const STATES = ["not traced", "in the kernel", "filtered", "off CPU", "off CPU, blocked",
		"off CPU, preempted"];
const KERNEL = 1, FILTERED = 2, OFF_CPU = 3;
const STATE_INKS = {
	light: ["#b4bac2", "#8d7cc4", "#9aa5b1", "#e3c98f", "#e3c98f", "#cf6f4f", "#5da37c"],
	dark: ["#59616a", "#7a69b4", "#6a7480", "#6f5a2c", "#6f5a2c", "#b8593b", "#3f8460"],
};
const RAN = 6;

const stateInk = (k) => STATE_INKS[theme.dark ? "dark" : "light"][k];

/* Rows of four numbers: from where the last one ended, length, missing, why. */
function intervals(v) {
	const out = [];
	let at = 0;

	for (let i = 0; i < v.length; i += 4) {
		const from = at + v[i];

		at = from + v[i + 1];
		out.push([from, at, v[i + 2], 1, 0, v[i + 3]]);
	}
	return out;
}

function setUpStates() {
	const cpus = new Map();

	for (const lane of C.lanes) {
		lane.away = intervals(lane.away);
		lane.runs = intervals(lane.runs);
		lane.gaps = lane.spans.filter((s) => s[4]);
		lane.off = lane.spans.filter((s) => !s[4]);
		for (const r of lane.runs) {
			if (!cpus.has(r[5]))
				cpus.set(r[5], { cpu: r[5], runs: [] });
			cpus.get(r[5]).runs.push({ from: r[0], to: r[1], lane });
		}
	}
	C.lanes.forEach((l, i) => { l.hue = HUES[i % HUES.length]; });
	C.cpus = { rows: [...cpus.values()].sort((a, b) => a.cpu - b.cpu), open: true, y: 0, h: 0 };
	for (const row of C.cpus.rows)
		row.runs.sort((a, b) => a.from - b.from);
	if (!C.cpus.rows.length)
		return;
	C.cpus.head = button("", () => {
		C.cpus.open = !C.cpus.open;
		layout();
		redraw();
	}, "lanehead");
	C.cpus.head.append(make("b", {}, "CPUs"), make("span", {}, `who ran where, on ${
		count(C.cpus.rows.length)}`));
	$("spacer").append(C.cpus.head);
}

/* The first item of a list that ends behind a place; items are in order. */
function firstBehind(list, at, end) {
	let low = 0, high = list.length;

	while (low < high) {
		const mid = (low + high) >> 1;

		if (end(list[mid]) <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const spanEnd = (s) => s[1];

/* The state of a thread at a place: off the CPU comes before all others. */
function stateAt(lane, at, slack) {
	for (const list of [lane.away, lane.gaps, lane.off]) {
		const s = list[firstBehind(list, at - slack, spanEnd)];

		if (s && s[0] <= at + slack)
			return s;
	}
	return null;
}

/* Bars, of which those that are thinner than a pixel are the fainter, the less they
 * cover. */
function drawBars(ctx, list, y, h, tick, ink) {
	let i = firstBehind(list, C.a, spanEnd), x0 = -1, sum = 0, colour = "";
	const flush = () => {
		if (x0 < 0 || !sum)
			return;
		ctx.fillStyle = colour;
		ctx.globalAlpha = Math.min(1, 0.15 + sum);
		ctx.fillRect(x0, y, 1, h);
		ctx.globalAlpha = 1;
	};

	for (; i < list.length && list[i][0] < C.b; i++) {
		const s = list[i], x = Math.max(-2, (s[0] - C.a) / tick);
		const r = Math.min(C.w + 2, (s[1] - C.a) / tick);

		if (r - x >= 1) {
			const part = s[1] > s[0] ? s[2] / (s[1] - s[0]) : 1;

			ctx.globalAlpha = Math.min(1, 0.2 + part);
			ctx.fillStyle = ink(s);
			ctx.fillRect(x, y, r - x, h);
			ctx.globalAlpha = 1;
			continue;
		}
		if (Math.floor(x) !== x0 || ink(s) !== colour) {
			flush();
			x0 = Math.floor(x);
			sum = 0;
			colour = ink(s);
		}
		sum += s[2] / tick;
	}
	flush();
}

function drawStates(ctx, lane, y, tick) {
	const d = lane.data, h = STRIP - 2;

	ctx.fillStyle = ink.lane;
	ctx.fillRect(0, y, C.w, h);
	if (lane.runs.length)
		drawBars(ctx, lane.runs, y, h, tick, () => stateInk(RAN));
	else if (d && d.n)
		drawBars(ctx, [[d.start[0], lastEnd(d), lastEnd(d) - d.start[0]]], y, h, tick,
			 () => stateInk(RAN));
	drawBars(ctx, lane.off, y, h, tick, (s) => stateInk(s[5]));
	if (lane.away.length)
		drawBars(ctx, lane.away, y, h, tick, (s) => stateInk(s[5]));
}

/* Frames at the base are the last to end. */
function lastEnd(d) {
	let end = 0;

	for (let i = 0; i < d.n; i = d.after[i])
		end = Math.max(end, d.start[i] + d.len[i]);
	return end;
}

/* A closed lane: a bar for each frame, the higher, the deeper it is. */
function drawActivity(ctx, lane, y, tick) {
	const d = lane.data;

	if (!d)
		return;
	const level = levelFor(d, tick), most = Math.min(d.rows, 60);

	for (let row = 0; row < most; row++) {
		const h = Math.max(2, (row + 1) / most * (ACTIVITY - 3));
		let i = findFrom(d, level, row, C.a), edge = -1;

		for (; i < level.row[row + 1] && itemStart(d, level, i) < C.b; i++) {
			const from = (itemStart(d, level, i) - C.a) / tick, x = Math.max(edge, from, -2);
			const to = (itemEnd(d, level, i) - C.a) / tick;
			const r = Math.min(Math.max(to, from + 0.7), C.w + 2);

			/* many in one pixel must not push each other along the time */
			if (r <= x)
				continue;
			edge = r;
			ctx.fillStyle = fillOf(d, level.node[i]);
			ctx.fillRect(x, y + ACTIVITY - 2 - h, r - x, h);
		}
	}
	ctx.globalAlpha = 0.75;
	drawBars(ctx, lane.away, y, ACTIVITY - 2, tick, () => ink.bg);
	ctx.globalAlpha = 1;
}

/* ---- CPUs ---- */

function threadInk(lane) {
	const [h, s] = lane.hue;

	return theme.dark ? `hsl(${h} ${s * 0.72}% 33%)` : `hsl(${h} ${s}% 78%)`;
}

function drawCpus(ctx, top) {
	const tick = (C.b - C.a) / C.w;

	if (!C.cpus.open)
		return;
	C.cpus.rows.forEach((row, k) => {
		const y = C.cpus.y + HEAD + k * CPU_ROW - top;

		if (y > C.h || y < -CPU_ROW)
			return;
		drawCpu(ctx, row, y, tick);
		const name = `CPU ${row.cpu}`;

		ctx.fillStyle = ink.bg;
		ctx.globalAlpha = 0.8;
		ctx.fillRect(0, y + 1, ctx.measureText(name).width + 12, CPU_ROW - 3);
		ctx.globalAlpha = 1;
		ctx.fillStyle = ink.ink;
		ctx.fillText(name, 6, y + CPU_ROW / 2);
	});
}

function drawCpu(ctx, row, y, tick) {
	const only = C.chosen && (C.chosen.run ? C.chosen.run.lane : C.chosen.lane);
	let i = firstBehind(row.runs, C.a, (r) => r.to), edge = -1;

	ctx.fillStyle = ink.lane;
	ctx.fillRect(0, y, C.w, CPU_ROW - 2);
	for (; i < row.runs.length && row.runs[i].from < C.b; i++) {
		const r = row.runs[i], from = (r.from - C.a) / tick, x = Math.max(edge, from, -2);
		const end = Math.min(Math.max((r.to - C.a) / tick, from + 0.8), C.w + 2);

		if (end <= x)
			continue;
		edge = end;
		ctx.globalAlpha = only && only !== r.lane ? 0.35 : 1;
		ctx.fillStyle = threadInk(r.lane);
		ctx.fillRect(x, y, end - x > 3 ? end - x - 0.6 : end - x, CPU_ROW - 2);
		ctx.globalAlpha = 1;
		if (end - x > 60) {
			const at = Math.max(x, 54) + 4;

			ctx.fillStyle = ink.label;
			ctx.fillText(clip(ctx, laneName(r.lane), end - at - 4), at, y + CPU_ROW / 2);
		}
	}
}

/* {run} under a place of the canvas, or null. */
function hitCpu(top, at, tick) {
	const row = C.cpus.open ? C.cpus.rows[Math.floor((top - C.cpus.y - HEAD) / CPU_ROW)] : null;

	if (!row || top < C.cpus.y + HEAD)
		return null;
	const run = row.runs[firstBehind(row.runs, at - tick, (r) => r.to)];

	return run && run.from <= at + tick ? { run, cpu: row.cpu } : null;
}

function runDetail({ run, cpu }) {
	return [make("h2", {}, laneName(run.lane)),
		rows(["On", `CPU ${cpu}`], ["From", absolute(run.from)], ["To", absolute(run.to)],
		     ["For", length(run.to - run.from)]),
		make("p", {}, button("Show what it did", () => {
			run.lane.open = true;
			layout();
			scrollTo(run.lane, 0);
			moveTo(run.from - (run.to - run.from) * 0.1, run.to + (run.to - run.from) * 0.1);
		}), " ", button("Select this time", () => selectRange(run.from, run.to))),
		commands(run.lane, run.from, run.to)];
}
