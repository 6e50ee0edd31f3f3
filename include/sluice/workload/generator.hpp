// SPDX-License-Identifier: Apache-2.0
// Generator: a random workload as a TraceReader, and the presets.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/workload/distributions.hpp"
#include "sluice/workload/reader.hpp"

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

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/generator.inl.hpp"
#endif
