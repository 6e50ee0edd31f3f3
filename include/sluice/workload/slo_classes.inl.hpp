// SPDX-License-Identifier: Apache-2.0
// SloClass: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/text.hpp"
#include "sluice/workload/slo_classes.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <system_error>
#include <tuple>
#include <utility>

namespace sluice {

SLUICE_INLINE std::string short_time(Seconds time) {
  if (std::isinf(time.count())) return "none";
  char text[32];
  const bool small = time.count() < 1;
  std::snprintf(text, sizeof text, "%.6g%s", small ? 1e3 * time.count() : time.count(), small ? "ms" : "s");
  return text;
}

} // namespace sluice

namespace sluice::detail {

/// "50ms" or "2s". A number without a unit is refused: 50 could be either.
inline std::optional<Seconds> read_short_time(std::string_view text) {
  double value = 0;
  const auto [stop, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(stop - text.data()));
  const double scale = unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "us" ? 1e-6 : 0;
  if (wrong != std::errc{} || !(value > 0) || !std::isfinite(value) || scale == 0) return std::nullopt;
  return Seconds{scale * value};
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE Expected<std::vector<SloClass>> parse_slo_classes(std::string_view text) {
  const auto wrong = [](std::string what, std::string expected =
                                              "SHARE:TTFT/TBT or SHARE:TTFT/TBT:PRIORITY of each class with commas, "
                                              "such as 0.5:2s/50ms,0.5:30s/200ms:1 or chat=1:2s/50ms") {
    return Error{ErrorCode::bad_input, "--slo-classes", std::move(what), std::move(expected)};
  };
  std::vector<SloClass> classes;
  double sum = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view whole = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = whole.find('=');
    const std::string_view name = equals == std::string_view::npos ? std::string_view{} : whole.substr(0, equals);
    std::string_view rest = equals == std::string_view::npos ? whole : whole.substr(equals + 1);
    const std::size_t colon = rest.find(':'), slash = rest.find('/');
    if (colon == std::string_view::npos || slash == std::string_view::npos || slash < colon || whole.starts_with('='))
      return wrong("'" + excerpt(whole) + "' is no class");
    SloClass one{.name = std::string{name}, .share = 0, .slo = {}};
    if (const std::size_t second = rest.find(':', slash); second != std::string_view::npos) {
      const std::string_view priority = rest.substr(second + 1);
      const auto [stop, failed] = std::from_chars(priority.data(), priority.data() + priority.size(), one.priority);
      if (failed != std::errc{} || stop != priority.data() + priority.size())
        return wrong("the priority of '" + excerpt(whole) + "' is '" + excerpt(priority) + "'",
                     "a whole number, such as -1: the lowest is served first");
      rest = rest.substr(0, second);
    }
    const auto [stop, failed] = std::from_chars(rest.data(), rest.data() + colon, one.share);
    if (failed != std::errc{} || stop != rest.data() + colon || !(one.share > 0) || one.share > 1)
      return wrong("the share of '" + excerpt(whole) + "' is '" + excerpt(rest.substr(0, colon)) + "'",
                   "a share of the requests, above 0 and at most 1");
    for (const auto& [time, into] : {std::pair{rest.substr(colon + 1, slash - colon - 1), &one.slo.ttft},
                                     {rest.substr(slash + 1), &one.slo.tbt}}) {
      const std::optional<Seconds> read = detail::read_short_time(time);
      if (!read) return wrong("'" + excerpt(time) + "' is no time", "a number above 0 with s or ms, such as 50ms");
      *into = *read;
    }
    if (one.slo.tbt > slowest_tbt)
      return wrong("the TBT SLO of '" + excerpt(whole) + "' is " + short_time(one.slo.tbt) + " per token",
                   "TTFT first, then TBT, which is at most " + short_time(slowest_tbt));
    if (one.name.empty()) one.name = label_of(one);
    for (const SloClass& other : classes) {
      if (other.has(one.slo, one.priority))
        return wrong("two classes have the SLO " + label_of(one),
                     "each SLO once, with the sum of their shares, or with several priorities");
      if (other.name == one.name) return wrong("two classes are named " + excerpt(one.name), "each name once");
    }
    sum += one.share;
    classes.push_back(std::move(one));
  }
  if (classes.size() > most_slo_classes)
    return wrong("there are " + std::to_string(classes.size()),
                 "at most " + std::to_string(most_slo_classes) + ": each is a table of its own");
  if (std::fabs(sum - 1) > 1e-6) {
    char told[32];
    std::snprintf(told, sizeof told, "%.6g", sum);
    return wrong(std::string{"the shares sum to "} + told, "shares that sum to 1");
  }
  return classes;
}

SLUICE_INLINE SloDraws::SloDraws(std::vector<SloClass> classes, std::uint64_t seed)
    : classes_(std::move(classes)), random_(seed ^ 0x510c1a55u) {}

SLUICE_INLINE const SloClass& SloDraws::next() {
  SLUICE_ASSERT(!none(), "at least one class");
  double draw = random_.uniform();
  for (const SloClass& one : std::span{classes_}.first(classes_.size() - 1)) {
    if (draw < one.share) return one;
    draw -= one.share;
  }
  return classes_.back(); // also covers rounding errors
}

SLUICE_INLINE std::optional<std::vector<SloClass>> slo_classes_of(std::span<const RequestSpec> requests) {
  std::vector<SloClass> classes;
  for (const RequestSpec& request : requests) {
    const auto known = std::find_if(classes.begin(), classes.end(),
                                    [&](const SloClass& one) { return one.has(request.slo, request.priority); });
    if (known != classes.end()) {
      known->share += 1;
      continue;
    }
    if (classes.size() == most_slo_classes) return std::nullopt;
    classes.push_back({.name = {}, .share = 1, .slo = request.slo, .priority = request.priority});
  }
  for (SloClass& one : classes) {
    one.name = label_of(one);
    one.share /= static_cast<double>(requests.size());
  }
  std::sort(classes.begin(), classes.end(), [](const SloClass& a, const SloClass& b) {
    return std::tuple{a.slo.ttft, a.slo.tbt, a.priority} < std::tuple{b.slo.ttft, b.slo.tbt, b.priority};
  });
  return classes;
}

} // namespace sluice
