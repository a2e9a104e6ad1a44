/*
 * The picture's script: a click zooms, the search marks, the width follows the
 * window. All it knows of the frames is what is drawn: data-x and data-w of each
 * group are its place and size in the unit that the program wrote before this text
 * (total, unit). It stands in a CDATA section, so it must never hold the three
 * characters that end one.
 */
(function () {
	"use strict";
	var svg = document.documentElement, NS = svg.namespaceURI, W = 1200, M = 10;
	var info = document.getElementById('info');
	var box = document.getElementById('frames').children, fr = [], i;

	for (i = 0; i < box.length; i++) {
		var g = box[i], t = g.children[0].textContent;

		fr.push({ g: g, t: t, n: t.slice(0, t.indexOf('\n')), x: +g.dataset.x,
			  w: +g.dataset.w, s: g.dataset.s, r: g.children[1], l: g.children[2],
			  y: +g.children[1].getAttribute('y') });
	}
	var zoom = fr[0], pattern = null;

	/* As put_label() of flame_svg.c: what fits into c characters. */
	function label(f, c) {
		var n = f.n.length > c && f.s ? f.s : f.n, head = Math.floor((c - 2) / 3);

		if (n.length <= c)
			return n;
		return c < 8 ? n.slice(0, c) :
			n.slice(0, head) + '..' + n.slice(n.length - (c - 2 - head));
	}

	/* Places all frames for zoom: what is inside of it, and its callers. */
	function draw() {
		var k = (W - 2 * M) / zoom.w, a = zoom.x, b = zoom.x + zoom.w;

		fr.forEach(function (f) {
			var up = f.y > zoom.y && f.x <= a && f.x + f.w >= b;
			var inside = f.x >= a && f.x + f.w <= b && f.y <= zoom.y;
			var w = up ? W - 2 * M : f.w * k, x = up ? M : M + (f.x - a) * k;

			if (!up && (!inside || w < .2)) {
				f.g.style.display = 'none';
				return;
			}
			f.g.style.display = '';
			f.g.classList.toggle('up', up);
			f.r.setAttribute('x', x.toFixed(2));
			f.r.setAttribute('width', w.toFixed(2));
			var c = w > 22 ? Math.floor((w - 6) / 7.25) : 0;

			f.l.setAttribute('x', (x + 3).toFixed(2));
			f.l.textContent = c ? label(f, c) : '';
		});
		mark();
	}

	/* Marks what the search finds, and sums it: frames inside of others that
	 * were found count once. */
	function mark() {
		var a = zoom.x, b = zoom.x + zoom.w, got = [], sum = 0, end = -1;

		fr.forEach(function (f) {
			var m = pattern && pattern.test(f.n);

			f.g.classList.toggle('m', !!m);
			if (m && f.x >= a && f.x + f.w <= b)
				got.push(f);
		});
		got.sort(function (p, q) { return p.x - q.x || q.w - p.w; });
		got.forEach(function (f) {
			if (f.x >= end) {
				sum += f.w;
				end = f.x + f.w;
			}
		});
		reset.style.display = zoom === fr[0] ? 'none' : '';
		found.textContent = pattern ? 'found: ' + sum.toLocaleString('en') + ' ' +
			unit + ', ' + (100 * sum / zoom.w).toFixed(2) + ' %' : '';
	}

	function fit() {
		var h = svg.viewBox.baseVal.height || +svg.getAttribute('height');

		W = Math.max(400, window.innerWidth || 1200);
		svg.setAttribute('width', W);
		svg.setAttribute('viewBox', '0 0 ' + W + ' ' + h);
		search.setAttribute('x', W - 90);
		reset.setAttribute('x', W - 200);
		found.setAttribute('x', W - M);
		draw();
	}

	function button(x, y, s, f) {
		var b = document.createElementNS(NS, 'text');

		b.setAttribute('class', f ? 's b' : 's');
		b.setAttribute('x', x);
		b.setAttribute('y', y);
		b.textContent = s;
		svg.appendChild(b);
		if (f)
			b.addEventListener('click', f);
		return b;
	}

	function ask() {
		var s = prompt('Search for (a regular expression):',
			       pattern ? pattern.source : '');

		if (s === null)
			return;
		find(s);
	}

	/* What is no regular expression is searched for as it is. */
	function find(s) {
		try {
			pattern = s ? new RegExp(s) : null;
		} catch (e) {
			pattern = new RegExp(s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
		}
		mark();
	}

	function out() {
		zoom = fr[0];
		draw();
	}

	var search = button(0, 24, 'Search (^F)', ask);
	var reset = button(0, 24, 'Reset zoom', out);
	var found = button(0, 44, '');

	found.setAttribute('text-anchor', 'end');
	fr.forEach(function (f) {
		f.g.addEventListener('click', function () {
			zoom = f;
			draw();
		});
		f.g.addEventListener('mouseover', function () {
			info.textContent = f.t.replace(/\n/g, '  \u00b7  ');
		});
		f.g.addEventListener('mouseout', function () {
			info.textContent = ' ';
		});
	});
	window.addEventListener('keydown', function (e) {
		if ((e.ctrlKey || e.metaKey) && (e.key === 'f' || e.key === 'F') ||
		    e.key === '/') {
			e.preventDefault();
			ask();
		} else if (e.key === 'Escape') {
			if (pattern) {
				pattern = null;
				mark();
			} else {
				out();
			}
		}
	});
	window.addEventListener('resize', fit);
	window.flame = {
		find: find,
		zoom: function (n) {
			var f = fr.find(function (p) { return p.n === n; });

			if (f) {
				zoom = f;
				draw();
			}
		}
	};
	fit();
})();
