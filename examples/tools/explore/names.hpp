// SPDX-License-Identifier: Apache-2.0
// The names under which sluice-explore prints policies that are aliases.
#pragma once

#include "sluice/engine/product.hpp"
#include "sluice/policy/admission/largest_virtual_lag_first.hpp"
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/policy/placement/fewest_layers.hpp"
#include "sluice/policy/placement/token_wise.hpp"
#include "sluice/policy/relief/pause.hpp"
#include "sluice/policy/retention/move_to_host.hpp"

// A wrong name does not compile where it is pasted, and a test pastes all of them.
template <>
inline constexpr std::string_view sluice::alias_of<sluice::Fcfs> = "Fcfs";
template <>
inline constexpr std::string_view sluice::alias_of<sluice::FcfsPrefillFirst> = "FcfsPrefillFirst";
template <>
inline constexpr std::string_view sluice::alias_of<sluice::LargestVirtualLagFirst> = "LargestVirtualLagFirst";
template <>
inline constexpr std::string_view sluice::alias_of<sluice::FewestLayers> = "FewestLayers";
template <>
inline constexpr std::string_view sluice::alias_of<sluice::DistancePlacement> = "DistancePlacement";
template <>
inline constexpr std::string_view sluice::alias_of<sluice::TokenWise> = "TokenWise";
template <>
inline constexpr std::string_view sluice::alias_of<sluice::PauseLargest> = "PauseLargest";
template <>
inline constexpr std::string_view sluice::alias_of<sluice::MoveToHost> = "MoveToHost";
