// SPDX-License-Identifier: Apache-2.0
// InputBatch: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/world/simulated.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

SLUICE_INLINE void InputBatch::update(const View& view, std::span<const Claim> batch) {
  ++step_;
  for (const Claim& claim : batch) {
    if (claim.tokens.count() == 0) continue;
    Seen& seen = seen_at(claim.slot);
    seen = {step_, view.row(claim.slot).id, seen.id == view.row(claim.slot).id && seen.has_row};
  }
  free_.clear();
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    Seen& seen = seen_at(rows_[row].slot);
    if (seen.step == step_ && seen.id == rows_[row].id) continue;
    if (seen.id == rows_[row].id) seen.has_row = false;
    rows_[row].used = false;
    free_.push_back(row);
  }
  std::size_t next_free = 0;
  for (const Claim& claim : batch) {
    if (claim.tokens.count() == 0) continue;
    Seen& seen = seen_at(claim.slot);
    if (seen.has_row) continue;
    seen.has_row = true;
    const Row row{claim.slot, seen.id, true};
    if (next_free < free_.size())
      rows_[free_[next_free++]] = row;
    else
      rows_.push_back(row);
  }
  for (; next_free < free_.size(); ++next_free) {
    while (!rows_.empty() && !rows_.back().used) rows_.pop_back();
    if (free_[next_free] >= rows_.size()) break;
    rows_[free_[next_free]] = rows_.back();
    rows_.pop_back();
  }
}

SLUICE_INLINE void InputBatch::contexts(const View& view, std::span<const Claim> batch,
                                        std::vector<Tokens>& into) const {
  into.clear();
  decodes_.assign(seen_.size(), false);
  for (const Claim& claim : batch)
    decodes_[index(claim.slot)] = claim.tokens.count() == 1 && view.row(claim.slot).pending().count() == 1;
  for (const Row& row : rows_)
    if (decodes_[index(row.slot)]) into.push_back(view.row(row.slot).computed + Tokens{1});
}

SLUICE_INLINE std::vector<Slot> InputBatch::slots() const {
  std::vector<Slot> all;
  for (const Row& row : rows_) all.push_back(row.slot);
  return all;
}

SLUICE_INLINE InputBatch::Seen& InputBatch::seen_at(Slot slot) {
  if (index(slot) >= seen_.size()) seen_.resize(index(slot) + 1);
  return seen_[index(slot)];
}

SLUICE_INLINE Work detail::OrderedBatch::with_contexts(const Iteration& iteration) {
  rows.update(iteration.view, iteration.batch); // has no effect if the iteration is looked at twice
  rows.contexts(iteration.view, iteration.batch, contexts);
  Work work = iteration.work;
  work.contexts = contexts;
  return work;
}

} // namespace sluice
