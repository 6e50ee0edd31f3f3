// SPDX-License-Identifier: Apache-2.0
// SharedBlocks: which of the device's token blocks requests hold, by number, for a real backend that shares them.
// BlockNames: the keys by which it lets requests find them.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/workload/content.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// The engine's prefix cache, as a machine that carries it out sees it before an iteration. A number names a token block
/// of all layers; the machine knows where their bytes are.
struct SharedBlocks {
  /// A request's blocks in the order of its tokens, and how many of them, from the first on, can be found by others.
  /// When it joins, those are the ones that it has found itself.
  struct Table {
    std::span<const std::uint32_t> numbers;
    std::size_t sealed = 0;
  };

  const void* of = nullptr; ///< null: requests share no blocks on the device
  Table (*table)(const void* of, Slot slot) = nullptr;
  std::span<const std::uint32_t> taken{}; ///< since the last iteration: their content will be overwritten
  bool taken_go_to_host = false;          ///< before they are (`Writes::evicted`)

  [[nodiscard]] bool exist() const { return of != nullptr; }
  [[nodiscard]] Table held(Slot slot) const { return table(of, slot); }
};

/// Keys of blocks by the tokens that they hold, which only a backend that has tokens knows.
struct BlockNames {
  void* of = nullptr; ///< null: the engine is told the keys of prompts, and makes up those of answers
  /// Adds to `keys`, which has the keys of a request's first blocks, those that follow, up to `count` in all, as far as
  /// the request and its tokens are known.
  void (*name)(void* of, RequestId id, std::size_t count, std::vector<BlockKey>& keys) = nullptr;
};

/// `P` is a real backend whose device keeps the blocks of requests that have left, until their numbers are taken
/// (`Iteration::shared`), and names blocks.
template <class P>
concept KeepsReleased = requires(const P& backend) {
  requires bool(P::keeps_released);
  requires std::same_as<decltype(backend.block_names()), BlockNames>;
};

} // namespace sluice
