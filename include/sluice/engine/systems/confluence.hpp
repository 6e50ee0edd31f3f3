// SPDX-License-Identifier: Apache-2.0
// Confluence: an engine of this project, which joins what the published systems do well.
#pragma once

#include "sluice/engine/engine.hpp"
#include "sluice/policy/admission/output_length.hpp"
#include "sluice/policy/admission/slack_first.hpp"
#include "sluice/policy/placement/worth_joining.hpp"
#include "sluice/policy/relief/preempt_newest.hpp"
#include "sluice/policy/replan/on_batch_change.hpp"
#include "sluice/policy/retention/keep_until_needed.hpp"
#include "sluice/policy/transfer/deadline_pool.hpp"

namespace sluice {

/// No published system leads outside its niche. This one composes small policies of this project with parts of
/// theirs, under one set of numbers; docs/leading.md compares it with each of them, cell by cell, and says where it
/// loses.
///
///   whose first token comes next, in which chunks    SlackFirst: requests that can be in time, the smallest first
///   whose tokens wait for one that presses           its Pressing: the request whose pause costs least
///   who joins beside those that run                  WorthJoining: LightLLM's look ahead, the link's room included
///   where the KV of few requests lives               WorthJoining: OrbitFlow's distances, by GroupedDistance
///   ... and of many                                  WorthJoining: Pie's SwappedLayers, only new KV goes back
///   when plans are made                              OnBatchChange
///   whose tokens wait for KV that has grown          PreemptNewest (vLLM)
///   what remains of a paused request                 KeepUntilNeeded (OrbitFlow)
///   in which order transfers share the link          DeadlinePool
///
/// Taken out again, because seeds showed no difference: a relief of its own (PreemptNewest decides the same, since a
/// pressing claim names who pays), expected lengths for newcomers in time, and OrbitFlow's DecodeWindow (8 to 22 times
/// the plans).
using Confluence = Engine<SlackFirst, WorthJoining, DeadlinePool, OnBatchChange, PreemptNewest, KeepUntilNeeded>;

/// Confluence for a server that has a learned ranker of output lengths (LTR's, RankedLength): a newcomer's size is its
/// prompt and the predicted output. Other servers cannot be this engine, so docs/leading.md compares it apart.
using ConfluenceRanked = With<Confluence, BasicSlackFirst<RankedLength>>;

#ifdef SLUICE_COMPILED // in the library
extern template class BasicEngine<Confluence::composition>;
#endif

} // namespace sluice
