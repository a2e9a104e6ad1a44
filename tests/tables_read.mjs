// SPDX-License-Identifier: BSD-2-Clause
//
// Tables as readers of others see them. It is copied to where the packages are.
//
//   tables_read.mjs hyparquet FILE...      all rows of each file, as PostgreSQL's COPY text
//   tables_read.mjs rows FILE              the same by DuckDB
//   tables_read.mjs statistics FILE        what the footer says of the columns
//   tables_read.mjs duckdb DIR QUERIES     answers to the queries of a file, after load.sql,
//                                          as psql -A and sqlite3 print them
//   tables_read.mjs clickhouse DIR QUERIES the same by ClickHouse, after clickhouse.sql
import { readFileSync } from 'node:fs'

const escapes = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

let plain = false
function text(v) {
  if (v === null || v === undefined) return plain ? 'NULL' : '\\N'
  if (plain) return String(v)
  return String(v).replace(/[\\\t\n\r]/g, c => escapes[c])
}

let out = []
function put(row) {
  out.push(row.map(text).join('\t') + '\n')
  if (out.length > 10000) flush()
}
function flush() {
  process.stdout.write(out.join(''))
  out = []
}

async function open(path) {
  const { asyncBufferFromFile } = await import('hyparquet')
  return asyncBufferFromFile(path)
}

async function hyparquet(paths) {
  const { parquetRead } = await import('hyparquet')
  const { compressors } = await import('hyparquet-compressors')
  for (const path of paths)
    await parquetRead({ file: await open(path), compressors, onComplete: rows => rows.forEach(put) })
}

async function statistics(path) {
  const { parquetMetadataAsync } = await import('hyparquet')
  const m = await parquetMetadataAsync(await open(path))
  for (const kv of m.key_value_metadata) put([kv.key, kv.value])
  for (const g of m.row_groups)
    for (const { meta_data: c } of g.columns)
      put([c.path_in_schema[0], c.codec, c.encodings.at(-1), c.statistics.null_count,
        c.statistics.min_value, c.statistics.max_value])
}

async function connect() {
  const { DuckDBInstance } = await import('@duckdb/node-api')
  return (await DuckDBInstance.create(':memory:', { threads: '1' })).connect()
}

async function answer(db, sql) {
  const result = await db.stream(sql)
  for (;;) {
    const chunk = await result.fetchChunk()
    if (!chunk || !chunk.rowCount) break
    chunk.getRows().forEach(put)
  }
}

// Statements end in a semicolon at the end of a line.
function statements(path) {
  return readFileSync(path, 'utf8').split(/;\s*$/m).filter(s => s.replace(/--.*$/gm, '').trim())
}

async function duckdb(dir, queries) {
  const db = await connect()
  const asked = statements(queries)
  plain = true
  process.chdir(dir)
  for (const s of statements('load.sql')) await db.run(s)
  for (const s of asked) await answer(db, s)
}

// Its text has more escapes than that of the others.
async function clickhouse(dir, queries) {
  const { Session } = await import('chdb')
  const session = new Session()
  const asked = statements(queries)
  plain = true
  process.chdir(dir)
  session.query('SET output_format_json_quote_64bit_integers = 1')
  for (const s of statements('clickhouse.sql')) session.query(s)
  for (const s of asked) {
    const lines = session.query(s, 'JSONCompactEachRow').split('\n').filter(l => l)
    // numbers of 64 bits come as text
    for (const l of lines) put(JSON.parse(l))
  }
  session.cleanup()
}

const [what, ...rest] = process.argv.slice(2)
if (what === 'hyparquet') await hyparquet(rest)
else if (what === 'duckdb') await duckdb(...rest)
else if (what === 'clickhouse') await clickhouse(...rest)
else if (what === 'rows') await answer(await connect(), `SELECT * FROM read_parquet('${rest[0]}')`)
else if (what === 'statistics') await statistics(rest[0])
else throw new Error(`unknown: ${what}`)
flush()
