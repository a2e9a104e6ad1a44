/* SPDX-License-Identifier: BSD-2-Clause */
/* The page: views, search, keys, theme; and the beginning of it all. */
const TABS = ["chart", "flame", "table", "code", "heat", "gaps"];
const KEYS = [
	["+  \u2212  w  s", "zoom in and out (or the wheel)"],
	["\u2190  \u2192  a  d", "move along the time (or drag, or Shift and the wheel)"],
	["\u2191  \u2193", "move along the threads"],
	["0", "show everything"],
	["f  Enter", "zoom to what is chosen (or double click)"],
	["p  c", "to the caller, to the longest call inside"],
	["[  ]", "to the call of the same function before, after"],
	["r", "choose as a range what is in view, or the chosen frame (or drag with Shift)"],
	["e", "open or close all threads"],
	["/", "search functions; n and N: next and previous call, the slowest first"],
	["Esc", "leave the search, choose nothing, then no range"],
	["o", "source and instructions of the chosen frame or function"],
	["1 \u2026 6", "timeline, flame graph, functions, code, heat map, gaps"],
	["t", "dark or light"],
	["?", "this"],
];

/* ---- views ---- */

function selectTab(name) {
	for (const t of TABS) {
		const on = t === name;

		$(`tab-${t}`).setAttribute("aria-selected", String(on));
		$(`tab-${t}`).tabIndex = on ? 0 : -1;
		$(`panel-${t}`).hidden = !on;
	}
	if (name === "code")
		enterCode();
	tip();
	redrawAll();
	saveState();
}

const activeTab = () => TABS.find((t) => !$(`panel-${t}`).hidden);

function redrawAll() {
	redraw();
	redrawFlame();
	redrawTable();
	redrawCode();
	redrawHeat();
}

function setUpTabs() {
	TABS.forEach((t, i) => {
		$(`tab-${t}`).addEventListener("click", () => selectTab(t));
		$(`tab-${t}`).addEventListener("keydown", (e) => {
			const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];

			if (!step)
				return;
			const to = TABS[(i + step + TABS.length) % TABS.length];

			e.stopPropagation();
			selectTab(to);
			$(`tab-${to}`).focus();
		});
	});
}

/* ---- search ---- */

function search(text) {
	const wanted = text.trim().toLowerCase();
	let n = 0, calls = 0;

	C.match = C.hits = C.finding = null;
	C.hit = -1;
	if (wanted && M.ready) {
		C.match = new Uint8Array(M.name.length);
		for (let i = 0; i < M.name.length; i++) {
			if (!nameOf(i).toLowerCase().includes(wanted))
				continue;
			C.match[i] = 1;
			n++;
			calls += M.calls[i];
		}
	}
	$("hits").textContent = wanted ? `${count(n)} ${n === 1 ? "function" : "functions"}, ` +
		`${count(calls)} ${calls === 1 ? "call" : "calls"}` : "";
	$("nexthit").disabled = $("prevhit").disabled = !n;
	saveState();
	redrawAll();
}

function setUpSearch() {
	const box = $("search");

	box.addEventListener("input", () => search(box.value));
	$("searchform").addEventListener("submit", (e) => {
		e.preventDefault();
		goHit(1);
	});
	box.addEventListener("keydown", (e) => {
		if (e.key !== "Escape")
			return;
		box.value = "";
		search("");
		box.blur();
	});
	$("nexthit").onclick = () => goHit(1);
	$("prevhit").onclick = () => goHit(-1);
}

/* ---- theme, help, keys ---- */

function setTheme(dark) {
	theme.dark = dark;
	document.documentElement.dataset.theme = dark ? "dark" : "light";
	$("theme").setAttribute("aria-pressed", String(dark));
	$("theme").textContent = dark ? "Light" : "Dark";
	readTheme();
	if (M.ready) {
		legend();
		stateLegend();
	}
	redrawAll();
}

function setUpTheme() {
	const wish = matchMedia("(prefers-color-scheme: dark)");

	setTheme(wish.matches);
	wish.addEventListener("change", () => setTheme(wish.matches));
	$("theme").onclick = () => setTheme(!theme.dark);
	$("helpbutton").onclick = () => $("help").showModal();
	for (const [keys, text] of KEYS)
		$("help").querySelector("tbody").append(make("tr", {},
			make("td", {}, ...keys.split("  ").flatMap((k) => [make("kbd", {}, k), " "])),
			make("td", {}, text)));
}

const CHART_KEYS = {
	"+": () => zoom(0.6), "=": () => zoom(0.6), w: () => zoom(0.6),
	"-": () => zoom(1 / 0.6), s: () => zoom(1 / 0.6),
	ArrowLeft: () => pan(-0.15), a: () => pan(-0.15),
	ArrowRight: () => pan(0.15), d: () => pan(0.15),
	ArrowUp: () => { $("scroller").scrollTop -= 3 * ROW; },
	ArrowDown: () => { $("scroller").scrollTop += 3 * ROW; },
	PageUp: () => { $("scroller").scrollTop -= C.h; },
	PageDown: () => { $("scroller").scrollTop += C.h; },
	0: () => moveTo(-M.span * 0.01, M.span * 1.01),
	Home: () => moveTo(-M.span * 0.01, M.span * 1.01),
	f: () => zoomChosen(), Enter: () => zoomChosen(),
	p: () => goRelative("parent"), c: () => goRelative("child"),
	"[": () => goSame(-1), "]": () => goSame(1),
	Escape: () => C.chosen ? choose(null) : selectRange(0, 0),
	r: () => chooseView(), e: () => openAll(!C.lanes.every((l) => l.open)),
};

function zoomChosen() {
	if (C.chosen && C.chosen.node !== undefined)
		reveal(C.chosen.lane, C.chosen.node, true);
	else if (C.chosen)
		revealSpan(C.chosen.lane, C.chosen.span);
}

function chooseView() {
	const c = C.chosen;

	if (c && c.node !== undefined)
		selectRange(c.lane.data.start[c.node], c.lane.data.start[c.node] + c.lane.data.len[c.node]);
	else
		selectRange(C.a, C.b);
}

const PAGE_KEYS = {
	"/": () => $("search").focus(), "?": () => $("help").showModal(),
	t: () => setTheme(!theme.dark), n: () => goHit(1), N: () => goHit(-1),
	1: () => selectTab("chart"), 2: () => selectTab("flame"),
	3: () => selectTab("table"), 4: () => selectTab("code"), 5: () => selectTab("heat"),
	6: () => selectTab("gaps"), o: () => openCode(),
};

/* Of the frame that is chosen, in the table of the function. */
function openCode() {
	const c = C.chosen, on = activeTab();
	const func = on === "table" ? T.chosen : on === "flame" ? F.tree && F.chosen >= 0 ? F.tree.func[F.chosen] : -1 :
		c && c.node !== undefined ? c.lane.data.func[c.node] : -1;

	if (func >= 0)
		showCode(func);
	else
		selectTab("code");
}

function onKey(e) {
	const tag = e.target.tagName, on = activeTab();

	if (e.ctrlKey || e.metaKey || e.altKey || !M.ready || $("help").open ||
	    tag === "INPUT" || tag === "SELECT")
		return;
	if ((tag === "BUTTON" || tag === "SUMMARY") && (e.key === "Enter" || e.key === " "))
		return;
	let run = PAGE_KEYS[e.key];

	if (!run && on === "chart")
		run = CHART_KEYS[e.key];
	if (!run && on === "flame" && M.tree &&
	    (e.key.startsWith("Arrow") || ["Enter", "f", "Escape", "0"].includes(e.key)))
		run = () => flameKey(e.key);
	if (!run && on === "code" && ["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Enter", "h"].includes(e.key))
		run = () => codeKey(e.key);
	if (!run && on === "heat" && (e.key.startsWith("Arrow") || ["Enter", "Escape"].includes(e.key)))
		run = () => heatKey(e);
	if (!run)
		return;
	e.preventDefault();
	run();
}

/* ---- the state in the address, for a link to what is seen ---- */

let saving = 0, restoring = true, seen = location.hash;

/* Places are ns from the beginning. */
const toNs = (v) => +(v / M.ticks).toFixed(1);

function stateText() {
	const s = new URLSearchParams(), c = C.chosen;

	if (activeTab() !== "chart")
		s.set("tab", activeTab());
	if (C.b - C.a < M.span * 1.01)
		s.set("view", `${toNs(C.a)},${toNs(C.b)}`);
	if (C.range)
		s.set("range", `${toNs(C.range.a)},${toNs(C.range.b)}`);
	if (c && c.node !== undefined)
		s.set("call", `${c.lane.id}.${c.node}`);
	if ($("search").value)
		s.set("q", $("search").value);
	if (T.chosen >= 0 && activeTab() === "table")
		s.set("function", nameOf(T.chosen));
	if (S.func >= 0 && activeTab() === "code")
		s.set("function", nameOf(S.func));
	if (F.mode !== "down")
		s.set("flame", F.mode === "sandwich" && F.func >= 0 ? `sandwich:${nameOf(F.func)}` : F.mode);
	if (F.source !== "all")
		s.set("of", F.source);
	if ($("metric").value !== $("metric").options[0]?.value)
		s.set("by", F.metric);
	return s.toString();
}

/* Not with every step of a drag: browsers limit how often. An address that somebody else
 * has just written is to be restored, and not to be written over before it is. */
function saveState() {
	if (saving || restoring)
		return;
	saving = setTimeout(() => {
		const text = stateText();

		saving = 0;
		if (location.hash !== seen || `#${text}` === seen || !(text || seen))
			return;
		history.replaceState(null, "", `#${text}`);
		seen = location.hash;
	}, 300);
}

const pair = (text) => (text || "").split(",").map((v) => Number(v) * M.ticks);

function restoreFlame(s) {
	const mode = s.get("flame") || "down", by = s.get("by");

	if (by !== null && [...$("metric").options].some((o) => o.value === by))
		F.metric = Number($("metric").value = by);
	F.source = s.get("of") === "range" && C.range ? "range" : "all";
	if (mode.startsWith("sandwich:"))
		setMode("sandwich", M.name.indexOf(mode.slice(9)));
	else
		setMode(mode === "up" ? "up" : "down");
}

/* What does not fit this page is left out. */
function restoreState(hash) {
	seen = hash;
	const s = new URLSearchParams(hash.slice(1)), [a, b] = pair(s.get("view"));
	const [from, to] = pair(s.get("range")), call = /^(\d+)\.(\d+)$/.exec(s.get("call") || "");

	restoring = true;
	if (s.get("q")) {
		$("search").value = s.get("q");
		search(s.get("q"));
	}
	if (to > from)
		selectRange(from, to);
	const lane = call ? laneById(Number(call[1])) : null;

	if (lane && lane.data && Number(call[2]) < lane.data.n)
		reveal(lane, Number(call[2]));
	moving++;
	if (b > a)
		setView(a, b);
	restoreFlame(s);
	const func = s.get("function") ? M.name.indexOf(s.get("function")) : -1;

	if (func >= 0)
		(s.get("tab") === "code" ? showCode : showFunction)(func);
	if (TABS.includes(s.get("tab")))
		selectTab(s.get("tab"));
	restoring = false;
}

/* ---- the beginning ---- */

function onMessage(m) {
	if (m.kind === "json") {
		Object.assign(M, m.value, { ready: true });
		M.span = Math.max(M.span, 1);
		rankFiles();
		legend();
		setUpLanes();
		stateLegend();
		setUpTable();
		setUpGaps();
		if (M.search) {
			$("search").value = M.search;
			search(M.search);
		}
	} else if (m.kind === "code") {
		S.text = m.text;
		S.ids = new Set(m.ids);
		fillCodeList();
	} else if (m.kind === "sites") {
		M.sites = m.value;
	} else if (m.kind === "tree") {
		setUpTree(m.tree);
		redrawFlame();
	} else if (m.kind === "lane") {
		const lane = laneById(m.id);

		if (lane)
			lane.data = m.lane;
		layout();
		redraw();
	} else if (m.kind === "error") {
		$("loading").textContent = `The data cannot be read: ${m.text}`;
	} else if (m.kind === "end") {
		$("loading").textContent = "";
		restoreState(location.hash);
		document.documentElement.dataset.ready = "1";
		redrawAll();
	}
}

async function begin() {
	setUpTabs();
	setUpSearch();
	setUpTheme();
	setUpChart();
	setUpFlame();
	setUpHeatMap();
	setUpCode();
	addEventListener("hashchange", () => { if (M.ready) restoreState(location.hash); });
	document.addEventListener("keydown", onKey);
	await readBlocks(onMessage);
}

begin().catch((err) => { $("loading").textContent = String(err); });
