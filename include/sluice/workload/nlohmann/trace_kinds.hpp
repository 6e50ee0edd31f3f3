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
enum class LoadGenerator : std::uint8_t { none, vllm_bench, sglang, guidellm, aiperf, blis };

/// A kind of file: what it is called, what tells it from others, and what its fields mean. docs/workloads.md shows the
/// same table (`trace_kinds_table`).
struct TraceKind {
  TraceFormat format;
  LoadGenerator generator;
  std::string_view name;                 ///< "Bailian's usage trace"
  bool json;                             ///< JSON objects; false: a CSV with a header
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

/// The fields of a file's first JSON object, or the columns of its first line.
struct FirstFields {
  bool json = false;
  std::vector<std::string> names;
  std::string other; ///< what the file is instead: "compressed (gzip)"; empty if it may be a trace
};

/// Reads at most the first 4 MiB of a file: the fields of large objects are those that begin there. Empty for an empty
/// file, or one with neither an object nor a line of three columns.
Expected<FirstFields> first_fields(const std::string& path);

/// Returns the kind whose signs the file's first fields contain; null if there is none. The values may be wrong: a
/// reader then reports its format's error. A folder with .json files is a folder of agents' sessions.
Expected<const TraceKind*> recognise(const std::string& path);

/// What a file's first fields are, for an error: ", and its columns are a, b, c", or ", and it is empty"; empty if it
/// has none.
std::string seen_fields(const std::string& path);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/trace_kinds.inl.hpp"
#endif
