// SPDX-License-Identifier: Apache-2.0
// ForecastErrors: how far forecasts were off, and the margin that this calls for.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/serve/slo_class_table.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace sluice {

/// A forecast's times for one request.
struct Foretold {
  RequestId id{};
  Seconds first{-1};  ///< when its first token comes, on the engine's clock; below 0: it has come, or was not reached
  Seconds longest{0}; ///< longest gap between two tokens from now on; 0: none was reached
};

/// The measured errors of one SLO class.
struct ForecastErrorsOfClass {
  static constexpr std::size_t window = 256;
  RecentQuantile ttft{window}, gap{window}; ///< seconds, measured less foretold: above 0 where a forecast was too early
};

/// A gate admits a request if a forecast says that its SLO will be met. Each later admission makes a new forecast of
/// the requests that are running. A request's error is its measured TTFT (longest gap) less the largest that any of
/// these forecasts predicted. The margin of an SLO class is the quantile `share` of the errors of its newest requests:
/// a forecast must be earlier than the SLO by the margin. Errors are on the engine's clock; WrittenSlos measures
/// delivery.
///
/// Rejected: the error of the first forecast. Later newcomers delay a request up to its SLO, which is no error. The
/// error of the last forecast: it looked ahead for the shortest time. A margin that is a share of the forecast: an
/// SLO's slack does not grow with it.
class ForecastErrors {
 public:
  /// Of the admitted, one in a hundred may break its TTFT by an error of the forecast, and one in a hundred its TBT.
  static constexpr double share = 0.99;
  /// With fewer errors than that, a class uses those of all classes; if they have no more, the margin is at least a
  /// fifth of the SLO. The next error exceeds the largest of n with probability 1 / (n + 1), so fewer than a hundred
  /// have no P99.
  static constexpr std::size_t few = 100;

  /// A request with this SLO has entered.
  void entered(RequestId id, const Slo& slo) { live_.insert_or_assign(index(id), Live{.slo = slo}); }
  /// A newcomer was admitted because of a forecast that says this of the live requests, the newcomer included.
  void foretell(const std::vector<Foretold>& all);
  void delivered(RequestId id, Seconds when);
  /// The request has ended by itself.
  void ended(RequestId id);
  /// It was cancelled or refused: how it would have gone on is unknown.
  void left(RequestId id) { live_.erase(index(id)); }

  /// Seconds that a forecast must keep from this SLO.
  [[nodiscard]] SloLead margin(const Slo& slo) const;
  /// Calls `visit(class name, errors)` for each class.
  template <class Visit>
  void each(Visit&& visit) const {
    classes_.each(visit);
  }
  /// Errors measured so far: when it changes, margins may.
  [[nodiscard]] std::int64_t measured() const { return measured_; }

 private:
  struct Live {
    Slo slo;
    Seconds first{-1};   ///< the latest foretold; below 0: none
    Seconds longest{0};  ///< the longest gap foretold
    Seconds measured{0}; ///< the same as it came
    Seconds last{-1};    ///< when the newest token came; below 0: none has
  };
  static Seconds margin(const RecentQuantile& own, const RecentQuantile& all, Seconds little);
  void add(const Slo& slo, RecentQuantile ForecastErrorsOfClass::*of, Seconds error);

  SloClassTable<ForecastErrorsOfClass> classes_;
  ForecastErrorsOfClass all_;
  std::unordered_map<std::uint32_t, Live> live_;
  std::int64_t measured_ = 0;
};

/// Of one SLO class's newest requests, for /metrics.
struct ForecastErrorQuantiles {
  static constexpr std::array<double, 3> shares{0.5, 0.9, ForecastErrors::share};
  static constexpr std::array<const char*, 3> names{"0.5", "0.9", "0.99"};
  std::size_t count = 0;
  std::array<double, 3> seconds{};

  [[nodiscard]] static ForecastErrorQuantiles of(const RecentQuantile& errors);
};
struct ForecastErrorsShown {
  SloClassName name;
  ForecastErrorQuantiles ttft, gap;
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/forecast_errors.inl.hpp"
#endif
