/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flame: the call tree by what was used in it. All calls are in it, added up exactly;
 * what is too small to be drawn is one frame "[small]" of its caller.
 */
/* By on the CPU what is off it is nothing. The order is that of a tree's own and total;
 * the page's tree comes with the first four. */
const METRICS = [["time", "ns"], ["instructions", "insns"], ["branches taken", "branches"],
		 ["cycles", "cycles"], ["time on the CPU", "ns"]];
const ON_CPU = 4;
const F = { metric: 1, root: 0, chosen: -1, w: 0, tree: null, source: "all", mode: "down",
	    func: -1, thread: 0 };
const ROOT_NODE = -7, GAP_NODE = -6, OFF_CPU_NODE = -4, SMALL_NODE = -1;
const OTHERS = { [GAP_NODE]: "[gap]", [-5]: "[not traced]", [OFF_CPU_NODE]: "[off CPU]",
		 [-3]: "[in the kernel]", [-2]: "[filtered]", [SMALL_NODE]: "[small]" };
const redrawFlame = painter(() => drawFlame());

/* ~CALLTREE_ROOT is 0, so func is 0 - 7 = -7 of a root, -6 of a gap, .. */
function flameName(i, t = F.tree) {
	const f = t.func[i];

	if (i === 0 && f === ROOT_NODE)
		return "all";
	if (f === ROOT_NODE)
		return t.names.get(i) || "thread";
	return OTHERS[f] || nameOf(f);
}

/* A tree that grows: add(parent, function) is the node of a call there, put(node, ..)
 * adds to its own. Children come after their parents. */
function newTree(func = ROOT_NODE) {
	const t = { n: 1, parent: [-1], depth: [0], func: [func], calls: [0],
		    own: METRICS.map(() => [0]), names: new Map(), index: new Map(),
		    ids: new Map() };

	t.add = (parent, f, name) => {
		let key = parent * 2 ** 23 + f + 8, i;

		if (name) {
			if (!t.ids.has(`${f}.${name}`))
				t.ids.set(`${f}.${name}`, t.ids.size);
			key = parent * 2 ** 23 + 2 ** 22 + t.ids.get(`${f}.${name}`);
		}
		i = t.index.get(key);

		if (i !== undefined)
			return i;
		i = t.n++;
		t.index.set(key, i);
		t.parent.push(parent);
		t.depth.push(t.depth[parent] + 1);
		t.func.push(f);
		t.calls.push(0);
		for (const own of t.own)
			own.push(0);
		if (name)
			t.names.set(i, name);
		return i;
	};
	t.put = (i, ticks, insns, cycles) => {
		const ns = M.timed ? ticks / M.ticks : 0;

		t.own[0][i] += ns;
		t.own[1][i] += insns;
		t.own[3][i] += cycles;
		t.own[ON_CPU][i] += t.func[i] === OFF_CPU_NODE ? 0 : ns;
	};
	return t;
}

/* Totals, children and rows of a tree that is complete. */
function linkTree(t) {
	t.kids = Array.from({ length: t.n }, () => []);
	for (let i = 1; i < t.n; i++)
		t.kids[t.parent[i]].push(i);
	t.total = t.own.map((own) => {
		const sum = Float64Array.from(own);

		for (let i = t.n - 1; i > 0; i--)
			sum[t.parent[i]] += t.up && t.up[i] && !t.up[t.parent[i]] ? 0 : sum[i];
		return sum;
	});
	t.base = 0;
	if (t.up)
		for (let i = 0; i < t.n; i++)
			t.base = Math.max(t.base, t.up[i] ? t.depth[i] : 0);
	t.row = (i) => t.up && t.up[i] ? t.base - t.depth[i] : t.base + t.depth[i];
	return t;
}

/* A tree of at most about MOST_NODES: what is least, by whatever measure, goes into one
 * node "[small]" of its caller. */
const MOST_NODES = 20000;

async function prune(t) {
	const total = t.own.map((own) => Float64Array.from(own)), share = new Float64Array(t.n);
	const calls = Float64Array.from(t.calls), to = new Int32Array(t.n);

	for (let i = t.n - 1; i > 0; i--) {
		if (i % STEPS === 0 && isLong())
			await pause();
		for (const sum of total)
			sum[t.parent[i]] += sum[i];
		calls[t.parent[i]] += calls[i];
	}
	await pause();
	for (const sum of total)
		for (let i = 0; sum[0] > 0 && i < t.n; i++)
			share[i] = Math.max(share[i], sum[i] / sum[0]);
	if (t.n <= MOST_NODES)
		return t;
	await pause();
	const least = share.slice().sort()[t.n - MOST_NODES], out = newTree();

	await pause();
	t.own.forEach((own, k) => { out.own[k][0] = own[0]; });
	for (let i = 1; i < t.n; i++) {
		if (i % STEPS === 0 && isLong())
			await pause();
		const up = to[t.parent[i]], small = share[i] <= least;

		to[i] = up < 0 ? -1 : small ? -1 : out.add(up, t.func[i], t.names.get(i));
		if (up < 0)	/* it is in the sums of one above */
			continue;
		const at = small ? out.add(up, SMALL_NODE) : to[i];

		out.calls[at] += small ? calls[i] : t.calls[i];
		t.own.forEach((own, k) => { out.own[k][at] += small ? total[k][i] : own[i]; });
	}
	return out;
}

/* The page's tree: its parents, and its numbers by time on the CPU. */
function setUpTree(tree) {
	const t = tree, n = t.n, stack = [];
	let roots = 0;

	M.tree = F.tree = t;
	t.parent = new Int32Array(n).fill(-1);
	t.names = new Map();
	for (let i = 0; i < n; i++) {
		stack.length = t.depth[i];
		if (stack.length)
			t.parent[i] = stack[stack.length - 1];
		stack.push(i);
		if (i && t.func[i] === ROOT_NODE)
			t.names.set(i, M.roots[roots++]);
	}
	t.own.push(t.own[0].map((v, i) => t.func[i] === OFF_CPU_NODE ? 0 : v));
	linkTree(t);
	const box = $("metric");
	const off = t.total[0][0] > t.total[ON_CPU][0];

	for (const k of off ? [ON_CPU, 0, 1, 2, 3] : [0, 1, 2, 3])
		if (t.total[k][0] > 0)
			box.append(make("option", { value: k }, METRICS[k][0]));
	F.metric = off ? ON_CPU : t.total[0][0] > 0 ? 0 : 1;
	box.value = String(F.metric);
	$("thread").append(make("option", { value: 0 }, "all threads"),
		...[...t.names].map(([i, name]) => make("option", { value: i }, name)));
	place0();
}

/* ---- other views of a tree ---- */

/* From each function up to those that called it: what was own there is shown below all
 * of them. */
async function invert(t) {
	const out = newTree();

	for (let i = 1, steps = 0; i < t.n; i++) {
		if (steps > STEPS) {
			steps = 0;
			if (isLong())
				await pause();
		}
		if (t.func[i] === ROOT_NODE || t.own.every((o) => !o[i]))
			continue;
		let at = 0;

		for (let k = i, depth = 0; k > 0 && depth < 200; k = t.parent[k], depth++, steps++) {
			at = out.add(at, t.func[k], t.func[k] === ROOT_NODE ? t.names.get(k) : "");
			out.calls[at] += t.calls[i];
		}
		t.own.forEach((o, k) => { out.own[k][at] += o[i]; });
	}
	return linkTree(await prune(out));
}

/* A function in the middle: below it what it calls, above it what calls it. */
function sandwich(t, func) {
	const out = newTree(func), to = new Int32Array(t.n).fill(-1);
	const up = [0];
	const add = (parent, f, name, above) => {
		const i = out.add(parent, f, name || (above ? "^" : ""));

		up[i] = above ? 1 : 0;
		return i;
	};

	for (let i = 1; i < t.n; i++) {
		const inside = to[t.parent[i]] >= 0;

		if (!inside && t.func[i] !== func)
			continue;
		to[i] = inside ? add(to[t.parent[i]], t.func[i], t.names.get(i), false) : 0;
		out.calls[to[i]] += t.calls[i];
		t.own.forEach((o, k) => { out.own[k][to[i]] += o[i]; });
		if (inside)
			continue;
		let at = 0;

		for (let k = t.parent[i], depth = 0; k > 0 && depth < 200; k = t.parent[k], depth++) {
			at = add(at, t.func[k], t.func[k] === ROOT_NODE ? t.names.get(k) : "", true);
			out.calls[at] += t.calls[i];
		}
		t.total.forEach((o, k) => { out.own[k][at] += at ? o[i] : 0; });
	}
	out.up = up;
	return linkTree(out);
}

/* Shows the tree that the controls say. */
let showing = 0;

async function showTree() {
	const id = ++showing;
	const source = F.source === "range" && C.range && C.range.sum ? C.range.sum.tree : M.tree;

	if (!M.tree)
		return;
	if (F.mode === "sandwich" && F.func < 0)
		F.func = F.chosen >= 0 && F.tree.func[F.chosen] >= 0 ? F.tree.func[F.chosen] :
			topFunctions(source)[0]?.[0] ?? -1;
	const tree = F.mode === "up" ? await invert(source) :
		F.mode === "sandwich" && F.func >= 0 ? sandwich(source, F.func) : source;

	if (id !== showing)
		return;
	F.tree = tree;
	F.root = F.thread = 0;
	F.chosen = -1;
	$("thread").disabled = F.tree !== M.tree;
	$("thread").value = "0";
	$("flamemode").value = F.mode;
	$("flamesource").value = F.source;
	place0();
	if (F.tree.up)
		chooseFlame(0);
	else
		$("flamedetail").replaceChildren(make("p", { class: "hint" }, "Click a frame for its numbers."));
	redrawFlame();
	saveState();
}

function setSource(source) {
	F.source = source;
	return showTree();
}

function setMode(mode, func = -1) {
	F.mode = mode;
	F.func = func;
	return showTree();
}

/* x (0 to 1 below node 0) of each node, for this metric. */
function place0() {
	const t = F.tree, total = t.total[F.metric];

	t.x = new Float64Array(t.n);
	for (let i = 0; i < t.n; i++) {
		const kids = t.kids[i], x = [t.x[i], t.x[i]];

		kids.sort((a, b) => total[b] - total[a]);
		for (const k of kids) {
			const side = t.up && t.up[k] ? 1 : 0;

			t.x[k] = x[side];
			x[side] += total[k];
		}
	}
}

const isTime = (k) => k === 0 || k === ON_CPU;
const amountOf = (v, k) => isTime(k) ? nanoseconds(v) : short(v);
const amount = (v) => isTime(F.metric) ? nanoseconds(v) : `${count(v)} ${METRICS[F.metric][0]}`;

function flameDepth() {
	const t = F.tree;
	let deepest = 0;

	function down(i, depth) {
		deepest = Math.max(deepest, t.row(i) - t.base);
		for (const k of t.kids[i])
			if (t.total[F.metric][k] > 0)
				down(k, depth + 1);
	}
	down(F.root, t.depth[F.root]);
	return Math.min(t.base + deepest + 1, 400);
}

/* Calls run(node, x, width, row) for what is at least half a pixel wide. */
function eachFlame(run) {
	const t = F.tree, total = t.total[F.metric], path = [];
	const scale = F.w / Math.max(total[F.root], 1), x0 = t.x[F.root];

	for (let i = t.parent[F.root]; i >= 0; i = t.parent[i])
		path.push(i);
	for (const i of path)
		run(i, 0, F.w, t.row(i));
	const stack = [F.root];

	while (stack.length) {
		const i = stack.pop();

		run(i, (t.x[i] - x0) * scale, total[i] * scale, t.row(i));
		for (const k of t.kids[i])
			if (total[k] * scale >= 0.5)
				stack.push(k);
	}
}

function flameColour(i) {
	const f = F.tree.func[i];

	if (C.match)
		return f >= 0 && C.match[f] ? ink.found : ink.dim;
	if (f >= 0)
		return colourOf(f);
	return f === GAP_NODE ? (theme.dark ? "#6b4630" : "#e9c3ab") :
		theme.dark ? "#3a4047" : "#d9dce0";
}

function drawFlame() {
	const box = $("flamescroller");

	if (!F.tree || $("panel-flame").hidden)
		return;
	F.w = box.clientWidth;
	if (!F.w)
		return;
	const h = Math.max(box.clientHeight - 2, flameDepth() * ROW + 4);
	const ctx = fitCanvas($("flame"), F.w, Math.min(h, 7200));

	ctx.fillStyle = ink.bg;
	ctx.fillRect(0, 0, F.w, h);
	eachFlame((i, x, w, row) => {
		const y = row * ROW + 2;

		ctx.fillStyle = flameColour(i);
		ctx.globalAlpha = F.tree.depth[i] < F.tree.depth[F.root] ? 0.55 : 1;
		ctx.fillRect(x, y, w > 3 ? w - 0.6 : Math.max(w, 0.6), ROW - 1);
		ctx.globalAlpha = 1;
		if (w > 26) {
			const text = clip(ctx, flameName(i), w - 9);

			ctx.fillStyle = C.match && F.tree.func[i] >= 0 && C.match[F.tree.func[i]] ?
				"#1a1d21" : C.match ? ink.soft : ink.label;
			ctx.fillText(text, x + 5, y + ROW / 2);
		}
		if (i === F.chosen) {
			ctx.strokeStyle = ink.accent;
			ctx.lineWidth = 2.5;
			ctx.strokeRect(x, y, Math.max(w - 0.6, 1), ROW - 1);
			ctx.lineWidth = 1;
		}
	});
	showFlamePath();
}

function showFlamePath() {
	const t = F.tree;
	let text = "";

	if (C.match) {
		let sum = 0;

		eachTop((i) => { sum += t.total[F.metric][i]; });
		text = `Found: ${percent(sum, t.total[F.metric][0])} of all`;
	} else if (F.root) {
		text = `${flameName(F.root)}: ${amount(t.total[F.metric][F.root])}, ` +
			`${percent(t.total[F.metric][F.root], t.total[F.metric][0])} of all`;
	}
	$("flamepath").textContent = text;
}

/* Matches that are in no other match. */
function eachTop(run) {
	const t = F.tree, in_ = new Uint8Array(t.n);

	for (let i = 1; i < t.n; i++) {
		const m = t.func[i] >= 0 && C.match[t.func[i]];

		in_[i] = in_[t.parent[i]] || m;
		if (m && !in_[t.parent[i]])
			run(i);
	}
}

function flameHit(e) {
	const r = $("flame").getBoundingClientRect();
	const x = e.clientX - r.left, row = Math.floor((e.clientY - r.top - 2) / ROW);
	let found = -1;

	if (F.tree)
		eachFlame((i, at, w, d) => {
			if (d === row && x >= at && x <= at + Math.max(w, 1))
				found = i;
		});
	return found;
}

function zoomFlame(i) {
	F.root = i;
	chooseFlame(i);
}

function chooseFlame(i) {
	F.chosen = i;
	showFlameDetail(i);
	redrawFlame();
}

function showFlameDetail(i) {
	const t = F.tree, box = $("flamedetail"), f = t.func[i], own = make("dl"), list = make("ol");
	const up = make("ol");

	METRICS.forEach(([name], k) => {
		if (t.total[k][0] <= 0)
			return;
		const text = (v) => amountOf(v, k);

		own.append(make("dt", {}, name), make("dd", {}, `${text(t.total[k][i])} ` +
			`(${percent(t.total[k][i], t.total[k][0])}), own ${text(t.own[k][i])}`));
	});
	const isUp = (k) => F.mode === "up" || (t.up && t.up[k]), beyond = isUp(i) ? list : up;

	for (const k of t.kids[i].slice(0, 20))
		(isUp(k) ? up : list).append(make("li", {}, button(flameName(k), () => zoomFlame(k)),
			make("span", { class: "num" }, percent(t.total[F.metric][k], t.total[F.metric][i]))));
	for (let k = t.parent[i]; k >= 0; k = t.parent[k]) {
		const at = k;

		beyond.append(make("li", {}, button(flameName(at), () => zoomFlame(at)),
			make("span", { class: "num" }, percent(t.total[F.metric][at], t.total[F.metric][0]))));
	}
	box.replaceChildren(make("h2", {}, f >= 0 ? funcLink(f) : flameName(i)),
		rows(["File", f >= 0 ? dsoOf(f) : ""], ["Source", f >= 0 ? sourceOf(f) : ""],
		     ["Calls", t.calls[i] ? count(t.calls[i]) : ""]), own,
		f >= 0 ? make("p", {}, button("Sandwich: its callers and what it calls", () =>
			setMode("sandwich", f))) : "",
		make("h3", {}, "Calls"), list, make("h3", {}, "Called from"), up);
	say(`${flameName(i)}, ${amount(t.total[F.metric][i])}`);
}

/* Arrow keys: up to the caller, down to the largest call, left and right. */
function flameKey(key) {
	const t = F.tree, i = Math.max(0, F.chosen);
	let to = i;

	if (key === "ArrowUp")
		to = Math.max(0, t.parent[i]);
	else if (key === "ArrowDown")
		to = t.kids[i].length ? t.kids[i][0] : i;
	else if (key === "Enter" || key === "f")
		return zoomFlame(i);
	else if (key === "Escape" || key === "0")
		return zoomFlame(F.thread);
	else if (i) {
		const all = t.kids[t.parent[i]], at = all.indexOf(i) + (key === "ArrowRight" ? 1 : -1);

		to = all[Math.min(all.length - 1, Math.max(0, at))];
	}
	return chooseFlame(to);
}

function setUpFlame() {
	const canvas = $("flame");

	canvas.addEventListener("click", (e) => {
		const i = flameHit(e);

		if (i >= 0)
			zoomFlame(i);
	});
	canvas.addEventListener("pointermove", (e) => {
		const i = flameHit(e);

		if (i < 0)
			tip();
		else
			tip(e.clientX, e.clientY, make("b", {}, flameName(i)), make("small", {},
				`${amount(F.tree.total[F.metric][i])}, ${percent(F.tree.total[F.metric][i],
					F.tree.total[F.metric][0])} of all, ${count(F.tree.calls[i])} calls`));
	});
	canvas.addEventListener("pointerleave", () => tip());
	$("metric").onchange = (e) => {
		F.metric = Number(e.target.value);
		place0();
		saveState();
		if (F.chosen >= 0)
			showFlameDetail(F.chosen);
		redrawFlame();
	};
	$("thread").onchange = (e) => {
		F.thread = Number(e.target.value);
		zoomFlame(F.thread);
	};
	$("flamemode").onchange = (e) => setMode(e.target.value);
	$("flamesource").onchange = (e) => setSource(e.target.value);
	$("flameall").onclick = () => zoomFlame(F.thread);
	new ResizeObserver(redrawFlame).observe($("flamescroller"));
}

/* Callers or callees of a function in the whole tree, by what was used below them. */
function neighbours(func, up) {
	const t = M.tree, sums = new Map(), list = make("ol");

	if (!t)
		return null;
	for (let i = 1; i < t.n; i++) {
		const of_ = up ? i : t.parent[i], other = up ? t.parent[i] : i;

		if (t.func[of_] !== func || (up && t.func[other] === func))
			continue;
		const key = t.func[other] >= 0 ? nameOf(t.func[other]) : flameName(other);
		const s = sums.get(key) || { v: 0, n: 0, f: t.func[other] };

		s.v += t.total[F.metric][i];
		s.n += t.calls[i];
		sums.set(key, s);
	}
	for (const [name, s] of [...sums].sort((a, b) => b[1].v - a[1].v).slice(0, 15))
		list.append(make("li", {}, s.f >= 0 ? button(name, () => showFunction(s.f)) :
				make("span", {}, name), make("span", { class: "num" },
				`${count(s.n)} \u00d7, ${amountOf(s.v, F.metric)}`)));
	return sums.size ? make("div", {}, make("h3", {}, up ? "Called from" : "Calls"), list) : null;
}
