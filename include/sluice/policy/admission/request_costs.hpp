// SPDX-License-Identifier: Apache-2.0
// What a request costs an admission: the time of its prompt, the work of its decodes, its room on the device.
#pragma once

#include "sluice/policy/cost/work.hpp"
#include "sluice/policy/transfer/estimate.hpp"
#include "sluice/state/view/request_row.hpp"
#include "sluice/state/view/view.hpp"

#include <cstdint>
#include <span>

namespace sluice {

// prompt_time: how long an iteration takes that computes one request's prompt.

/// How long an iteration computes that has only the remainder of the request's prompt.
[[nodiscard]] inline Seconds prompt_time(const Estimate& estimate, const RequestRow& row) {
  const ChunkWork prompt{row.pending(), row.computed};
  Work work;
  work.chunks = {&prompt, 1};
  work.samples = 1;
  return estimate.step(work);
}

// decode_work: what a decode of some requests computes.

/// A decode of these requests, `later` tokens from now.
[[nodiscard]] inline Work decode_work(const View& view, std::span<const Slot> slots, Tokens later = Tokens{0}) {
  Work work;
  work.decodes = work.samples = static_cast<std::int64_t>(slots.size());
  for (const Slot slot : slots) work.decode_context += view.row(slot).context() + later;
  return work;
}

// resident_room: device memory that a request takes if it computes its tokens with all KV there.

/// Blocks of one layer that the request has once its pending tokens are computed.
[[nodiscard]] inline TokenBlocks blocks_after_pending(const View& view, const RequestRow& row) {
  return row.blocks_after(row.pending(), view.limits.block_tokens);
}
/// The room of these in all layers, in layer blocks.
[[nodiscard]] inline std::int64_t resident_room(const View& view, const RequestRow& row) {
  return view.geometry.kv_of(blocks_after_pending(view, row)).count();
}

} // namespace sluice
