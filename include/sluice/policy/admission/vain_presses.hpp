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
/// is remembered: neither the one that pressed runs, nor has the payer stopped. While nobody leaves or joins, the batch
/// only grows, and the same request would press on the same payer in vain again.
///
/// Rejected: comparing the sizes of both with the free memory. It forbids pressing where layers on the host make room.
class VainPresses {
 public:
  /// Looks at what became of the last claim. Call it once for each proposal, before the others.
  void look_back(const View& view) {
    const RequestId newest = view.running.empty() ? RequestId{} : view.row(view.running.back()).id;
    if (view.running.size() != size_ || newest != newest_) known_.clear();
    size_ = view.running.size();
    newest_ = newest;
    const bool ran = pressed_ && view.step == step_ + 1; // else the proposal was discarded
    pressed_ = false;
    if (!ran) return;
    const RequestRow &comes = view.row(comes_), &pays = view.row(pays_); // unless these rows have new requests
    if (comes.id != last_.comes || pays.id != last_.pays || pays.phase != Phase::running) return;
    if (comes.phase == Phase::waiting || comes.phase == Phase::preempted) known_.push_back(last_);
  }
  /// Remembers a pressing claim of this proposal.
  void pressed(const View& view, Slot comes, Slot pays) {
    pressed_ = true;
    step_ = view.step;
    comes_ = comes;
    pays_ = pays;
    last_ = {view.row(comes).id, view.row(pays).id};
  }
  /// Whether a request has pressed on this payer in vain, with the same batch.
  [[nodiscard]] bool in_vain(const RequestRow& comes, const RequestRow& pays) const {
    return std::find(known_.begin(), known_.end(), Pair{comes.id, pays.id}) != known_.end();
  }

 private:
  struct Pair {
    RequestId comes{}, pays{};
    friend bool operator==(const Pair&, const Pair&) = default;
  };
  std::vector<Pair> known_;
  Pair last_;             ///< of the last proposal that pressed
  Slot comes_{}, pays_{}; ///< their rows
  bool pressed_ = false;  ///< whether the last proposal did
  std::int64_t step_ = -1;
  std::size_t size_ = 0; ///< of the batch
  RequestId newest_{};   ///< the last that joined it
};

} // namespace sluice
