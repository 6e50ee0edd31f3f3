// SPDX-License-Identifier: Apache-2.0
// Calibrated: any cost model, corrected by measurements.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/layer_set.hpp"
#include "sluice/core/math.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/cost/cost_model.hpp"
#include "sluice/policy/cost/rebuild.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace sluice {

/// A predictor with factors for computation and transfers, and an additional time per iteration. `Held` is what a
/// model's `predictor` returns: a reference to a model that outlives this object, or a value (of a model that itself
/// learns).
template <class Held>
class Corrected {
 public:
  Corrected(Held base, double compute, double transfer, Seconds besides = Seconds{0})
      : base_(static_cast<Held>(base)), compute_(compute), transfer_(transfer), besides_(besides) {}

  [[nodiscard]] StepTime step(const Work& work) const {
    const StepTime time = base_.step(work);
    const Seconds after = std::max(time.after * compute_ + besides_, Seconds{0});
    return {time.before * compute_, time.layer * compute_, work.tokens() > Tokens{0} ? after : time.after,
            time.on_link};
  }
  bool layer_times(const Work& work, std::span<double> layers_s) const requires TimesLayers<std::remove_cvref_t<Held>> {
    if (!base_.layer_times(work, layers_s)) return false;
    for (double& seconds : layers_s) seconds *= compute_;
    return true;
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
  Seconds besides_;
};

namespace detail {

/// `Base` is made from a `Model` and a `Machine`.
template <class Machine, class Base, class Model>
concept MakesWith = std::constructible_from<Base, const Model&, const Machine&>;

/// The last few values, an odd number of them, and their median.
class LastSeen {
 public:
  static constexpr std::size_t most = 9;

  /// The median of the last `of` values; nothing until there are that many.
  std::optional<double> median(double seen, std::size_t of) {
    seen_[next_] = seen;
    next_ = (next_ + 1) % of;
    count_ = std::min(count_ + 1, of);
    if (count_ < of) return std::nullopt;
    std::array<double, most> sorted = seen_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(of / 2);
    std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(of));
    return *middle;
  }

 private:
  std::array<double, most> seen_{};
  std::size_t next_ = 0, count_ = 0;
};

} // namespace detail

/// How a calibration follows the measurements.
struct CalibrationPace {
  /// Weight of the newest ratio, at most 1. 0.05 forgets half in 14 iterations: a few tenths of a second of decoding,
  /// faster than a batch changes. 0 learns nothing, for a program that sets it at run time.
  double weight = 0.05;
  /// The median of this many of the latest ratios counts as the newest: an odd number, at most 9. 1: no median.
  int median_of = 1;

  /// For a real machine, whose first iterations warm up and whose host is sometimes busy elsewhere: of five iterations,
  /// two may have taken any time. It has learned nine tenths of a change after 15.
  [[nodiscard]] static constexpr CalibrationPace of_machine() { return {0.2, 5}; }
  [[nodiscard]] static constexpr CalibrationPace at_rest() { return {0, 1}; }
};

/// Follows the ratio of measured to predicted time by an exponentially weighted mean, separately for computation and
/// transfers (OrbitFlow, section 3.4, watches the same ratio to replan).
///
/// The computation's ratio is taken against `Base`'s own prediction, so that a factor does not feed back into itself.
/// How long the link is busy depends on the rule and on what it left to move; only an evaluation of the whole iteration
/// says it, by the corrected link, so that ratio is multiplied by the factor that the evaluation used. Only predicted
/// iterations count: a repeated one teaches nothing. A ratio that differs from the factor by a rounding changes
/// nothing, so that a machine equal to its profile is decided for as if nothing were learned.
///
/// If a machine measures each layer (`Observation::layers_s`), the factor is that of the layers: the median of their
/// ratios, so that one disturbed layer does not count. The iteration's time outside its layers is then learned as an
/// added time instead of a factor: most of it is launches, table copies and the engine's own work, which do not grow
/// with the head that a model predicts there.
template <CostModel Base>
class Calibrated {
 public:
  using role = roles::Cost;
  using base_type = Base;

  struct State {
    typename Base::State base;
    double compute = 1.0; ///< measured over predicted
    double transfer = 1.0;
    Seconds besides{0};       ///< the iteration's time outside its layers, beyond what is predicted for it
    std::int64_t learned = 0; ///< iterations that were learned from
    detail::LastSeen computes{}, transfers{}, outsides{};
  };

  // NOLINTNEXTLINE(google-explicit-constructor): a configuration may name the profile alone
  Calibrated(Base base, CalibrationPace pace = {}) : base_(std::move(base)), pace_(pace) {
    SLUICE_ASSERT(pace.weight >= 0.0 && pace.weight <= 1.0, "a weight from 0 to 1");
    SLUICE_ASSERT(pace.median_of % 2 == 1 && pace.median_of > 0 &&
                      pace.median_of <= static_cast<int>(detail::LastSeen::most),
                  "an odd number of iterations, at most nine");
  }
  explicit Calibrated(Base base, double weight) : Calibrated(std::move(base), CalibrationPace{weight, 1}) {
    SLUICE_ASSERT(weight > 0.0, "a weight above 0");
  }

  /// Of what `Base` is made from, such as a model and a device.
  template <class Model, detail::MakesWith<Base, Model> Machine>
  Calibrated(const Model& model, const Machine& machine) : Calibrated(Base(model, machine)) {}

  [[nodiscard]] StepTime step(const Work& work) const { return base_.step(work); }
  bool layer_times(const Work& work, std::span<double> layers_s) const requires TimesLayers<Base> {
    return base_.layer_times(work, layers_s);
  }
  [[nodiscard]] LinkCost link() const { return base_.link(); }
  [[nodiscard]] auto predictor(const State& state) const {
    using Held = decltype(base_.predictor(state.base));
    return Corrected<Held>(base_.predictor(state.base), state.compute, state.transfer, state.besides);
  }

  void observe(State& state, const Observation& seen) const {
    base_.observe(state.base, seen);
    if (!seen.predicted || pace_.weight == 0) return;
    if (seen.layers_s.empty()) {
      const double computed = ratio(seen.compute, compute_time(base_, seen.work, seen.layers));
      if (computed > 0.0 && follow(state.compute, state.computes, computed)) ++state.learned;
    } else {
      observe_layers(state, seen);
    }
    const double transferred = state.transfer * ratio(seen.transfer, seen.transfer_predicted);
    if (transferred > 0.0) (void)follow(state.transfer, state.transfers, transferred);
  }
  [[nodiscard]] const CalibrationPace& pace() const { return pace_; }

  [[nodiscard]] const Base& base() const { return base_; }
  // NOLINTNEXTLINE(google-explicit-constructor): a simulated world made from its planner's model is the profile
  operator const Base&() const { return base_; }

 private:
  /// The ratio; 0 if either time is missing: an iteration without work, or a link without traffic.
  static double ratio(Seconds measured, Seconds predicted) {
    const bool known = measured.count() > 0.0 && predicted.count() > 0.0;
    const double value = known ? measured / predicted : 0.0;
    return math::isfinite(value) ? value : 0.0;
  }
  /// False: too few values for a median.
  bool follow(double& value, detail::LastSeen& last, double seen) const {
    const std::optional<double> median = last.median(seen, static_cast<std::size_t>(pace_.median_of));
    if (median && math::abs(*median - value) > 1e-9 * value) value += pace_.weight * (*median - value);
    return median.has_value();
  }
  void observe_layers(State& state, const Observation& seen) const {
    const auto count = seen.layers_s.size();
    SLUICE_ASSERT(count == static_cast<std::size_t>(seen.layers) && count <= max_layers, "a time for each layer");
    std::array<double, max_layers> predicted, ratios;
    const StepTime outside = sluice::layer_times(base_, seen.work, {predicted.data(), count});
    double layers_s = 0;
    std::size_t known = 0;
    for (std::size_t layer = 0; layer < count; ++layer) {
      layers_s += seen.layers_s[layer];
      const double one = ratio(Seconds{seen.layers_s[layer]}, Seconds{predicted[layer]});
      if (one > 0.0) ratios[known++] = one;
    }
    if (known == 0) return;
    const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(known / 2);
    std::nth_element(ratios.begin(), middle, ratios.begin() + static_cast<std::ptrdiff_t>(known));
    if (!follow(state.compute, state.computes, *middle)) return;
    ++state.learned;
    const double besides =
        std::max(seen.compute.count() - layers_s, 0.0) - state.compute * (outside.before + outside.after).count();
    double followed = state.besides.count();
    if (math::isfinite(besides) && follow(followed, state.outsides, besides)) state.besides = Seconds{followed};
  }

  Base base_;
  CalibrationPace pace_;
};

} // namespace sluice
