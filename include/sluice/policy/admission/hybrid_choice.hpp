// SPDX-License-Identifier: Apache-2.0
// HybridChoice: which requests get memory, and whether for K and V or for hidden states: Apt-Serve's greedy.
#pragma once

#include "sluice/policy/admission/batching.hpp"
#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace sluice {

/// A request that could get memory. Rooms are in layer blocks.
struct HybridCandidate {
  double pending_s = 0;    ///< how long it has waited for its next token: the value of its K and V
  double delay_s = 0;      ///< how long rebuilding from its hidden states delays all requests together
  std::int64_t kv = 0;     ///< room of its K and V
  std::int64_t states = 0; ///< room of its hidden states; 0 if it cannot have them, or if they are no smaller

  [[nodiscard]] double states_value() const { return pending_s - delay_s; }
};

/// What a request gets.
enum class CacheForm : std::uint8_t { nothing, states, kv };

/// Apt-Serve's greedy (Gao et al., "Apt-Serve: Adaptive Request Scheduling on Hybrid Cache for Scalable LLM Inference
/// Serving", arXiv 2504.07494; algorithm 1 of the appendix on greedy scheduling beside its code). It maximises the
/// sum of
///
///   pending_s             of requests with K and V
///   pending_s - delay_s   of requests with hidden states
///
/// within the memory, which is a knapsack of requests in two sizes. A request's first step is its hidden states and its
/// second the rest up to K and V; if hidden states are worth less per block than K and V, its only step is K and V. The
/// steps are taken by value per block until one does not fit. If the request of that step is worth more alone than all
/// that was taken, it gets the memory alone.
///
/// At least half of the optimum: a step that does not fit is worth at most its request alone, and all that was taken
/// and that step together are worth at least the relaxed problem's optimum (the appendix, theorem 1). That needs every
/// step to fit alone, so larger ones are left out, which the paper does not say.
///
/// The knapsack knows no limit but memory. Where a batch or a token budget is full first, the requests that were
/// accepted still get K and V in memory that remains: otherwise a burst on an idle device would get hidden states
/// alone, since these are worth more per block. (The authors' code ends at the full batch.)
class HybridChoice {
 public:
  /// Chooses within `memory`. `accept(i)` is asked before candidate i gets its first memory. Once it says no, nobody
  /// else gets memory, and those that have hidden states may still get K and V. Returns the value.
  template <class Accept>
  double choose(std::span<const HybridCandidate> candidates, std::int64_t memory, Accept&& accept) {
    list_steps(candidates, memory);
    forms_.assign(candidates.size(), CacheForm::nothing);
    order_.clear();
    double value = 0;
    std::int64_t left = memory;
    bool full = false;
    for (const Step& step : steps_) {
      CacheForm& form = forms_[step.candidate];
      if (full && form == CacheForm::nothing) continue;
      if (step.room > left) {
        const HybridCandidate& one = candidates[step.candidate];
        const bool whole = one.kv <= memory;
        const double alone = whole ? one.pending_s : one.states_value();
        if (alone <= value) break;
        forms_.assign(candidates.size(), CacheForm::nothing);
        forms_[step.candidate] = whole ? CacheForm::kv : CacheForm::states;
        order_.assign(1, step.candidate);
        return alone;
      }
      if (form == CacheForm::nothing) {
        full = !accept(step.candidate);
        if (full) continue;
        order_.push_back(step.candidate);
      }
      form = step.form;
      left -= step.room;
      value += step.gain;
    }
    return value;
  }
  double choose(std::span<const HybridCandidate> candidates, std::int64_t memory) {
    return choose(candidates, memory, [](std::size_t) { return true; });
  }

  /// The candidates that got memory, in the order in which they got it.
  [[nodiscard]] std::span<const std::size_t> order() const { return order_; }
  [[nodiscard]] CacheForm form(std::size_t candidate) const { return forms_[candidate]; }

 private:
  struct Step {
    double per_block = 0, gain = 0;
    std::int64_t room = 0;
    std::size_t candidate = 0;
    CacheForm form = CacheForm::nothing;
    bool first = true; ///< of its candidate
  };

  void list_steps(std::span<const HybridCandidate> candidates, std::int64_t memory) {
    steps_.clear();
    const auto add = [this](std::size_t i, double gain, std::int64_t room, CacheForm form) {
      steps_.push_back({gain / static_cast<double>(room), gain, room, i, form, true});
    };
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const HybridCandidate& one = candidates[i];
      const bool whole = one.kv > 0 && one.kv <= memory;
      const bool small = one.states > 0 && one.states < one.kv && one.states <= memory;
      const double per_block = one.pending_s / static_cast<double>(one.kv);
      if (small && (!whole || one.states_value() / static_cast<double>(one.states) >= per_block)) {
        if (one.states_value() < 0) continue;
        add(i, one.states_value(), one.states, CacheForm::states);
        const double per_block_first = steps_.back().per_block;
        if (!whole) continue;
        add(i, one.delay_s, one.kv - one.states, CacheForm::kv);
        steps_.back().per_block = std::min(steps_.back().per_block, per_block_first); // rounding must not put it first
        steps_.back().first = false;
      } else if (whole) {
        add(i, one.pending_s, one.kv, CacheForm::kv);
      }
    }
    // Where all are worth the same, as at the moment of a burst, as many as possible join.
    std::stable_sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) {
      return a.per_block != b.per_block ? a.per_block > b.per_block : a.first && !b.first;
    });
  }

  std::vector<Step> steps_;        // scratch
  std::vector<CacheForm> forms_;   // by candidate
  std::vector<std::size_t> order_; // candidates with memory
};

// HybridDelays: what rebuilding K and V from hidden states, or computing a request again, delays an iteration.

/// Seconds by the engine's estimate, of all requests that wait for the iteration together. (Apt-Serve's server measures
/// the time of rebuilding when it starts.)
struct HybridDelays {
  double decode_s = 0;  ///< one iteration of the decode
  double rebuilt_s = 0; ///< delay of all for each token that is rebuilt
  double again_s = 0;   ///< the same for each token that is computed again

  /// Of `requests` that wait for `decode`: means over as many tokens as the device holds, or an iteration computes.
  [[nodiscard]] static HybridDelays of(const View& view, const Work& decode, double requests,
                                       const Estimate& estimate) {
    const Seconds plain = estimate.step(decode);
    const std::int64_t capacity = std::max<std::int64_t>(1, view.ledger->device().capacity().count());
    const Tokens many = view.limits.block_tokens * (capacity / view.geometry.layers + 1); // as many as the device holds
    const auto delay_s = [&](const Work& more, Tokens tokens) {
      return requests * std::max(0.0, (estimate.step(more) - plain).count()) / static_cast<double>(tokens.count());
    };
    Work rebuilds = decode;
    rebuilds.rebuilt.projected = rebuilds.rebuilt.read = many;
    const ChunkWork again{std::min(many, view.limits.batch_tokens), Tokens{0}};
    Work computes = decode;
    computes.chunks = {&again, 1};
    return {plain.count(), delay_s(rebuilds, many), delay_s(computes, again.fresh)};
  }
};

// PendingQueue: waiting requests by the first token's deadline, the late ones by arrival, and how long all have waited.

/// How long a request has waited for its next token: since its last one, or since its arrival, in seconds.
[[nodiscard]] inline double pending_s(const View& view, const RequestRow& row) {
  return (view.now - (row.generated.count() > 0 ? row.last_token : row.spec.arrival)).count();
}
/// Whether that is longer than its SLO.
[[nodiscard]] inline bool is_late(const View& view, const RequestRow& row) {
  const Slo& slo = row.spec.slo;
  return pending_s(view, row) > (row.generated.count() > 0 ? slo.tbt : slo.ttft).count();
}

/// A queue that a policy may ask for the sum of all pending times without a look at each request.
class PendingQueue {
 public:
  void enter(Slot slot, const RequestRow& row) {
    in_time_.insert(QueueEntry::by_deadline(row, slot));
    arrivals_s_ += row.spec.arrival.count();
  }
  void leave(Slot slot, const RequestRow& row) {
    if (in_time_.erase(QueueEntry::by_deadline(row, slot)) == 0) late_.erase(QueueEntry::by_arrival(row, slot));
    arrivals_s_ -= row.spec.arrival.count();
    if (in_time_.empty() && late_.empty()) arrivals_s_ = 0; // without what rounding left
  }
  /// Moves the requests whose deadline has passed to the late ones.
  void pass(const View& view) {
    while (!in_time_.empty() && in_time_.begin()->key < view.now.count()) {
      const Slot slot = in_time_.begin()->slot;
      in_time_.erase(in_time_.begin());
      late_.insert(QueueEntry::by_arrival(view.row(slot), slot));
    }
  }

  [[nodiscard]] const std::set<QueueEntry>& in_time() const { return in_time_; }
  [[nodiscard]] const std::set<QueueEntry>& late() const { return late_; }
  [[nodiscard]] std::size_t size() const { return in_time_.size() + late_.size(); }
  /// The sum of all pending times.
  [[nodiscard]] double pending_sum_s(Seconds now) const {
    return static_cast<double>(size()) * now.count() - arrivals_s_;
  }

 private:
  std::set<QueueEntry> in_time_, late_;
  double arrivals_s_ = 0; ///< the sum over both
};

} // namespace sluice
