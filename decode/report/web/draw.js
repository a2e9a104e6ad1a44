/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Draw: the timeline's canvases, as the chart's state says. Work depends on pixels, not
 * on how many calls there are: of each row only what is in view is looked at, in
 * the level whose items are as fine as pixels.
 */
const draw = { dots: null, stripes: null, grey: null, dark: null };

function patterns(ctx) {
	if (draw.dark === theme.dark)
		return;
	draw.dark = theme.dark;
	draw.dots = pattern(ctx, "dots", theme.dark ? "rgb(255 255 255 / .33)" :
						     "rgb(0 0 0 / .3)");
	draw.stripes = pattern(ctx, "stripes", ink.bad);
	draw.edge = pattern(ctx, "stripes", theme.dark ? "#000" : "#fff");
}

function drawAll() {
	const box = $("scroller");

	if (!M.ready || $("panel-chart").hidden)
		return;
	C.w = box.clientWidth;
	C.h = box.clientHeight;
	if (!C.w || !C.h)
		return;
	drawLanes(fitCanvas($("lanes"), C.w, C.h), box.scrollTop);
	drawRuler(fitCanvas($("ruler"), C.w, 24));
	drawMini(fitCanvas($("mini"), C.w, 44));
	$("range").textContent = `${length(Math.max(0, Math.min(C.b, M.span) - Math.max(C.a, 0)))} ` +
		`of ${length(M.span)}`;
}

function drawLanes(ctx, top) {
	patterns(ctx);
	ctx.fillStyle = ink.bg;
	ctx.fillRect(0, 0, C.w, C.h);
	drawGrid(ctx);
	drawCpus(ctx, top);
	for (const lane of C.lanes) {
		if (lane.y > top + C.h || lane.y + lane.h < top)
			continue;
		if (lane.open)
			drawLane(ctx, lane, frameTop(lane) - top);
		else
			drawActivity(ctx, lane, frameTop(lane) - top, (C.b - C.a) / C.w);
		drawStates(ctx, lane, lane.y + HEAD + 1 - top, (C.b - C.a) / C.w);
		if (!lane.open)
			drawGaps(ctx, lane, frameTop(lane) - top, (C.b - C.a) / C.w);
	}
	drawRange(ctx, C.h);
	drawChosen(ctx, top);
}

/* ---- frames ---- */

function fillOf(d, node, small) {
	const func = d.func[node];

	if (C.match)
		return C.match[func] ? ink.found : small ? ink.dim : ink.dim;
	return colourOf(func);
}

function drawLane(ctx, lane, y) {
	const d = lane.data, tick = (C.b - C.a) / C.w;

	drawOff(ctx, lane, lane.off, y, tick, false);
	drawOff(ctx, lane, lane.away, y, tick, false);
	if (d) {
		const level = levelFor(d, tick);
		const from = Math.max(0, Math.floor(-y / ROW));
		const to = Math.min(d.rows, Math.ceil((C.h - y) / ROW));

		for (let row = from; row < to; row++)
			drawRow(ctx, d, level, row, y + row * ROW, tick);
	} else if (lane.nodes) {
		ctx.fillStyle = ink.soft;
		ctx.fillText("Reading", 16, y + ROW / 2);
	}
	drawOff(ctx, lane, lane.off.length ? lane.off : lane.away, y, tick, true);
	drawGaps(ctx, lane, y, tick);
}

function drawRow(ctx, d, level, row, y, tick) {
	const end = level.row[row + 1];
	let i = findFrom(d, level, row, C.a), fill = "", edge = -1;

	for (; i < end && itemStart(d, level, i) < C.b; i++) {
		const node = level.node[i];
		let x = (itemStart(d, level, i) - C.a) / tick;
		let r = (itemEnd(d, level, i) - C.a) / tick;

		if (r - x < 1)
			r = x + 1;
		if (r <= edge)
			continue;
		if (x < edge)
			x = edge;
		edge = r;
		const l = Math.max(x, -2), w = Math.min(r, C.w + 2) - l;
		const f = fillOf(d, node, r - x < 3);

		if (f !== fill)
			ctx.fillStyle = fill = f;
		ctx.fillRect(l, y, w > 3 ? w - 0.6 : w, ROW - 1);
		if (w > 3 && d.what[node] >> 6 | (d.what[node] >> 3 & 7))
			fill = drawMarks(ctx, d, node, l, y, w, r) || fill;
		if (w > 26)
			fill = drawLabel(ctx, d, node, l, y, w);
	}
}

/* What is special of a frame. Returns the fill style it left, if any. */
function drawMarks(ctx, d, node, x, y, w, r) {
	const flags = d.what[node] >> 6 & 15, how = d.what[node] >> 3 & 7;

	if (flags & MERGED) {
		ctx.fillStyle = draw.dots;
		ctx.fillRect(x, y, w - 0.6, ROW - 1);
		const deep = Math.min(d.more[(d.extra[node] - 1) * 3 + 1], 40);

		ctx.globalAlpha = 0.35;
		ctx.fillRect(x, y + ROW, w - 0.6, deep * ROW - 1);
		ctx.globalAlpha = 1;
	}
	if (flags & GUESSED) {
		ctx.strokeStyle = ink.bad;
		ctx.setLineDash([3, 2]);
		ctx.strokeRect(x + 0.5, y + 0.5, w - 1.6, ROW - 2);
		ctx.setLineDash([]);
	}
	if ((how === END_LOST || flags & BREAKS) && r < C.w && w > 8) {
		ctx.fillStyle = draw.edge;
		ctx.fillRect(x + w - 7, y, 6.4, ROW - 1);
	}
	return "-";
}

function labelOf(d, node) {
	const flags = d.what[node] >> 6 & 15, name = nameOf(d.func[node]);

	if (flags & MERGED)
		return `${short(d.more[(d.extra[node] - 1) * 3])} calls, most in ${name}`;
	return flags & GUESSED ? `? ${name}` : name;
}

function drawLabel(ctx, d, node, x, y, w) {
	const from = Math.max(x, 0) + 5;
	const text = clip(ctx, labelOf(d, node), Math.min(x + w, C.w) - from - 4);

	if (!text)
		return "-";
	ctx.fillStyle = C.match && C.match[d.func[node]] ? "#1a1d21" :
		C.match ? ink.soft : ink.label;
	ctx.fillText(text, from, y + ROW / 2);
	return "-";
}

/* ---- where there are no frames ---- */

/* Grey below the frames; over them, so that they can be read, as a veil. */
function drawOff(ctx, lane, list, y, tick, over) {
	const h = rowsOf(lane) * ROW;
	let edge = 0;

	ctx.fillStyle = theme.dark ? (over ? "#15171a" : "#2b3036") : (over ? "#fbfbfa" : "#e3e5e8");
	for (let i = firstBehind(list, C.a, spanEnd); i < list.length && list[i][0] < C.b; i++) {
		const s = list[i];
		const x = Math.max(edge, (s[0] - C.a) / tick);
		const r = Math.min(C.w, (s[1] - C.a) / tick);

		if (r - x < (over ? 4 : 0.2))
			continue;
		const part = s[1] > s[0] ? s[2] / (s[1] - s[0]) : 1;

		ctx.globalAlpha = over ? 0.35 * part : Math.min(1, (0.3 + part) * (r - x));
		ctx.fillRect(x, y, Math.max(r - x, 1), h);
		edge = r;
	}
	ctx.globalAlpha = 1;
}

/* Gaps that are too short to be seen are drawn wider. Where many of those are close, the
 * first stands for all, and their marks alone for the others: so the frames between them
 * can be read, and thousands take no longer than some. */
function drawGaps(ctx, lane, y, tick) {
	const h = lane.open ? Math.max(rowsOf(lane), 1) * ROW : ACTIVITY - 2;
	let last = -Infinity;

	for (const s of lane.gaps) {
		if (s[1] < C.a || s[0] > C.b)
			continue;
		const w = Math.max((s[1] - s[0]) / tick, 4), narrow = w === 4;
		const x = (s[0] - C.a) / tick - (narrow ? 2 : 0);
		const l = Math.max(x, -10), mid = Math.min(Math.max(x + w / 2, 6), C.w - 6);

		if (narrow && Math.abs(x - last) < 4)
			continue;
		ctx.fillStyle = draw.stripes;
		ctx.fillRect(l, y - 2, Math.min(x + w, C.w + 10) - l,
			     narrow && Math.abs(x - last) < 16 ? 5 : h + 4);
		ctx.fillStyle = ink.bad;
		ctx.beginPath();
		ctx.moveTo(mid - 5, y - 2);
		ctx.lineTo(mid + 5, y - 2);
		ctx.lineTo(mid, y + 5);
		ctx.fill();
		last = x + (narrow ? 0 : w);
	}
}

/* What is chosen, over all lanes. */
function drawRange(ctx, h) {
	const r = C.dragged || C.range, tick = (C.b - C.a) / C.w;

	if (!r)
		return;
	const x = (Math.min(r.a, r.b) - C.a) / tick, w = Math.abs(r.b - r.a) / tick;

	ctx.fillStyle = ink.accent;
	ctx.globalAlpha = 0.14;
	ctx.fillRect(x, 0, w, h);
	ctx.globalAlpha = 1;
	ctx.fillRect(x, 0, 1, h);
	ctx.fillRect(x + w - 1, 0, 1, h);
}

function outlineRun(ctx, { run, cpu }, top, colour, width) {
	const tick = (C.b - C.a) / C.w, k = C.cpus.rows.findIndex((r) => r.cpu === cpu);
	const x = (run.from - C.a) / tick, w = Math.max(2, (run.to - run.from) / tick);

	ctx.strokeStyle = colour;
	ctx.lineWidth = width;
	ctx.strokeRect(x, C.cpus.y + HEAD + k * CPU_ROW - top, w, CPU_ROW - 2);
	ctx.lineWidth = 1;
}

function outline(ctx, what, top, colour, width) {
	if (what.run) {
		outlineRun(ctx, what, top, colour, width);
		return;
	}
	const tick = (C.b - C.a) / C.w, y0 = frameTop(what.lane) - top;

	if (!what.lane.open)
		return;
	ctx.strokeStyle = colour;
	ctx.lineWidth = width;
	if (what.node !== undefined) {
		const d = what.lane.data, x = (d.start[what.node] - C.a) / tick;
		const w = Math.max(2, d.len[what.node] / tick);
		const l = Math.max(x, -5), r = Math.min(x + w, C.w + 5);

		if (r > -3 && l < C.w + 3)
			ctx.strokeRect(l, y0 + d.depth[what.node] * ROW, Math.max(r - l - 0.6, 2),
				       ROW - 1);
	} else {
		const x = (what.span[0] - C.a) / tick, r = (what.span[1] - C.a) / tick;

		ctx.strokeRect(x - 2, y0 - 1, Math.max(r - x, 1) + 4,
			       Math.max(rowsOf(what.lane), 1) * ROW + 2);
	}
	ctx.lineWidth = 1;
}

function drawChosen(ctx, top) {
	if (C.hover)
		outline(ctx, C.hover, top, ink.soft, 1);
	if (C.chosen)
		outline(ctx, C.chosen, top, ink.accent, 2.5);
}

/* ---- ruler ---- */

/* Steps of 1, 2, 5 that are some 110 pixels apart. */
function stepOf() {
	const rough = (C.b - C.a) / Math.max(1, C.w / 110) / M.ticks;
	const ten = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-3)));
	const step = [1, 2, 5, 10].find((k) => k * ten >= rough) * ten;

	return Math.max(step, M.timed ? 0.1 : 1) * M.ticks;
}

function eachTick(run) {
	const step = stepOf(), tick = (C.b - C.a) / C.w;

	for (let t = Math.max(0, Math.ceil(C.a / step)) * step; t <= C.b && t <= M.span + step;
	     t += step)
		run((t - C.a) / tick, t, step);
}

function drawGrid(ctx) {
	ctx.fillStyle = ink.lane;
	eachTick((x) => ctx.fillRect(Math.round(x), 0, 1, C.h));
}

function drawRuler(ctx) {
	ctx.fillStyle = ink.panel;
	ctx.fillRect(0, 0, C.w, 24);
	drawRange(ctx, 24);
	eachTick((x, t, step) => {
		ctx.fillStyle = ink.line;
		ctx.fillRect(Math.round(x), 14, 1, 10);
		ctx.fillStyle = ink.soft;
		ctx.fillText(relative(t, step), Math.round(x) + 5, 12);
	});
}

/* ---- overview ---- */

/* For each column the deepest row, and whether there is a gap. Kept until the width,
 * the theme or the data change. */
const mini = { key: "", depth: null, deepest: 1 };

function measure(w) {
	const key = `${w}.${C.lanes.filter((l) => l.data).length}`;

	if (mini.key === key)
		return;
	mini.key = key;
	mini.depth = new Uint16Array(w);
	mini.deepest = 1;
	for (const lane of C.lanes) {
		if (!lane.data)
			continue;
		const level = levelFor(lane.data, M.span / w);

		for (let row = 0; row < lane.data.rows; row++)
			for (let i = level.row[row]; i < level.row[row + 1]; i++) {
				const from = itemStart(lane.data, level, i) / M.span * w;
				const to = Math.min(w - 1, itemEnd(lane.data, level, i) / M.span * w);

				for (let x = Math.floor(from); x <= to; x++)
					mini.depth[x] = Math.max(mini.depth[x], row + 1);
			}
		mini.deepest = Math.max(mini.deepest, Math.min(lane.data.rows, 200));
	}
}

function drawMini(ctx) {
	const w = C.w, h = 44, scale = M.span / w || 1;

	measure(w);
	ctx.fillStyle = ink.panel;
	ctx.fillRect(0, 0, w, h);
	ctx.fillStyle = theme.dark ? "#454c55" : "#c3c9d1";
	for (let x = 0; x < w; x++) {
		const y = Math.min(1, mini.depth[x] / mini.deepest) * (h - 6);

		ctx.fillRect(x, h - y, 1, y);
	}
	ctx.fillStyle = ink.bad;
	for (const lane of C.lanes)
		for (const s of lane.gaps)
			ctx.fillRect(s[0] / scale - 0.5, 0, Math.max(1.5, (s[1] - s[0]) / scale), h);
	if (C.range) {
		ctx.fillStyle = ink.accent;
		ctx.fillRect(C.range.a / scale, h - 4, Math.max(2, (C.range.b - C.range.a) / scale), 4);
	}
	const a = Math.max(0, C.a / scale), b = Math.min(w, C.b / scale);

	ctx.fillStyle = theme.dark ? "rgb(0 0 0 / .45)" : "rgb(255 255 255 / .62)";
	ctx.fillRect(0, 0, a, h);
	ctx.fillRect(b, 0, w - b, h);
	ctx.strokeStyle = ink.accent;
	ctx.strokeRect(a + 0.5, 0.5, Math.max(3, b - a - 1), h - 1);
}
