// SPDX-License-Identifier: Apache-2.0
// Defaults: the default model of each role, collected here; each model's header declares that it is the default.
// Together they are a plain server: first come, first served, chunked prefill, everything resident, preemption by
// recomputation.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/policy/admission/fcfs.hpp"
#include "sluice/policy/caching/no_caching.hpp"
#include "sluice/policy/cost/roofline.hpp"
#include "sluice/policy/delivery/immediate.hpp"
#include "sluice/policy/layout/per_layer.hpp"
#include "sluice/policy/lookahead/in_step.hpp"
#include "sluice/policy/placement/all_resident.hpp"
#include "sluice/policy/relief/preempt_newest.hpp"
#include "sluice/policy/replan/on_batch_change.hpp"
#include "sluice/policy/retention/drop.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"
#include "sluice/policy/weights/resident_weights.hpp"
#include "sluice/world/simulated.hpp"

namespace sluice::detail {

/// Whether a role has a default that is a model of it.
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
