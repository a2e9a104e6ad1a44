/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Code: source and instructions of a function, each with how often it ran
 * (coverage/annotate_page.c). Of a long function only the rows in view are elements.
 */
const S = { func: -1, text: null, ids: new Set(), all: null, rows: [], lines: false, at: -1 };
const CODE_LINE = 20;
const redrawCode = painter(() => drawCode());

/* A row: [offset, executed, cycles, text, branches], or one of source:
   [file, line, executed, cycles, text, inlined]. */
const isLine = (row) => row.length === 6;

/* Read when it is first asked for. Of functions of one name the one that ran most. */
function codeOf(func) {
	if (!S.all && S.text) {
		S.all = new Map();
		for (const f of JSON.parse(S.text))
			if (!S.all.has(f.i))
				S.all.set(f.i, f);
		S.text = null;
	}
	return S.all ? S.all.get(func) : undefined;
}

const hasCode = (func) => S.ids.has(func);

function codeLink(func, text = "Source and instructions, with exact counts") {
	return hasCode(func) ? make("p", {}, button(text, () => showCode(func), "link tocode")) : null;
}

function setUpCode() {
	$("codescroller").addEventListener("scroll", redrawCode);
	new ResizeObserver(redrawCode).observe($("codescroller"));
	$("codelines").onchange = () => {
		S.lines = $("codelines").checked;
		listRows();
		goHottest();
	};
	$("codehot").onclick = goHottest;
	$("codefunc").onchange = () => showCode(Number($("codefunc").value));
}

/* The functions that there is code of, those that ran most first. */
function fillCodeList() {
	const list = $("codefunc"), all = [...S.ids];

	all.sort((a, b) => M.ownInsns[b] - M.ownInsns[a]);
	list.replaceChildren(...all.map((i) => make("option", { value: i }, nameOf(i))));
	list.disabled = !all.length;
	if (!all.length)
		$("codedetail").replaceChildren(make("p", {}, "There is none in this page: no function that ran " +
			"has a symbol, or auxdecode was built without a disassembler."));
}

function listRows() {
	const f = codeOf(S.func);

	S.rows = f ? S.lines ? sourceRows(f) : f.rows : [];
	S.most = Math.max(1, ...S.rows.map((r) => isLine(r) && !S.lines ? 0 : countOf(r)));
}

const countOf = (row) => isLine(row) ? row[2] : row[1];

/* Each line once, in the order of the source. */
function sourceRows(f) {
	const seen = new Set(), rows = [];

	for (const r of f.rows) {
		const key = isLine(r) ? `${r[0]}:${r[1]}` : "";

		if (!key || seen.has(key) || r[2] < 0)
			continue;
		seen.add(key);
		rows.push(r);
	}
	return rows.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
}

function showCode(func) {
	S.func = func;
	if (hasCode(func))
		$("codefunc").value = String(func);
	listRows();
	selectTab("code");
	$("codedetail").replaceChildren(...codeDetail(func).filter((x) => x));
	goHottest();
	say(`${func >= 0 ? nameOf(func) : ""}, source and instructions`);
}

/* The tab was chosen: of what was looked at last, or of what ran most. */
function enterCode() {
	if (S.func >= 0 || !M.ready)
		return;
	const c = C.chosen && C.chosen.node !== undefined ? C.chosen.lane.data.func[C.chosen.node] : -1;
	const first = [c, T.chosen].find((i) => i >= 0 && hasCode(i));

	if (first !== undefined)
		showCode(first);
	else if ($("codefunc").options.length)
		showCode(Number($("codefunc").options[0].value));
}

function goHottest() {
	let at = 0;

	S.rows.forEach((r, i) => {
		if ((!isLine(r) || S.lines) && countOf(r) > countOf(S.rows[at]))
			at = i;
		else if (isLine(S.rows[at]) && !S.lines)
			at = i;
	});
	const box = $("codescroller");

	S.at = at;
	box.scrollTop = Math.max(0, (at + 1) * CODE_LINE - box.clientHeight / 2);
	drawCode();
}

function peers(title, list) {
	const ol = make("ol");

	for (const [name, n] of list) {
		const func = M.name.indexOf(name);

		ol.append(make("li", {}, func >= 0 ? button(name, () => hasCode(func) ?
			showCode(func) : showFunction(func)) : name, make("span", { class: "num" }, count(n))));
	}
	return list.length ? make("div", {}, make("h3", {}, title), ol) : null;
}

function codeDetail(func) {
	const f = codeOf(func);

	if (func < 0)
		return [make("p", { class: "hint" }, "No function is chosen.")];
	const more = command(M.commands.annotate.join(` ${shellWord(nameOf(func))}`));

	if (!f)
		return [make("h2", {}, funcLink(func)), make("p", {}, "The page has the code of the functions " +
			"that ran most, as far as there is room. This command shows any:"), more];
	return [make("h2", {}, funcLink(func)),
		rows(["File", dsoOf(func)], ["Source", sourceOf(func)], ["Address", `0x${f.addr}`],
		     ["Entered", count(f.entered)], ["Instructions", count(f.insns)],
		     ["Cycles", f.cycles ? count(f.cycles) : ""],
		     ["Per cycle", f.cycles ? (f.insns / f.cycles).toFixed(2) : ""]),
		meter(f.insns, M.total.insns), peers("Called by", f.callers), peers("Calls", f.callees),
		make("div", {}, make("h3", {}, "The same as text, JSON or a page of its own"), more)];
}

/* ---- drawing ---- */

function lineRow(f, r) {
	const file = f.files[r[0]] || "", known = r[2] >= 0;

	return [known ? count(r[2]) : "", known ? count(r[3]) : "", `${baseName(file)}:${r[1]}`,
		r[4], r[5] ? `inlined: ${r[5]}` : "", tidyPath(file)];
}

function codeRow(f, i) {
	const r = S.rows[i], line = isLine(r), n = countOf(r);
	const [ran, cycles, place, text, note, title] = line ? lineRow(f, r) :
		[count(r[1]), count(r[2]), (BigInt(`0x${f.addr}`) + BigInt(r[0])).toString(16), r[3], r[4], ""];
	const share = line && !S.lines ? 0 : Math.max(0, n) / S.most;
	const tr = make("tr", { class: `${line ? "source" : n ? "insn" : "insn zero"}${i === S.at ? " chosen" : ""}`,
				"aria-rowindex": i + 2 },
		make("td", { class: "num", style: share ? `--heat:${Math.round(4 + 50 * share)}%` : null }, ran),
		M.total.cycles ? make("td", { class: "num" }, cycles) : null,
		make("td", { class: "place", title }, place),
		make("td", { class: "code", title: text.length > 60 ? text : null }, ...codeText(text, line)),
		make("td", { class: "note" }, note));

	return tr;
}

/* "call 0x401136 <work>": the name leads to the function's code. */
function codeText(text, line) {
	const m = line ? null : /^(.*)<(.+)>$/.exec(text), func = m ? M.name.indexOf(m[2]) : -1;

	return func < 0 ? [text] : [m[1], button(m[2], () => hasCode(func) ? showCode(func) : showFunction(func))];
}

function drawCode() {
	const box = $("codescroller"), body = $("code").tBodies[0], n = S.rows.length;
	const f = codeOf(S.func), lines = [];

	if (!M.ready || $("panel-code").hidden)
		return;
	const titles = ["Executed", M.total.cycles ? "Cycles" : null, "Place", "Code", "Branches"].filter((t) => t);
	const from = Math.max(0, Math.floor(box.scrollTop / CODE_LINE) - 20);
	const to = Math.min(n, Math.ceil((box.scrollTop + box.clientHeight) / CODE_LINE) + 20);
	const pad = (h) => {
		const td = make("td", { class: "pad", colspan: titles.length });

		td.style.height = `${h}px`;
		return make("tr", { "aria-hidden": "true" }, td);
	};

	$("code").tHead.replaceChildren(make("tr", {}, ...titles.map((t) =>
		make("th", { scope: "col", class: t === "Executed" || t === "Cycles" ? "num" : "" }, t))));
	lines.push(pad(from * CODE_LINE));
	for (let i = from; i < to; i++)
		lines.push(codeRow(f, i));
	lines.push(pad((n - to) * CODE_LINE));
	$("code").setAttribute("aria-rowcount", n + 1);
	body.replaceChildren(...lines);
	$("codeinfo").textContent = f ? `${count(n)} ${S.lines ? "lines" : "rows"}` :
		S.func >= 0 ? "no code of it in this page" : "";
}

/* Up and down choose a row; Enter goes where its call leads. */
function codeKey(key) {
	const box = $("codescroller"), n = S.rows.length;
	const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -20, PageDown: 20 }[key];

	if (key === "h")
		goHottest();
	else if (key === "Enter")
		$("code").querySelector("tr.chosen .link")?.click();
	if (!step || !n)
		return;
	S.at = Math.max(0, Math.min(n - 1, S.at + step));
	const top = S.at * CODE_LINE, room = box.clientHeight - 2 * CODE_LINE;

	box.scrollTop = Math.max(top - room, Math.min(box.scrollTop, top));
	drawCode();
}
