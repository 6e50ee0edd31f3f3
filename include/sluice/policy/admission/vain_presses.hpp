// SPDX-License-Identifier: Apache-2.0
// VainPresses: which requests have pressed in vain, and need not be tried again while the batch is the same.
#pragma once

#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// A part of admission policies whose claims press. Only a plan tells whether the payer's room suffices, because layers
/// may go to the host, and a claim that presses in vain costs up to three plans. So the outcome of the last iteration
/// is remembered: the one that pressed does not run, nor has the payer stopped. While nobody leaves or joins, the batch
/// only grows, and no request of that size or more would find room on the same payer.
///
/// Rejected: comparing the sizes of both with the free memory. It forbids pressing where layers on the host make room.
class VainPresses {
 public:
  /// Looks at what became of the last claim. Call it once for each proposal, before the others.
  void look_back(const View& view) {
    const Batch batch{view.running.size(), view.preempted.size(),
                      view.running.empty() ? RequestId{} : view.row(view.running.back()).id};
    const bool changed = batch != batch_;
    batch_ = batch;
    const bool ran = pressed_ && view.step == step_ + 1; // else the proposal was discarded
    pressed_ = false;
    if (changed) known_.clear(); // whoever left in the iteration of the claim made room, too
    if (changed || !ran) return;
    const RequestRow &comes = view.row(comes_), &pays = view.row(pays_); // unless these rows have new requests
    if (comes.id != last_ || pays.id != tried_.pays || pays.phase != Phase::running) return;
    if (comes.phase == Phase::waiting || comes.phase == Phase::preempted) known_.push_back(tried_);
  }
  /// Remembers a pressing claim of this proposal.
  void pressed(const View& view, Slot comes, Slot pays) {
    pressed_ = true;
    step_ = view.step;
    comes_ = comes;
    pays_ = pays;
    last_ = view.row(comes).id;
    tried_ = {view.row(pays).id, view.row(comes).context()};
  }
  /// Whether a request of this one's size, or a smaller one, has pressed on this payer in vain, with the same batch.
  [[nodiscard]] bool in_vain(const RequestRow& comes, const RequestRow& pays) const {
    return std::any_of(known_.begin(), known_.end(),
                       [&](const Tried& one) { return one.pays == pays.id && comes.context() >= one.size; });
  }

 private:
  struct Tried {
    RequestId pays{};
    Tokens size{};
  };
  struct Batch {
    std::size_t running = 0, paused = 0;
    RequestId newest{}; ///< the last that joined
    friend bool operator==(const Batch&, const Batch&) = default;
  };
  std::vector<Tried> known_;
  Tried tried_;           ///< of the last proposal that pressed
  RequestId last_{};      ///< the request that pressed there
  Slot comes_{}, pays_{}; ///< their rows
  bool pressed_ = false;  ///< whether the last proposal did
  std::int64_t step_ = -1;
  Batch batch_;
};

} // namespace sluice
