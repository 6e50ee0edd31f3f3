// SPDX-License-Identifier: Apache-2.0
// Defaults: the model of each role that an engine takes where none is named, brought together; each model's header
// declares that it is the default. Together they are a plain server: first come, first served, chunked prefill,
// everything resident, preemption by recomputation.
#pragma once

#include "sluice/admission/fcfs.hpp"
#include "sluice/backend/simulated.hpp"
#include "sluice/core/contract.hpp"
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

namespace sluice::detail {

/// A role has a default, and that is a model of it.
template <class Role>
concept HasDefault = requires {
  requires Contract<Role>::template met<typename Default<Role>::type>;
};

template <class... Roles>
consteval bool have_defaults(Parts<Roles...>) {
  return (HasDefault<Roles> && ...);
}
static_assert(have_defaults(roles::OnePerEngine{}),
              "sluice: a role in the list has no default: its folder needs a concept with a Contract, and a Default "
              "beside a model of it, which engine/defaults.hpp includes");

} // namespace sluice::detail
