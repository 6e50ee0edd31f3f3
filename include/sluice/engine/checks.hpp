// SPDX-License-Identifier: Apache-2.0
// Checks: what an engine is made from and what is submitted to it, whatever its policies.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/memory/holding.hpp"
#include "sluice/memory/ledger.hpp"
#include "sluice/view/view.hpp"
#include "sluice/workload/request.hpp"

#include <string>
#include <utility>

// Functions and not members of the engine: their texts were an eighth of the code of every engine type.
namespace sluice::detail {

[[nodiscard]] inline Status check_setup(const Limits& limits, const Geometry& geometry, LayerBlocks device_blocks,
                                        LayerBlocks host_blocks) {
  const auto bad = [](std::string what, std::string expected) {
    return Error{ErrorCode::bad_input, "engine configuration", std::move(what), std::move(expected)};
  };
  if (geometry.layers < 1 || geometry.layers > max_layers)
    return bad("the model has " + std::to_string(geometry.layers) + " layers", "1 to " + std::to_string(max_layers));
  if (geometry.layer_block_bytes.count() <= 0) return bad("a layer block has no bytes", "a positive size");
  if (limits.batch < 1) return bad("the batch limit is " + std::to_string(limits.batch), "at least 1");
  if (limits.batch_tokens.count() < 1)
    return bad("the token budget is " + std::to_string(limits.batch_tokens.count()), "at least 1");
  if (limits.block_tokens.count() < 1)
    return bad("a block holds " + std::to_string(limits.block_tokens.count()) + " tokens", "at least 1");
  if (device_blocks.count() < geometry.layers)
    return bad("there is device memory for " + std::to_string(device_blocks.count()) + " layer blocks of KV",
               "at least one block of each of the " + std::to_string(geometry.layers) + " layers");
  if (host_blocks.count() < 0) return bad("the host memory for KV is negative", "at least 0");
  return {};
}

[[nodiscard]] inline Error refusal(ErrorCode code, RequestId id, std::string what, std::string expected) {
  return {code, "request " + std::to_string(index(id)), std::move(what), std::move(expected)};
}

[[nodiscard]] inline Status check_length(RequestId id, const RequestSpec& spec, const Limits& limits) {
  if (spec.prompt.count() < 1 || spec.output.count() < 1)
    return refusal(ErrorCode::bad_input, id, "it has no prompt or no output", "at least one token of each");
  const Tokens context = spec.prompt + spec.output;
  if (context > limits.max_context)
    return refusal(ErrorCode::infeasible, id, "its " + std::to_string(context.count()) + " tokens exceed the context",
                   "at most " + std::to_string(limits.max_context.count()) + " tokens");
  return {};
}

/// `room`: the least that it takes at its longest, blocks in flight included.
[[nodiscard]] inline Status check_room(RequestId id, Footprint room, const Ledger& ledger) {
  const auto no_room = [id](LayerBlocks takes, LayerBlocks there_are, const char* memory) {
    return refusal(ErrorCode::out_of_memory, id,
                   "its KV takes " + std::to_string(takes.count()) + " layer blocks of " + memory + " memory",
                   "at most " + std::to_string(there_are.count()));
  };
  if (room.device > ledger.device().capacity()) return no_room(room.device, ledger.device().capacity(), "device");
  if (room.host > ledger.host().capacity()) return no_room(room.host, ledger.host().capacity(), "host");
  return {};
}

} // namespace sluice::detail
