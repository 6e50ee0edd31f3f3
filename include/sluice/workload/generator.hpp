// SPDX-License-Identifier: Apache-2.0
// Generator: a random workload as a TraceReader, and the presets.
#pragma once

#include "sluice/workload/distributions.hpp"
#include "sluice/workload/reader.hpp"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

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
inline Status check(const GeneratorSpec& spec, const std::string& where) {
  if (spec.requests < 1 || spec.requests > 1'000'000'000) {
    return Error{ErrorCode::bad_input, where, "the number of requests is " + std::to_string(spec.requests),
                 "a whole number from 1 to 1000000000"};
  }
  if (spec.longest.count() < 1 || spec.longest.count() > max_request_tokens) {
    return Error{ErrorCode::bad_input, where, "the longest length is " + std::to_string(spec.longest.count()),
                 "a whole number from 1 to " + std::to_string(max_request_tokens)};
  }
  if (Status status = check(spec.arrivals, where); !status) return status;
  if (Status status = check(spec.prompt, spec.longest, where + " prompt"); !status) return status;
  return check(spec.output, spec.longest, where + " output");
}

/// Draws requests; the first one arrives at 0.
///
/// Gaps, prompts and outputs come from three random generators, whose seeds come from one draw, so a change of the rate
/// does not change the lengths. Gaps are rounded to microseconds and summed as whole numbers: the last bit of log and
/// exp differs between libraries, and would otherwise affect all later arrivals.
class Generator {
 public:
  /// `spec` must have passed `check`.
  Generator(GeneratorSpec spec, std::uint64_t seed) : Generator(std::move(spec), Random{seed}) {}

  Expected<std::optional<RequestSpec>> next() {
    if (made_ == spec_.requests) return std::optional<RequestSpec>{};
    if (made_ > 0) {
      const double gap = std::round(draw_gap(gaps_, spec_.arrivals) * 1e6);
      constexpr double end = 1e18; // microseconds: 30,000 years
      if (!(static_cast<double>(microseconds_) + gap < end)) {
        return Error{ErrorCode::bad_input, spec_.name, "the arrivals run out of time", "fewer requests, a higher rate"};
      }
      microseconds_ += static_cast<std::int64_t>(gap);
    }
    ++made_;
    RequestSpec request;
    request.arrival = Seconds{static_cast<double>(microseconds_) * 1e-6};
    request.prompt = draw_length(prompts_, spec_.prompt, spec_.longest);
    request.output = draw_length(outputs_, spec_.output, spec_.longest);
    return std::optional{request};
  }

  [[nodiscard]] const GeneratorSpec& spec() const { return spec_; }

 private:
  Generator(GeneratorSpec spec, Random root)
      : spec_(std::move(spec)), gaps_(root()), prompts_(root()), outputs_(root()) {
    SLUICE_ASSERT(check(spec_, spec_.name).ok(), "a spec that passed check()");
  }

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
inline GeneratorSpec sharegpt_like() {
  return {.name = "sharegpt",
          .arrivals = {ArrivalKind::poisson, 1.0, 1.0},
          .prompt = LognormalLength{222.0, 1.0},
          .output = LognormalLength{1346.0, 1.0},
          .requests = 300,
          .longest = Tokens{32'384}};
}

/// Returns a workload like L-Eval (L-Eval's paper assistant): mean prompt 35,956 and mean output 5,189 tokens (eLLM,
/// section 6.1). The spread is an assumption, as above: CV 0.5, since long documents have similar lengths.
inline GeneratorSpec leval_like() {
  return {.name = "leval",
          .arrivals = {ArrivalKind::poisson, 0.1, 1.0},
          .prompt = LognormalLength{35'956.0, 0.5},
          .output = LognormalLength{5'189.0, 0.5},
          .requests = 100,
          .longest = Tokens{262'144}};
}

/// Returns the demo workload: short, medium and long requests, mixed as in OrbitFlow (Fig. 7), at a rate that keeps
/// four of them in flight most of the time. With `demo_batch` and `demo_budget` their KV cache exceeds the device's
/// memory.
inline GeneratorSpec demo_workload() {
  const BinnedLength lengths{{{0.35, {Tokens{96}, Tokens{608}}},
                              {0.40, {Tokens{1'600}, Tokens{2'448}}},
                              {0.25, {Tokens{3'264}, Tokens{4'912}}}}};
  return {.name = "demo",
          .arrivals = {ArrivalKind::gamma, 0.03, 1.5},
          .prompt = lengths,
          .output = lengths,
          .requests = 60,
          .longest = Tokens{131'072}};
}

/// The demo's server: OrbitFlow's batch of 4, and a budget similar to its traces'.
inline constexpr std::int64_t demo_batch = 4;
inline constexpr TokenBlocks demo_budget{600};

} // namespace sluice
