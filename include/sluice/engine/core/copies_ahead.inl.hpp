// SPDX-License-Identifier: Apache-2.0
// Copies ahead: clean copies of full blocks on the host, made while the link is idle and given up before anything else;
// and KV of preempted requests that returns before they run.
#pragma once

#include "sluice/engine/core/commit_steps.hpp"
#include "sluice/engine/core/prepared.hpp"
#include "sluice/engine/core/writers.hpp"
#include "sluice/policy/transfer/estimate.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

namespace sluice {

namespace detail {

SLUICE_INLINE Holding with_copies(const Core& core, const RequestRow& request, Holding target) {
  if (!core.policies->is.copies_ahead) return target;
  const Tokens block_tokens = core.limits.block_tokens;
  TokenBlocks copied{request.computed.count() / block_tokens.count()}; // the full ones
  const LayerSet resident = LayerSet::all(core.geometry.layers) - target.away();
  resident.for_each(
      [&](int layer) { copied = std::min(copied, request.holding.on_host(layer, request.blocks, block_tokens)); });
  target.copied = resident.empty() ? Tokens{0} : Tokens{copied.count() * block_tokens.count()};
  return target;
}

SLUICE_INLINE void give_up_copies(Core& core, LayerBlocks needed) {
  if (!core.policies->is.copies_ahead) return;
  const std::int64_t block_tokens = core.limits.block_tokens.count();
  for (const auto* list : {&core.requests.preempted, &core.requests.running})
    for (auto at = list->rbegin(); at != list->rend() && needed.count() > 0; ++at) {
      RequestRow& request = core.row(*at);
      if (request.holding.copied.count() == 0) continue;
      const Footprint before = core.footprint(request);
      if (core.geometry.alike()) {
        const std::int64_t each = core.layout.room(TokenBlocks{1}, request.resident_layers).count();
        const std::int64_t fewer = (needed.count() + each - 1) / each;
        request.holding.copied =
            Tokens{std::max<std::int64_t>(0, request.holding.copied.count() - fewer * block_tokens)};
      } else { // the newest copies are of windows and states, so a part of them frees little
        request.holding.copied = Tokens{0};
      }
      const Footprint after = core.footprint(request);
      core.ledger.replace(before, after);
      needed -= before.host - after.host;
    }
}

/// What the iteration leaves of the link in one direction, in layer blocks.
struct IdleLink {
  LayerBlocks out{0}, in{0};
};

SLUICE_INLINE IdleLink idle_link(const Core& core, const PolicyCalls& policies, const Moves& moves,
                                 const Prepared& prepared) {
  double in_blocks = moves.urgent_blocks;
  for (const LayerStream& stream : moves.streams) in_blocks += stream.blocks * stream.layers.count();
  const double out_blocks =
      prepared.urgent_out + prepared.background + moves.written_blocks + written_back_blocks(moves.streams);
  const double compute_s = policies.table.compute_s(policies.policies, prepared.work, core.geometry.layers);
  const BlockLink link = block_link(policies.table.link(policies.policies), core.geometry);
  const bool each_way = link.each_way();
  const double out = each_way ? compute_s * link.out_blocks_per_s * (1 - link.mix_loss) - out_blocks
                              : compute_s * link.blocks_per_s - out_blocks - in_blocks;
  const double in = each_way ? compute_s * link.blocks_per_s * (1 - link.mix_loss) - in_blocks : out;
  const auto whole = [](double blocks) { return LayerBlocks{static_cast<std::int64_t>(std::max(0.0, blocks))}; };
  return {whole(out), whole(in)};
}

/// How many of a request's blocks behind its oldest `clean` ones have copies of at most `left` in all.
SLUICE_INLINE std::int64_t blocks_within(const Core& core, const RequestRow& request, std::int64_t clean,
                                         LayerBlocks left) {
  const KvBlocks& kv = core.geometry.kv();
  if (kv.empty()) return left.count() / core.layout.room(TokenBlocks{1}, request.resident_layers).count();
  std::int64_t fits = 0, fails = request.blocks.count() - clean + 1;
  while (fails - fits > 1) {
    const std::int64_t middle = fits + (fails - fits) / 2;
    const std::int64_t room =
        kv.room(clean, clean + middle, request.blocks.count(), LayerSet::all(core.geometry.layers));
    (room <= left.count() ? fits : fails) = middle;
  }
  return fits;
}

/// Copies as many full blocks of one request's resident layers as `left` has room for, and takes them from it.
SLUICE_INLINE LayerBlocks copy_request(Core& core, RequestRow& request, LayerBlocks& left) {
  if (request.resident_layers == 0) return LayerBlocks{0};
  const Tokens block_tokens = core.limits.block_tokens;
  const std::int64_t clean = request.holding.copied_blocks(request.blocks, block_tokens).count();
  const std::int64_t more =
      std::min(request.computed.count() / block_tokens.count() - clean, blocks_within(core, request, clean, left));
  if (more <= 0) return LayerBlocks{0};
  const Holding from = request.holding;
  request.holding.copied = Tokens{(clean + more) * block_tokens.count()};
  const Footprint before = core.footprint(from, request.blocks);
  const Footprint after = core.footprint(request);
  core.ledger.replace(before, after);
  left -= after.host - before.host;
  return movement(from, request.holding, request.blocks, block_tokens, core.geometry.layers, {}, core.geometry.kv())
      .to_host;
}

/// The residency of a preempted request once `layers` more of its layers have come back, the first ones first.
SLUICE_INLINE Holding with_layers_back(const Core& core, const RequestRow& request, std::int64_t layers) {
  Holding target = request.holding;
  for (std::int64_t i = 0; i < layers; ++i) target.host.erase(target.host.lowest());
  return with_copies(core, request, target);
}

/// Fetches layers of preempted requests in the order of `next`, as many as the link has time for and memory is free. A
/// block for each request of a batch stays free, so that the next tokens, and newcomers, evict nothing for it
/// (FastServe reserves as much). Nothing returns while anything leaves, nor beside other fetches, which must arrive in
/// time.
SLUICE_INLINE void fetch_ahead(Core& core, std::span<const Slot> next, LayerBlocks idle, Moves& moves,
                               Prepared& prepared) {
  if (next.empty() || moves.leaving.count() > 0 || prepared.urgent_out > 0 || !moves.streams.empty() ||
      moves.urgent_blocks > 0 || core.policies->is.real_time) // a real backend fetches when the request joins
    return;
  const int layers = core.geometry.layers;
  const LayerBlocks kept = core.geometry.kv_of(TokenBlocks{1}) * core.limits.batch;
  LayerBlocks room = LayerBlocks{static_cast<std::int64_t>(prepared.room)} - kept;
  for (const Slot slot : next) {
    if (room.count() <= 0 || idle.count() <= 0) return;
    if (index(slot) >= core.requests.rows.size()) continue;
    RequestRow& request = core.row(slot);
    const Holding from = request.holding;
    if (request.phase != Phase::preempted || request.waits || request.blocks.count() == 0 || from.host.empty() ||
        !from.nowhere.empty() || !from.saved.empty() || from.head != all_tokens)
      continue;
    const std::int64_t possible = std::min(room.count(), idle.count()) / request.blocks.count();
    const int missing = from.host.count();
    const bool all_fit = core.geometry.kv_of(request.blocks, missing) <= std::min(room, idle);
    const bool one_by_one = core.layerwise() && core.geometry.alike();
    const std::int64_t back = one_by_one ? std::min<std::int64_t>(possible, missing) : all_fit ? missing : 0;
    if (back == 0) return;
    const Holding target = with_layers_back(core, request, back);
    const Footprint before = core.footprint(request);
    const Footprint after = core.footprint(target, request.blocks);
    const Movement moved =
        movement(from, target, request.blocks, core.limits.block_tokens, layers, {}, core.geometry.kv());
    if (moved.to_host.count() > 0 || after.device - before.device > core.ledger.device().free()) return;
    core.ledger.replace(before, after);
    request.holding = target;
    request.resident_layers = layers - target.away().count();
    room -= after.device - before.device;
    idle -= moved.to_device;
    moves.to_device += moved.to_device;
    moves.urgent_blocks += static_cast<double>(moved.to_device.count());
    prepared.room -= static_cast<double>((after.device - before.device).count());
    if (back < missing) return; // a later request does not overtake it
  }
}

} // namespace detail

SLUICE_INLINE void copy_ahead(Core& core, std::span<const Slot> next, const PolicyCalls& policies, Seconds now,
                              Moves& moves, Prepared& prepared) {
  const detail::IdleLink idle = detail::idle_link(core, policies, moves, prepared);
  LayerBlocks left =
      std::min(policies.table.copy_ahead(policies.policies, core.view(now), idle.out), core.ledger.host().free());
  LayerBlocks copied{0};
  detail::in_giving_order(core, next, [&](Slot slot) {
    copied += detail::copy_request(core, core.row(slot), left);
    return left.count() > 0;
  });
  for (auto at = core.requests.running.begin(); at != core.requests.running.end() && left.count() > 0; ++at)
    copied += detail::copy_request(core, core.row(*at), left);
  moves.to_host += copied;
  prepared.background += static_cast<double>(copied.count());
  const bool shared = !block_link(policies.table.link(policies.policies), core.geometry).each_way();
  detail::fetch_ahead(core, next, shared ? idle.in - copied : idle.in, moves, prepared);
}

} // namespace sluice
