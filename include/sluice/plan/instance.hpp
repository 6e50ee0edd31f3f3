// SPDX-License-Identifier: Apache-2.0
// Instance: one planning problem, as plain numbers.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/units.hpp"
#include "sluice/plan/weight_stream.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// A request of an instance.
struct InstanceRequest {
  LayerBlocks blocks{0};    ///< of one layer, at the plan's first step; ignored where `tokens` is set
  Tokens tokens{0};         ///< of KV at the plan's first step, growing by one a step; 0: it stays at `blocks`
  std::int64_t deposit = 0; ///< tokens generated and not yet released to the user
  double slo_s = std::numeric_limits<double>::infinity(); ///< a token is owed every `slo_s`; infinite: none is

  friend bool operator==(const InstanceRequest&, const InstanceRequest&) = default;
};

/// A planning problem: which layers of which requests are offloaded, so that the next iteration is shortest, memory
/// holds, and the SLO holds. Blocks are layer blocks throughout, layers are counted from 0.
///
/// Reused by whoever plans every step: its vectors keep their capacity.
struct Instance {
  std::vector<double> layer_compute_s; ///< one per layer, > 0
  double before_s = 0;                 ///< computed before the first layer
  double after_s = 0;                  ///< computed after the last
  double on_link = 0;                  ///< share of all that time that needs the link as well (`contended`), in [0, 1)
  double link_blocks_per_s = 1;        ///< > 0
  double link_per_layer_s = 0;         ///< link time of a layer's transfer beside its blocks
  LayerBlocks device_blocks{0};        ///< the KV budget, resident and in flight together
  Tokens block_tokens{16};
  std::vector<InstanceRequest> requests;
  WeightStream weights;           ///< streamed whatever the plan; they have slots of their own
  double alpha = 1;               ///< misses per step allowed, on average over the window
  int paused_without_deposit = 0; ///< each is a miss in every step
  int window_min = 1;             ///< steps that the plan must hold
  int window_max = 1;             ///< steps beyond which nobody asks
  int iterations = 1;             ///< run back to back from cold; the objective is their mean
  double deadline_s = std::numeric_limits<double>::infinity(); ///< for the solver; infinite: until proven
  /// For the solver, in search nodes: as `deadline_s`, and the same on every machine. The engine's simulator plans with
  /// it.
  std::int64_t node_limit = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] int layers() const { return static_cast<int>(layer_compute_s.size()); }
  [[nodiscard]] bool has_slo() const {
    for (const InstanceRequest& request : requests)
      if (std::isfinite(request.slo_s)) return true;
    return false;
  }
  /// Layer blocks of a request per layer, `step` steps after the first.
  [[nodiscard]] double blocks_at(std::size_t request, int step) const {
    const InstanceRequest& r = requests[request];
    if (r.tokens.count() <= 0) return static_cast<double>(r.blocks.count());
    return static_cast<double>(blocks_for(r.tokens + Tokens{step}, block_tokens).count());
  }
  /// Blocks of all layers of all requests at the first step.
  [[nodiscard]] double total_blocks() const {
    double sum = 0;
    for (std::size_t r = 0; r < requests.size(); ++r) sum += blocks_at(r, 0);
    return sum * layers();
  }
};

/// What the planner may start from: the last plan's choice, one set per request of the instance, or nothing. It changes
/// how soon the optimum is found, never which cost is returned as proven.
struct Hint {
  std::span<const LayerSet> offloaded;
};

/// Says in one line what is wrong with an instance, or that nothing is. Solvers expect a checked one.
inline Status check(const Instance& instance) {
  const auto bad = [](const char* where, const std::string& what, const char* expected) {
    return Status{Error{ErrorCode::bad_input, where, what, expected}};
  };
  const auto is_amount = [](double value) { return std::isfinite(value) && value >= 0; };
  if (instance.layers() < 1 || instance.layers() > max_layers)
    return bad("layers", "there are " + std::to_string(instance.layers()),
               ("1 to " + std::to_string(max_layers)).c_str());
  for (const double seconds : instance.layer_compute_s)
    if (!std::isfinite(seconds) || seconds <= 0)
      return bad("layer_compute_s", "a layer takes " + std::to_string(seconds) + " s", "a finite number above 0");
  if (!is_amount(instance.before_s) || !is_amount(instance.after_s))
    return bad("before_s, after_s", "a time is negative or not finite", "finite numbers of at least 0");
  if (!(instance.on_link >= 0 && instance.on_link < 1))
    return bad("on_link", "the share is " + std::to_string(instance.on_link), "a share from 0 to below 1");
  if (!std::isfinite(instance.link_blocks_per_s) || instance.link_blocks_per_s <= 0)
    return bad("link_blocks_per_s", "the rate is " + std::to_string(instance.link_blocks_per_s),
               "a finite number above 0");
  if (!is_amount(instance.link_per_layer_s))
    return bad("link_per_layer_s", "the latency is " + std::to_string(instance.link_per_layer_s),
               "a finite number of at least 0");
  if (instance.device_blocks < LayerBlocks{0})
    return bad("device_blocks", "the budget is negative", "a whole number of at least 0");
  if (instance.block_tokens < Tokens{1})
    return bad("block_tokens", "a block holds no token", "a whole number of at least 1");
  for (const InstanceRequest& request : instance.requests) {
    if (request.blocks < LayerBlocks{0} || request.tokens < Tokens{0} || request.deposit < 0)
      return bad("requests", "a count is negative", "blocks, tokens and deposit of at least 0");
    if (!(request.slo_s > 0)) return bad("slo_s", "the SLO is " + std::to_string(request.slo_s), "a number above 0");
  }
  if (!instance.weights.empty()) {
    if (!std::isfinite(instance.weights.blocks) || instance.weights.blocks <= 0)
      return bad("weights", "a streamed layer has " + std::to_string(instance.weights.blocks) + " blocks",
                 "a finite number above 0");
    if (instance.weights.layers.highest() >= instance.layers())
      return bad("weights", "a layer that the model does not have is streamed", "layers of the model");
    if (instance.weights.slots < 1)
      return bad("weights", "there are " + std::to_string(instance.weights.slots) + " slots", "at least 1");
  }
  if (!is_amount(instance.alpha))
    return bad("alpha", "it is " + std::to_string(instance.alpha), "a finite number of at least 0");
  if (instance.paused_without_deposit < 0)
    return bad("paused", "the number is negative", "a whole number of at least 0");
  if (instance.window_min < 1 || instance.window_max < instance.window_min)
    return bad("window",
               "it is [" + std::to_string(instance.window_min) + ", " + std::to_string(instance.window_max) + "]",
               "[min, max] with 1 <= min <= max");
  if (instance.iterations < 1)
    return bad("iterations", "there are " + std::to_string(instance.iterations), "at least 1");
  if (!(instance.deadline_s >= 0)) return bad("deadline", "it is negative or not a number", "a number of at least 0");
  return {};
}

} // namespace sluice
