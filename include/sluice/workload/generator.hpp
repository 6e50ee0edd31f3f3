// SPDX-License-Identifier: Apache-2.0
// Generator: a random workload as a TraceReader, the presets, and parse_generator for the text of `--generate`.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/text.hpp"
#include "sluice/workload/distributions.hpp"
#include "sluice/workload/reader.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// The workload to generate.
struct GeneratorSpec {
  std::string name = "generated";
  ArrivalProcess arrivals;
  LengthDistribution prompt = FixedLength{};
  LengthDistribution output = FixedLength{};
  std::int64_t requests = 1;
  Tokens longest{131'072}; ///< maximum tokens of a prompt, and of an output

  friend bool operator==(const GeneratorSpec&, const GeneratorSpec&) = default;
};

/// Returns an error if the workload cannot be generated; the message begins with `where`.
Status check(const GeneratorSpec& spec, const std::string& where);

/// Draws requests; the first one arrives at 0.
///
/// Gaps, prompts and outputs come from three random generators, whose seeds come from one draw, so a change of the rate
/// does not change the lengths. Gaps are rounded to microseconds and summed as whole numbers: the last bit of log and
/// exp differs between libraries, and would otherwise affect all later arrivals.
class Generator {
 public:
  /// `spec` must have passed `check`.
  Generator(GeneratorSpec spec, std::uint64_t seed) : Generator(std::move(spec), Random{seed}) {}

  Expected<std::optional<RequestSpec>> next();

  [[nodiscard]] const GeneratorSpec& spec() const { return spec_; }

 private:
  Generator(GeneratorSpec spec, Random root);

  GeneratorSpec spec_;
  Random gaps_;
  Random prompts_;
  Random outputs_;
  std::int64_t made_ = 0;
  std::int64_t microseconds_ = 0;
};

static_assert(TraceReader<Generator>);

/// Returns a ShareGPT-like workload: mean prompt 222 and mean output 1,346 tokens (eLLM, section 6.1). The papers do
/// not state the spread: CV 1 is an assumption, and so is the longest length of 32,384 (OrbitFlow's limit for a batch,
/// section 4).
GeneratorSpec sharegpt_like();

/// Returns a workload like L-Eval (L-Eval's paper assistant): mean prompt 35,956 and mean output 5,189 tokens (eLLM,
/// section 6.1). The spread is an assumption, as above: CV 0.5, since long documents have similar lengths.
GeneratorSpec leval_like();

/// Returns the demo workload: short, medium and long requests, mixed as in OrbitFlow (Fig. 7), at a rate that keeps
/// four of them in flight most of the time. With `demo_batch` and `demo_budget` their KV cache exceeds the device's
/// memory.
GeneratorSpec demo_workload();

/// The demo's server: OrbitFlow's batch of 4, and a budget similar to its traces'.
inline constexpr std::int64_t demo_batch = 4;
inline constexpr TokenBlocks demo_budget{600};

// parse_generator: reads the text of `--generate`.

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
#include "sluice/workload/generator.inl.hpp"
#endif
