// SPDX-License-Identifier: Apache-2.0
// Confluence with one part replaced: the rows of docs/leading.md's ablation.
#pragma once

#include "sluice/engine/systems/confluence.hpp"
#include "sluice/sluice.hpp"

namespace ablation {

using namespace sluice;

using WithFcfs = With<Confluence, Fcfs>;
using WithFutureMemory = With<Confluence, FitsFutureMemory>;
using WithDistances = With<Confluence, GroupedDistance>;
using WithSwappedLayers = With<Confluence, BasicSwappedLayers<SwappedOut::fresh>>;
using AllOnDevice = With<Confluence, AllResident>;
using Moving = With<Confluence, MoveToHost>;
using LendingWeights = With<Confluence, ParameterRemap>;
using ByRankedSize = ConfluenceRanked;

} // namespace ablation
