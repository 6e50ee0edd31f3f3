// SPDX-License-Identifier: Apache-2.0
// search_capacity: finds the highest rate that is still served well, by bisection, and checks whether bisection was
// valid.
#pragma once

#include "sluice/core/expected.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace compared {

/// The rates that are tried: 2^(step / steps) times a workload's own rate, for integer steps. All systems and seeds use
/// one lattice, which does not depend on the rate around which a search starts. Each pair of systems is therefore
/// measured at the same rates, and any reported rate can be run again.
struct RateLattice {
  int steps = 32;  ///< per doubling of the rate: each is 2.2 %
  int octaves = 6; ///< from 1/64 to 64 times the rate of the octave that the search is around
  int around = 0;  ///< that octave: 0 is the workload's own rate

  /// Returns the lattice for searches around `rate` (a multiple of the workload's own rate): its nearest octave.
  [[nodiscard]] static RateLattice near(double rate) {
    return {.around = static_cast<int>(std::lround(std::log2(rate)))};
  }
  [[nodiscard]] int first() const { return steps * (around - octaves); }
  [[nodiscard]] int last() const { return steps * (around + octaves); }
  [[nodiscard]] double rate(int step) const { return std::exp2(static_cast<double>(step) / steps); }
};

/// The result at one rate.
struct Probe {
  int step = 0;
  double attained = 0;     ///< share of the requests; NaN if no request has an SLO
  bool livelocked = false; ///< if so, the requests served before it are not representative

  [[nodiscard]] bool meets(double share) const { return !livelocked && attained >= share; }
};

/// Where a workload's capacity is, relative to the tried rates.
enum class Found : std::uint8_t {
  between, ///< `step` meets the share and the next step does not
  below,   ///< no octave meets the share, not even the lowest
  above,   ///< the highest octave meets the share
};

[[nodiscard]] inline std::string_view name_of(Found found) {
  return found == Found::between ? "between" : found == Found::below ? "below" : "above";
}

struct CapacitySearch {
  Found found = Found::below;
  int step = 0;              ///< the capacity; for `below` and `above`, the lattice's end
  std::vector<Probe> probes; ///< ordered by rate
  /// The highest rate below the capacity that does not meet the share; set if attainment crosses the share more than
  /// once.
  std::vector<int> against;

  [[nodiscard]] bool monotone() const { return against.empty(); }
  [[nodiscard]] const Probe& at(int wanted) const {
    return *std::find_if(probes.begin(), probes.end(), [wanted](const Probe& probe) { return probe.step == wanted; });
  }
};

/// Calls `attain(step)`, which returns an Expected<Probe>, at as few rates as possible.
///
/// The capacity is the highest octave that meets the share, refined by bisection towards the next octave. Octaves are
/// tried from the highest down to the first that meets the share, whichever rate the search is around: two searches
/// around different rates agree if both cover that octave. Bisection assumes that attainment falls as the rate rises.
/// Engines do not guarantee that (because a batch fills or a queue is reordered), so the two octaves below are tried as
/// well, and every probe there that misses the share is kept.
///
/// Rejected: stepping up or down from one rate to the first crossing, which depends on the start when there are
/// several; the lowest crossing from a common low end, which is not the highest rate that meets the share; trying every
/// rate of the lattice, which would find all crossings but takes twenty times the runs.
template <class Attain>
[[nodiscard]] sluice::Expected<CapacitySearch> search_capacity(double share, const RateLattice& lattice,
                                                               Attain&& attain) {
  std::map<int, Probe> asked;
  const auto meets = [&](int step) -> sluice::Expected<bool> {
    if (const auto known = asked.find(step); known != asked.end()) return known->second.meets(share);
    sluice::Expected<Probe> probe = attain(step);
    if (!probe) return probe.error();
    probe->step = step;
    return asked.emplace(step, *probe).first->second.meets(share);
  };
  CapacitySearch search;
  search.step = lattice.first();
  for (int octave = lattice.last(); octave >= lattice.first(); octave -= lattice.steps) {
    const sluice::Expected<bool> met = meets(octave);
    if (!met) return met.error();
    if (!*met) continue;
    search.found = octave == lattice.last() ? Found::above : Found::between;
    search.step = octave;
    for (int below = 1; below <= 2 && octave - below * lattice.steps >= lattice.first(); ++below)
      if (const sluice::Expected<bool> also = meets(octave - below * lattice.steps); !also) return also.error();
    break;
  }
  if (search.found == Found::between)
    for (int high = search.step + lattice.steps;
         high - search.step > 1;) { // `high` is the lowest rate known to miss the share
      const int middle = search.step + (high - search.step) / 2;
      const sluice::Expected<bool> met = meets(middle);
      if (!met) return met.error();
      (*met ? search.step : high) = middle;
    }
  for (const auto& [step, probe] : asked) {
    search.probes.push_back(probe);
    if (step < search.step && !probe.meets(share)) search.against.push_back(step);
  }
  return search;
}

} // namespace compared
