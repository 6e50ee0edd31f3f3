// SPDX-License-Identifier: Apache-2.0
// merged: combines the Summary records of several engines into one.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/summary.hpp"

#include <span>

namespace sluice {

/// Merges the records of a node's engines: requests are concatenated (an id is then a position in that order), gaps and
/// plans are pooled, times and moved blocks are summed. Block sizes differ between models, so all blocks are converted
/// to the first engine's size.
[[nodiscard]] Summary::State merged(std::span<const Summary::State* const> parts);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/observer/merged.inl.hpp"
#endif
