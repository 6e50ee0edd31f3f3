// SPDX-License-Identifier: Apache-2.0
// Moves: what a commit transfers over the link, and what the iteration rebuilds.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/transfer/pipeline.hpp"
#include "sluice/state/memory/holding.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// What the next iteration moves, apart from streamed weights. Doubles are layer blocks in the evaluator's unit.
struct Moves {
  std::vector<LayerStream> streams;  ///< fetched layer by layer; returning weights come last
  std::vector<Slot> stream_slots;    ///< the requests of the streams, for observers that replay iterations
  std::vector<RebuiltWork> rebuilds; ///< K and V that the iteration rebuilds
  double urgent_blocks = 0;          ///< to the device before any prefetch
  double first_blocks = 0;           ///< how many of these must arrive before the first layer starts (a whole swap-in)
  double written_blocks = 0;         ///< to the host by the end of the iteration: the prompts' KV of offloaded layers
  double returned_blocks = 0;        ///< weights among the streams that return to the device for good
  LayerBlocks leaving{0};            ///< evicted: on the device until they have crossed the link
  LayerBlocks due{0};                ///< evicted, now or earlier, that must have crossed by the end of the iteration
  LayerBlocks arriving{0};           ///< fetched for good: the ledger already counts their room as used
  LayerBlocks to_device{0};          ///< everything fetched, for observers
  LayerBlocks to_host{0};            ///< everything written out, for observers
  LayerBlocks from_tier{0};          ///< the part of `to_device` that the tier below the device had
  LayerBlocks to_tier{0};            ///< the part of `to_host` that it gets

  void clear() {
    streams.clear();
    stream_slots.clear();
    rebuilds.clear();
    nothing();
    returned_blocks = 0;
  }
  /// A steady step moves nothing.
  void nothing() {
    leaving = due = arriving = to_device = to_host = from_tier = to_tier = LayerBlocks{0};
    urgent_blocks = first_blocks = written_blocks = 0;
  }
  [[nodiscard]] bool moves_nothing() const {
    return streams.empty() && rebuilds.empty() && leaving.count() == 0 && urgent_blocks <= 0 && written_blocks <= 0;
  }
  /// Names a stream for every slot: in real time everything that moves is a stream, not only the plan's.
  void name_every_stream(std::size_t slots) {
    for (std::size_t slot = stream_slots.size(); slot < slots; ++slot)
      stream_slots.push_back(Slot{static_cast<std::uint32_t>(slot)});
  }
  /// Adds the streams of `blocks` of each layer that `holding` has on the host and the device reads: K and V, or the
  /// hidden states from which they are rebuilt.
  static void stream(std::vector<LayerStream>& streams, const Holding& holding, double blocks, HiddenSize hidden) {
    if (!holding.fetched().empty())
      streams.push_back({holding.host, blocks, holding.written_back ? holding.host : LayerSet{}});
    const LayerSet states = holding.hidden_on_host();
    if (!states.empty()) streams.push_back({states, hidden.blocks(blocks)});
  }
};

} // namespace sluice
