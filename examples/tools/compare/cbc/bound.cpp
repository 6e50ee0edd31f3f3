// SPDX-License-Identifier: Apache-2.0
// add_bounds: the bounds of a comparison, solved by CBC.
#include "compare/bound.hpp"

#include "sluice/bound/cbc/most_kept.hpp"
#include "sluice/policy/cost/layer_work.hpp"

#include "compare/rows.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

bool can_bound() { return true; }

namespace {

BoundMachine machine_of(const Setup& setup) {
  const Geometry& geometry = setup.geometry;
  const LinkCost link = setup.cost.link();
  // A token's KV of one layer comes as KV, or as hidden states where those are smaller.
  const double block = static_cast<double>(std::min(geometry.layer_block_bytes, geometry.layer_hidden_bytes).count());
  const double token = block / static_cast<double>(setup.limits.block_tokens.count());
  return {.floor = *setup.cost.floor(),
          .layers = geometry.layers,
          .batch = setup.limits.batch,
          .memory = TokenBlocks{setup.device_blocks.count() / geometry.layers},
          .block_tokens = setup.limits.block_tokens,
          .fetched_per_s = link.rate.count() / token,
          .hidden_share = geometry.hidden_size().blocks(1)};
}

} // namespace

void add_bounds(const Comparison& comparison, ComparisonReport& report) {
  const std::size_t seeds = seeds_in(comparison);
  for (const double scale : comparison.scales) {
    PossibleShares shares{.slo_scale = scale};
    for (std::size_t seed = 0; seed < seeds; ++seed) {
      const Setup& setup = comparison.redrawn.empty() ? comparison.setup : comparison.redrawn[seed];
      Expected<Requests> reader = setup.open(slo_at(comparison, scale));
      if (!reader) return; // it was read before
      const Expected<std::vector<RequestSpec>> requests = read_all(*reader);
      if (!requests) return;
      const std::pair<Freedom, PossibleShare&> wanted[] = {{{.pauses = true, .link = true}, shares.any},
                                                           {{.pauses = false, .link = true}, shares.no_pauses},
                                                           {{.pauses = true, .link = false}, shares.device},
                                                           {{.pauses = false, .link = false}, shares.device_no_pauses}};
      for (const auto& [freedom, share] : wanted) {
        const KeptBound bound = most_kept(KeptProblem(machine_of(setup), *requests, freedom));
        share.most += bound.share() / static_cast<double>(seeds);
        share.found += bound.found_share() / static_cast<double>(seeds);
      }
    }
    report.possible.push_back(shares);
    for (SystemReport& row : report.systems)
      if (row.slo_scale == scale) row.slo_possible = shares.any;
  }
}

} // namespace compared
