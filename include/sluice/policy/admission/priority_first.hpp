// SPDX-License-Identifier: Apache-2.0
// PriorityFirst: waiting requests join by the priority that their users set.
#pragma once

#include "sluice/policy/admission/least_first.hpp"

namespace sluice {

/// `RequestSpec::priority`, lower first.
struct Priority {
  static constexpr bool knows_lengths = false;
  static constexpr bool heeds_priority = true;
  struct State {};
  [[nodiscard]] double operator()(State& /*state*/, const RequestRow& row) const { return row.spec.priority; }
};

/// vLLM's scheduling policy "priority" (docs.vllm.ai, --scheduling-policy), except that no running request is preempted
/// for a newcomer with a lower number: only Relief preempts, for memory.
using PriorityFirst = BasicLeastFirst<Priority>;

static_assert(Admission<PriorityFirst>);

} // namespace sluice
