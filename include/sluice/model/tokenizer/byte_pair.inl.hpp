// SPDX-License-Identifier: Apache-2.0
// BytePairMerges: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/assert.hpp"
#include "sluice/model/tokenizer/byte_pair.hpp"

#include <algorithm>
#include <functional>

namespace sluice {

SLUICE_MODEL_INLINE BytePairMerges::BytePairMerges(std::size_t count) {
  std::size_t slots = 16;
  while (slots < 2 * count) slots *= 2;
  slots_.resize(slots);
}

SLUICE_MODEL_INLINE void BytePairMerges::add(std::int32_t left, std::int32_t right, Merge merge) {
  SLUICE_ASSERT(left >= 0 && right >= 0 && merge.rank >= 0, "non-negative tokens and rank");
  if (2 * (count_ + 1) > slots_.size()) grow();
  Slot& slot = slots_[slot_of(slots_, left, right)];
  count_ += slot.left < 0 ? 1U : 0U;
  slot = {left, right, merge};
}

SLUICE_MODEL_INLINE std::optional<Merge> BytePairMerges::find(std::int32_t left, std::int32_t right) const {
  const Slot& slot = slots_[slot_of(slots_, left, right)];
  if (slot.left < 0) return std::nullopt;
  return slot.merge;
}

SLUICE_MODEL_INLINE void BytePairMerges::join(std::vector<std::int32_t>& tokens, std::size_t first,
                                              Workspace& workspace) const {
  const std::size_t count = tokens.size() - first;
  if (count < 2) return;
  SLUICE_ASSERT(count <= INT32_MAX, "at most INT32_MAX tokens");
  auto& symbols = workspace.symbols;
  auto& queue = workspace.queue;
  symbols.clear();
  queue.clear();
  const auto last = static_cast<std::int32_t>(count) - 1;
  for (std::int32_t i = 0; i <= last; ++i)
    symbols.push_back({tokens[first + static_cast<std::size_t>(i)], i - 1, i < last ? i + 1 : -1, true});
  const auto symbol = [&](std::int32_t at) -> Workspace::Symbol& { return symbols[static_cast<std::size_t>(at)]; };
  const auto merge_at = [&](std::int32_t left) -> std::optional<Merge> {
    if (left < 0 || !symbol(left).there || symbol(left).after < 0) return std::nullopt;
    return find(symbol(left).token, symbol(symbol(left).after).token);
  };
  for (std::int32_t i = 0; i < last; ++i)
    if (const auto merge = merge_at(i)) queue.push_back({merge->rank, i});
  std::make_heap(queue.begin(), queue.end(), std::greater<>{});
  const auto propose = [&](std::int32_t left) {
    const auto merge = merge_at(left);
    if (!merge) return;
    queue.push_back({merge->rank, left});
    std::push_heap(queue.begin(), queue.end(), std::greater<>{});
  };

  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>{});
    const Workspace::Candidate best = queue.back();
    queue.pop_back();
    const auto merge = merge_at(best.left);
    if (!merge || merge->rank != best.rank) continue;
    Workspace::Symbol& left = symbol(best.left);
    Workspace::Symbol& right = symbol(left.after);
    left.token = merge->result;
    right.there = false;
    left.after = right.after;
    if (left.after >= 0) symbol(left.after).before = best.left;
    propose(left.before);
    propose(best.left);
  }

  std::size_t out = first;
  for (std::int32_t i = 0; i >= 0; i = symbol(i).after) tokens[out++] = symbol(i).token;
  tokens.resize(out);
}

SLUICE_MODEL_INLINE std::size_t BytePairMerges::slot_of(const std::vector<Slot>& slots, std::int32_t left,
                                                        std::int32_t right) {
  const std::uint64_t key =
      (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) | static_cast<std::uint32_t>(right);
  const std::uint64_t mixed = (key ^ (key >> 29U)) * 0x9E3779B97F4A7C15U;
  std::size_t at = static_cast<std::size_t>(mixed >> 20U) & (slots.size() - 1);
  while (slots[at].left >= 0 && (slots[at].left != left || slots[at].right != right))
    at = (at + 1) & (slots.size() - 1);
  return at;
}

SLUICE_MODEL_INLINE void BytePairMerges::grow() {
  std::vector<Slot> larger(2 * slots_.size());
  for (const Slot& slot : slots_)
    if (slot.left >= 0) larger[slot_of(larger, slot.left, slot.right)] = slot;
  slots_.swap(larger);
}

} // namespace sluice
