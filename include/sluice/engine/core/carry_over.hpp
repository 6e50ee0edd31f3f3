// SPDX-License-Identifier: Apache-2.0
// CarryOver: what the next step may take over from the last one: its decision, and blocks fetched early.
#pragma once

#include <utility>

namespace sluice {

/// The only writer of two facts about the last step: whether its decision stands (`steady`), and whether what was
/// fetched early for the next one is stale. Each function is an event that changes them.
class CarryOver {
 public:
  /// In the last iteration every request decoded and nothing moved, and nothing has happened since.
  [[nodiscard]] bool steady() const { return steady_; }

  /// The next iteration gets a decision of its own.
  void deciding() { steady_ = false; }
  /// An iteration has run. `steady`: the next one would decide the same (engine/steady_steps.hpp).
  void ran(bool steady) { steady_ = steady; }
  /// The engine was copied: the copy has nothing prepared, and decides its next step.
  void forked() { steady_ = false; }
  /// A request arrives.
  void request_entered() { steady_ = false; }
  /// A request has ended, failed or was cancelled. `fetches`: the last commit, or plan applied, fetches layers.
  void request_left(bool fetches) {
    steady_ = false;
    stale_prefetches_ = stale_prefetches_ || fetches;
  }
  /// The committed batch, plan or weights differ from those that blocks were fetched for.
  void batch_changed() { stale_prefetches_ = true; }
  /// Other engines of the node have the memory of more or fewer layers.
  void lent_layers_changed() { steady_ = false; }
  /// The engine has no request, and its KV memory changed.
  void memory_resized() {
    steady_ = false;
    stale_prefetches_ = true;
  }
  /// Whether the evaluator's state must forget what was fetched early; answers true once.
  [[nodiscard]] bool take_stale_prefetches() { return std::exchange(stale_prefetches_, false); }

 private:
  bool steady_ = false;
  bool stale_prefetches_ = false; ///< blocks were fetched early for another batch or plan
};

} // namespace sluice
