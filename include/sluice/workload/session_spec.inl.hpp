// SPDX-License-Identifier: Apache-2.0
// parse_sessions: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/workload/generator_spec.hpp"
#include "sluice/workload/session_spec.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sluice::detail {

/// "20" or "lognormal(20,1.5)", in seconds.
inline Expected<DelayDistribution> parse_delay(std::string_view key, std::string_view text) {
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos) {
    const Expected<double> seconds = generator_number(key, text);
    if (!seconds) return seconds.error();
    return DelayDistribution{*seconds, 0};
  }
  const std::string_view kind = text.substr(0, open);
  const std::vector<std::string_view> numbers =
      split_outside_parentheses(text.substr(open + 1, text.size() - std::min(text.size(), open + 2)), ',');
  if (kind != "lognormal" || text.back() != ')' || numbers.size() != 2)
    return generator_error(std::string{key} + " is '" + excerpt(text) + "'", "seconds, or lognormal(mean,cv)");
  const Expected<double> mean = generator_number(key, numbers[0]);
  if (!mean) return mean.error();
  const Expected<double> cv = generator_number(key, numbers[1]);
  if (!cv) return cv.error();
  return DelayDistribution{*mean, *cv};
}

} // namespace sluice::detail

namespace sluice {

SLUICE_INLINE bool describes_sessions(std::string_view text) {
  const std::string_view kind = text.substr(0, text.find(':'));
  return kind == "sessions" || kind == "chat" || kind == "agents";
}

SLUICE_INLINE Expected<SessionSpec> parse_sessions(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  SessionSpec spec = kind == "chat" ? chat_sessions() : kind == "agents" ? agent_sessions() : SessionSpec{};
  std::vector<std::string_view> given;
  if (colon != std::string_view::npos) {
    const auto apply = [&](std::string_view key, std::string_view value) -> Status {
      using namespace detail;
      const std::pair<std::string_view, double*> numbers[] = {
          {"rate", &spec.arrivals.rate}, {"cv", &spec.arrivals.cv}, {"tools", &spec.tools}, {"compact", &spec.compact}};
      for (const auto& [name, number] : numbers)
        if (key == name) return parse_into(*number, generator_number(key, value));
      const std::pair<std::string_view, LengthDistribution*> lengths[] = {{"turns", &spec.turns},
                                                                          {"first", &spec.first},
                                                                          {"growth", &spec.growth},
                                                                          {"output", &spec.output},
                                                                          {"system", &spec.system}};
      for (const auto& [name, one] : lengths)
        if (key == name) return parse_into(*one, parse_lengths(key, value));
      if (key == "tool" || key == "user")
        return parse_into(key == "tool" ? spec.tool : spec.user, parse_delay(key, value));
      if (key == "sessions" || key == "systems")
        return parse_into(key == "sessions" ? spec.sessions : spec.systems, generator_whole(key, value));
      if (key == "longest") {
        const Expected<std::int64_t> tokens = generator_whole(key, value);
        if (!tokens) return tokens.error();
        spec.longest = Tokens{*tokens};
        return {};
      }
      constexpr std::array<std::string_view, 14> keys{"rate",   "sessions", "cv",      "turns",   "first",
                                                      "growth", "output",   "system",  "systems", "tool",
                                                      "user",   "tools",    "compact", "longest"};
      return generator_error("there is no key '" + excerpt(key) + "'" + did_you_mean(key, keys),
                             "rate, sessions, cv, turns, first, growth, output, system, systems, tool, user, tools, "
                             "compact or longest");
    };
    if (Status parsed = detail::parse_generator_keys(text.substr(colon + 1), given, apply); !parsed)
      return parsed.error();
  }
  const auto has = [&given](std::string_view key) { return std::find(given.begin(), given.end(), key) != given.end(); };
  if (has("cv")) spec.arrivals.kind = ArrivalKind::gamma;
  if (kind == "sessions")
    for (const std::string_view key : {"rate", "sessions", "turns", "first", "growth", "output"})
      if (!has(key))
        return detail::generator_error(std::string{key} + " is missing",
                                       "rate=, sessions=, turns=, first=, growth= and output=");
  if (Status status = check(spec, detail::generator_flag); !status) return status.error();
  return spec;
}

} // namespace sluice
