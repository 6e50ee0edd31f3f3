// SPDX-License-Identifier: Apache-2.0
// MooncakeReader: reads the traces that Mooncake released.
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/hash_ids.hpp"
#include "sluice/workload/nlohmann/slo_fields.hpp"
#include "sluice/workload/reader.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// Mooncake's traces (Qin et al., FAST 2025): one JSON object per line, `timestamp` in milliseconds, `input_length` and
/// `output_length` in tokens. `slo_ttft_s` and `slo_tbt_s`, which the release does not have, are a request's own SLO in
/// seconds. `hash_ids`, which a line may lack, has one number per started block of 512 prompt tokens: equal numbers
/// mean equal blocks after equal prompts. The release contains no information about the answers' content.
class MooncakeReader {
 public:
  explicit MooncakeReader(LineReader lines) : lines_(std::move(lines)) {}

  static Expected<MooncakeReader> open(const std::string& path) {
    Expected<LineReader> lines = LineReader::open(path);
    if (!lines) return lines.error();
    return MooncakeReader{std::move(*lines)};
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
    const Expected<double> milliseconds = fields.number("timestamp", 0.0, 1e15, "milliseconds, 0 or more");
    if (!milliseconds) return milliseconds.error();
    const Expected<std::int64_t> prompt = fields.whole("input_length", 1, max_request_tokens);
    if (!prompt) return prompt.error();
    const Expected<std::int64_t> output = fields.whole("output_length", 1, max_request_tokens);
    if (!output) return output.error();
    const Expected<Seconds> arrival = clock_.arrival(*milliseconds / 1000.0, lines_.where());
    if (!arrival) return arrival.error();
    const Expected<Slo> slo = read_slo(fields);
    if (!slo) return slo.error();
    if (Status status = read_content(*object, Tokens{*prompt}); !status) return status.error();
    return std::optional{RequestSpec{*arrival, Tokens{*prompt}, Tokens{*output}, *slo}};
  }

  [[nodiscard]] std::span<const ContentPiece> content() const { return content_; }

 private:
  static constexpr Tokens hashed{512}; ///< tokens per number of `hash_ids`

  Status read_content(const nlohmann::json& object, Tokens prompt) {
    return read_hash_ids(object, {.block = hashed, .prompt = prompt, .salt = 0}, lines_.where(), content_);
  }

  LineReader lines_;
  std::vector<ContentPiece> content_; ///< of the last request
  detail::ArrivalClock clock_;
  bool any_ = false;
};

static_assert(TraceReader<MooncakeReader> && KnowsContent<MooncakeReader>);

} // namespace sluice
