// SPDX-License-Identifier: Apache-2.0
// The check of an instance.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/math.hpp"
#include "sluice/state/plan/instance.hpp"

#include <string>

namespace sluice {

SLUICE_INLINE Status check(const Instance& instance) {
  const auto bad = [](const char* where, const std::string& what, const char* expected) {
    return Status{Error{ErrorCode::bad_input, where, what, expected}};
  };
  const auto is_amount = [](double value) { return math::isfinite(value) && value >= 0; };
  if (instance.layers() < 1 || instance.layers() > max_layers)
    return bad("layers", "there are " + std::to_string(instance.layers()),
               ("1 to " + std::to_string(max_layers)).c_str());
  for (const double seconds : instance.layer_compute_s)
    if (!math::isfinite(seconds) || seconds <= 0)
      return bad("layer_compute_s", "a layer takes " + std::to_string(seconds) + " s", "a finite number above 0");
  if (!is_amount(instance.before_s) || !is_amount(instance.after_s))
    return bad("before_s, after_s", "a time is negative or not finite", "finite numbers of at least 0");
  if (!(instance.on_link >= 0 && instance.on_link < 1))
    return bad("on_link", "the share is " + std::to_string(instance.on_link), "a share from 0 to below 1");
  if (!math::isfinite(instance.link_blocks_per_s) || instance.link_blocks_per_s <= 0)
    return bad("link_blocks_per_s", "the rate is " + std::to_string(instance.link_blocks_per_s),
               "a finite number above 0");
  if (!is_amount(instance.link_per_layer_s))
    return bad("link_per_layer_s", "the latency is " + std::to_string(instance.link_per_layer_s),
               "a finite number of at least 0");
  if (instance.device_blocks < LayerBlocks{0})
    return bad("device_blocks", "the budget is negative", "a whole number of at least 0");
  if (instance.block_tokens < Tokens{1})
    return bad("block_tokens", "a block holds no token", "a whole number of at least 1");
  if (instance.among.highest() >= instance.layers())
    return bad("among", "a layer that the model does not have may be offloaded", "layers of the model");
  if (instance.units < 1)
    return bad("units", "a token block has " + std::to_string(instance.units) + " layer blocks", "at least 1");
  if (instance.kv != nullptr && instance.among.empty())
    return bad("among", "no layer may be offloaded, and layers keep different amounts", "at least one layer");
  for (const InstanceRequest& request : instance.requests) {
    if (request.blocks < LayerBlocks{0} || request.tokens < Tokens{0} || request.deposit < 0)
      return bad("requests", "a count is negative", "blocks, tokens and deposit of at least 0");
    if (instance.kv != nullptr && request.tokens < Tokens{1})
      return bad("requests", "a request has no tokens, and layers keep different amounts", "tokens of at least 1");
    if (!(request.slo_s > 0)) return bad("slo_s", "the SLO is " + std::to_string(request.slo_s), "a number above 0");
  }
  if (!instance.weights.empty()) {
    if (!math::isfinite(instance.weights.blocks) || instance.weights.blocks <= 0)
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
