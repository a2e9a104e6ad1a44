/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flame: the call tree by what was used in it. All calls are in it, added up exactly;
 * what is too small to be drawn is one frame "[small]" of its caller.
 */
const METRICS = [["time", "ns"], ["instructions", "insns"], ["branches taken", "branches"],
		 ["cycles", "cycles"]];
const F = { metric: 1, root: 0, chosen: -1, w: 0, order: null, total: [], x: null, thread: 0 };
const ROOT_NODE = -7, GAP_NODE = -6, OFF_CPU_NODE = -4, SMALL_NODE = -1;
const OTHERS = { [GAP_NODE]: "[gap]", [-5]: "[not traced]", [OFF_CPU_NODE]: "[off CPU]",
		 [-3]: "[in the kernel]", [-2]: "[filtered]", [SMALL_NODE]: "[small]" };
const redrawFlame = painter(() => drawFlame());

/* ~CALLTREE_ROOT is 0, so func is 0 - 7 = -7 of a root, -6 of a gap, .. */
function flameName(i) {
	const t = M.tree, f = t.func[i];

	if (i === 0)
		return "all";
	if (f === ROOT_NODE)
		return M.roots[t.root.get(i)] || "thread";
	return OTHERS[f] || nameOf(f);
}

/* Parents, totals, children. */
function setUpTree(tree) {
	const t = tree, n = t.n, stack = [];

	M.tree = t;
	t.parent = new Int32Array(n).fill(-1);
	t.root = new Map();
	t.kids = Array.from({ length: n }, () => []);
	for (let i = 0; i < n; i++) {
		stack.length = t.depth[i];
		if (stack.length) {
			t.parent[i] = stack[stack.length - 1];
			t.kids[t.parent[i]].push(i);
		}
		stack.push(i);
		if (i && t.func[i] === ROOT_NODE)
			t.root.set(i, t.root.size);
	}
	t.total = t.own.map((own) => {
		const sum = own.slice();

		for (let i = n - 1; i > 0; i--)
			sum[t.parent[i]] += sum[i];
		return sum;
	});
	const box = $("metric");

	METRICS.forEach(([name], k) => {
		if (t.total[k][0] > 0)
			box.append(make("option", { value: k }, name));
	});
	F.metric = t.total[0][0] > 0 ? 0 : 1;
	box.value = String(F.metric);
	$("thread").append(make("option", { value: 0 }, "all threads"),
		...[...t.root].map(([i]) => make("option", { value: i }, flameName(i))));
	place0();
}

/* x (0 to 1 below node 0) of each node, for this metric. */
function place0() {
	const t = M.tree, total = t.total[F.metric];

	t.x = new Float64Array(t.n);
	for (let i = 0; i < t.n; i++) {
		const kids = t.kids[i];

		kids.sort((a, b) => total[b] - total[a]);
		let x = t.x[i];

		for (const k of kids) {
			t.x[k] = x;
			x += total[k];
		}
	}
}

const amount = (v) => F.metric === 0 ? nanoseconds(v) : `${count(v)} ${METRICS[F.metric][0]}`;

function flameDepth() {
	const t = M.tree;
	let deepest = 0;

	function down(i, depth) {
		deepest = Math.max(deepest, depth);
		for (const k of t.kids[i])
			if (t.total[F.metric][k] > 0)
				down(k, depth + 1);
	}
	down(F.root, t.depth[F.root]);
	return Math.min(deepest + 1, 400);
}

/* Calls run(node, x, width, row) for what is at least half a pixel wide. */
function eachFlame(run) {
	const t = M.tree, total = t.total[F.metric], path = [];
	const scale = F.w / Math.max(total[F.root], 1), x0 = t.x[F.root];

	for (let i = t.parent[F.root]; i >= 0; i = t.parent[i])
		path.push(i);
	for (const i of path)
		run(i, 0, F.w, t.depth[i]);
	const stack = [F.root];

	while (stack.length) {
		const i = stack.pop();

		run(i, (t.x[i] - x0) * scale, total[i] * scale, t.depth[i]);
		for (const k of t.kids[i])
			if (total[k] * scale >= 0.5)
				stack.push(k);
	}
}

function flameColour(i) {
	const f = M.tree.func[i];

	if (C.match)
		return f >= 0 && C.match[f] ? ink.found : ink.dim;
	if (f >= 0)
		return colourOf(f);
	return f === GAP_NODE ? (theme.dark ? "#6b4630" : "#e9c3ab") :
		theme.dark ? "#3a4047" : "#d9dce0";
}

function drawFlame() {
	const box = $("flamescroller");

	if (!M.tree || $("panel-flame").hidden)
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
		ctx.globalAlpha = M.tree.depth[i] < M.tree.depth[F.root] ? 0.55 : 1;
		ctx.fillRect(x, y, w > 3 ? w - 0.6 : Math.max(w, 0.6), ROW - 1);
		ctx.globalAlpha = 1;
		if (w > 26) {
			const text = clip(ctx, flameName(i), w - 9);

			ctx.fillStyle = C.match && M.tree.func[i] >= 0 && C.match[M.tree.func[i]] ?
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
	const t = M.tree;
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
	const t = M.tree, in_ = new Uint8Array(t.n);

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

	if (M.tree)
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
	const t = M.tree, box = $("flamedetail"), f = t.func[i], own = make("dl"), list = make("ol");
	const up = make("ol");

	METRICS.forEach(([name], k) => {
		if (t.total[k][0] <= 0)
			return;
		const text = (v) => k === 0 ? nanoseconds(v) : short(v);

		own.append(make("dt", {}, name), make("dd", {}, `${text(t.total[k][i])} ` +
			`(${percent(t.total[k][i], t.total[k][0])}), own ${text(t.own[k][i])}`));
	});
	for (const k of t.kids[i].slice(0, 20))
		list.append(make("li", {}, button(flameName(k), () => zoomFlame(k)),
			make("span", { class: "num" }, percent(t.total[F.metric][k], t.total[F.metric][i]))));
	for (let k = t.parent[i]; k >= 0; k = t.parent[k]) {
		const at = k;

		up.append(make("li", {}, button(flameName(at), () => zoomFlame(at)),
			make("span", { class: "num" }, percent(t.total[F.metric][at], t.total[F.metric][0]))));
	}
	box.replaceChildren(make("h2", {}, f >= 0 ? funcLink(f) : flameName(i)),
		rows(["File", f >= 0 ? dsoOf(f) : ""], ["Source", f >= 0 ? sourceOf(f) : ""],
		     ["Calls", t.calls[i] ? count(t.calls[i]) : ""]), own,
		make("h3", {}, "Calls"), list, make("h3", {}, "Called from"), up);
	say(`${flameName(i)}, ${amount(t.total[F.metric][i])}`);
}

/* Arrow keys: up to the caller, down to the largest call, left and right. */
function flameKey(key) {
	const t = M.tree, i = Math.max(0, F.chosen);
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
				`${amount(M.tree.total[F.metric][i])}, ${percent(M.tree.total[F.metric][i],
					M.tree.total[F.metric][0])} of all, ${count(M.tree.calls[i])} calls`));
	});
	canvas.addEventListener("pointerleave", () => tip());
	$("metric").onchange = (e) => {
		F.metric = Number(e.target.value);
		place0();
		if (F.chosen >= 0)
			showFlameDetail(F.chosen);
		redrawFlame();
	};
	$("thread").onchange = (e) => {
		F.thread = Number(e.target.value);
		zoomFlame(F.thread);
	};
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
				`${count(s.n)} \u00d7, ${F.metric ? short(s.v) : nanoseconds(s.v)}`)));
	return sums.size ? make("div", {}, make("h3", {}, up ? "Called from" : "Calls"), list) : null;
}
