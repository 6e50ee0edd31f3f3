// SPDX-License-Identifier: Apache-2.0
// --why: what the requests' time went to.
#pragma once

#include "sluice/report/report.hpp"

#include "compare/comparison.hpp"
#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace compared {

void add_why_flag(CLI::App& app, std::optional<WhyAsked>& why);

/// That there is such a request, and a place for the answer.
sluice::Status check_why(const Options& options, std::int64_t requests);

/// The answer, for every row.
std::string why_text(WhyAsked why, const sluice::ComparisonReport& report);

} // namespace compared
