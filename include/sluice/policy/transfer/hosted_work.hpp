// SPDX-License-Identifier: Apache-2.0
// hosted_work: decodes that the host attends, with the bytes that their attention reads and exchanges.
#pragma once

#include "sluice/policy/cost/work.hpp"
#include "sluice/state/view/view.hpp"

#include <cstdint>
#include <span>

namespace sluice {

/// Decodes with these contexts. Queries and outputs count as wide as hidden states, which heads together usually are.
[[nodiscard]] inline HostedWork hosted_work(const Geometry& geometry, std::span<const Tokens> contexts,
                                            Tokens block_tokens) {
  const std::int64_t kv = geometry.layer_block_bytes.count();
  return {contexts, Bytes{kv / block_tokens.count()},
          Bytes{(kv + 2 * geometry.layer_hidden_bytes.count()) / block_tokens.count()}};
}

} // namespace sluice
