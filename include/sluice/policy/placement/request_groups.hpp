// SPDX-License-Identifier: Apache-2.0
// RequestGroups: a search's requests as few groups of like ones.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/state/plan/instance.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace sluice {

/// Requests of one SLO and about one size are alike to the evaluator, since a layer waits for the sum of its transfers
/// however they divide the link. Groups have about equal KV: sorted by SLO and size, cut where a part is full.
class RequestGroups {
 public:
  /// Replaces `requests` by at most `most` groups of them, each as strict as its strictest member. Request i has
  /// `blocks_of(i)` blocks per layer, constant. With as many groups as requests each is one.
  template <class BlocksOf>
  void form(std::vector<InstanceRequest>& requests, std::int64_t most, BlocksOf&& blocks_of) {
    const std::size_t count = requests.size();
    sort(requests);
    group_.resize(count);
    std::int64_t all = 0, before = 0;
    for (std::size_t i = 0; i < count; ++i) all += blocks_of(i);
    const std::int64_t parts = std::min<std::int64_t>(most, static_cast<std::int64_t>(count));
    const bool each = parts == static_cast<std::int64_t>(count);
    groups_.clear();
    largest_.clear();
    std::int64_t part = -1;
    for (std::size_t at = 0; at < count; ++at) {
      const std::uint32_t i = order_[at];
      const std::int64_t blocks = blocks_of(i);
      const std::int64_t of = each ? static_cast<std::int64_t>(at) : (2 * before + blocks) * parts / (2 * all);
      before += blocks;
      if (of != part) {
        part = of;
        groups_.push_back({LayerBlocks{0}, Tokens{0}, requests[i].deposit, requests[i].slo_s});
        largest_.emplace_back();
      }
      InstanceRequest& group = groups_.back();
      group.blocks += LayerBlocks{blocks};
      group.deposit = std::min(group.deposit, requests[i].deposit);
      group.slo_s = std::min(group.slo_s, requests[i].slo_s);
      largest_.back() = i;
      group_[i] = static_cast<std::uint32_t>(groups_.size() - 1);
    }
    requests.assign(groups_.begin(), groups_.end());
  }

  /// The group of a request.
  [[nodiscard]] std::size_t of(std::size_t request) const { return group_[request]; }
  /// Each group's largest request.
  [[nodiscard]] const std::vector<std::uint32_t>& largest() const { return largest_; }

 private:
  /// By SLO, then by size, then as they came. A template, so that only a program that forms groups compiles the sort.
  template <class Requests>
  void sort(const Requests& requests) {
    order_.resize(requests.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return requests[a].slo_s != requests[b].slo_s ? requests[a].slo_s < requests[b].slo_s
                                                    : requests[a].tokens < requests[b].tokens;
    });
  }

  std::vector<std::uint32_t> order_, group_, largest_;
  std::vector<InstanceRequest> groups_;
};

} // namespace sluice
