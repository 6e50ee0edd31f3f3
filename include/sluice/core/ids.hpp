// SPDX-License-Identifier: Apache-2.0
// Ids: a request's identity, and the index of its row.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// A request of the workload, in the order of arrival: stable from submission to the report.
enum class RequestId : std::uint32_t {};

/// The index of a live request's row in the engine's table; reused after the request ends.
enum class Slot : std::uint32_t {};

constexpr std::uint32_t index(RequestId id) { return static_cast<std::uint32_t>(id); }
constexpr std::uint32_t index(Slot slot) { return static_cast<std::uint32_t>(slot); }

} // namespace sluice
