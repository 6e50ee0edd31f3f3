// SPDX-License-Identifier: Apache-2.0
// TraceKind: one table of all files of requests that are read, and the recogniser that chooses a row of it.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The formats of `--format`. A format may have several kinds of files: `load` has one for each load generator.
enum class TraceFormat : std::uint8_t {
  azure,
  burstgpt,
  mooncake,
  bailian,
  aiperf,
  orbitflow,
  vllm,
  load,
  tokens,
  agents,
  csv
};

/// Load generators, for `TraceFormat::load`.
enum class LoadGenerator : std::uint8_t { none, vllm_bench, sglang, guidellm, aiperf, blis, inference_perf };

/// A kind of file: what it is called, what tells it from others, and what its fields mean. docs/workloads.md shows the
/// same table (`trace_kinds_table`).
struct TraceKind {
  TraceFormat format;
  LoadGenerator generator;
  std::string_view name;                 ///< "Bailian's usage trace"
  bool json;                             ///< JSON objects; false: a CSV with a header
  bool list;                             ///< the objects are one JSON list; false: one after the other
  std::array<std::string_view, 3> signs; ///< the fields, or columns, that all files of this kind have, up to the first
                                         ///< empty one; rows above have no file with these fields
  std::string_view request;              ///< what a request is, with its fields
  std::string_view arrivals;             ///< field and unit
  std::string_view sessions;             ///< how requests form sessions; "-": they form none
  std::int64_t hash_block;               ///< tokens that a number of `hash_ids` stands for; 0: the format has none, or
                                         ///< the file says how many
  std::string_view source;
};

/// All kinds, in the order in which they are tried.
std::span<const TraceKind> trace_kinds();

/// Returns the first kind of a format.
const TraceKind& kind_of(TraceFormat format);

/// Returns the signs of a kind with commas: "metadata, metrics". `quote` is around each.
std::string signs_text(const TraceKind& kind, std::string_view quote = {});

/// Returns a format's name, as `--format` takes it.
std::string_view name(TraceFormat format);

/// "azure, burstgpt, ... or csv", for help texts and errors.
std::string trace_format_names();

Expected<TraceFormat> find_format(std::string_view text);

/// The table in Markdown, as docs/workloads.md shows it and `sluice-compare --list formats` prints it.
std::string trace_kinds_table();

/// A file that people take for a trace, and that has no requests that could be read.
struct OtherKind {
  std::string_view name;
  enum class Form : std::uint8_t { object, list, table, text } form;
  std::array<std::string_view, 3> signs; ///< fields, or columns, as in TraceKind; of a text: how it begins
  std::string_view right;                ///< what would be right
};

/// All kinds that are refused by their name, in the order in which they are tried.
std::span<const OtherKind> other_kinds();

/// The fields of a file's first JSON object, or the columns of its first line.
struct FirstFields {
  bool json = false;
  bool list = false; ///< the file is one JSON list; `names` are the fields of its first object
  std::vector<std::string> names;
  const OtherKind* other = nullptr; ///< what the file is instead; null if it may be a trace
  std::string line;                 ///< the first line of a file with neither an object nor three columns
};

/// Reads at most the first 4 MiB of a file: the fields of large objects are those that begin there. No names for a file
/// with neither an object nor a line of three columns.
Expected<FirstFields> first_fields(const std::string& path);

/// Returns the kind whose signs the file's first fields contain; null if there is none. The values may be wrong: a
/// reader then reports its format's error. A folder with .json files is a folder of agents' sessions.
Expected<const TraceKind*> recognise(const std::string& path);

/// Refuses a file that begins as one of `other_kinds` does, such as a compressed one, whose reader would show its
/// bytes.
Status check_is_text(const std::string& path);

/// Why no kind was recognised.
struct Unrecognised {
  std::string what;  ///< ", and its columns are a, b, c", or ", and it is empty"
  std::string right; ///< what would be right for such a file; empty if it is of no known kind
};
Unrecognised unrecognised(const std::string& path);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/trace_kinds.inl.hpp"
#endif
