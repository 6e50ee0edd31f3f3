// SPDX-License-Identifier: Apache-2.0
// Bus: how several engines' lanes share one bus while their iterations run.
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// Divides `capacity` among lanes: every lane gets the same, but none more than it wants, and the others share its
/// surplus (max-min fair, like arbitration in turns). `wanted` and `given` have one entry per lane, in the unit of
/// `capacity`.
inline void divide_fairly(double capacity, std::span<const double> wanted, std::span<double> given) {
  SLUICE_ASSERT(wanted.size() == given.size(), "one share for each");
  std::fill(given.begin(), given.end(), -1.0);
  std::size_t open = wanted.size();
  double left = capacity;
  for (bool served_one = true; served_one && open > 0;) {
    served_one = false;
    const double each = left / static_cast<double>(open);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (given[i] < 0 && wanted[i] <= each) {
        given[i] = wanted[i];
        left -= wanted[i];
        --open;
        served_one = true;
      }
  }
  for (double& share : given)
    if (share < 0) share = left / static_cast<double>(open);
}

/// One engine's iteration in progress on a bus. Times are on the node's clock.
class Flight {
 public:
  /// Times closer than this are equal: rounding must not create an event.
  static constexpr Seconds moment{1e-9};

  void begin(Seconds start, double own_rate, double slowdown) {
    start_ = start;
    own_rate_ = own_rate;
    slowdown_ = slowdown;
    under_way_ = true;
    spells_.clear();
  }
  void end() { under_way_ = false; }

  [[nodiscard]] bool under_way() const { return under_way_; }
  [[nodiscard]] Seconds start() const { return start_; }
  [[nodiscard]] Seconds ends() const { return start_ + duration_; }
  [[nodiscard]] double own_rate() const { return own_rate_; }
  [[nodiscard]] double slowdown() const { return slowdown_; }
  [[nodiscard]] std::span<const LinkSpell> spells() const { return spells_; }
  [[nodiscard]] double share() const { return spells_.empty() ? 1 : spells_.back().share; }

  /// From `now` on, the engine's lane has `share` (0 to 1) of its rate.
  void set_share(Seconds now, double share) { spells_.push_back({std::max(0.0, (now - start_).count()), share}); }

  /// Records the iteration's timeline under its present share: `ask(sink)` evaluates the iteration with the sink and
  /// returns its duration.
  template <class Ask>
  void look_ahead(Ask&& ask) {
    busy_.clear();
    Watch watch{busy_};
    duration_ = ask(watch);
    std::sort(busy_.begin(), busy_.end());
    std::size_t last = 0;
    for (std::size_t i = 1; i < busy_.size(); ++i) {
      if (busy_[i].first <= busy_[last].second + moment.count())
        busy_[last].second = std::max(busy_[last].second, busy_[i].second);
      else
        busy_[++last] = busy_[i];
    }
    if (!busy_.empty()) busy_.resize(last + 1);
  }

  /// Whether the engine's lane is busy right after `now`.
  [[nodiscard]] bool works(Seconds now) const {
    const double at = (now - start_ + moment).count();
    return std::any_of(busy_.begin(), busy_.end(),
                       [at](const auto& spell) { return spell.first <= at && at < spell.second; });
  }
  /// When, after `now`, the lane next starts or stops, or the iteration ends.
  [[nodiscard]] Seconds next_change(Seconds now) const {
    const double after = (now - start_ + moment).count();
    double next = duration_.count();
    for (const auto& [begins, ends] : busy_) {
      if (begins > after) next = std::min(next, begins);
      if (ends > after) next = std::min(next, ends);
    }
    return start_ + Seconds{next};
  }

 private:
  struct Watch {
    static constexpr bool enabled = true;
    std::vector<std::pair<double, double>>& busy;
    void layer(int /*layer*/, double /*start_s*/, double /*end_s*/, double /*stall_s*/, StallCause /*cause*/) {}
    void transfer(int /*stream*/, int /*layer*/, double /*start_s*/, double /*end_s*/) {}
    void link(double begin_s, double end_s) { busy.emplace_back(begin_s, end_s); }
  };

  bool under_way_ = false;
  Seconds start_{0};
  Seconds duration_{0};
  double own_rate_ = 0; ///< of the lane alone on the bus, bytes per second
  double slowdown_ = 1;
  std::vector<LinkSpell> spells_;
  std::vector<std::pair<double, double>> busy_; ///< seconds from the start; the intervals do not overlap
};

/// The bus and its engines. Whenever a lane starts or stops, the bus is divided again, and iterations in progress
/// continue with their new shares; their past depends only on past shares and stays. So the order of events is exact,
/// and the time is linear in the number of changes.
class SharedBus {
 public:
  /// `rate`: bytes per second of all lanes to the devices together; infinite if each engine has its own bus.
  SharedBus(std::size_t engines, BytesPerSecond rate) : rate_(rate.count()), flights_(engines) {}

  [[nodiscard]] Flight& operator[](std::size_t engine) { return flights_[engine]; }
  [[nodiscard]] const Flight& operator[](std::size_t engine) const { return flights_[engine]; }

  /// Divides the bus among the engines whose lane is busy right after `now`. `look_ahead(engine)` evaluates an engine's
  /// iteration again; it is called for every engine whose share changed.
  template <class LookAhead>
  void divide(Seconds now, LookAhead&& look_ahead) {
    wanted_.clear();
    who_.clear();
    for (std::size_t i = 0; i < flights_.size(); ++i)
      if (flights_[i].under_way() && flights_[i].works(now)) {
        wanted_.push_back(flights_[i].own_rate());
        who_.push_back(i);
      }
    given_.resize(wanted_.size());
    divide_fairly(rate_, wanted_, given_);
    for (std::size_t k = 0; k < who_.size(); ++k) {
      Flight& flight = flights_[who_[k]];
      const double share = std::min(1.0, given_[k] / wanted_[k]);
      if (std::abs(share - flight.share()) <= 1e-12) continue;
      flight.set_share(now, share);
      look_ahead(who_[k]);
    }
  }
  /// The next change of a lane or end of an iteration after `now`; infinite if no iteration is in progress.
  [[nodiscard]] Seconds next_change(Seconds now) const {
    Seconds next{std::numeric_limits<double>::infinity()};
    for (const Flight& flight : flights_)
      if (flight.under_way()) next = std::min(next, flight.next_change(now));
    return next;
  }

 private:
  double rate_;
  std::vector<Flight> flights_;
  std::vector<double> wanted_, given_;
  std::vector<std::size_t> who_;
};

} // namespace sluice
