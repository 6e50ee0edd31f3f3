// SPDX-License-Identifier: Apache-2.0
// TokenIdsReader: reads requests with the token ids of their prompts and answers.
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/slo_fields.hpp"
#include "sluice/workload/reader.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// LLMServingSim's data sets (branch `ispass26-artifact`): one JSON object per line, with `arrival_time_ns`, with
/// `input_toks` and `output_toks` in tokens, and with `input_tok_ids` and `output_tok_ids`, the ids themselves. Without
/// `output_tok_ids` the answer's content is unknown.
class TokenIdsReader {
 public:
  explicit TokenIdsReader(LineReader lines) : lines_(std::move(lines)) {}

  static Expected<TokenIdsReader> open(const std::string& path) {
    Expected<LineReader> lines = LineReader::open(path);
    if (!lines) return lines.error();
    return TokenIdsReader{std::move(*lines)};
  }

  Expected<std::optional<RequestSpec>> next() {
    const Expected<std::optional<std::string_view>> line = lines_.next();
    if (!line) return line.error();
    if (!*line) {
      if (!any_) return Error{ErrorCode::bad_input, lines_.name(), "the trace holds no request", "at least one line"};
      return std::optional<RequestSpec>{};
    }
    any_ = true;
    const Expected<nlohmann::json> object = parse_json_object(**line, lines_.name(), lines_.number());
    if (!object) return object.error();
    const JsonFields fields(*object, lines_.where());
    const Expected<double> nanoseconds = fields.number("arrival_time_ns", 0.0, 1e21, "nanoseconds, 0 or more");
    if (!nanoseconds) return nanoseconds.error();
    const Expected<std::int64_t> prompt = fields.whole("input_toks", 1, max_request_tokens);
    if (!prompt) return prompt.error();
    const Expected<std::int64_t> output = fields.whole("output_toks", 1, max_request_tokens);
    if (!output) return output.error();
    const Expected<Seconds> arrival = clock_.arrival(*nanoseconds * 1e-9, lines_.where());
    if (!arrival) return arrival.error();
    const Expected<Slo> slo = read_slo(fields);
    if (!slo) return slo.error();
    content_.clear();
    if (Status status = read_ids(*object, "input_tok_ids", *prompt); !status) return status.error();
    if (fields.has("output_tok_ids"))
      if (Status status = read_ids(*object, "output_tok_ids", *output); !status) return status.error();
    return std::optional{RequestSpec{*arrival, Tokens{*prompt}, Tokens{*output}, *slo}};
  }

  [[nodiscard]] std::span<const ContentPiece> content() const { return content_; }

 private:
  Status read_ids(const nlohmann::json& object, const char* name, std::int64_t tokens) {
    const std::string expected = "a list of " + std::to_string(tokens) + " token ids";
    const auto member = object.find(name);
    if (member == object.end() || !member->is_array())
      return Error{ErrorCode::bad_input, lines_.where(), std::string{name} + " is missing or no list", expected};
    if (static_cast<std::int64_t>(member->size()) != tokens)
      return Error{ErrorCode::bad_input, lines_.where(),
                   std::string{name} + " has " + std::to_string(member->size()) + " ids", expected};
    for (const nlohmann::json& id : *member) {
      if (!id.is_number_integer() || id < 0)
        return Error{ErrorCode::bad_input, lines_.where(),
                     std::string{name} + " holds something else than whole numbers from 0", expected};
      content_.push_back({id.get<std::uint64_t>(), Tokens{1}});
    }
    return {};
  }

  LineReader lines_;
  std::vector<ContentPiece> content_; ///< of the last request
  detail::ArrivalClock clock_;
  bool any_ = false;
};

static_assert(TraceReader<TokenIdsReader> && KnowsContent<TokenIdsReader>);

} // namespace sluice
