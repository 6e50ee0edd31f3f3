// SPDX-License-Identifier: Apache-2.0
// Rows: what a comparison runs, a system under one SLO, with or without a deposit; each once for every seed.
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

/// In the order of the report. Never none.
sluice::Expected<std::vector<Row>> rows_of(const Options& options, const Comparison& comparison);

/// The comparison's workloads, one a seed.
std::size_t seeds_in(const Comparison& comparison);

/// "VllmSwap + deposit at SLO x1.5, seed 2": what is being run.
std::string name_of_run(const Options& options, const Comparison& comparison, const Row& row, std::size_t seed);

/// One run of a row. `setup`: of the seed at that place.
sluice::Status run_row(const Options& options, const Comparison& comparison, const Row& row, const Setup& setup,
                       std::size_t seed, bool details, std::function<void(std::int64_t ended)> tell, Outcome& outcome);

/// Leaves of a run its figures: what is shown of a seed that is not the first.
void forget_curves(Outcome& outcome);

/// A run's figures as bytes, for another process, and back (CBOR, which keeps every double and what is no number).
std::string packed(const Outcome& outcome);
sluice::Status unpack(std::string_view bytes, Outcome& outcome);

} // namespace compared
