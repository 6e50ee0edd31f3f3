// SPDX-License-Identifier: Apache-2.0
// The engine's core for a library: one source file that includes this with SLUICE_COMPILED defines all of it once.
#pragma once

#include "sluice/engine/core/checks.inl.hpp"
#include "sluice/engine/core/commit.inl.hpp"
#include "sluice/engine/core/copies_ahead.inl.hpp"
#include "sluice/engine/core/core.inl.hpp"
#include "sluice/engine/core/lending.inl.hpp"
#include "sluice/engine/core/move_claim.inl.hpp"
#include "sluice/engine/core/plan_check.inl.hpp"
#include "sluice/engine/core/plan_fit.inl.hpp"
#include "sluice/engine/core/preemption.inl.hpp"
#include "sluice/engine/core/prefix_reuse.inl.hpp"
#include "sluice/engine/core/prepared.inl.hpp"
#include "sluice/engine/core/requests.inl.hpp"
#include "sluice/engine/core/saved_states.inl.hpp"
#include "sluice/engine/core/tiers.inl.hpp"
#include "sluice/engine/submit.inl.hpp"
#include "sluice/state/memory/group_prefix_cache.inl.hpp"
#include "sluice/state/memory/prefix_cache.inl.hpp"
#include "sluice/state/view/view.inl.hpp"
#include "sluice/world/simulated.inl.hpp"
