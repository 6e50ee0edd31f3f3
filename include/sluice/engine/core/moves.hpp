// SPDX-License-Identifier: Apache-2.0
// Moves: what a commit makes cross the link, and what the iteration rebuilds.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/core/units.hpp"
#include "sluice/cost/work.hpp"
#include "sluice/memory/holding.hpp"
#include "sluice/transfer/pipeline.hpp"

#include <vector>

namespace sluice {

/// What the next iteration moves, apart from the weights that it streams by its plan. Doubles are layer blocks, as the
/// evaluator counts them.
struct Moves {
  std::vector<LayerStream> streams;  ///< fetched layer by layer; returning weights are the last of them
  std::vector<Slot> stream_slots;    ///< whose streams they are, for observers that replay iterations
  std::vector<RebuiltWork> rebuilds; ///< K and V that the iteration makes again
  double urgent_blocks = 0;          ///< to the device before any prefetch
  double first_blocks = 0;           ///< of these, before the first layer starts (a whole swap-in)
  double written_blocks = 0;         ///< to the host by the end: what prompts compute for offloaded layers
  double returned_blocks = 0;        ///< of the streams: weights that come back to the device for good
  LayerBlocks leaving{0};            ///< evicted: on the device until they have crossed
  LayerBlocks arriving{0};           ///< fetched for good: the ledger counts their room as used already
  LayerBlocks to_device{0};          ///< everything that is fetched, for observers
  LayerBlocks to_host{0};            ///< everything that is written out, for observers

  void clear() {
    streams.clear();
    stream_slots.clear();
    rebuilds.clear();
    nothing();
    returned_blocks = 0;
  }
  /// A steady step moves nothing.
  void nothing() {
    leaving = arriving = to_device = to_host = LayerBlocks{0};
    urgent_blocks = first_blocks = written_blocks = 0;
  }
  /// `blocks` of each layer that `holding` has on the host are fetched in every iteration: K and V, or the hidden
  /// states from which they are rebuilt.
  static void stream(std::vector<LayerStream>& streams, const Holding& holding, double blocks, HiddenSize hidden) {
    if (!holding.host.empty())
      streams.push_back({holding.host, blocks, holding.written_back ? holding.host : LayerSet{}});
    if (!holding.hidden.empty()) streams.push_back({holding.hidden, hidden.blocks(blocks)});
  }
};

} // namespace sluice
