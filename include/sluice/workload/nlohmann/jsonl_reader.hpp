// SPDX-License-Identifier: Apache-2.0
// JsonlReader: the requests of a trace that has one JSON object per line: Mooncake's, and those with token ids.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/workload/content.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/request.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// parse_json_line: parses a line of a trace that Python may have written.

/// Whether a text may have NaN or Infinity, which Python's json module writes although JSON lacks them.
[[nodiscard]] inline bool may_have_python_numbers(std::string_view text) {
  return text.find("NaN") != std::string_view::npos || text.find("Infinity") != std::string_view::npos;
}

/// The text with null instead of the values NaN, Infinity and -Infinity: no reader takes null for a number. `aligned`:
/// with a number of the same length instead, so that an error's column is the file's.
[[nodiscard]] std::string without_python_numbers(std::string_view text, bool aligned = false);

/// Parses a line as a JSON object; see `parse_json_object`.
[[nodiscard]] inline Expected<nlohmann::json> parse_json_line(std::string_view line, const std::string& name,
                                                              std::int64_t number) {
  if (!may_have_python_numbers(line)) return parse_json_object(line, name, number);
  Expected<nlohmann::json> object = parse_json_object(without_python_numbers(line), name, number);
  if (!object)
    if (const auto same = parse_json_object(without_python_numbers(line, true), name, number); !same)
      return same.error();
  return object;
}

/// Reads a number of tokens; 0 of a failed request. pandas writes 512.0 in a column that once had a gap.
[[nodiscard]] inline Expected<std::int64_t> read_tokens(const JsonFields& fields, const char* name) {
  const Expected<double> value = fields.number(name, 0, static_cast<double>(max_request_tokens), {});
  if (value && *value == std::floor(*value)) return static_cast<std::int64_t>(*value);
  return fields.whole(name, 0, max_request_tokens); // says what is wrong
}

// read_hash_ids: reads the content of a prompt from a trace's hashes of its blocks.

/// The content that the numbers of `hash_ids` identify.
struct HashedPrompt {
  Tokens block{512};      ///< tokens per number; the last number may stand for fewer
  Tokens prompt{1};       ///< the prompt's tokens
  std::uint64_t salt = 0; ///< equal numbers with different salts identify different content, for example in different
                          ///< sessions
};

/// Reads the member `hash_ids` of a request into `content`, which is empty if there is no such member. If a prompt is
/// longer than its hashes, its end is unknown content. Error messages begin with `where`.
inline Status read_hash_ids(const nlohmann::json& object, HashedPrompt of, const std::string& where,
                            std::vector<ContentPiece>& content) {
  content.clear();
  const auto member = object.find("hash_ids");
  if (member == object.end() || member->is_null()) return {};
  const std::int64_t started = (of.prompt.count() + of.block.count() - 1) / of.block.count();
  const std::string expected = "at most one whole number per " + std::to_string(of.block.count()) +
                               " prompt tokens (--trace-block N for blocks of another size)";
  if (!member->is_array()) return Error{ErrorCode::bad_input, where, "hash_ids is no list", expected};
  if (static_cast<std::int64_t>(member->size()) > started)
    return Error{ErrorCode::bad_input, where,
                 "hash_ids has " + std::to_string(member->size()) + " numbers for " +
                     std::to_string(of.prompt.count()) + " prompt tokens",
                 expected};
  Tokens left = of.prompt;
  for (const nlohmann::json& number : *member) {
    if (!number.is_number_unsigned())
      return Error{ErrorCode::bad_input, where, "hash_ids holds something else than whole numbers from 0", expected};
    const Tokens tokens = std::min(left, of.block);
    const auto id = number.get<std::uint64_t>();
    content.push_back({of.salt == 0 ? id : static_cast<std::uint64_t>(next_key(BlockKey{of.salt}, id)), tokens});
    left -= tokens;
  }
  return {};
}

/// `content` is a prompt's of a request whose context has `context` tokens at its end. If the next prompt of its
/// session, `next`, continues that prompt, appends the following part of it: the answer.
void add_answer(std::vector<ContentPiece>& content, Tokens context, std::span<const ContentPiece> next);

// read_slo: reads a request's own SLO from a line of JSON.

/// Reads `slo_ttft_s` and `slo_tbt_s`, or the fields with the given names, in seconds; infinite if a field is missing.
[[nodiscard]] inline Expected<Slo> read_slo(const JsonFields& fields, const char* ttft = "slo_ttft_s",
                                            const char* tbt = "slo_tbt_s") {
  Slo slo;
  for (const auto& [name, time] : {std::pair{ttft, &slo.ttft}, {tbt, &slo.tbt}}) {
    if (!fields.has(name)) continue;
    const Expected<double> value = fields.number(name, 0.0, 1e12, "seconds above 0 and at most 1e12, or no such field");
    if (!value) return value.error();
    if (*value <= 0) {
      return Error{ErrorCode::bad_input, fields.where(), std::string{name} + " is 0",
                   "seconds above 0, or no such field"};
    }
    *time = Seconds{*value};
  }
  return slo;
}

/// Reads `priority`, as vLLM's server does: the lowest is served first; 0 if the field is missing.
[[nodiscard]] inline Expected<std::int32_t> read_priority(const JsonFields& fields) {
  if (!fields.has("priority")) return 0;
  constexpr std::numeric_limits<std::int32_t> limits;
  const Expected<std::int64_t> value = fields.whole("priority", limits.min(), limits.max());
  if (!value) return value.error();
  return static_cast<std::int32_t>(*value);
}

/// Reads `kv_hints`, what a client says of its KV (`SessionHints`): an object with `ttl` and `prefetch` in seconds,
/// `keep` in tokens and `release`, true or false. A line without the field says nothing. `in_session`: whether the
/// request belongs to a session, which `prefetch` is about.
[[nodiscard]] Expected<SessionHints> read_hints(const nlohmann::json& object, const std::string& where,
                                                bool in_session);

/// A format's names for what every request has.
struct JsonlNames {
  const char* arrival;
  double latest;          ///< the largest arrival, in its unit
  const char* unit;       ///< of the arrival: "milliseconds"
  double units_in_second; ///< 1e3 for milliseconds
  const char* prompt;     ///< tokens
  const char* output;     ///< tokens
  bool whole = false;     ///< arrivals with a fraction are refused: another tool's are in another unit
};

/// What `JsonlNames` names, of a line in which they are whole numbers.
struct PlainLine {
  std::int64_t arrival = 0, prompt = 0, output = 0;
};

/// Reads one request per line, in the order of arrival. Failed requests, which have 0 tokens, are skipped and counted.
/// `Format` has the member `names` and the function
/// `read_content(object, prompt, output, where, content)`, which fills the empty `content` from a line's object, or
/// refuses the line. It may have `read_plain(line, numbers, content)`, which does the same to the text of most lines,
/// many times as fast, and returns false for others.
/// `slo_ttft_s` and `slo_tbt_s` (a request's own SLO in seconds), `priority` and `kv_hints`, which no published format
/// has, are optional.
template <class Format>
class JsonlReader {
 public:
  explicit JsonlReader(LineReader lines, Format format = {}) : lines_(std::move(lines)), format_(format) {}

  static Expected<JsonlReader> open(const std::string& path, Format format = {}) {
    Expected<LineReader> lines = LineReader::open(path);
    if (!lines) return lines.error();
    return JsonlReader{std::move(*lines), format};
  }

  Expected<std::optional<RequestSpec>> next() {
    for (;;) {
      const Expected<std::optional<std::string_view>> line = lines_.next();
      if (!line) return line.error();
      if (!*line) {
        if (!any_) return detail::no_request(lines_.name(), failed_);
        return std::optional<RequestSpec>{};
      }
      Expected<std::optional<RequestSpec>> request = read(**line);
      if (request && !*request) {
        ++failed_;
        continue;
      }
      any_ = true;
      return request;
    }
  }

  [[nodiscard]] std::span<const ContentPiece> content() const { return content_; }
  /// The number of failed requests, which have 0 tokens; they are skipped.
  [[nodiscard]] std::int64_t failed() const { return failed_; }

 private:
  /// Reads the request of a line; nothing if it failed.
  Expected<std::optional<RequestSpec>> read(std::string_view line) {
    const JsonlNames& names = format_.names;
    if constexpr (requires(PlainLine & numbers) { format_.read_plain(line, numbers, content_); }) {
      PlainLine plain;
      content_.clear();
      if (format_.read_plain(line, plain, content_) && static_cast<double>(plain.arrival) <= names.latest) {
        const Expected<Seconds> arrival =
            clock_.arrival(static_cast<double>(plain.arrival) / names.units_in_second, lines_.where());
        if (!arrival) return arrival.error();
        return std::optional{RequestSpec{*arrival, Tokens{plain.prompt}, Tokens{plain.output}, Slo{}}};
      }
    }
    const Expected<nlohmann::json> object = parse_json_line(line, lines_.name(), lines_.number());
    if (!object) return object.error();
    const JsonFields fields(*object, lines_.where());
    const Expected<double> units =
        fields.number(names.arrival, 0.0, names.latest, std::string{names.unit} + ", 0 or more");
    if (!units) return units.error();
    if (names.whole && *units != std::floor(*units))
      return Error{ErrorCode::bad_input, lines_.where(),
                   std::string{names.arrival} + " has a fraction, and whole " + names.unit + " are expected",
                   "--format mooncake --trace-columns unit=s, or another unit"};
    const Expected<std::int64_t> prompt = read_tokens(fields, names.prompt);
    if (!prompt) return prompt.error();
    const Expected<std::int64_t> output = read_tokens(fields, names.output);
    if (!output) return output.error();
    if (*prompt == 0 || *output == 0) return std::optional<RequestSpec>{};
    const Expected<Seconds> arrival = clock_.arrival(*units / names.units_in_second, lines_.where());
    if (!arrival) return arrival.error();
    const Expected<Slo> slo = read_slo(fields);
    if (!slo) return slo.error();
    const Expected<std::int32_t> priority = read_priority(fields);
    if (!priority) return priority.error();
    content_.clear();
    const Status content = format_.read_content(*object, Tokens{*prompt}, Tokens{*output}, lines_.where(), content_);
    if (!content) return content.error();
    RequestSpec spec{*arrival, Tokens{*prompt}, Tokens{*output}, *slo};
    spec.priority = *priority;
    const Expected<SessionHints> hints = read_hints(*object, lines_.where(), false);
    if (!hints) return hints.error();
    spec.hints = *hints;
    return std::optional{spec};
  }

  LineReader lines_;
  Format format_;
  std::vector<ContentPiece> content_; ///< of the last request
  detail::ArrivalClock clock_;
  std::int64_t failed_ = 0;
  bool any_ = false;
};

// MooncakeReader: the trace release of Mooncake.

/// Mooncake's traces (Qin et al., FAST 2025): `timestamp` in milliseconds, `input_length` and `output_length` in
/// tokens. `hash_ids`, which a line may lack, has one number per started block of 512 prompt tokens: equal numbers mean
/// equal blocks after equal prompts. The release says nothing of the answers' content. A line with a field of another
/// trace's sessions is refused: that trace's times have another unit or meaning.
struct MooncakeFormat {
  Tokens block{512};
  JsonlNames names{"timestamp", 1e15, "milliseconds", 1e3, "input_length", "output_length"};

  /// Timestamps in another unit: GuideLLM's traces have these fields, and seconds. `decimals`: as in CsvColumns.
  void set_unit(int decimals);

  [[nodiscard]] Status read_content(const nlohmann::json& object, Tokens prompt, Tokens, const std::string& where,
                                    std::vector<ContentPiece>& content) const;
  /// Reads a line with the release's fields alone, each once. A line that is wrong in any way is left to JSON's parser.
  [[nodiscard]] bool read_plain(std::string_view line, PlainLine& numbers, std::vector<ContentPiece>& content) const;
};

using MooncakeReader = JsonlReader<MooncakeFormat>;

static_assert(TraceReader<MooncakeReader> && KnowsContent<MooncakeReader>);

/// Reads the member `name` of a request, a list of `tokens` token ids, and appends each as content.
Status read_token_ids(const nlohmann::json& object, const char* name, Tokens tokens, const std::string& where,
                      std::vector<ContentPiece>& content);

} // namespace sluice

#ifndef SLUICE_READERS_COMPILED
#include "sluice/workload/nlohmann/jsonl_reader.inl.hpp"
#endif
