// SPDX-License-Identifier: Apache-2.0
// HybridChoice: which requests get memory, and whether for K and V or for hidden states: Apt-Serve's greedy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

} // namespace sluice
