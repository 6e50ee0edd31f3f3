// SPDX-License-Identifier: Apache-2.0
// Rows: the rows of a comparison. A row is a system with one SLO, with or without a deposit; it runs once for every
// seed.
#pragma once

#include "compare/comparison.hpp"
#include "compare/outcome.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace compared {

struct Row {
  const System* system = nullptr;
  double scale = 1;
  bool deposit = false;
};

/// Returns the rows in the report's order; never empty.
sluice::Expected<std::vector<Row>> rows_of(const Comparison& comparison);

/// Returns the number of the comparison's workloads: one per seed.
std::size_t seeds_in(const Comparison& comparison);

/// "VllmSwap + deposit at SLO x1.5, seed 2": a label for progress lines.
std::string name_of_run(const Options& options, const Comparison& comparison, const Row& row, std::size_t seed);

/// Makes one run of a row. `setup`: the setup of this seed.
sluice::Status run_row(const Options& options, const Comparison& comparison, const Row& row, const Setup& setup,
                       std::size_t seed, bool details, std::function<void(std::int64_t ended)> tell, Outcome& outcome);

/// Keeps only a run's figures, because pages show only these of seeds after the first.
void forget_curves(Outcome& outcome);

/// Returns a run's figures as bytes for another process, and back (CBOR, which keeps every double, including NaN and
/// infinities).
std::string packed(const Outcome& outcome);
sluice::Status unpack(std::string_view bytes, Outcome& outcome);

} // namespace compared
