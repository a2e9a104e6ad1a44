/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Range: a part of the time that was chosen, what ran in it, and the heat map, which is
 * a way to find one.
 *
 * Time goes to the frame on top. Of a frame that is in the range in part, as much of its
 * own instructions counts as of its own time: between two times of the trace nothing is
 * known of where in it they ran.
 */
const STEPS = 4096;	/* nodes between two looks at the clock */

async function addOwn(d) {
	const len = new Float64Array(d.n), insns = d.insns.slice(), cycles = d.cycles.slice();

	for (let i = 0; i < d.n; i++) {
		const p = d.parent[i];

		if (i % STEPS === STEPS - 1 && isLong())
			await pause();
		len[i] += d.len[i];
		if (p < 0)
			continue;
		len[p] -= d.len[i];
		insns[p] -= d.insns[i];
		cycles[p] -= d.what[i] >> 6 & MERGED ? 0 : d.cycles[i];
	}
	return Object.assign(d, { ownLen: len, ownInsns: insns, ownCycles: cycles });
}

/* The own time and numbers of each node of a lane, made once: who asks meanwhile waits for
 * the same. */
function ownOf(d) {
	d.own ||= addOwn(d);
	return d.own;
}

const overlap = (from, to, a, b) => Math.max(0, Math.min(to, b) - Math.max(from, a));

/* The deepest frame that runs at a place; -1: none. Nodes are in the order of their
 * begin. */
function frameAt(d, at) {
	let low = 0, high = d.n;

	while (low < high) {
		const mid = (low + high) >> 1;

		if (d.start[mid] <= at)
			low = mid + 1;
		else
			high = mid;
	}
	let i = low - 1;

	while (i >= 0 && d.start[i] + d.len[i] <= at)
		i = d.parent[i];
	return i;
}

/* Calls put(state, ticks, at) for what is nobody's own between a and b: of what is off
 * the CPU in the kernel, off the CPU counts. */
function eachAway(lane, a, b, put) {
	for (const s of lane.away) {
		const n = overlap(s[0], s[1], a, b);

		if (n)
			put(Math.max(s[5], OFF_CPU), n * partOf(s), middle(s, a, b));
	}
	for (const s of lane.spans) {
		let n = overlap(s[0], s[1], a, b);

		if (!n)
			continue;
		for (let i = firstBehind(lane.away, s[0], spanEnd); i < lane.away.length &&
		     lane.away[i][0] < s[1]; i++)
			n -= overlap(lane.away[i][0], lane.away[i][1], Math.max(a, s[0]), Math.min(b, s[1])) *
				partOf(lane.away[i]);
		if (n > 0)
			put(s[4] ? "gap" : s[5], n * partOf(s), middle(s, a, b));
	}
}

const partOf = (s) => s[1] > s[0] ? Math.min(1, s[2] / (s[1] - s[0])) : 0;
const middle = (s, a, b) => (Math.max(s[0], a) + Math.min(s[1], b)) / 2;

/* What a lane did between a and b, into a call tree (flame.js) below its own root. */
async function addLane(tree, lane, a, b, sum) {
	const d = lane.data ? await ownOf(lane.data) : null;
	const root = tree.add(0, ROOT_NODE, laneName(lane)), at = d ? new Int32Array(d.n) : null;
	const own = d ? new Float64Array(d.n) : null, met = [];

	const end = b < M.span ? b : Infinity;	/* what begins at the end is in it, too */

	sum.lanes.push({ lane, ns: 0, insns: 0, cycles: 0, calls: 0, states: new Map() });
	const l = sum.lanes[sum.lanes.length - 1];

	for (let i = 0, k = 0; d && i < d.n && d.start[i] < end; k++) {
		if (k % STEPS === STEPS - 1 && isLong())
			await pause();
		if (d.start[i] + d.len[i] < a) {
			i = d.after[i];
			continue;
		}
		const p = d.parent[i], time = overlap(d.start[i], d.start[i] + d.len[i], a, b);

		at[i] = tree.add(p < 0 ? root : at[p], d.func[i]);
		met.push(i);
		own[i] = time;
		if (p >= 0)
			own[p] -= time;
		if (d.start[i] >= a) {
			const n = !d.extra[i] && d.what[i] >> 6 & GOES_ON ? 0 : callsIn(d, i);

			tree.calls[at[i]] += n;
			l.calls += n;
		}
		i++;
	}
	for (let k = 0; k < met.length; k++) {
		if (k % STEPS === STEPS - 1 && isLong())
			await pause();
		const i = met[k], time = own[i];
		const part = d.ownLen[i] > 0 ? Math.min(1, time / d.ownLen[i]) :
			d.start[i] >= a && d.start[i] < end ? 1 : 0;
		const insns = d.ownInsns[i] * part, cycles = d.ownCycles[i] * part;

		tree.put(at[i], time, insns, cycles);
		l.ns += time;
		l.insns += insns;
		l.cycles += cycles;
	}
	eachAway(lane, a, b, (state, ticks, place) => {
		const i = d ? frameAt(d, place) : -1, node = i < 0 || !at[i] ? root : at[i];
		const kind = state === "gap" ? GAP_NODE : state >= OFF_CPU ? OFF_CPU_NODE :
			state === KERNEL ? -3 : state === FILTERED ? -2 : -5;

		l.states.set(state, (l.states.get(state) || 0) + ticks);
		if (node === root)
			return;
		tree.put(node, -ticks, 0, 0);
		tree.put(tree.add(node, kind), ticks, 0, 0);
	});
}

/* {tree, lanes, a, b} of a range. */
async function rangeStats(a, b) {
	const tree = newTree(), sum = { a, b, lanes: [], tree };

	for (const lane of C.lanes) {
		await addLane(tree, lane, a, b, sum);
		await pause();
	}
	sum.funcs = topFunctions(tree);
	sum.tree = linkTree(await prune(tree));
	sum.lanes = sum.lanes.filter((l) => l.ns || l.insns || l.states.size);
	return sum;
}

/* ---- choosing one ---- */

function selectRange(a, b) {
	const from = Math.max(0, Math.min(a, b)), to = Math.min(M.span, Math.max(a, b));

	C.range = to > from ? { a: from, b: to, sum: null } : null;
	C.chosen = null;
	$("ofrange").disabled = !C.range;
	if (!C.range && F.source === "range")
		setSource("all");
	redraw();
	saveState();
	if (C.range)
		showRange(C.range);
	else
		showDetail(null);
}

async function showRange(range) {
	const box = $("detail");

	box.replaceChildren(make("h2", {}, `${length(range.b - range.a)} chosen`),
		make("p", { class: "hint" }, "Adding up"));
	range.sum = range.sum || await rangeStats(range.a, range.b);
	if (C.range !== range)
		return;
	box.replaceChildren(...rangeDetail(range).filter((x) => x));
	if (F.source === "range")
		setSource("range");
	const all = totalOf(range.sum);

	say(`${length(range.b - range.a)} chosen: ${count(all.calls)} calls, ${count(all.insns)} instructions`);
}

function totalOf(sum) {
	const all = { insns: 0, cycles: 0, calls: 0, ns: 0, states: new Map() };

	for (const l of sum.lanes) {
		for (const k of ["insns", "cycles", "calls", "ns"])
			all[k] += l[k];
		for (const [k, v] of l.states)
			all.states.set(k, (all.states.get(k) || 0) + v);
	}
	return all;
}

const ipc = (l) => l.cycles >= 1 ? (l.insns / l.cycles).toFixed(2) : "";
const stateName = (k) => k === "gap" ? "lost in gaps" : STATES[k];

function rangeDetail({ a, b, sum }) {
	const all = totalOf(sum), threads = make("ol"), funcs = make("ol");
	let away = 0;

	for (const v of all.states.values())
		away += v;
	for (const l of sum.lanes.sort((x, y) => y.insns - x.insns).slice(0, 12)) {
		let off = 0;

		for (const v of l.states.values())
			off += v;
		threads.append(make("li", {}, button(laneName(l.lane), () => scrollTo(l.lane, 0)),
			make("span", { class: "num" }, `${short(l.insns)}${ipc(l) ? `, IPC ${ipc(l)}` : ""}, ${
				percent(Math.max(0, l.ns - off), b - a)} busy`)));
	}
	for (const [f, v] of sum.funcs.slice(0, 15))
		funcs.append(make("li", {}, funcLink(f), make("span", { class: "num" },
			M.timed ? length(v.ticks) : short(v.insns))));
	return [make("h2", {}, `${length(b - a)} chosen`),
		make("p", {}, button("Flame graph of it", () => {
			setSource("range");
			selectTab("flame");
		}, "small"), " ", button("Zoom", () => moveTo(a, b), "small"), " ",
		     button("Clear", () => selectRange(0, 0), "small")),
		rows(["From", absolute(a)], ["To", absolute(b)],
		     ["Calls begun", count(all.calls)], ["Functions", count(sum.funcs.length)],
		     ["Instructions", count(all.insns)],
		     ["Cycles", all.cycles >= 1 ? count(all.cycles) : ""], ["Per cycle", ipc(all)],
		     ["Self time", M.timed ? length(Math.max(0, all.ns - away)) : ""],
		     ...[...all.states].map(([k, v]) => [sentence(stateName(k)), length(v)])),
		make("h3", {}, "Threads"), threads, make("h3", {}, "Functions, most self time first"), funcs,
		make("div", {}, make("h3", {}, "The same in a terminal"),
		     command(M.commands.calls.join(timeArg(a, b))))];
}

const sentence = (s) => s[0].toUpperCase() + s.slice(1);

/* [function, {ticks, insns}] of a tree, by what was their own. */
function topFunctions(t) {
	const sums = new Map();

	for (let i = 1; i < t.n; i++) {
		if (t.func[i] < 0)
			continue;
		const s = sums.get(t.func[i]) || { ticks: 0, insns: 0 };

		s.ticks += t.own[0][i] * M.ticks;
		s.insns += t.own[1][i];
		sums.set(t.func[i], s);
	}
	return [...sums].filter((e) => e[1].ticks > 0 || e[1].insns > 0)
		.sort((x, y) => M.timed ? y[1].ticks - x[1].ticks : y[1].insns - x[1].insns);
}

/* ---- the heat map: a column is ROWS_OF_HEAT cells of time, from the top down ---- */

const H = { cell: 1, cols: 0, values: null, by: "insns", most: 0, drag: null, hover: -1 };
const ROWS_OF_HEAT = 40, MOST_CELLS = 6000;
const redrawHeat = painter(() => drawHeat());

function cellOf(span) {
	const rough = Math.max(span / MOST_CELLS, 1), ten = 10 ** Math.floor(Math.log10(rough));

	return [1, 2, 5, 10].find((k) => k * ten >= rough) * ten;
}

/* Adds an amount, spread evenly over from to to. */
function spread(values, from, to, amount) {
	const first = Math.floor(from / H.cell), last = Math.floor(to / H.cell);

	if (first === last || to <= from) {
		values[Math.min(first, values.length - 1)] += amount;
		return;
	}
	for (let k = first; k <= last && k < values.length; k++)
		values[k] += amount * overlap(from, to, k * H.cell, (k + 1) * H.cell) / (to - from);
}

/* Own instructions lie between the calls inside of a frame. */
async function heatOfInsns(values, lane) {
	const d = await ownOf(lane.data), stack = [], at = [];

	const run = (i, to) => {
		const from = at[at.length - 1];

		if (to > from)
			spread(values, from, to, d.ownLen[i] > 0 ?
				d.ownInsns[i] * (to - from) / d.ownLen[i] : 0);
		at[at.length - 1] = Math.max(from, to);
	};
	const pop = () => {
		const i = stack.pop(), end = d.start[i] + d.len[i];

		run2(i, end);
		at.pop();
		if (at.length)
			at[at.length - 1] = Math.max(at[at.length - 1], end);
	};
	const run2 = (i, end) => d.ownLen[i] > 0 ? run(i, end) : spread(values, d.start[i], d.start[i],
									d.ownInsns[i]);

	for (let i = 0; i < d.n; i++) {
		if (i % STEPS === STEPS - 1 && isLong())
			await pause();
		while (stack.length && d.depth[stack[stack.length - 1]] >= d.depth[i])
			pop();
		if (stack.length)
			run(stack[stack.length - 1], d.start[i]);
		stack.push(i);
		at.push(d.start[i]);
	}
	while (stack.length)
		pop();
}

/* Where it had a CPU and was traced. */
function heatOfTime(values, lane) {
	const d = lane.data;

	if (!d || !d.n)
		return;
	const begin = d.start[0], end = lastEnd(d);

	spread(values, begin, end, end - begin);
	for (const s of [...lane.away, ...lane.spans]) {
		const from = Math.max(s[0], begin), to = Math.min(s[1], end);
		let n = (to - from) * partOf(s);

		for (let i = s[5] < OFF_CPU || s[4] ? firstBehind(lane.away, from, spanEnd) : lane.away.length;
		     i < lane.away.length && lane.away[i][0] < to; i++)
			n -= overlap(lane.away[i][0], lane.away[i][1], from, to) * partOf(lane.away[i]);
		if (to > from && n > 0)
			spread(values, from, to, -n);
	}
}

async function setUpHeat() {
	H.cell = cellOf(M.span);
	H.cols = Math.ceil(M.span / H.cell / ROWS_OF_HEAT);
	const by = H.by, values = new Float64Array(H.cols * ROWS_OF_HEAT);

	for (const lane of C.lanes) {
		if (lane.data && by === "insns")
			await heatOfInsns(values, lane);
		else if (lane.data)
			heatOfTime(values, lane);
		await pause();
	}
	if (by !== H.by)
		return;
	H.values = values;
	H.most = values.reduce((m, v) => Math.max(m, v), 1e-9);
	redrawHeat();
}

/* Dark is much in the light theme, light is much in the dark one. */
function heatInk(v) {
	const k = Math.sqrt(Math.max(0, v) / H.most);

	return theme.dark ? `hsl(${38 - 20 * k} ${20 + 60 * k}% ${13 + 55 * k}%)` :
		`hsl(${38 - 26 * k} ${40 + 40 * k}% ${96 - 58 * k}%)`;
}

function drawHeat() {
	const box = $("heatbox"), w = box.clientWidth, h = box.clientHeight;

	if (!M.ready || $("panel-heat").hidden || !w)
		return;
	if (!H.values) {
		$("heatinfo").textContent = "Adding up";
		setUpHeat();
		return;
	}
	const ctx = fitCanvas($("heat"), w, h), cw = w / H.cols, ch = h / ROWS_OF_HEAT;

	ctx.fillStyle = ink.bg;
	ctx.fillRect(0, 0, w, h);
	for (let k = 0; k < H.values.length; k++) {
		if (k * H.cell > M.span)
			break;
		ctx.fillStyle = heatInk(H.values[k]);
		ctx.fillRect(Math.floor(k / ROWS_OF_HEAT) * cw, k % ROWS_OF_HEAT * ch,
			     cw > 3 ? cw - 0.5 : cw, ch > 3 ? ch - 0.5 : ch);
	}
	if (H.drag || C.range)
		drawCells(ctx, H.drag ? cellsOf(H.drag) : C.range, cw, ch);
	$("heatinfo").textContent = `a cell is ${length(H.cell)}, a column ${length(H.cell * ROWS_OF_HEAT)}`;
}

/* What is chosen: of each column the part from the first to the last row. */
function drawCells(ctx, { a, b }, cw, ch) {
	const first = Math.floor(a / H.cell), last = Math.min(Math.ceil(b / H.cell), H.values.length) - 1;

	for (let col = Math.floor(first / ROWS_OF_HEAT); col <= Math.floor(last / ROWS_OF_HEAT); col++) {
		const from = Math.max(first - col * ROWS_OF_HEAT, 0);
		const to = Math.min(last - col * ROWS_OF_HEAT, ROWS_OF_HEAT - 1) + 1;

		ctx.fillStyle = ink.accent;
		ctx.globalAlpha = 0.22;
		ctx.fillRect(col * cw, from * ch, cw, (to - from) * ch);
		ctx.globalAlpha = 1;
		ctx.fillRect(col * cw, from * ch, cw, 2);
		ctx.fillRect(col * cw, to * ch - 2, cw, 2);
	}
}

const cellsOf = ({ from, to }) => ({ a: Math.min(from, to) * H.cell,
				     b: Math.min((Math.max(from, to) + 1) * H.cell, M.span) });

function heatCell(e) {
	const r = $("heat").getBoundingClientRect();
	const col = Math.floor((e.clientX - r.left) / r.width * H.cols);
	const row = Math.floor((e.clientY - r.top) / r.height * ROWS_OF_HEAT);

	return Math.max(0, Math.min(H.cols - 1, col)) * ROWS_OF_HEAT +
		Math.max(0, Math.min(ROWS_OF_HEAT - 1, row));
}

const heatText = (k) => [make("b", {}, `+${relative(k * H.cell, H.cell)}`),
	make("small", {}, H.by === "insns" ? `${short(H.values[k])} instructions` :
		`${length(Math.max(0, H.values[k]))} on the CPU, all threads together`)];

/* Chooses the cells from k to l, and shows them in the timeline. */
function takeCells(k, l) {
	const { a, b } = cellsOf({ from: k, to: l });

	selectTab("chart");
	selectRange(a, b);
	moveTo(a - (b - a) * 0.2, b + (b - a) * 0.2);
}

/* Arrow keys move a cell; Enter takes it, Shift makes the choice larger. */
function heatKey(e) {
	const step = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -ROWS_OF_HEAT, ArrowRight: ROWS_OF_HEAT }[e.key];
	const d = H.drag || { from: 0, to: 0 };

	if (e.key === "Enter" && H.drag) {
		takeCells(d.from, d.to);
		H.drag = null;
	} else if (e.key === "Escape") {
		H.drag = null;
	} else if (step && H.values) {
		const to = Math.max(0, Math.min(H.values.length - 1, d.to + step));

		H.drag = { from: e.shiftKey ? d.from : to, to };
		say(`${relative(to * H.cell, H.cell)}: ${short(H.values[to])}`);
	}
	redrawHeat();
}

function setUpHeatMap() {
	const canvas = $("heat");

	canvas.addEventListener("pointerdown", (e) => {
		if (!H.values)
			return;
		const k = heatCell(e);

		canvas.setPointerCapture(e.pointerId);
		H.drag = { from: k, to: k };
		redrawHeat();
	});
	canvas.addEventListener("pointermove", (e) => {
		if (!H.values)
			return;
		const k = heatCell(e);

		tip(e.clientX, e.clientY, ...heatText(k));
		if (!e.buttons || !H.drag)
			return;
		H.drag.to = k;
		redrawHeat();
	});
	canvas.addEventListener("pointerup", () => {
		const d = H.drag;

		H.drag = null;
		if (d)
			takeCells(d.from, d.to);
	});
	canvas.addEventListener("pointerleave", () => tip());
	$("heatby").onchange = (e) => {
		H.by = e.target.value;
		H.values = null;
		redrawHeat();
	};
	new ResizeObserver(redrawHeat).observe($("heatbox"));
}
