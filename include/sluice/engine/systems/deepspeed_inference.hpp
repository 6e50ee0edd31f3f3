// SPDX-License-Identifier: Apache-2.0
// DeepSpeed-Inference applied to KV, as OrbitFlow compares with it.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/placement/fixed_distance.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

namespace sluice {

/// DeepSpeed-Inference (SC 2022; OrbitFlow, section 5.1): every layer's KV is on the host and is fetched while the
/// layer before it computes.
///
///   every layer offloaded, for good           OffloadAll
///   fetched one layer ahead                   NextLayer
using DeepSpeedInference = Engine<FcfsPrefillFirst, OffloadAll, NextLayer>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<DeepSpeedInference::composition>;
#endif

} // namespace sluice
