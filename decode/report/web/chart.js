/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chart: the timeline's state and what the user does to it: which ticks are shown (C.a
 * to C.b), lanes and their places, what is chosen ({lane, node} or {lane, span}),
 * search hits. report_draw.js shows it.
 */
const ROW = 18, HEAD = 24, LANE_GAP = 8;
const C = { a: 0, b: 1, w: 0, h: 0, lanes: [], chosen: null, hover: null,
	    match: null, total: 0, min: 1, cpus: null, range: null, dragged: null,
	    hits: null, hit: -1, finding: null, seeking: false };
const redraw = painter(() => drawAll());

const rowsOf = (lane) => lane.open ? Math.max(lane.data ? lane.data.rows : 0, 1) : 0;

const frameTop = (lane) => lane.y + HEAD + STRIP;

/* Places of the CPUs and lanes, and their heads as buttons. */
function layout() {
	const box = $("spacer");
	let y = 0;

	if (C.cpus.rows.length) {
		C.cpus.h = HEAD + (C.cpus.open ? C.cpus.rows.length * CPU_ROW + LANE_GAP : 0);
		C.cpus.head.style.top = "0px";
		C.cpus.head.setAttribute("aria-expanded", String(C.cpus.open));
		y = C.cpus.h;
	}
	for (const lane of C.lanes) {
		lane.y = y;
		lane.h = HEAD + STRIP + (lane.open ? rowsOf(lane) * ROW + LANE_GAP : ACTIVITY);
		y += lane.h;
		if (!lane.head) {
			lane.head = makeHead(lane);
			box.append(lane.head);
		}
		lane.head.style.top = `${lane.y}px`;
		lane.head.setAttribute("aria-expanded", String(lane.open));
	}
	C.total = y;
	const all = C.lanes.every((l) => l.open);

	$("openall").textContent = all ? "Close all" : "Open all";
	$("openall").setAttribute("aria-pressed", String(all));
	box.style.height = `${y}px`;
}

function makeHead(lane) {
	const gaps = lane.spans.filter((s) => s[4]).reduce((n, s) => n + s[3], 0);
	const text = [`${count(lane.calls)} calls`, `${count(lane.insns)} instructions`];

	if (lane.cycles)
		text.push(`${(lane.insns / lane.cycles).toFixed(2)} instructions per cycle`);
	if (gaps)
		text.push(`${count(gaps)} ${gaps === 1 ? "gap" : "gaps"}`);
	return button("", () => {
		lane.open = !lane.open;
		layout();
		redraw();
	}, "lanehead").appendChild(make("b", {}, laneName(lane)))
		.parentElement.appendChild(make("span", {}, text.join(", "))).parentElement;
}

function setUpLanes() {
	C.lanes = M.lanes.map((l, id) => ({ ...l, id, open: true, data: null }))
		.filter((l) => l.nodes || l.spans.length);
	C.lanes.sort((a, b) => b.insns - a.insns);
	C.lanes.forEach((l, i) => { l.open = C.lanes.length < 4 || i === 0; });
	setUpStates();
	$("openall").onclick = () => openAll(!C.lanes.every((l) => l.open));
	C.min = Math.max(M.ticks / 4, 1);
	showAll();
	layout();
}

function openAll(open) {
	for (const l of C.lanes)
		l.open = open;
	layout();
	redraw();
}

const laneById = (id) => C.lanes.find((l) => l.id === id);

/* ---- what is shown ---- */

function setView(a, b) {
	const margin = M.span * 0.02 + 1;
	const w = Math.min(Math.max(b - a, C.min * 8), M.span + 2 * margin);

	a = Math.min(Math.max(a, -margin), M.span + margin - w);
	C.a = a;
	C.b = a + w;
	redraw();
	saveState();
}

function showAll() {
	setView(-M.span * 0.01, M.span * 1.01);
}

/* Zooms by a factor; what is at x (0 to 1) stays where it is. */
function zoom(factor, x = 0.5) {
	const at = C.a + (C.b - C.a) * x, w = (C.b - C.a) * factor;

	setView(at - w * x, at + w * (1 - x));
}

function pan(part) {
	const d = (C.b - C.a) * part;

	setView(C.a + d, C.b + d);
}

/* Goes there, in a short move that shows where it is. */
let moving = 0;

function moveTo(a, b) {
	const a0 = C.a, b0 = C.b, begin = performance.now(), id = ++moving;
	const still = matchMedia("(prefers-reduced-motion: reduce)").matches;

	function step() {
		if (id !== moving)
			return;
		const t = still ? 1 : Math.min(1, (performance.now() - begin) / 180);
		const k = t * (2 - t);

		setView(a0 + (a - a0) * k, b0 + (b - b0) * k);
		if (t < 1)
			requestAnimationFrame(step);
	}
	step();
}

function scrollTo(lane, depth) {
	const box = $("scroller"), y = frameTop(lane) + depth * ROW;

	if (y < box.scrollTop + HEAD || y > box.scrollTop + C.h - 3 * ROW)
		box.scrollTop = Math.max(0, y - C.h / 3);
}

/* Chooses a node and makes sure that it can be seen. */
function reveal(lane, node, close = false) {
	const d = lane.data, s = d.start[node], e = s + d.len[node];
	const w = C.b - C.a, len = Math.max(e - s, C.min);

	selectTab("chart");
	if (!lane.open) {
		lane.open = true;
		layout();
	}
	choose({ lane, node });
	scrollTo(lane, d.depth[node]);
	if (close || len < w / 60 || len > w || s < C.a || e > C.b)
		moveTo(s - len * (close ? 0.04 : 0.6), e + len * (close ? 0.04 : 0.6));
}

function revealSpan(lane, span) {
	const len = Math.max(span[1] - span[0], 64 * M.ticks);

	selectTab("chart");
	choose({ lane, span });
	scrollTo(lane, 0);
	moveTo(span[0] - len * 2, span[1] + len * 2);
}

function choose(what) {
	C.chosen = what;
	if (!what && C.range)
		showRange(C.range);
	else
		showDetail(what);
	redraw();
	saveState();
}

/* ---- what is where ---- */

/* Where an item of a level begins and ends. An item of the finest level is one node, so
 * that level has no places of its own. */
const itemStart = (data, level, i) => level.s ? level.s[i] : data.start[level.node[i]];
const itemEnd = (data, level, i) => level.e ? level.e[i] :
	data.start[level.node[i]] + data.len[level.node[i]];

/* The first item of a row that ends behind a place. */
function findFrom(data, level, depth, at) {
	let low = level.row[depth], high = level.row[depth + 1];

	while (low < high) {
		const mid = (low + high) >> 1;

		if (itemEnd(data, level, mid) <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The level whose items are as fine as pixels. */
function levelFor(data, tick) {
	for (let i = data.levels.length - 1; i > 0; i--)
		if (data.levels[i].step <= tick * 1.5)
			return data.levels[i];
	return data.levels[0];
}

function laneAt(y) {
	return C.lanes.find((l) => y >= l.y && y < l.y + l.h);
}

/* What is under a place of the canvas: {lane, node}, {lane, span} or null. */
function hit(x, y) {
	const top = y + $("scroller").scrollTop, lane = laneAt(top);
	const tick = (C.b - C.a) / C.w, at = C.a + x * tick;

	if (top < C.cpus.h)
		return hitCpu(top, at, tick);
	if (!lane || top < lane.y + HEAD)
		return null;
	for (const span of lane.gaps)
		if (at >= span[0] - 3 * tick && at <= span[1] + 3 * tick)
			return { lane, span };
	if (top < frameTop(lane)) {
		const span = stateAt(lane, at, tick);

		return span ? { lane, span } : null;
	}
	if (!lane.open) {
		const node = lane.data ? frameAt(lane.data, at) : -1;

		return node >= 0 ? { lane, node } : null;
	}
	const depth = Math.floor((top - frameTop(lane)) / ROW);
	const d = lane.data;

	if (d && depth < d.rows) {
		const level = levelFor(d, tick);
		let i = findFrom(d, level, depth, at - tick);
		let best = -1, far = 2 * tick;

		for (; i < level.row[depth + 1]; i++) {
			const from = itemStart(d, level, i), to = itemEnd(d, level, i);
			const away = at < from ? from - at : at > to ? at - to : 0;

			if (from > at + 2 * tick)
				break;
			if (away < far) {
				best = i;
				far = away;
			}
		}
		if (best >= 0)
			return { lane, node: level.node[best] };
	}
	const span = stateAt(lane, at, 0);

	return span ? { lane, span } : null;
}

/* ---- moving along ---- */

function longestChild(d, node) {
	let best = -1;

	for (let i = node + 1; i < d.after[node]; i = d.after[i])
		if (best < 0 || d.len[i] > d.len[best])
			best = i;
	return best;
}

/* The next node (step 1) or the one before (-1) that test lets through, going on in
 * the next lanes. */
async function findNode(step, test) {
	const order = C.lanes.filter((l) => l.data && l.data.n);

	if (!order.length)
		return null;
	let k = C.chosen ? order.indexOf(C.chosen.lane) : -1;
	let i = C.chosen && C.chosen.node !== undefined ? C.chosen.node + step : null;

	if (k < 0) {
		k = step > 0 ? 0 : order.length - 1;
		i = null;
	}
	for (let n = 0; n <= order.length; n++) {
		const lane = order[k], d = lane.data;

		if (i === null)
			i = step > 0 ? 0 : d.n - 1;
		for (; i >= 0 && i < d.n; i += step) {
			if (test(d, i))
				return { lane, node: i };
			if (i % STEPS === 0 && isLong())
				await pause();
		}
		k = (k + step + order.length) % order.length;
		i = null;
	}
	return null;
}

/* While one is looked for, no other is. */
async function goNode(step, test, what) {
	if (C.seeking)
		return;
	C.seeking = true;
	const found = await findNode(step, test);

	C.seeking = false;
	if (found)
		reveal(found.lane, found.node);
	else
		say(`No ${what}`);
}

/* Those of all hits that took longest, the slowest first. */
const MOST_HITS = 1000;

async function slowestHits(match) {
	const all = [];
	let least = 0, steps = 0;

	for (const lane of C.lanes) {
		const d = lane.data;

		for (let i = 0, next; d && i < d.n; i = next) {
			/* what is inside of a short one is as short */
			next = d.len[i] < least ? d.after[i] : i + 1;
			if (++steps % STEPS === 0 && isLong())
				await pause();
			if (!match[d.func[i]] || d.len[i] < least || d.what[i] >> 6 & MERGED)
				continue;
			all.push({ lane, node: i, len: d.len[i] });
			if (all.length < 4 * MOST_HITS)
				continue;
			all.sort((x, y) => y.len - x.len);
			all.length = MOST_HITS;
			least = all[MOST_HITS - 1].len;
		}
	}
	return all.sort((x, y) => y.len - x.len).slice(0, MOST_HITS);
}

async function goHit(step) {
	const match = C.match;

	if (!match)
		return;
	C.finding ||= slowestHits(match);
	const hits = await C.finding;

	if (C.match !== match)	/* another search has begun */
		return;
	C.hits = hits;
	if (!C.hits.length) {
		await goNode(step, (d, i) => match[d.func[i]], "other hit");
		return;
	}
	C.hit = C.hit < 0 && step < 0 ? C.hits.length - 1 :
		(C.hit + step + C.hits.length) % C.hits.length;
	const h = C.hits[C.hit];

	reveal(h.lane, h.node);
	$("hits").textContent = `${count(C.hit + 1)} of ${count(C.hits.length)}${
		C.hits.length === MOST_HITS ? " slowest" : ""}: ${lasted(h.len)}`;
}

function goSame(step) {
	const c = C.chosen;

	if (!c || c.node === undefined)
		return;
	const func = c.lane.data.func[c.node];

	goNode(step, (d, i) => d.func[i] === func && !(d.what[i] >> 6 & MERGED),
	       "other call of it");
}

function goRelative(where) {
	const c = C.chosen;

	if (!c || c.node === undefined) {
		const lane = C.lanes.find((l) => l.data && l.data.n);

		if (lane)
			reveal(lane, 0);
		return;
	}
	const d = c.lane.data;
	const to = where === "parent" ? d.parent[c.node] : longestChild(d, c.node);

	if (to >= 0)
		reveal(c.lane, to);
	else
		say(where === "parent" ? "No caller in the trace" : "No calls inside");
}

/* ---- mouse, touch ---- */

const pointers = new Map();
let drag = null;

function place(e) {
	const r = $("lanes").getBoundingClientRect();

	return { x: e.clientX - r.left, y: e.clientY - r.top };
}

function pinch() {
	const [p, q] = [...pointers.values()];

	return { x: (p.x + q.x) / 2 / C.w, d: Math.max(20, Math.abs(p.x - q.x)) };
}

function onDown(e) {
	if (e.button > 0 || e.target.closest(".lanehead"))
		return;
	const p = place(e);

	pointers.set(e.pointerId, p);
	moving++;
	if (e.shiftKey) {
		beginRange(e, p.x);
		return;
	}
	drag = { ...p, a: C.a, b: C.b, top: $("scroller").scrollTop, far: false,
		 pinch: pointers.size === 2 ? pinch() : null };
	$("scroller").setPointerCapture(e.pointerId);
}

function onMove(e) {
	const p = place(e);

	if (!pointers.has(e.pointerId)) {
		onHover(p, e);
		return;
	}
	pointers.set(e.pointerId, p);
	if (C.dragged) {
		moveRange(p.x);
		return;
	}
	if (drag.pinch && pointers.size === 2) {
		const now = pinch(), at = drag.a + (drag.b - drag.a) * drag.pinch.x;
		const w = (drag.b - drag.a) * drag.pinch.d / now.d;

		drag.far = true;
		setView(at - w * now.x, at + w * (1 - now.x));
		return;
	}
	const dx = p.x - drag.x, dy = p.y - drag.y;

	if (!drag.far && Math.hypot(dx, dy) < 4)
		return;
	drag.far = true;
	document.body.classList.add("dragging");
	tip();
	const d = dx * (drag.b - drag.a) / C.w;

	setView(drag.a - d, drag.b - d);
	$("scroller").scrollTop = drag.top - dy;
}

function onUp(e) {
	const p = place(e), was = drag;

	pointers.delete(e.pointerId);
	if (C.dragged) {
		endRange();
		return;
	}
	document.body.classList.remove("dragging");
	if (!pointers.size)
		drag = null;
	if (was && !was.far && e.type === "pointerup")
		choose(hit(p.x, p.y));
}

function onWheel(e) {
	const p = place(e), unit = e.deltaMode === 1 ? 16 : 1;

	e.preventDefault();
	moving++;
	if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))
		pan((e.deltaX || e.deltaY) * unit / C.w);
	else if (e.altKey)
		$("scroller").scrollTop += e.deltaY * unit;
	else
		zoom(Math.exp(Math.max(-120, Math.min(120, e.deltaY * unit)) * 0.0022),
		     p.x / C.w);
}

/* Dragging with Shift, or along the ruler, chooses a range. */
function beginRange(e, x) {
	const at = C.a + x / C.w * (C.b - C.a);

	C.dragged = { a: at, b: at };
	e.target.setPointerCapture(e.pointerId);
}

function moveRange(x) {
	C.dragged.b = C.a + x / C.w * (C.b - C.a);
	tip();
	redraw();
}

function endRange() {
	const { a, b } = C.dragged;

	C.dragged = null;
	if (Math.abs(b - a) * C.w < 3 * (C.b - C.a))
		redraw();
	else
		selectRange(a, b);
}

function onHover(p, e) {
	const h = e.target.closest(".lanehead") ? null : hit(p.x, p.y);

	C.hover = h;
	redraw();
	if (!h)
		tip();
	else
		tip(e.clientX, e.clientY, ...tipText(h));
}

/* On paper nothing scrolls: all lanes as they are open or closed, as far as a canvas can be
 * tall, and the details below. */
const MOST_HEIGHT = 32000;

function beginPrint() {
	const box = $("scroller"), most = Math.floor(MOST_HEIGHT / (window.devicePixelRatio || 1));

	if (!M.ready)
		return;
	box.scrollTop = 0;
	box.style.height = `${Math.min(C.total, most)}px`;
	document.documentElement.classList.add("printing");
	drawAll();
	if (C.total > most)
		$("range").textContent += ", and not all of the lanes: close some of them";
}

function endPrint() {
	document.documentElement.classList.remove("printing");
	$("scroller").style.height = "";
	drawAll();
}

function setUpChart() {
	const box = $("scroller"), mini = $("mini");

	addEventListener("beforeprint", beginPrint);
	addEventListener("afterprint", endPrint);
	box.addEventListener("pointerdown", onDown);
	box.addEventListener("pointermove", onMove);
	box.addEventListener("pointerup", onUp);
	box.addEventListener("pointercancel", onUp);
	box.addEventListener("pointerleave", () => { C.hover = null; tip(); redraw(); });
	box.addEventListener("wheel", onWheel, { passive: false });
	box.addEventListener("scroll", redraw);
	box.addEventListener("dblclick", (e) => {
		const h = hit(place(e).x, place(e).y);

		if (h && h.node !== undefined)
			reveal(h.lane, h.node, true);
	});
	const ruler = $("ruler"), x = (e) => e.clientX - ruler.getBoundingClientRect().left;

	ruler.addEventListener("pointerdown", (e) => beginRange(e, x(e)));
	ruler.addEventListener("pointermove", (e) => { if (C.dragged) moveRange(x(e)); });
	ruler.addEventListener("pointerup", () => { if (C.dragged) endRange(); });
	const jump = (e) => {
		const r = mini.getBoundingClientRect(), w = C.b - C.a;
		const at = (e.clientX - r.left) / r.width * M.span;

		moving++;
		setView(at - w / 2, at + w / 2);
	};
	mini.addEventListener("pointerdown", (e) => {
		mini.setPointerCapture(e.pointerId);
		jump(e);
	});
	mini.addEventListener("pointermove", (e) => { if (e.buttons) jump(e); });
	$("zoomin").onclick = () => zoom(0.5);
	$("zoomout").onclick = () => zoom(2);
	$("zoomall").onclick = () => moveTo(-M.span * 0.01, M.span * 1.01);
	new ResizeObserver(redraw).observe(box);
}
