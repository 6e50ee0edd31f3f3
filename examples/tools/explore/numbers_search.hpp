// SPDX-License-Identifier: Apache-2.0
// --numbers: searches the numbers of one system's policies over several workloads and seeds.
#pragma once

#include "sluice/core/expected.hpp"

#include "explore/halving.hpp"
#include "explore/numbers_plan.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace sluice {
class Crew;
}

namespace explored {

/// A setting's figures on one set, over all its workloads and the seeds that it ran: mean SLO attainment, and the
/// geometric means of goodput and of E2E and gap of all requests, relative to the defaults in the same runs.
struct SettingFigures {
  double slo = 0, goodput = 1, e2e = 1, gap = 1;

  [[nodiscard]] Costs costs() const { return {1 - slo, 1 / goodput, e2e, gap}; }
};

/// A setting that reached the last round.
struct FoundSetting {
  std::size_t number = 0; ///< 0: the defaults
  std::vector<double> values;
  SettingFigures train, test;
  bool front = false;         ///< of the settings of the last round, by the train set
  bool front_of_test = false; ///< the same by the test set
};

struct NumbersFound {
  std::vector<std::pair<std::size_t, std::size_t>> rounds; ///< settings and seeds
  std::vector<FoundSetting> settings;
  bool whole = true;             ///< false: interrupted
  std::size_t kept = 0, ran = 0; ///< runs found in the folder, and those made now
};

/// Searches. Every finished run is a line of `<out>/runs.jsonl` at once, and one that is there is not run again, so a
/// killed search continues when it is started again. If another process leads the crew, nothing is found.
sluice::Expected<NumbersFound> search_numbers(const NumbersPlan& plan, const std::string& out, bool quiet,
                                              sluice::Crew& crew);

/// The front and the defaults by SLO attainment, then goodput, on the train set, for a terminal; and the settings of
/// the last round as CSV.
std::string numbers_text(const NumbersPlan& plan, const NumbersFound& found);
std::string numbers_csv(const NumbersPlan& plan, const NumbersFound& found);

} // namespace explored
