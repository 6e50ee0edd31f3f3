// SPDX-License-Identifier: Apache-2.0
// depart, settle, adopt: how KV moves between sequences and the host tier.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/records/record.hpp"
#include "sluice/world/host_tier/host_tier.hpp"
#include "sluice/world/machine/kv_sequences.hpp"
#include "sluice/world/machine/machine_core.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace sluice {

/// The blocks of a request that has ended stay in the tier as long as its policy says.
inline void pin_for_session(MachineCore& core, std::uint32_t session, std::uint64_t salt, Seconds until, Seconds now,
                            std::vector<RecordKey> keys) {
  if (!(until > Seconds{0}) || keys.empty()) return;
  core.tier.pin_session(session, salt, std::move(keys), until, now);
}

/// What the tier has of a request that has ended. Of the blocks beyond those that its policy keeps, what no other
/// session has had leaves first; the others are pinned.
inline void stay_or_leave(MachineCore& core, const KeptKv& kept, std::uint64_t salt, Seconds until, Seconds now,
                          std::vector<RecordKey> keys) {
  core.tier.note_user(keys, kept.user());
  if (kept.stays < Tokens{std::ssize(keys) * core.block_tokens}) {
    const auto stay = static_cast<std::size_t>(std::max<std::int64_t>(0, kept.stays.count() / core.block_tokens));
    core.tier.leave_first(std::span<const RecordKey>(keys).subspan(stay), kept.user());
    keys.resize(stay);
  }
  pin_for_session(core, kept.session, salt, until, now, std::move(keys));
}

/// A session's next request joins: what the tier has of the session's earlier ones, or will get, is not pinned for it.
inline void unpin_session(MachineCore& core, std::uint32_t session) {
  core.tier.unpin_session(session);
  for (DepartedSequence& one : core.sequences.departed())
    if (one.kept.session == session) one.pinned_until = Seconds{0};
}

/// A request leaves its slot. Its full blocks that the tier does not have go to the host, like those of a request that
/// is preempted to the host, and then to the tier; all others are released. `tokens`: the request's, at least those
/// that have KV. The tier gets at most what `sequence.kept` says; what it has already is pinned even if that is
/// nothing. Called between iterations.
inline void depart(MachineCore& core, KvSequence& sequence, std::span<const std::int32_t> tokens, std::uint64_t salt,
                   Seconds now) {
  std::int64_t full = std::min(sequence.computed, static_cast<std::int64_t>(tokens.size())) / core.block_tokens;
  if (!core.tier.exists() || sequence.lost || full == 0) return core.sequences.leave(sequence);
  for (int layer = 0; layer < core.layers; ++layer) { // a block that is nowhere in one layer is of no use in the others
    const BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
    full = std::min(full, table.size());
    for (const BlockRun& run : table.runs())
      if (!run.exists()) full = std::min<std::int64_t>(full, run.first);
  }
  std::vector<RecordKey> keys;
  prefix_keys(tokens.first(static_cast<std::size_t>(full * core.block_tokens)), core.block_tokens, salt, keys);
  const std::span<const RecordKey> known = std::span(keys).first(core.tier.find(keys));
  core.tier.touch_again(known, sequence.kept.worth);
  core.tier.pin(known); // until `settle`: what follows them could not be found without them
  const auto first = static_cast<std::int64_t>(known.size());
  full = std::max(first, std::min(full, sequence.kept.tokens.count() / core.block_tokens));
  const std::int64_t room = core.tier.reserve(full - first, sequence.kept.worth);
  core.tier.counts().refused += full - first - room;
  full = first + room;
  for (int layer = 0; layer < core.layers; ++layer) {
    BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
    const auto release = [&core](BlockRun& run) { core.store.step(run, BlockEvent::release); };
    table.each(0, first, release);
    table.each(full, table.size(), release);
    table.each(first, full, [&](BlockRun& run) {
      run.awaited = run.sooner = false;
      if (!run.on_device()) return;
      if (run.state.writable())
        run.tokens = static_cast<std::uint16_t>(core.block_tokens); // resident layers count late
      core.evict(sequence, layer, run);
    });
  }
  keys.resize(static_cast<std::size_t>(full));
  if (full == first) {
    core.tier.unpin(keys);
    stay_or_leave(core, sequence.kept, salt, sequence.pinned_until, now, std::move(keys));
    return core.sequences.leave(sequence);
  }
  core.sequences.depart(sequence, keys, first,
                        {tokens.begin() + static_cast<std::ptrdiff_t>(first * core.block_tokens),
                         tokens.begin() + static_cast<std::ptrdiff_t>(full * core.block_tokens)},
                        salt);
}

/// A number is taken whose content goes to the host tier before it is overwritten, if the tier does not have it.
inline void depart_taken(MachineCore& core, std::uint32_t number) {
  ReleasedBlocks::Entry entry = core.released.take(number);
  if (entry.device.empty()) return;
  const bool wanted = core.tier.exists() && !core.tier.holds(entry.key),
             has_room = wanted && core.tier.reserve(1, 0) > 0;
  if (!has_room) {
    core.tier.counts().refused += wanted ? 1 : 0;
    for (const std::int32_t block : entry.device) core.store.give_up(block);
    return;
  }
  std::vector<BlockTable> tables(static_cast<std::size_t>(core.layers));
  DepartedSequence& gone = core.sequences.depart(entry.key, std::move(entry.tokens), std::move(tables));
  for (int layer = 0; layer < core.layers; ++layer) {
    BlockTable& table = gone.tables[static_cast<std::size_t>(layer)];
    table.grow(1);
    table[0].device = entry.device[static_cast<std::size_t>(layer)];
    table[0].tokens = static_cast<std::uint16_t>(core.block_tokens);
    core.store.step(table[0], BlockEvent::take);
    core.schedule.evict({BlockRef::nobody, layer, 0, gone.generation}, table[0]);
  }
}

/// The bytes of a host block, for threads that read or write them without a copy over the link.
using HostBlock = std::function<std::span<std::byte>(std::int32_t)>;

/// A block that has reached the tier.
struct SettledBlock {
  RecordKey key;
  std::vector<std::int32_t> tokens; ///< its own
};

/// Blocks of departed sequences that are all on the host belong to the tier from now on. Calls `added(block)` for those
/// that are new there.
template <class Added>
void settle(MachineCore& core, Seconds now, const Added& added) {
  std::vector<DepartedSequence>& departed = core.sequences.departed();
  for (std::size_t i = 0; i < departed.size();) { // in their order: what left last is the most recent
    DepartedSequence& one = departed[i];
    bool there = true;
    for (const BlockTable& table : one.tables)
      for (const BlockRun& run : table.runs()) there = there && (!run.exists() || run.on_host());
    if (!there && !one.lost) {
      ++i;
      continue;
    }
    const auto count = static_cast<std::int64_t>(one.keys.size());
    if (one.lost) {
      for (BlockTable& table : one.tables)
        for (BlockRun& run : table.runs()) core.store.step(run, BlockEvent::release);
      core.tier.give_back(count);
    } else {
      std::vector<std::vector<std::int32_t>> host(one.keys.size());
      for (std::int64_t block = 0; block < count; ++block)
        for (const BlockTable& table : one.tables) {
          const BlockRun& run = table.runs()[table.find(one.first + block)];
          host[static_cast<std::size_t>(block)].push_back(run.host + static_cast<std::int32_t>(one.first + block) -
                                                          run.first);
        }
      core.tier.add(one.keys, std::move(host), one.kept.worth, one.known.empty() ? nullptr : &one.known.back(),
                    [&](std::size_t block) {
                      const auto each = static_cast<std::ptrdiff_t>(core.block_tokens);
                      const auto token = one.tokens.begin() + static_cast<std::ptrdiff_t>(block) * each;
                      added(SettledBlock{one.keys[block], {token, token + each}});
                    });
      // Its beginning was used too: without that it would leave before its end, which then could not be found.
      std::vector<RecordKey> keys = one.known;
      core.tier.touch_again(keys, one.kept.worth);
      keys.insert(keys.end(), one.keys.begin(),
                  one.keys.begin() + static_cast<std::ptrdiff_t>(core.tier.find(one.keys)));
      if (!one.taken) stay_or_leave(core, one.kept, one.salt, one.pinned_until, now, std::move(keys));
    }
    core.tier.unpin(one.known);
    departed.erase(departed.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// A new sequence starts with `tokens` tokens of KV, of which it has those of the first `before` blocks. The others'
/// were kept for its request: from now on it shares them with the tier. `user`: of its request (`KeptKv::user`).
inline void adopt(MachineCore& core, KvSequence& sequence, std::int64_t tokens, std::uint64_t user,
                  std::int64_t before = 0) {
  const std::vector<RecordKey> keys = core.tier.take_kept(sequence.id);
  core.tier.note_user(keys, user);
  sequence.in_tier = static_cast<std::int64_t>(keys.size());
  const std::int64_t blocks = tokens / core.block_tokens;
  SLUICE_ASSERT(blocks == before || blocks <= static_cast<std::int64_t>(keys.size()),
                "the tier keeps at least what `find` returned");
  for (int layer = 0; layer < core.layers; ++layer) {
    BlockTable& table = sequence.tables[static_cast<std::size_t>(layer)];
    const auto host_of = [&](std::int64_t block) {
      return core.tier.blocks(keys[static_cast<std::size_t>(block)])[static_cast<std::size_t>(layer)];
    };
    if (table.size() < blocks) table.grow(blocks);
    for (std::int64_t block = before, end = before; block < blocks; block = end) { // neighbours on the host are one run
      const std::int32_t host = host_of(block);
      for (end = block + 1; end < blocks && host_of(end) == host + static_cast<std::int32_t>(end - block);) ++end;
      table.cut(end);
      core.store.share(table[table.cut(block)], host);
    }
  }
  sequence.computed = tokens;
  core.tier.counts().loaded += tokens - before * core.block_tokens;
}

} // namespace sluice
