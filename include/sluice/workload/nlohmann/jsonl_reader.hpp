// SPDX-License-Identifier: Apache-2.0
// JsonlReader: the requests of a trace that has one JSON object per line.
#pragma once

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/workload/line_reader.hpp"
#include "sluice/workload/nlohmann/slo_fields.hpp"
#include "sluice/workload/reader.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// A format's names for what every request has.
struct JsonlNames {
  const char* arrival;
  double latest;          ///< the largest arrival, in its unit
  const char* unit;       ///< of the arrival: "milliseconds"
  double units_in_second; ///< 1e3 for milliseconds
  const char* prompt;     ///< tokens
  const char* output;     ///< tokens
};

/// Reads one request per line, in the order of arrival. `Format` has the constant `names` and the function
/// `read_content(object, prompt, output, where, content)`, which fills the empty `content` from a line's object.
/// `slo_ttft_s` and `slo_tbt_s`, which no published format has, are a request's own SLO in seconds.
template <class Format>
class JsonlReader {
 public:
  explicit JsonlReader(LineReader lines) : lines_(std::move(lines)) {}

  static Expected<JsonlReader> open(const std::string& path) {
    Expected<LineReader> lines = LineReader::open(path);
    if (!lines) return lines.error();
    return JsonlReader{std::move(*lines)};
  }

  Expected<std::optional<RequestSpec>> next() {
    constexpr const JsonlNames& names = Format::names;
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
    const Expected<double> units =
        fields.number(names.arrival, 0.0, names.latest, std::string{names.unit} + ", 0 or more");
    if (!units) return units.error();
    const Expected<std::int64_t> prompt = fields.whole(names.prompt, 1, max_request_tokens);
    if (!prompt) return prompt.error();
    const Expected<std::int64_t> output = fields.whole(names.output, 1, max_request_tokens);
    if (!output) return output.error();
    const Expected<Seconds> arrival = clock_.arrival(*units / names.units_in_second, lines_.where());
    if (!arrival) return arrival.error();
    const Expected<Slo> slo = read_slo(fields);
    if (!slo) return slo.error();
    content_.clear();
    const Status content = Format::read_content(*object, Tokens{*prompt}, Tokens{*output}, lines_.where(), content_);
    if (!content) return content.error();
    return std::optional{RequestSpec{*arrival, Tokens{*prompt}, Tokens{*output}, *slo}};
  }

  [[nodiscard]] std::span<const ContentPiece> content() const { return content_; }

 private:
  LineReader lines_;
  std::vector<ContentPiece> content_; ///< of the last request
  detail::ArrivalClock clock_;
  bool any_ = false;
};

} // namespace sluice
