/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data: blocks of the page (decode/report/impl.h) into typed arrays. makeDecoder
 * runs in a worker, or in the page where there are no workers; it uses nothing from
 * outside of itself. post(message, transfer) hands over what is ready.
 */
function makeDecoder(post) {
	const MERGED = 1, EXTRA = 1 << 15, AWAY = 1 << 14, FEW = 3000;
	const lanes = new Map();	/* that are being read, by their number */
	let span = 1, scratch = new Float64Array(0);

	function fromBase64(text) {
		const s = atob(text), out = new Uint8Array(s.length);

		for (let i = 0; i < s.length; i++)
			out[i] = s.charCodeAt(i);
		return out;
	}

	async function unpack(block) {
		const bytes = fromBase64(block.text);

		if (!block.z)
			return bytes;
		/* Chrome 80, Safari 16.4, Firefox 113: all browsers since 2023. */
		if (typeof DecompressionStream === "undefined")
			throw new Error("this browser cannot unpack the page's data " +
					"(DecompressionStream): take one of 2023 or later");
		const stream = new DecompressionStream("deflate");
		const to = stream.writable.getWriter(), parts = [];
		/* Damaged bytes make both sides fail: the reader's error is the one thrown. */
		const written = Promise.allSettled([to.write(bytes), to.close()]);

		for (const from = stream.readable.getReader();;) {
			const { value, done } = await from.read();

			if (done)
				break;
			parts.push(value);
		}
		await written;
		return oneArray(parts, Uint8Array);
	}

	/* Columns: n numbers each, as varints. */
	function columns(bytes) {
		const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
		const n = view.getUint32(0, true), more = view.getUint32(8, true);
		const at = [];
		let p = 16;

		for (let i = 0; i < view.getUint32(4, true); i++) {
			at.push(p + 4);
			p += 4 + view.getUint32(p, true);
		}
		return { n, more, bytes, at };
	}

	/* n numbers of a column, and the largest of them: valid until the next call. */
	function numbers(c, column, n) {
		if (scratch.length < n)
			scratch = new Float64Array(n);
		const bytes = c.bytes, v = scratch.subarray(0, n);
		let p = c.at[column], max = 0, most = 0;

		for (let i = 0; i < n; i++) {
			let b = bytes[p++];

			if (b < 128) {
				v[i] = b;
				if (b > max)
					max = b;
				continue;
			}
			let value = b & 127, scale = 128;

			do {
				b = bytes[p++];
				value += (b & 127) * scale;
				scale *= 128;
			} while (b > 127);
			v[i] = value;
			if (value > most)
				most = value;
		}
		return { v, max: Math.max(max, most) };
	}

	/* A page has ten million nodes: a column is as narrow as its numbers are, and one
	 * of zeros is never written to. */
	const WIDER = new Map([[Uint16Array, [0xffff, Uint32Array]],
			       [Uint32Array, [0xffffffff, Float64Array]],
			       [Float64Array, [Infinity]]]);

	function newLane(n) {
		return { n, start: new Float64Array(n), len: new Uint32Array(n),
			 insns: new Uint32Array(n), cycles: new Uint32Array(n),
			 func: new Uint16Array(n), site: new Uint16Array(n),
			 depth: new Uint16Array(n), what: new Uint16Array(n),
			 away: new Float64Array(n), extra: new Uint32Array(n),
			 more: [], filled: 0, n_extra: 0 };
	}

	function put(l, key, c, column, n) {
		const { v, max } = numbers(c, column, n);

		for (let w; max > (w = WIDER.get(l[key].constructor))[0];)
			l[key] = w[1].from(l[key]);
		if (max)
			l[key].set(v, l.filled);
	}

	/* Differences, as sums. */
	function addUp(to, v, at) {
		let sum = 0;

		for (let i = 0; i < v.length; i++)
			to[at + i] = sum += v[i];
	}

	/* The same of signed ones: 0, -1, 1, -2, .. */
	function addUpSigned(to, v, at) {
		let sum = 0;

		for (let i = 0; i < v.length; i++) {
			const d = v[i] | 0;

			to[at + i] = sum += d >>> 1 ^ -(d & 1);
		}
	}

	/* What few nodes have: those with the bit in what. */
	function putFew(l, c, n, at) {
		let extra = 0, away = 0;

		for (let i = at; i < at + n; i++) {
			if (l.what[i] & EXTRA) {
				l.extra[i] = ++l.n_extra;
				extra += 3;
			}
			if (l.what[i] & AWAY)
				away++;
		}
		if (extra)
			l.more.push(numbers(c, 8, extra).v.slice());
		if (!away)
			return;
		const v = numbers(c, 9, away).v;

		away = 0;
		for (let i = at; i < at + n; i++)
			if (l.what[i] & AWAY)
				l.away[i] = v[away++];
	}

	function addNodes(bytes) {
		const c = columns(bytes), n = c.n, l = lanes.get(c.more), at = l.filled;

		addUpSigned(l.depth, numbers(c, 0, n).v, at);
		addUp(l.start, numbers(c, 1, n).v, at);
		["len", "insns", "cycles", "func", "what", "site"].forEach((key, i) =>
			put(l, key, c, i + 2, n));
		putFew(l, c, n, at);
		l.filled += n;
		if (l.filled === l.n)
			finish(c.more);
	}

	function oneArray(parts, type) {
		const v = new type(parts.reduce((n, p) => n + p.length, 0));
		let at = 0;

		for (const p of parts) {
			v.set(p, at);
			at += p.length;
		}
		return v;
	}

	/* How many rows: a page may have thousands of lanes, few of them deep. */
	function countRows(depth) {
		let deepest = -1;

		for (let i = 0; i < depth.length; i++)
			if (depth[i] > deepest)
				deepest = depth[i];
		return deepest + 1;
	}

	/* The parent of each node, and the node that follows all that is inside of it. Returns
	 * how many nodes each row has. */
	function link(depth, parent, after, rows) {
		const stack = new Int32Array(rows), deep = new Int32Array(rows);
		const row = new Uint32Array(rows), n = depth.length;
		let top = 0;

		for (let i = 0; i < n; i++) {
			const d = depth[i];

			while (top > 0 && deep[top - 1] >= d)
				after[stack[--top]] = i;
			parent[i] = top > 0 ? stack[top - 1] : -1;
			stack[top] = i;
			deep[top++] = d;
			row[d]++;
		}
		while (top > 0)
			after[stack[--top]] = n;
		return row;
	}

	/* Nodes by rows; at: where each row goes on. */
	function byRows(depth, node, at) {
		for (let i = 0; i < depth.length; i++)
			node[at[depth[i]]++] = i;
	}

	function addRows(l) {
		l.parent = new Int32Array(l.n);
		l.after = new Uint32Array(l.n);
		l.rows = countRows(l.depth);
		const each = link(l.depth, l.parent, l.after, l.rows);
		const row = new Uint32Array(l.rows + 1), node = new Uint32Array(l.n);

		for (let d = 0; d < l.rows; d++)
			row[d + 1] = row[d] + each[d];
		byRows(l.depth, node, row.slice());
		l.levels = [{ step: 0, row, node }];
	}

	/* A row of a level from first to end, into a coarser one behind its k items. What
	 * is shorter than step goes together, up to a step. Returns how many it has then. */
	function coarserRow(start, len, fine, first, end, to, k, step) {
		const { s, e, node } = to, none = k;

		for (let i = first; i < end; i++) {
			const it = fine.node[i], from = fine.s ? fine.s[i] : start[it];
			const until = fine.s ? fine.e[i] : from + len[it];

			if (k > none && until - s[k - 1] < step) {
				if (len[it] > len[node[k - 1]])
					node[k - 1] = it;
				if (until > e[k - 1])
					e[k - 1] = until;
				continue;
			}
			s[k] = from;
			e[k] = until;
			node[k++] = it;
		}
		return k;
	}

	function coarser(l, fine, step) {
		const n = fine.node.length, row = new Uint32Array(l.rows + 1);
		const to = { s: new Float64Array(n), e: new Float64Array(n),
			     node: new Uint32Array(n) };

		for (let d = 0; d < l.rows; d++)
			row[d + 1] = coarserRow(l.start, l.len, fine, fine.row[d], fine.row[d + 1],
						to, row[d], step);
		return { step, row, s: to.s.slice(0, row[l.rows]), e: to.e.slice(0, row[l.rows]),
			 node: to.node.slice(0, row[l.rows]) };
	}

	function pyramid(l) {
		let levels = 1;

		for (let n = l.n; n > FEW; n /= 4)
			levels++;
		for (let i = levels - 2; i >= 0; i--)
			l.levels.push(coarser(l, l.levels[l.levels.length - 1],
					      span / FEW / 4 ** i));
	}

	/* All its nodes are there. */
	function finish(id) {
		const l = lanes.get(id), transfer = [];

		lanes.delete(id);
		l.more = oneArray(l.more, Float64Array);
		addRows(l);
		pyramid(l);
		for (const o of [l, ...l.levels])
			for (const k of Object.keys(o))
				if (ArrayBuffer.isView(o[k]))
					transfer.push(o[k].buffer);
		post({ kind: "lane", id, lane: l }, transfer);
	}

	function tree(bytes) {
		const c = columns(bytes), n = c.n, depth = new Uint16Array(n);

		addUpSigned(depth, numbers(c, 0, n).v, 0);
		return { n, depth, func: Int32Array.from(numbers(c, 1, n).v, (v) => v - 7),
			 calls: numbers(c, 2, n).v.slice(),
			 own: [3, 4, 5, 6].map((k) => numbers(c, k, n).v.slice()) };
	}

	/* The page reads it when it is wanted; now it is to know of what there is some. */
	function code(text) {
		post({ kind: "code", text, ids: JSON.parse(text).map((f) => f.i) }, []);
	}

	/* What is known of the recording comes before all nodes. */
	function json(kind, value) {
		if (kind === "json") {
			span = Math.max(value.span, 1);
			value.lanes.forEach((l, id) => {
				if (l.nodes)
					lanes.set(id, newLane(l.nodes));
			});
		}
		post({ kind, value }, []);
	}

	return async function take(block) {
		if (block.kind === "end") {
			if (lanes.size)
				throw new Error("some of the page's data is missing");
			post({ kind: "end" }, []);
			return;
		}
		const bytes = await unpack(block);

		if (block.kind === "nodes")
			addNodes(bytes);
		else if (block.kind === "tree")
			post({ kind: "tree", tree: tree(bytes) }, []);
		else if (block.kind === "code")
			code(new TextDecoder().decode(bytes));
		else
			json(block.kind, JSON.parse(new TextDecoder().decode(bytes)));
	};
}

/* In a worker: one block after the other, though unpacking does not wait. */
function workerMain() {
	const take = makeDecoder((m, t) => self.postMessage(m, t));
	let queue = Promise.resolve();

	self.onmessage = (e) => {
		queue = queue.then(() => take(e.data)).catch((err) =>
			self.postMessage({ kind: "error", text: String(err) }));
	};
}

function makeWorker(onmessage) {
	try {
		const url = URL.createObjectURL(new Blob(
			[`${makeDecoder}\n(${workerMain})();`], { type: "text/javascript" }));
		const worker = new Worker(url);

		worker.onmessage = (e) => onmessage(e.data);
		return { take: (b) => worker.postMessage(b), worker };
	} catch {
		const take = makeDecoder((m) => onmessage(m));

		return { take: (b) => take(b), worker: null };
	}
}

/* Work on what may be millions of nodes goes in tasks of a few milliseconds, so that the page
 * answers: every some thousand steps it asks whether its task is long, and pauses. */
const TASK = { most: 8, end: 0 };

const isLong = () => performance.now() > TASK.end;

const pause = () => new Promise((done) => {
	setTimeout(() => {
		TASK.end = performance.now() + TASK.most;
		done();
	}, 0);
});

/* Reads all blocks of the page. */
async function readBlocks(onmessage) {
	const blocks = [...document.querySelectorAll("script.block")];
	const reader = makeWorker(onmessage);

	for (const b of blocks) {
		const block = { kind: b.dataset.kind, z: b.dataset.z === "1",
				text: b.textContent };

		b.remove();
		await reader.take(block);
		if (isLong())
			await pause();
	}
	await reader.take({ kind: "end" });
}
