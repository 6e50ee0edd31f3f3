// SPDX-License-Identifier: Apache-2.0
// needs_equal_layers: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/engine/submit.hpp"

namespace sluice {

[[gnu::cold]] SLUICE_INLINE std::string in_words(const KvBlocks& kv, int layers) {
  std::string words;
  for (const KvPart& part : kv.parts()) {
    words += words.empty() ? std::to_string(part.layers.count()) + " of " + std::to_string(layers) + " layers keep "
                           : ", " + std::to_string(part.layers.count()) + " ";
    words += part.keep == KvRule::unlimited ? "all blocks"
             : part.keep == 1               ? "the newest block"
                                            : "at most " + std::to_string(part.keep) + " blocks";
  }
  return words;
}

[[gnu::cold]] SLUICE_INLINE Error detail::unequal_layers(const char* why, const KvBlocks& kv, int layers) {
  return {ErrorCode::unsupported, "engine configuration",
          std::string{why} + ", and this model's layers are not alike: " + in_words(kv, layers) + " of a request",
          "policies that move whole requests or layers that only grow, or a model whose layers are alike"};
}

} // namespace sluice
