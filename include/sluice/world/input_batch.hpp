// SPDX-License-Identifier: Apache-2.0
// InputBatch: the order of the requests in a server's input tensors.
#pragma once

#include "sluice/core/ids.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/state/view/proposal.hpp"
#include "sluice/state/view/view.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// The rows of a persistent batch (vllm/v1/worker/gpu_input_batch.py, `add_request` and `condense`). A request keeps
/// its row from one iteration to the next. A request that is not scheduled loses its row, newcomers take the free rows
/// from the first on, and then the last rows move into the rows that are still free.
///
/// The order matters where a kernel deals out the sequences in the order of their rows (`DecodeTail`).
class InputBatch {
 public:
  /// Takes over the requests of an iteration. O(batch).
  void update(const View& view, std::span<const Claim> batch) {
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

  /// The contexts of the decodes among the rows, each with the fresh token.
  void contexts(const View& view, std::span<const Claim> batch, std::vector<Tokens>& into) const {
    into.clear();
    decodes_.assign(seen_.size(), false);
    for (const Claim& claim : batch)
      decodes_[index(claim.slot)] = claim.tokens.count() == 1 && view.row(claim.slot).pending().count() == 1;
    for (const Row& row : rows_)
      if (decodes_[index(row.slot)]) into.push_back(view.row(row.slot).computed + Tokens{1});
  }

  /// The slots of the rows, in order.
  [[nodiscard]] std::vector<Slot> slots() const {
    std::vector<Slot> all;
    for (const Row& row : rows_) all.push_back(row.slot);
    return all;
  }

 private:
  struct Row {
    Slot slot{};
    RequestId id{};
    bool used = false;
  };
  struct Seen {
    std::int64_t step = 0; ///< the last iteration that scheduled it
    RequestId id{};
    bool has_row = false;
  };
  Seen& seen_at(Slot slot) {
    if (index(slot) >= seen_.size()) seen_.resize(index(slot) + 1);
    return seen_[index(slot)];
  }

  std::vector<Row> rows_;
  std::vector<Seen> seen_; ///< by slot
  std::vector<std::size_t> free_;
  mutable std::vector<bool> decodes_;
  std::int64_t step_ = 0;
};

} // namespace sluice
