// SPDX-License-Identifier: Apache-2.0
// A Placement that keeps hidden states on the device reserves room for the rebuilt layer in each plan that it makes.
// sentences: 1
// says: with EveryStep, because a plan that is only applied reserves no room for the rebuilt layer
#include "sluice/engine/systems/apt_serve.hpp"
#include "sluice/policy/replan/every_step.hpp"
#include "sluice/policy/replan/on_batch_change.hpp"

#ifdef GOOD
using E = sluice::With<sluice::AptServe, sluice::EveryStep>;
#else
using E = sluice::With<sluice::AptServe, sluice::OnBatchChange>;
#endif

std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }
