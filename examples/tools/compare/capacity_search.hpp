// SPDX-License-Identifier: Apache-2.0
// search_capacity: the highest rate that is still served well, by bisection, and whether bisection may be believed.
#pragma once

#include "sluice/core/expected.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace compared {

/// The rates that are tried: 2^(step / steps) times a workload's own, for whole steps. One lattice for all systems and
/// seeds, whatever rate a search is around, so that each pair of systems is asked at the same rates, and a rate that is
/// named can be asked again.
struct RateLattice {
  int steps = 32;  ///< to twice the rate: 2.2 % each
  int octaves = 6; ///< from 1/64 to 64 times the rate of the octave that the search is around
  int around = 0;  ///< that octave: 0 is the workload's own rate

  /// Of searches around a rate in multiples of the workload's own: its nearest octave.
  [[nodiscard]] static RateLattice near(double rate) {
    return {.around = static_cast<int>(std::lround(std::log2(rate)))};
  }
  [[nodiscard]] int first() const { return steps * (around - octaves); }
  [[nodiscard]] int last() const { return steps * (around + octaves); }
  [[nodiscard]] double rate(int step) const { return std::exp2(static_cast<double>(step) / steps); }
};

/// What one rate gave.
struct Probe {
  int step = 0;
  double attained = 0;     ///< share of the requests; NaN where none was promised anything
  bool livelocked = false; ///< then what was served before says nothing of the rest

  [[nodiscard]] bool meets(double share) const { return !livelocked && attained >= share; }
};

/// Where a workload's capacity lies.
enum class Found : std::uint8_t {
  between, ///< `step` meets the share and the next does not
  below,   ///< no octave meets it, not even the lowest
  above,   ///< the highest octave does
};

[[nodiscard]] inline std::string_view name_of(Found found) {
  return found == Found::between ? "between" : found == Found::below ? "below" : "above";
}

struct CapacitySearch {
  Found found = Found::below;
  int step = 0;              ///< the capacity; of `below` and `above` the lattice's end
  std::vector<Probe> probes; ///< by rate
  /// Rates below the capacity that do not meet the share: there is more than one crossing, and this is the highest.
  std::vector<int> against;

  [[nodiscard]] bool monotone() const { return against.empty(); }
  [[nodiscard]] const Probe& at(int wanted) const {
    return *std::find_if(probes.begin(), probes.end(), [wanted](const Probe& probe) { return probe.step == wanted; });
  }
};

/// Asks `attain(step)`, an Expected<Probe>, at as few rates as tell.
///
/// The capacity is the highest octave that meets the share, and what bisection adds to it before the next. So octaves
/// are asked from the highest down to the first that meets it, whichever rate the search is around: searches around two
/// rates have one answer where both see that octave. Bisection supposes that who is served well at a rate is served
/// well at every lower one, which engines do not promise (a batch that fills, a queue that is reordered): the two
/// octaves below are asked as well, and every probe there that does not meet the share is kept.
///
/// Rejected: up or down from one rate to the first crossing, which finds the lowest or the highest of several, by where
/// it began; the lowest crossing from a common low end, which is not the highest rate at which the share is met; every
/// rate of the lattice, which would see all crossings and takes twenty times the runs.
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
    for (int high = search.step + lattice.steps; high - search.step > 1;) { // the first known not to meet it
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
