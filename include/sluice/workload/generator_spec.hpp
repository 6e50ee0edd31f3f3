// SPDX-License-Identifier: Apache-2.0
// parse_generator: reads the text of `--generate`.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/text.hpp"
#include "sluice/workload/generator.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// The syntax that `parse_generator` accepts, for help texts.
inline constexpr std::string_view generator_help =
    "demo | sharegpt | leval | poisson | gamma | lognormal | even, then :key=value,... with rate (requests/s), "
    "requests, "
    "cv, prompt, output, longest; lengths as 512, uniform(96,144), lognormal(mean,cv) or "
    "bins(weight:least-most;weight:least-most); or sessions | chat | agents, then :key=value,... with rate "
    "(sessions/s), sessions, turns, first, growth, output, system, systems, tool, user, tools, compact, cv, longest";

namespace detail {

inline constexpr const char* generator_flag = "--generate";

Error generator_error(std::string what, std::string expected);

/// Splits at `separator` outside parentheses.
std::vector<std::string_view> split_outside_parentheses(std::string_view text, char separator);

Expected<double> generator_number(std::string_view key, std::string_view text);

Expected<std::int64_t> generator_whole(std::string_view key, std::string_view text);

/// "512", "uniform(96,144)", "lognormal(1024,1.0)" or "bins(…)".
Expected<LengthDistribution> parse_lengths(std::string_view key, std::string_view text);

/// Calls `apply(key, value)` for each `key=value` of a list until one is wrong. A key may appear only once.
template <class Apply>
Status parse_generator_keys(std::string_view list, std::vector<std::string_view>& given, Apply&& apply) {
  for (const std::string_view part : split_outside_parentheses(list, ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    if (equals == std::string_view::npos) return generator_error("'" + excerpt(part) + "' has no value", "key=value");
    if (std::find(given.begin(), given.end(), key) != given.end())
      return generator_error(excerpt(key) + " appears twice", "every key once");
    if (Status status = apply(key, part.substr(equals + 1)); !status) return status;
    given.push_back(key);
  }
  return {};
}

/// Parses into `value`, which stays unchanged if the text is wrong.
template <class Value>
Status parse_into(Value& value, Expected<Value> parsed) {
  if (!parsed) return parsed.error();
  value = *std::move(parsed);
  return {};
}

} // namespace detail

/// Parses a text that describes a workload: `demo`, `sharegpt:rate=1.5,requests=300,cv=2`, or
/// `poisson:rate=2,requests=200,prompt=lognormal(1024,1.0),output=lognormal(128,0.8)`.
///
/// Presets have a default for every key. The plain kinds need rate, requests, prompt and output; gamma and lognormal
/// also need cv. A cv makes a preset's arrivals gamma. Errors begin with `--generate`.
Expected<GeneratorSpec> parse_generator(std::string_view text);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/generator_spec.inl.hpp"
#endif
