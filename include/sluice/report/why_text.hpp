// SPDX-License-Identifier: Apache-2.0
// Why's results as text: tables of the time of a row's requests by cause, and one request's time line and sentences.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/report.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice {

namespace detail {

inline std::size_t place_of(TimeCause cause) { return static_cast<std::size_t>(cause); }

/// "request 3", "requests 3, 5 and 8", "requests 3, 5, 8, 9 and others".
std::string names_of(const TimeSpell& spell);

/// Returns why a row has no data about that request.
std::string no_request(const SystemReport& row, std::int64_t id);

} // namespace detail

/// Returns tables per block: the shares of all requests' time from arrival to end by cause, the missed deadlines,
/// counted as TBT attainment does, by the same causes, and the causes of misses in tiers, if a system has any.
[[nodiscard]] std::string why_table(const ComparisonReport& report);

/// Returns the request's time line in `width` letters, and their meanings.
[[nodiscard]] std::string why_line(const RequestTime& of, std::size_t width = 100);

/// Returns the request's time by cause, in sentences.
[[nodiscard]] std::string why_sentence(const RequestTime& of);

/// Returns the request with that id in every row.
[[nodiscard]] std::string why_request(const ComparisonReport& report, std::int64_t id);

} // namespace sluice

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/why_text.inl.hpp"
#endif
