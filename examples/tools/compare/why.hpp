// SPDX-License-Identifier: Apache-2.0
// --why: explains how requests' time was spent.
#pragma once

#include "sluice/report/report.hpp"

#include "compare/comparison.hpp"
#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace compared {

void add_why_flag(CLI::App& app, std::optional<WhyAsked>& why);

/// Checks that the request exists and that --table allows this output.
sluice::Status check_why(const Options& options, std::int64_t requests);

/// Returns the explanation, for every row.
std::string why_text(WhyAsked why, const sluice::ComparisonReport& report);

} // namespace compared
