// SPDX-License-Identifier: Apache-2.0
// NumbersPlan: the file of --numbers: which numbers of one system are searched, on which workloads and seeds.
#pragma once

#include "sluice/core/expected.hpp"

#include "compare/comparison.hpp"
#include "engines/numbers.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace explored {

/// A number that is drawn between two bounds: evenly by its logarithm if the lower one is above 0.
struct SearchedNumber {
  engines::NumberRow of;
  double least = 0, most = 0;
};

/// One workload on one machine, for all seeds of its set.
struct SearchedWorkload {
  std::string name, flags;
  std::string files; ///< a digest of the files and folders among its flags; empty: there are none
  compared::Options options;
  compared::Comparison comparison;
};

/// The workloads and seeds on which settings are chosen, or those on which they are tested.
struct SearchedSet {
  std::vector<std::uint64_t> seeds;
  std::vector<SearchedWorkload> workloads;
};

struct NumbersPlan {
  std::string path, system_name;
  const compared::System* system = nullptr;
  bool deposit = false;
  std::int64_t settings = 0; ///< beside the defaults
  std::uint64_t seed = 1;    ///< that draws them
  std::vector<SearchedNumber> numbers;
  SearchedSet train, test;

  /// Values of `numbers`: the defaults first, then the drawn ones. Equal plans have equal settings.
  [[nodiscard]] std::vector<std::vector<double>> drawn() const;
};

/// Reads the file, and prepares every workload with every seed.
sluice::Expected<NumbersPlan> read_numbers_plan(const std::string& path);

} // namespace explored
