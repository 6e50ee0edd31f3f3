// SPDX-License-Identifier: Apache-2.0
// decode_work: what a decode of some requests computes.
#pragma once

#include "sluice/policy/cost/work.hpp"
#include "sluice/state/view/view.hpp"

#include <cstdint>
#include <span>

namespace sluice {

/// A decode of these requests, `later` tokens from now.
[[nodiscard]] inline Work decode_work(const View& view, std::span<const Slot> slots, Tokens later = Tokens{0}) {
  Work work;
  work.decodes = work.samples = static_cast<std::int64_t>(slots.size());
  for (const Slot slot : slots) work.decode_context += view.row(slot).context() + later;
  return work;
}

} // namespace sluice
