// SPDX-License-Identifier: Apache-2.0
// Writes a Parquet table as CSV to standard output: node parquet_to_csv.mjs TABLE.parquet
//
// Debian 12 has no Parquet reader. `npm install hyparquet hyparquet-compressors` (MIT) beside this file, or in a folder
// above it, provides one.
import { readFileSync } from "node:fs";
import { parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";

const bytes = readFileSync(process.argv[2]);
const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
const rows = await parquetReadObjects({ file, compressors });
const columns = Object.keys(rows[0] ?? {});
process.stdout.write([columns, ...rows.map((row) => columns.map((name) => row[name]))].map((row) => row.join(",") + "\n").join(""));
