/* SPDX-License-Identifier: BSD-2-Clause */
/* The page: views, search, keys, theme; and the beginning of it all. */
const TABS = ["chart", "flame", "table", "gaps"];
const KEYS = [
	["+  \u2212  w  s", "zoom in and out (or the wheel)"],
	["\u2190  \u2192  a  d", "move along the time (or drag, or Shift and the wheel)"],
	["\u2191  \u2193", "move along the threads"],
	["0", "show everything"],
	["f  Enter", "zoom to what is chosen (or double click)"],
	["p  c", "to the caller, to the longest call inside"],
	["[  ]", "to the call of the same function before, after"],
	["/", "search functions; n and N: next and previous hit"],
	["Esc", "leave the search, choose nothing"],
	["1 \u2026 4", "timeline, flame graph, functions, gaps"],
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
	tip();
	redrawAll();
}

const activeTab = () => TABS.find((t) => !$(`panel-${t}`).hidden);

function redrawAll() {
	redraw();
	redrawFlame();
	redrawTable();
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

	C.match = null;
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
	if (M.ready)
		legend();
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
	Escape: () => choose(null),
};

function zoomChosen() {
	if (C.chosen && C.chosen.node !== undefined)
		reveal(C.chosen.lane, C.chosen.node, true);
	else if (C.chosen)
		revealSpan(C.chosen.lane, C.chosen.span);
}

const PAGE_KEYS = {
	"/": () => $("search").focus(), "?": () => $("help").showModal(),
	t: () => setTheme(!theme.dark), n: () => goHit(1), N: () => goHit(-1),
	1: () => selectTab("chart"), 2: () => selectTab("flame"),
	3: () => selectTab("table"), 4: () => selectTab("gaps"),
};

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
	if (!run)
		return;
	e.preventDefault();
	run();
}

/* ---- the beginning ---- */

function onMessage(m) {
	if (m.kind === "json") {
		Object.assign(M, m.value, { ready: true });
		M.span = Math.max(M.span, 1);
		rankFiles();
		legend();
		setUpLanes();
		setUpTable();
		setUpGaps();
		if (M.search) {
			$("search").value = M.search;
			search(M.search);
		}
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
	document.addEventListener("keydown", onKey);
	let known;
	const recording = new Promise((done) => { known = done; });
	const reader = await readBlocks((m) => {
		onMessage(m);
		if (m.kind === "json")
			known();
	});

	await recording;
	await reader.end(M.span);
}

begin().catch((err) => { $("loading").textContent = String(err); });
