// SPDX-License-Identifier: Apache-2.0
// Seeds: lists of seeds in the syntax of `--seeds`.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// `first`, `first` + 1 … `last`.
[[nodiscard]] std::vector<std::uint64_t> seed_range(std::uint64_t first, std::uint64_t last);

/// Parses "1..20", "1,2,5" or "1..3,9". Error messages begin with `--seeds`. A repeated seed is an error: it would
/// count one workload twice.
[[nodiscard]] Expected<std::vector<std::uint64_t>> parse_seeds(std::string_view text);

/// Returns the shortest text for these seeds that can be read back: "1..20", "1,2,5".
[[nodiscard]] std::string seeds_text(const std::vector<std::uint64_t>& seeds);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/seeds.inl.hpp"
#endif
