// SPDX-License-Identifier: Apache-2.0
// Defaults: the model of each role that an engine takes where none is named.
#pragma once

#include "sluice/admission/fcfs.hpp"
#include "sluice/backend/simulated.hpp"
#include "sluice/cost/roofline.hpp"
#include "sluice/delivery/immediate.hpp"
#include "sluice/layout/per_layer.hpp"
#include "sluice/lookahead/in_step.hpp"
#include "sluice/placement/all_resident.hpp"
#include "sluice/relief/preempt_newest.hpp"
#include "sluice/replan/on_batch_change.hpp"
#include "sluice/retention/drop.hpp"
#include "sluice/transfer/deadline_pool.hpp"
#include "sluice/weights/resident_weights.hpp"

namespace sluice {

/// The default model of a role. Together they are a plain server: first come, first served, chunked prefill, everything
/// resident, preemption by recomputation.
template <class Role>
struct Default;

// clang-format off
template <> struct Default<roles::Admission> { using type = Fcfs; };
template <> struct Default<roles::Placement> { using type = AllResident; };
template <> struct Default<roles::Weights>   { using type = ResidentWeights; };
template <> struct Default<roles::Cost>      { using type = Roofline; };
template <> struct Default<roles::Transfer>  { using type = DeadlinePool; };
template <> struct Default<roles::Replan>    { using type = OnBatchChange; };
template <> struct Default<roles::Relief>    { using type = PreemptNewest; };
template <> struct Default<roles::Retention> { using type = Drop; };
template <> struct Default<roles::Delivery>  { using type = Immediate; };
template <> struct Default<roles::Lookahead> { using type = InStep; };
template <> struct Default<roles::Layout>    { using type = PerLayer; };
template <> struct Default<roles::Backend>   { using type = Simulated; };
// clang-format on

} // namespace sluice
