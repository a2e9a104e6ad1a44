/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data: blocks of the page (sink_report_pack.h) into typed arrays. makeDecoder
 * runs in a worker, or in the page where there are no workers; it uses nothing from
 * outside of itself. post(message, transfer) hands over what is ready.
 */
function makeDecoder(post) {
	const MERGED = 1, EXTRA = 1 << 15, FEW = 3000;
	const lanes = new Map();

	function fromBase64(text) {
		const s = atob(text), out = new Uint8Array(s.length);

		for (let i = 0; i < s.length; i++)
			out[i] = s.charCodeAt(i);
		return out;
	}

	/* RFC 1950 and 1951, for browsers without DecompressionStream. */
	function inflate(src) {
		let pos = 2, bits = 0, have = 0, n = 0;
		let out = new Uint8Array(src.length * 4);

		function take(count) {
			while (have < count) {
				if (pos >= src.length)
					throw new Error("a block is cut");
				bits |= src[pos++] << have;
				have += 8;
			}
			const v = bits & ((1 << count) - 1);

			bits >>>= count;
			have -= count;
			return v;
		}
		function room(more) {
			if (n + more <= out.length)
				return;
			const grown = new Uint8Array(2 * (n + more));

			grown.set(out);
			out = grown;
		}
		function code(lengths) {
			const count = new Uint16Array(16), at = new Uint16Array(16);
			const sorted = new Uint16Array(lengths.length);

			for (const l of lengths)
				count[l]++;
			count[0] = 0;
			for (let i = 1; i < 16; i++)
				at[i] = at[i - 1] + count[i - 1];
			lengths.forEach((l, i) => { if (l) sorted[at[l]++] = i; });
			return { count, sorted };
		}
		function symbol(c) {
			let v = 0, first = 0, index = 0;

			for (let len = 1; len < 16; len++) {
				v |= take(1);
				if (v - first < c.count[len])
					return c.sorted[index + v - first];
				index += c.count[len];
				first = (first + c.count[len]) << 1;
				v <<= 1;
			}
			throw new Error("a block is damaged");
		}
		function fixed() {
			const l = new Array(288);

			for (let i = 0; i < 288; i++)
				l[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
			return [code(l), code(new Array(30).fill(5))];
		}
		function dynamic() {
			const order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12,
				       3, 13, 2, 14, 1, 15];
			const nl = take(5) + 257, nd = take(5) + 1, nc = take(4) + 4;
			const small = new Array(19).fill(0), l = [];

			for (let i = 0; i < nc; i++)
				small[order[i]] = take(3);
			const c = code(small);

			while (l.length < nl + nd) {
				const s = symbol(c);

				if (s < 16)
					l.push(s);
				else
					for (let k = s === 16 ? 3 + take(2) : s === 17 ?
					     3 + take(3) : 11 + take(7),
					     v = s === 16 ? l[l.length - 1] : 0; k > 0; k--)
						l.push(v);
			}
			return [code(l.slice(0, nl)), code(l.slice(nl))];
		}
		const LEN = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31,
			     35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
		const DIST = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193,
			      257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145,
			      8193, 12289, 16385, 24577];

		for (let last = 0; !last;) {
			last = take(1);
			const kind = take(2);

			if (kind === 0) {
				bits = have = 0;
				const len = src[pos] | src[pos + 1] << 8;

				pos += 4;
				room(len);
				out.set(src.subarray(pos, pos + len), n);
				pos += len;
				n += len;
				continue;
			}
			const [lit, far] = kind === 1 ? fixed() : dynamic();

			for (;;) {
				const s = symbol(lit);

				if (s === 256)
					break;
				room(260);
				if (s < 256) {
					out[n++] = s;
					continue;
				}
				const k = s - 257;
				const len = LEN[k] + take(k < 8 || k === 28 ? 0 : (k >> 2) - 1);
				const d = symbol(far);
				const back = DIST[d] + take(d < 4 ? 0 : (d >> 1) - 1);

				for (let i = 0; i < len; i++, n++)
					out[n] = out[n - back];
			}
		}
		return out.subarray(0, n);
	}

	async function unpack(block) {
		const bytes = fromBase64(block.text);

		if (!block.z)
			return bytes;
		if (typeof DecompressionStream === "undefined" || block.plain)
			return inflate(bytes);
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
			    extra: [] };
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
				b.extra.push(c[8]() + 1, c[8](), c[8]());
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
			    extra: new Uint32Array(n) };
		const more = [0, 0, 0];

		for (const b of blocks) {
			for (const k of ["start", "len", "insns", "cycles", "func",
					 "site", "depth", "what"])
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
			t.func[i] = c[1]() - 4;
			t.calls[i] = c[2]();
			for (let k = 0; k < 4; k++)
				t.own[k][i] = c[3 + k]();
		}
		return t;
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
