// SPDX-License-Identifier: Apache-2.0
// Calibrated: any cost model, corrected by what was observed.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/cost/cost_model.hpp"
#include "sluice/cost/rebuild.hpp"

#include <cmath>
#include <utility>

namespace sluice {

/// A predictor with factors on computation and on transfers. `Held` is what a model's `predictor` returns: a reference
/// to a model that outlives this, or a value (of a model that itself learns).
template <class Held>
class Corrected {
 public:
  Corrected(Held base, double compute, double transfer)
      : base_(static_cast<Held>(base)), compute_(compute), transfer_(transfer) {}

  [[nodiscard]] StepTime step(const Work& work) const {
    const StepTime time = base_.step(work);
    return {time.before * compute_, time.layer * compute_, time.after * compute_, time.on_link};
  }
  [[nodiscard]] LinkCost link() const {
    LinkCost link = base_.link();
    link.rate = link.rate / transfer_;
    link.out_rate = link.out_rate / transfer_;
    link.per_layer = link.per_layer * transfer_;
    link.per_segment = link.per_segment * transfer_;
    return link;
  }

 private:
  Held base_;
  double compute_;
  double transfer_;
};

/// Follows the ratio of measured to predicted time by an exponentially weighted mean, for computation and for
/// transfers apart (OrbitFlow, section 3.4, watches the same ratio to replan).
///
/// The ratio is always taken against `Base`'s own prediction, never against the corrected one, so that a factor does
/// not feed on itself; and only of iterations that were predicted: a repeated one teaches nothing.
template <CostModel Base>
class Calibrated {
 public:
  using role = roles::Cost;
  using base_type = Base;

  struct State {
    typename Base::State base;
    double compute = 1.0; ///< measured over predicted
    double transfer = 1.0;
    std::int64_t learned = 0; ///< iterations that counted
  };

  /// `weight`: share of the newest ratio, above 0 and at most 1. 0.05 forgets half in 14 iterations: a few tenths of a
  /// second of decoding, faster than a batch changes.
  explicit Calibrated(Base base, double weight = 0.05) : base_(std::move(base)), weight_(weight) {
    SLUICE_ASSERT(weight > 0.0 && weight <= 1.0, "a weight above 0 and at most 1");
  }

  [[nodiscard]] StepTime step(const Work& work) const { return base_.step(work); }
  [[nodiscard]] LinkCost link() const { return base_.link(); }
  [[nodiscard]] auto predictor(const State& state) const {
    using Held = decltype(base_.predictor(state.base));
    return Corrected<Held>(base_.predictor(state.base), state.compute, state.transfer);
  }

  void observe(State& state, const Observation& seen) const {
    base_.observe(state.base, seen);
    if (!seen.predicted) return;
    const double computed = ratio(seen.compute, compute_time(base_, seen.work, seen.layers));
    if (computed > 0.0) {
      follow(state.compute, computed);
      ++state.learned;
    }
    const LinkCost link = base_.link();
    const double transferred =
        ratio(seen.transfer, seen.moved / link.rate + link.per_layer * static_cast<double>(seen.transfers));
    if (transferred > 0.0) follow(state.transfer, transferred);
  }

  [[nodiscard]] const Base& base() const { return base_; }

 private:
  /// The ratio; 0 where either time is missing: an iteration of no work, a link that nothing crossed.
  static double ratio(Seconds measured, Seconds predicted) {
    const bool known = measured.count() > 0.0 && predicted.count() > 0.0;
    const double value = known ? measured / predicted : 0.0;
    return std::isfinite(value) ? value : 0.0;
  }
  void follow(double& factor, double seen) const { factor += weight_ * (seen - factor); }

  Base base_;
  double weight_;
};

} // namespace sluice
