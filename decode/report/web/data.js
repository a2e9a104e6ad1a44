/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data: blocks of the page (decode/report/impl.h) into typed arrays. makeDecoder
 * runs in a worker, or in the page where there are no workers; it uses nothing from
 * outside of itself. post(message, transfer) hands over what is ready.
 */
function makeDecoder(post) {
	const MERGED = 1, EXTRA = 1 << 15, AWAY = 1 << 14, FEW = 3000;
	const lanes = new Map();

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
		const stream = new Blob([bytes]).stream()
			.pipeThrough(new DecompressionStream("deflate"));

		return new Uint8Array(await new Response(stream).arrayBuffer());
	}

	/* Columns of varints: c[i] is a reader of the next number. */
	function columns(bytes) {
		const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
		const n = view.getUint32(0, true), more = view.getUint32(8, true);
		const c = [];
		let at = 16;

		for (let i = 0; i < view.getUint32(4, true); i++) {
			const len = view.getUint32(at, true);
			let p = at + 4;

			c.push(() => {
				let b = bytes[p++], v = b & 127, scale = 128;

				while (b > 127) {
					b = bytes[p++];
					v += (b & 127) * scale;
					scale *= 128;
				}
				return v;
			});
			at += 4 + len;
		}
		return { n, more, c };
	}

	const signed = (v) => v % 2 ? -(v + 1) / 2 : v / 2;

	function addNodes(bytes) {
		const { n, more, c } = columns(bytes);
		const b = { n, start: new Float64Array(n), len: new Float64Array(n),
			    insns: new Float64Array(n), cycles: new Float64Array(n),
			    func: new Uint32Array(n), site: new Uint32Array(n),
			    depth: new Uint16Array(n), what: new Uint16Array(n),
			    away: new Float64Array(n), extra: [] };
		let start = 0, depth = 0;

		for (let i = 0; i < n; i++) {
			depth += signed(c[0]());
			start += c[1]();
			b.depth[i] = depth;
			b.start[i] = start;
			b.len[i] = c[2]();
			b.insns[i] = c[3]();
			b.cycles[i] = c[4]();
			b.func[i] = c[5]();
			b.what[i] = c[6]();
			b.site[i] = c[7]();
			if (b.what[i] & EXTRA)
				b.extra.push(c[8](), c[8](), c[8]());
			if (b.what[i] & AWAY)
				b.away[i] = c[9]();
		}
		if (!lanes.has(more))
			lanes.set(more, []);
		lanes.get(more).push(b);
	}

	function join(blocks) {
		let n = 0, at = 0, nx = 1;

		for (const b of blocks)
			n += b.n;
		const l = { n, start: new Float64Array(n), len: new Float64Array(n),
			    insns: new Float64Array(n), cycles: new Float64Array(n),
			    func: new Uint32Array(n), site: new Uint32Array(n),
			    depth: new Uint16Array(n), what: new Uint16Array(n),
			    away: new Float64Array(n), extra: new Uint32Array(n) };
		const more = [];

		for (const b of blocks) {
			for (const k of ["start", "len", "insns", "cycles", "func",
					 "site", "depth", "what", "away"])
				l[k].set(b[k], at);
			for (let i = 0; i < b.n; i++)
				if (b.what[i] & EXTRA)
					l.extra[at + i] = nx++;
			for (const v of b.extra)
				more.push(v);
			at += b.n;
		}
		l.more = new Float64Array(more);
		return l;
	}

	/* parent, the node behind all that is inside, and nodes by rows. */
	function link(l) {
		const stack = [];
		let deepest = 0;

		l.parent = new Int32Array(l.n);
		l.after = new Uint32Array(l.n);
		for (let i = 0; i < l.n; i++) {
			while (stack.length && l.depth[stack[stack.length - 1]] >= l.depth[i])
				l.after[stack.pop()] = i;
			l.parent[i] = stack.length ? stack[stack.length - 1] : -1;
			stack.push(i);
			if (l.depth[i] > deepest)
				deepest = l.depth[i];
		}
		while (stack.length)
			l.after[stack.pop()] = l.n;
		l.rows = l.n ? deepest + 1 : 0;
		const row = new Uint32Array(l.rows + 1), at = new Uint32Array(l.rows + 1);
		const s = new Float64Array(l.n), e = new Float64Array(l.n);
		const node = new Uint32Array(l.n);

		for (let i = 0; i < l.n; i++)
			row[l.depth[i] + 1]++;
		for (let d = 0; d < l.rows; d++)
			at[d + 1] = row[d + 1] += row[d];
		for (let i = 0; i < l.n; i++) {
			const k = at[l.depth[i]]++;

			s[k] = l.start[i];
			e[k] = l.start[i] + l.len[i];
			node[k] = i;
		}
		l.levels = [{ step: 0, row, s, e, node }];
	}

	/* What is shorter than step goes together, up to a step. */
	function coarser(l, fine, step) {
		const n = fine.node.length, row = new Uint32Array(l.rows + 1);
		const s = new Float64Array(n), e = new Float64Array(n);
		const node = new Uint32Array(n);
		let k = 0;

		for (let d = 0; d < l.rows; d++) {
			const first = k;

			for (let i = fine.row[d]; i < fine.row[d + 1]; i++) {
				if (k > first && fine.e[i] - s[k - 1] < step) {
					if (l.len[fine.node[i]] > l.len[node[k - 1]])
						node[k - 1] = fine.node[i];
					e[k - 1] = Math.max(e[k - 1], fine.e[i]);
					continue;
				}
				s[k] = fine.s[i];
				e[k] = fine.e[i];
				node[k++] = fine.node[i];
			}
			row[d + 1] = k;
		}
		return { step, row, s: s.slice(0, k), e: e.slice(0, k),
			 node: node.slice(0, k) };
	}

	function pyramid(l, span) {
		let levels = 1;

		for (let n = l.n; n > FEW; n /= 4)
			levels++;
		for (let i = levels - 2; i >= 0; i--)
			l.levels.push(coarser(l, l.levels[l.levels.length - 1],
					      span / FEW / 4 ** i));
	}

	function finish(id, span) {
		const l = join(lanes.get(id));
		const transfer = [];

		lanes.delete(id);
		link(l);
		pyramid(l, span);
		for (const o of [l, ...l.levels])
			for (const k of Object.keys(o))
				if (ArrayBuffer.isView(o[k]))
					transfer.push(o[k].buffer);
		post({ kind: "lane", id, lane: l }, transfer);
	}

	function tree(bytes) {
		const { n, c } = columns(bytes);
		const t = { n, depth: new Uint16Array(n), func: new Int32Array(n),
			    calls: new Float64Array(n), own: [] };
		let depth = 0;

		for (let k = 0; k < 4; k++)
			t.own.push(new Float64Array(n));
		for (let i = 0; i < n; i++) {
			depth += signed(c[0]());
			t.depth[i] = depth;
			t.func[i] = c[1]() - 7;
			t.calls[i] = c[2]();
			for (let k = 0; k < 4; k++)
				t.own[k][i] = c[3 + k]();
		}
		return t;
	}

	/* The page reads it when it is wanted; now it is to know of what there is some. */
	function code(text) {
		post({ kind: "code", text, ids: JSON.parse(text).map((f) => f.i) }, []);
	}

	return async function take(block) {
		if (block.kind === "end") {
			for (const id of [...lanes.keys()])
				finish(id, block.span);
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
			post({ kind: block.kind,
			       value: JSON.parse(new TextDecoder().decode(bytes)) }, []);
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

const pause = () => new Promise((done) => { setTimeout(done, 0); });

/* Reads all blocks of the page; a task for each. */
async function readBlocks(onmessage) {
	const blocks = [...document.querySelectorAll("script.block")];
	const reader = makeWorker(onmessage);
	let span = 0;

	for (const b of blocks) {
		const block = { kind: b.dataset.kind, z: b.dataset.z === "1",
				text: b.textContent };

		b.remove();
		await reader.take(block);
		await pause();
	}
	return { end: (s) => { span = s; return reader.take({ kind: "end", span }); } };
}
