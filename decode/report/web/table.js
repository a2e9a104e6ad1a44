/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Table: functions with their counts, and the gaps and losses. Of a long table only
 * the rows in view are elements.
 */
const T = { rows: [], sort: "total", down: true, chosen: -1, unit: "Ns", filter: "" };
const LINE = 25;
const redrawTable = painter(() => drawTable());

const quantile = (i, q) => {
	const t = M.times[i];

	return t.length ? t[M.quantiles.indexOf(q)] : -1;
};
const sum = (kind) => (i) => M[`${kind}${T.unit}`][i];
const ofUnit = (v) => T.unit === "Ns" ? nanoseconds(v) : short(v);

/* id, title, value, text */
const COLUMNS = [
	["name", "Function", (i) => nameOf(i).toLowerCase(), null],
	["mod", "File", (i) => dsoOf(i).toLowerCase(), (i) => baseName(dsoOf(i))],
	["calls", "Calls", (i) => M.calls[i], (i) => count(M.calls[i])],
	["self", "Self", sum("own"), (i) => ofUnit(sum("own")(i))],
	["share", "Self %", sum("own"), (i) => percent(sum("own")(i), M.total[T.unit.toLowerCase()])],
	["total", "Total", sum("total"), (i) => ofUnit(sum("total")(i))],
	["ipc", "IPC", (i) => M.ownCycles[i] ? M.ownInsns[i] / M.ownCycles[i] : -1,
	 (i) => M.ownCycles[i] ? (M.ownInsns[i] / M.ownCycles[i]).toFixed(2) : ""],
	["p50", "p50", (i) => quantile(i, 0.5), (i) => timeText(i, 0.5)],
	["p90", "p90", (i) => quantile(i, 0.9), (i) => timeText(i, 0.9)],
	["p99", "p99", (i) => quantile(i, 0.99), (i) => timeText(i, 0.99)],
	["max", "Max", (i) => quantile(i, 1), null],
];

function timeText(i, q) {
	const v = quantile(i, q);

	return v < 0 ? "" : M.timed ? lasted(v) : short(v / M.ticks);
}

const columnsShown = () => COLUMNS.filter((c) => c[0] !== "ipc" || M.total.cycles > 0);

function setUpTable() {
	const unit = $("unit");

	METRICS.forEach(([name, key], k) => {
		if (M.total[key] > 0 && k !== ON_CPU)
			unit.append(make("option", { value: key[0].toUpperCase() + key.slice(1) }, name));
	});
	T.unit = unit.value = M.total.ns > 0 ? "Ns" : "Insns";
	unit.onchange = () => {
		T.unit = unit.value;
		sortTable();
	};
	$("filter").oninput = (e) => {
		T.filter = e.target.value.toLowerCase();
		sortTable();
	};
	const head = make("tr");

	for (const [id, title] of columnsShown())
		head.append(make("th", { scope: "col", id: `by-${id}`,
			class: id === "name" || id === "mod" ? `text ${id}` : id },
			button(title, () => {
				T.down = T.sort === id ? !T.down : id !== "name" && id !== "mod";
				T.sort = id;
				sortTable();
			}, "")));
	$("functions").tHead.replaceChildren(head);
	$("tablescroller").addEventListener("scroll", redrawTable);
	new ResizeObserver(redrawTable).observe($("tablescroller"));
	sortTable();
}

function sortTable() {
	const value = COLUMNS.find((c) => c[0] === T.sort)[2], dir = T.down ? -1 : 1;
	const all = [];

	for (let i = 0; i < M.name.length; i++)
		if ((M.calls[i] || M.totalInsns[i]) && (!T.filter ||
		    nameOf(i).toLowerCase().includes(T.filter) || dsoOf(i).toLowerCase().includes(T.filter)))
			all.push([value(i), i]);
	all.sort((a, b) => a[0] < b[0] ? -dir : a[0] > b[0] ? dir : a[1] - b[1]);
	T.rows = all.map((e) => e[1]);
	$("shown").textContent = `${count(T.rows.length)} functions`;
	for (const [id] of columnsShown()) {
		const th = $(`by-${id}`);

		if (id === T.sort)
			th.setAttribute("aria-sort", T.down ? "descending" : "ascending");
		else
			th.removeAttribute("aria-sort");
	}
	$("tablescroller").scrollTop = 0;
	drawTable();
}

function cell(id, i, text) {
	if (id === "name")
		return make("td", { class: "text name" }, button(nameOf(i), () => showFunction(i),
			"link", { title: nameOf(i) }));
	if (id === "mod")
		return make("td", { class: "text mod", title: dsoOf(i) }, text(i));
	if (id !== "max")
		return make("td", { class: id }, text(i));
	const s = M.slow[i], lane = s.length ? laneById(s[0]) : null;

	return make("td", { class: id }, lane ? button(timeText(i, 1), () => lane.data &&
		reveal(lane, s[1], true), "link", { title: "Show the slowest call in the timeline" }) :
		timeText(i, 1));
}

function drawTable() {
	const box = $("tablescroller"), body = $("functions").tBodies[0], n = T.rows.length;

	if (!M.ready || $("panel-table").hidden)
		return;
	const from = Math.max(0, Math.floor(box.scrollTop / LINE) - 10);
	const to = Math.min(n, Math.ceil((box.scrollTop + box.clientHeight) / LINE) + 10);
	const columns = columnsShown(), lines = [];
	const pad = (h) => {
		const td = make("td", { class: "pad", colspan: columns.length });

		td.style.height = `${h}px`;
		return make("tr", { "aria-hidden": "true" }, td);
	};

	lines.push(pad(from * LINE));
	for (let k = from; k < to; k++) {
		const i = T.rows[k];

		lines.push(make("tr", { class: i === T.chosen ? "chosen" : "", "aria-rowindex": k + 2 },
			...columns.map(([id, , , text]) => cell(id, i, text))));
	}
	lines.push(pad((n - to) * LINE));
	$("functions").setAttribute("aria-rowcount", n + 1);
	body.replaceChildren(...lines);
}

/* ---- gaps and losses ---- */

function list(titles, lines) {
	const body = make("tbody");

	for (const l of lines)
		body.append(make("tr", {}, ...l.map((x) => make("td", {}, x))));
	return make("div", { class: "wide" }, make("table", { class: "list" },
		make("thead", {}, make("tr", {}, ...titles.map((t) => make("th", { scope: "col" }, t)))), body));
}

function setUpGaps() {
	const box = $("gaps"), gaps = [], causes = new Map();

	for (const lane of C.lanes)
		for (const s of lane.spans) {
			if (!s[4])
				continue;
			gaps.push([lane, s]);
			const c = causes.get(s[5]) || { n: 0, ticks: 0 };

			c.n += s[3];
			c.ticks += s[2];
			causes.set(s[5], c);
		}
	box.append(make("h2", {}, "Gaps in the flow"));
	if (!gaps.length)
		box.append(make("p", {}, "None: every instruction that was traced is in the calls."));
	else
		box.append(list(["Cause", "Times", "Time missing", "What it means"],
				[...causes].map(([c, v]) => [M.causes[c][0], count(v.n), length(v.ticks),
							      M.causes[c][1]])));
	gaps.sort((a, b) => b[1][2] - a[1][2] || a[1][0] - b[1][0]);
	if (gaps.length)
		box.append(make("h3", {}, gaps.length > 500 ?
			"Each, the 500 longest" : "Each, the longest first"),
			list(["When", "Missing", "Cause", "Thread", "Ran before"],
			     gaps.slice(0, 500).map(([lane, s]) => [
				button(absolute(s[0]), () => revealSpan(lane, s), "link gap"),
				length(s[2]), s[3] > 1 ? `${M.causes[s[5]][0]}, ${count(s[3])} times` :
				M.causes[s[5]][0], laneName(lane), s[6] >= 0 ? funcLink(s[6]) : ""])));
	box.append(make("h2", {}, "Losses at capture"));
	if (!M.losses.length)
		box.append(make("p", {}, "None that the recorder or the file tells of."));
	else
		box.append(list(["What", "How much", "Stream", "When"], M.losses.map((l) =>
			[l.text, `${count(l.bytes)} ${l.unit}${l.n > 1 ? `, ${count(l.n)} times` : ""}`,
			 l.stream < 0 ? "" : String(l.stream), lossLink(l)])));
	setUpAway(box);
}

/* Of all threads, what is neither a gap nor traced. */
function setUpAway(box) {
	const sums = STATES.map(() => ({ n: 0, ticks: 0 }));

	for (const lane of C.lanes)
		for (const s of [...lane.off, ...lane.away]) {
			sums[s[5]].n += s[3];
			sums[s[5]].ticks += s[2];
		}
	const lines = STATES.map((name, k) => [sentence(name), sums[k].n ? count(sums[k].n) : "",
		length(sums[k].ticks), STATE_TEXTS[Math.min(k, OFF_CPU)]]).filter((l, k) => sums[k].n);

	box.append(make("h2", {}, "Not traced, and off the CPU"), lines.length ?
		list(["What", "Times", "In all", "What it means"], lines) :
		make("p", {}, "The trace was never off, and no thread is known to have been off its CPU."));
}

function lossLink(l) {
	if (l.to < 0 || l.from < 0)
		return l.to < 0 ? "unknown" : "before the first call";
	return button(absolute(Math.max(0, l.from)), () => {
		const w = Math.max(l.to - l.from, M.span / 1000, 1);

		selectTab("chart");
		moveTo(l.from - w, l.to + w);
	});
}
