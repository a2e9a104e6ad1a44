/* SPDX-License-Identifier: BSD-2-Clause */
/* Detail: what is known of the chosen frame, merged calls, gap or function. */

/* Ticks spent in a node itself: without the calls inside, and without the time when
 * the thread was off the CPU, not traced, or lost in a gap. */
function ownTicks(d, node) {
	let own = d.len[node] - d.away[node];

	for (let i = node + 1; i < d.after[node]; i = d.after[i])
		own -= busyTicks(d, i);
	return Math.max(0, own);
}

const busyTicks = (d, node) => d.what[node] >> 6 & MERGED ?
	d.more[(d.extra[node] - 1) * 3 + 2] : d.len[node];

const callsIn = (d, node) => d.extra[node] ? d.more[(d.extra[node] - 1) * 3] : 1;

function rows(...pairs) {
	const dl = make("dl");

	for (const [k, v] of pairs)
		if (v !== null && v !== undefined && v !== "")
			dl.append(make("dt", {}, k), make("dd", {}, v));
	return dl;
}

function meter(v, all) {
	const i = make("i");

	i.style.width = `${all > 0 ? Math.min(100, 100 * v / all) : 0}%`;
	return make("div", { class: "meter", "aria-hidden": "true" }, i);
}

function tipText(h) {
	if (h.run)
		return [make("b", {}, laneName(h.run.lane)),
			make("small", {}, `on CPU ${h.cpu} for ${length(h.run.to - h.run.from)}`)];
	if (h.span)
		return [make("b", {}, spanTitle(h.span)),
			make("small", {}, length(h.span[2]))];
	const d = h.lane.data, n = h.node, flags = d.what[n] >> 6 & 15;

	if (flags & MERGED)
		return [make("b", {}, `${count(callsIn(d, n))} short calls`),
			make("small", {}, `most in ${nameOf(d.func[n])}, ${length(busyTicks(d, n))} in all`)];
	return [make("b", {}, nameOf(d.func[n])),
		make("small", {}, `${lasted(d.len[n])}, ${count(d.insns[n])} instructions`)];
}

const spanTitle = (s) => !s[4] ? `${sentence(STATES[s[5]])}${s[3] > 1 ? `, ${count(s[3])} times` : ""}` :
	s[3] > 1 ? `${count(s[3])} gaps: ${M.causes[s[5]][0]}` : `Gap: ${M.causes[s[5]][0]}`;

function timeArg(a, b) {
	return M.timed ? ` --time ${absoluteNs(a, Math.floor)}ns,${absoluteNs(b, Math.ceil)}ns` : "";
}

function commands(lane, a, b) {
	const who = lane.tid >= 0 ? ` --tid ${lane.tid}` : "";
	const which = `${who}${timeArg(a, b)}`;

	return make("div", {}, make("h3", {}, "Every call and instruction of it"),
		command(M.commands.calls.join(which)), command(M.commands.insn.join(which)));
}

function showDetail(what) {
	const box = $("detail");

	if (!what) {
		box.replaceChildren(make("p", { class: "hint" }, "Nothing chosen."));
		return;
	}
	box.replaceChildren(...(what.run ? runDetail(what) : what.span ? spanDetail(what) :
		what.lane.data.what[what.node] >> 6 & MERGED ? mergedDetail(what) :
		frameDetail(what)).filter((x) => x));
	box.scrollTop = 0;
	const title = box.querySelector("h2");

	say(`${title ? title.textContent : ""}, ${what.run ? length(what.run.to - what.run.from) :
		what.span ? length(what.span[2]) : lasted(what.lane.data.len[what.node])}, ${
		laneName(what.run ? what.run.lane : what.lane)}`);
}

const STATE_TEXTS = [
	"The trace was off here: a pause, or user code where the kernel alone is traced.",
	"The thread was in the kernel, which is not traced: a system call, an interrupt or an exception.",
	"The thread ran what a filter of the recording leaves out.",
	"The thread had no CPU: it was switched out, as the records of switches say.",
];

function spanDetail({ lane, span: s }) {
	const out = [make("h2", {}, spanTitle(s))];

	if (s[4])
		out.push(make("p", {}, `${M.causes[s[5]][1]}.`));
	else
		out.push(make("p", {}, STATE_TEXTS[Math.min(s[5], OFF_CPU)]));
	out.push(rows(["From", absolute(s[0])], ["To", absolute(s[1])],
		      ["Missing", length(s[2])],
		      s[3] > 1 ? ["Times", count(s[3])] : ["", ""],
		      ["Thread", laneName(lane)],
		      s[4] ? ["Trace", `stream ${s[7]}, offset 0x${s[8]}`] : ["", ""],
		      ["Ran before", s[6] >= 0 ? funcLink(s[6]) : ""]));
	out.push(commands(lane, s[0], s[1]));
	return out;
}

function mergedDetail({ lane, node }) {
	const d = lane.data, a = d.start[node], b = a + d.len[node];

	return [make("h2", {}, `${count(callsIn(d, node))} short calls merged`),
		make("p", {}, "Too many to draw each; the counts and sums of all views have them. " +
			"The command below shows every one."),
		rows(["Most in", funcLink(d.func[node])],
		     ["From", absolute(a)], ["To", absolute(b)], ["Over", length(d.len[node])],
		     ["In calls", `${length(busyTicks(d, node))}  (${percent(busyTicks(d, node), d.len[node])})`],
		     ["Instructions", count(d.insns[node])],
		     ["Levels below", count(d.more[(d.extra[node] - 1) * 3 + 1])],
		     ["Thread", laneName(lane)]),
		callers(lane, node), commands(lane, a, b)];
}

function badges(d, node) {
	const flags = d.what[node] >> 6 & 15, how = d.what[node] >> 3 & 7, kind = d.what[node] & 7;
	const box = make("div");
	const add = (text, warn) => box.append(make("span", { class: warn ? "badge warn" : "badge" }, text));

	if (KINDS[kind])
		add(KINDS[kind]);
	if (flags & GUESSED)
		add("guessed: the trace does not prove it", true);
	if (flags & GOES_ON)
		add("goes on: the thread was on another stack");
	if (flags & BREAKS)
		add("goes on later, on this stack");
	else if (how)
		add(ENDS[how], how === END_LOST);
	return box;
}

function siteOf(d, node) {
	const i = d.site[node] - 1, s = M.sites;

	if (i < 0 || !s)
		return "";
	const src = s.line[2 * i];

	return `${src ? `${tidyPath(s.srcs[src - 1])}:${s.line[2 * i + 1]}, ` : ""}0x${s.addr[i]}`;
}

function frameDetail({ lane, node }) {
	const d = lane.data, func = d.func[node], own = ownTicks(d, node);
	const a = d.start[node], len = d.len[node];
	const base = (d.what[node] & 7) === KIND_BASE;
	const deeper = callsIn(d, node) - 1;

	return [make("h2", {}, funcLink(func)), badges(d, node),
		rows(["File", dsoOf(func)], ["Source", sourceOf(func)],
		     ["Called at", siteOf(d, node)],
		     ["Begin", `${absolute(a)}  (+${relative(a, M.ticks)})`],
		     [base ? "Seen for" : "Duration", `${lasted(len)}${rank(func, len, d, node)}`],
		     ["Its own", `${lasted(own)}  (${percent(own, len)})`],
		     ["Off CPU, not traced, or lost", d.away[node] ? length(d.away[node]) : ""],
		     ["Instructions", count(d.insns[node])],
		     ["Cycles", d.cycles[node] ? count(d.cycles[node]) : ""],
		     ["Per cycle", d.cycles[node] ? (d.insns[node] / d.cycles[node]).toFixed(2) : ""],
		     ["Deeper calls", deeper > 0 ? count(deeper) : ""],
		     ["Thread", laneName(lane)]),
		meter(own, len), codeLink(func), callers(lane, node), inside(lane, node),
		commands(lane, a, a + len)];
}

/* Where it stands among all calls of its function. */
function rank(func, len, d, node) {
	const t = M.times[func];

	if (!t.length || (d.what[node] >> 6 & (GOES_ON | BREAKS)) || M.calls[func] < 20)
		return "";
	for (let i = M.quantiles.length - 2; i > 1; i--)
		if (len > t[i])
			return `  (slower than ${+(100 * M.quantiles[i]).toFixed(1)} % of its calls)`;
	return "";
}

const funcLink = (func) => button(nameOf(func), () => showFunction(func));

function callers(lane, node) {
	const d = lane.data, list = make("ol");

	for (let i = d.parent[node], n = 0; i >= 0 && n < 60; i = d.parent[i], n++) {
		const at = i;

		list.append(make("li", {}, button(labelOf(d, at), () => reveal(lane, at)),
				 make("span", { class: "num" }, lasted(d.len[at]))));
	}
	return list.childElementCount ?
		make("div", {}, make("h3", {}, "Called from"), list) : null;
}

/* The functions that were called directly, those that took most first. */
function inside(lane, node) {
	const d = lane.data, sums = new Map(), list = make("ol");

	for (let i = node + 1; i < d.after[node]; i = d.after[i]) {
		const key = d.what[i] >> 6 & MERGED ? -1 - d.func[i] : d.func[i];
		const s = sums.get(key) || { n: 0, ticks: 0, longest: i };

		s.n += callsIn(d, i);
		s.ticks += busyTicks(d, i);
		if (d.len[i] > d.len[s.longest])
			s.longest = i;
		sums.set(key, s);
	}
	for (const [key, s] of [...sums].sort((x, y) => y[1].ticks - x[1].ticks).slice(0, 12)) {
		const name = key < 0 ? `short calls, most in ${nameOf(-1 - key)}` : nameOf(key);

		list.append(make("li", {}, button(`${s.n > 1 ? `${count(s.n)} \u00d7 ` : ""}${name}`,
						  () => reveal(lane, s.longest)),
				 make("span", { class: "num" }, length(s.ticks))));
	}
	return sums.size ? make("div", {}, make("h3", {}, "Calls inside"), list) : null;
}

/* ---- a function ---- */

function distribution(func) {
	const t = M.times[func], box = make("div", { class: "dist" });
	const most = t[t.length - 1];

	if (M.calls[func] < 2 || !t.length)
		return null;
	M.quantiles.forEach((q, i) => {
		const bar = make("i");

		bar.style.width = `${most ? 100 * Math.log1p(t[i]) / Math.log1p(most) : 0}%`;
		box.append(make("span", {}, q === 0 ? "least" : q === 1 ? "max" : `p${+(100 * q).toFixed(1)}`),
			   bar, make("span", { class: "num" }, length(t[i])));
	});
	return make("div", {}, make("h3", {}, "How long its calls took (bars: logarithm)"), box);
}

function slowest(func) {
	const s = M.slow[func], list = make("ol");

	for (let i = 0; i < s.length; i += 3) {
		const lane = laneById(s[i]), node = s[i + 1];

		if (!lane)
			continue;
		list.append(make("li", {}, button(
			`${laneName(lane)}${lane.data ? `, +${relative(lane.data.start[node], M.ticks * 1000)}` : ""}`,
			() => lane.data && reveal(lane, node, true), "link slow"),
			make("span", { class: "num" }, length(s[i + 2]))));
	}
	return s.length ? make("div", {}, make("h3", {}, "Its slowest calls"), list) : null;
}

function functionDetail(func) {
	const cycles = M.ownCycles[func];

	return [make("h2", {}, nameOf(func)),
		rows(["File", dsoOf(func)], ["Source", sourceOf(func)],
		     ["Address", `0x${M.addr[func]}`],
		     ["Calls", count(M.calls[func])],
		     ["Self", selfText(func, "own")], ["Total", selfText(func, "total")],
		     ["Instructions", `${count(M.ownInsns[func])} self, ${count(M.totalInsns[func])} total`],
		     ["Per cycle", cycles ? (M.ownInsns[func] / cycles).toFixed(2) : ""]),
		meter(M.ownInsns[func], M.total.insns), codeLink(func), distribution(func), slowest(func),
		neighbours(func, true), neighbours(func, false),
		make("p", {}, button("Sandwich: its callers and what it calls", () => {
			setMode("sandwich", func);
			selectTab("flame");
		})),
		make("div", {}, make("h3", {}, "More of it: each call, and each line and instruction"),
		     command(M.commands.latency.join(` ${shellWord(nameOf(func))}`)),
		     command(M.commands.annotate.join(` ${shellWord(nameOf(func))}`)))];
}

function shellWord(s) {
	return /^[\w.+:@%/-]+$/.test(s) ? s : `'${s.replace(/'/g, "'\\''")}'`;
}

const selfText = (func, kind) => M.timed ?
	`${nanoseconds(M[`${kind}Ns`][func])}  (${percent(M[`${kind}Ns`][func], M.total.ns)})` :
	`${count(M[`${kind}Insns`][func])} instructions`;

function showFunction(func) {
	selectTab("table");
	T.chosen = func;
	$("funcdetail").replaceChildren(...functionDetail(func).filter((x) => x));
	$("funcdetail").scrollTop = 0;
	drawTable();
	say(nameOf(func));
}
