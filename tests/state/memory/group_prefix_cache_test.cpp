// SPDX-License-Identifier: Apache-2.0
// GroupPrefixCache: compared with a plain reference, with PrefixCache, and with hits that vLLM's users report.
#include "sluice/core/random.hpp"
#include "sluice/policy/retention/retention.hpp"
#include "sluice/state/memory/group_prefix_cache.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <list>
#include <set>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

using Keys = std::vector<BlockKey>;

/// The keys of `count` blocks, of which the first `shared` are those of `topic`.
Keys keys_of(std::uint64_t topic, std::size_t shared, std::uint64_t own, std::size_t count) {
  Keys keys;
  BlockKey key{};
  for (std::size_t i = 0; i < count; ++i)
    keys.push_back(key = next_key(key, (i < shared ? topic : (std::uint64_t{1} << 40) + own) * 1000 + i));
  return keys;
}

/// The same rules with sets and one list, without a thought for speed. `Name`: a group and the number of a key.
class PlainGroups {
 public:
  using Name = std::pair<std::size_t, BlockKey>;
  struct Entry {
    Name name;
    bool findable = false;
    int holders = 0;
    std::int64_t size = 0;
  };
  using At = std::list<Entry>::iterator;
  /// A request: the entries of each block of each group; of states the one that is written.
  struct Request {
    std::set<std::pair<std::int64_t, std::size_t>> copies; ///< found, but held by another: no room is taken yet
    std::vector<std::pair<std::pair<std::int64_t, std::size_t>, At>> held; ///< (entry, group)
    std::int64_t blocks = 0, shared = 0;
  };

  PlainGroups(std::int64_t room, const KvBlocks& kv) : kv_(kv), room_(room) {}

  std::int64_t used() const {
    return sum([](const Entry& entry) { return entry.holders > 0; });
  }
  std::int64_t free() const { return room_ - used(); }

  /// The largest count for which each group, on its own, has what it needs.
  std::size_t find(const Keys& keys, std::size_t most) const {
    for (std::size_t count = most; count > 0; --count) {
      bool all = true;
      for (std::size_t g = 0; all && g < kv_.parts().size(); ++g)
        all = suffices(g, keys, static_cast<std::int64_t>(count));
      if (all) return count;
    }
    return 0;
  }
  /// The free room that a request of `total` blocks takes if it finds the first `found`.
  std::int64_t needs(const Keys& keys, std::size_t found, std::int64_t total) {
    std::int64_t room = kv_.room(total);
    for (std::size_t g = 0; g < kv_.parts().size(); ++g)
      if (const KvPart& part = kv_.parts()[g]; part.grows())
        for (std::int64_t entry = 0; entry < static_cast<std::int64_t>(found) / part.step; ++entry)
          room -= place(g, keys, entry)->holders > 0 ? part.size() : 0;
    return room;
  }
  void attach(Request& request, const Keys& keys, std::size_t found) {
    request.blocks = static_cast<std::int64_t>(found);
    request.shared = 0;
    for (std::size_t count = 1; count <= keys.size(); ++count) {
      bool all = true, grows = false; // without a group that grows no more than the hit is known
      for (std::size_t g = 0; g < kv_.parts().size(); ++g) {
        if (!kv_.parts()[g].grows()) continue;
        grows = true;
        all = all && suffices(g, keys, static_cast<std::int64_t>(count));
      }
      if (grows ? all : count == found) request.shared = static_cast<std::int64_t>(count);
    }
    for (std::size_t g = 0; g < kv_.parts().size(); ++g) {
      const KvPart& part = kv_.parts()[g];
      if (part.state) {
        if (found > 0) renew({g, keys[found - 1]});
        continue;
      }
      for (auto [entry, last] = part.kept(request.blocks); entry < last; ++entry) {
        const At at = place(g, keys, entry);
        if (at == entries_.end() || (at->holders > 0 && !part.grows())) {
          request.copies.insert({entry, g});
          continue;
        }
        ++at->holders;
        request.held.push_back({{entry, g}, at});
      }
    }
  }
  void extend(Request& request, std::int64_t blocks) {
    const auto passed = [&](std::int64_t entry, std::size_t g) {
      return !kv_.parts()[g].state && entry < kv_.parts()[g].kept(blocks).first;
    };
    std::sort(request.held.begin(), request.held.end(), [](const auto& a, const auto& b) {
      return std::pair{a.first.second, a.first.first} < std::pair{b.first.second, b.first.first};
    });
    std::erase_if(request.held, [&](auto& one) {
      const bool goes = passed(one.first.first, one.first.second);
      if (goes) leave(one.second);
      return goes;
    });
    std::erase_if(request.copies, [&](const auto& one) { return passed(one.first, one.second); });
    for (std::size_t g = 0; g < kv_.parts().size(); ++g) {
      const KvPart& part = kv_.parts()[g];
      const auto has = [&](std::int64_t entry) {
        return std::any_of(request.held.begin(), request.held.end(), [&](const auto& one) {
          return one.first.second == g && (part.state || one.first.first == entry);
        });
      };
      for (auto [entry, last] = part.kept(blocks); entry < last; ++entry)
        if (!has(entry)) request.held.push_back({{entry, g}, take(g)});
    }
    request.copies.clear();
    request.blocks = blocks;
  }
  template <class Keeps>
  void seal(const Request& request, std::size_t sealed, const Keys& keys, std::size_t full, Keeps&& keeps) {
    for (std::size_t block = sealed; block < full; ++block)
      for (std::size_t g = 0; g < kv_.parts().size(); ++g) {
        const KvPart& part = kv_.parts()[g];
        const auto end = static_cast<std::int64_t>(block) + 1;
        if (part.state) {
          if (keeps(BlockEnd{end, static_cast<std::int64_t>(full), request.shared, 0})) store({g, keys[block]});
          continue;
        }
        if (end % part.step != 0) continue;
        const std::int64_t entry = end / part.step - 1;
        const auto at = std::find_if(request.held.begin(), request.held.end(), [&](const auto& one) {
          return one.first == std::pair{entry, g};
        });
        if (at == request.held.end())
          store({g, keys[block]});
        else
          name(at->second, {g, keys[block]});
      }
  }
  void release(Request& request) {
    const auto end_of = [&](const auto& one) {
      const KvPart& part = kv_.parts()[one.first.second];
      return part.state ? request.blocks : (one.first.first + 1) * part.step;
    };
    std::sort(request.held.begin(), request.held.end(), [&](const auto& a, const auto& b) {
      return std::pair{-end_of(a), a.first.second} < std::pair{-end_of(b), b.first.second};
    });
    for (auto& one : request.held) leave(one.second);
    request = {};
  }

 private:
  template <class Counts>
  std::int64_t sum(Counts&& counts) const {
    std::int64_t total = 0;
    for (const Entry& entry : entries_) total += counts(entry) ? entry.size : 0;
    return total;
  }
  bool found(const Name& name) const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const Entry& entry) { return entry.findable && entry.name == name; });
  }
  bool suffices(std::size_t g, const Keys& keys, std::int64_t count) const {
    const KvPart& part = kv_.parts()[g];
    if (part.state) return found({g, keys[static_cast<std::size_t>(count - 1)]});
    if (count % part.step != 0) return false;
    for (std::int64_t block = 0; block < count; ++block)
      if ((block + 1) % part.step == 0 && block >= part.first_read(count) / part.step * part.step &&
          !found({g, keys[static_cast<std::size_t>(block)]}))
        return false;
    return true;
  }
  At place(std::size_t g, const Keys& keys, std::int64_t entry) {
    const Name name{g, keys[static_cast<std::size_t>((entry + 1) * kv_.parts()[g].step - 1)]};
    return std::find_if(entries_.begin(), entries_.end(),
                        [&](const Entry& one) { return one.findable && one.name == name; });
  }
  void name(At at, const Name& name) {
    if (at->findable || found(name)) return;
    at->findable = true;
    at->name = name;
  }
  void renew(const Name& name) {
    for (At at = entries_.begin(); at != entries_.end(); ++at)
      if (at->findable && at->name == name && at->holders == 0) return entries_.splice(entries_.end(), entries_, at);
  }
  void leave(At at) {
    if (--at->holders == 0) entries_.splice(entries_.end(), entries_, at);
  }
  At take(std::size_t g) {
    const std::int64_t size = kv_.parts()[g].size();
    while (room_ - sum([](const Entry&) { return true; }) < size) {
      const auto oldest =
          std::find_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.holders == 0; });
      REQUIRE(oldest != entries_.end());
      entries_.erase(oldest);
    }
    entries_.push_back({{g, {}}, false, 1, size});
    return std::prev(entries_.end());
  }
  void store(const Name& stored) {
    if (found(stored)) return renew(stored);
    if (kv_.parts()[stored.first].size() > free()) return;
    const At at = take(stored.first);
    name(at, stored);
    leave(at);
  }

  KvBlocks kv_;
  std::int64_t room_;
  std::list<Entry> entries_; ///< those that nobody holds are in the order in which they leave
};

constexpr Tokens block_tokens{16};

/// One to four groups of few layers, most of them unlike.
KvBlocks random_groups(Random& random) {
  KvGroups kv;
  const auto add = [&](const KvRule& rule) { REQUIRE(kv.add(static_cast<int>(random.below(3)), rule)); };
  if (random.below(8) > 0) add({.entry = 64 << random.below(2)});
  if (random.below(3) == 0) add({.kind = KvKind::indexer, .entry = 48});
  if (random.below(3) == 0) add({.kind = KvKind::compressed, .entry = 96, .stride = 16 << random.below(3)});
  if (random.below(2) == 0)
    add({.kind = KvKind::sliding, .entry = 64, .window = static_cast<std::int64_t>(random.below(60)) + 1});
  if (random.below(4) == 0)
    add({.kind = KvKind::chunked,
         .entry = 64,
         .window = random.below(2) == 0 ? 48 : static_cast<std::int64_t>(random.below(60)) + 1});
  if (random.below(2) == 0)
    add({.kind = KvKind::state, .entry = 512 + 1024 * static_cast<std::int64_t>(random.below(3))});
  if (kv.groups().empty()) add({.kind = KvKind::state, .entry = 1024});
  return KvBlocks(kv, block_tokens);
}

bool keeps_some(int policy, const BlockEnd& end) {
  return policy == 0 ? ChunkEnds::keeps(end) : policy == 1 ? EveryBlock::keeps(end) : BranchPoints::keeps(end);
}

/// One request after another, each in chunks of at most `chunk` tokens; how many of them find a prefix.
template <class Policy>
int hits(const KvBlocks& kv, Tokens block, Tokens prompt, Tokens shared, Tokens chunk, int requests, int topics) {
  GroupPrefixCache cache(LayerBlocks{kv.room(prompt.count() / block.count() + 1) * 4 * requests}, kv);
  int count = 0;
  for (int i = 0; i < requests; ++i) {
    const auto blocks = static_cast<std::size_t>(prompt.count() / block.count());
    const Keys keys =
        keys_of(static_cast<std::uint64_t>(i % topics), static_cast<std::size_t>(shared.count() / block.count()),
                static_cast<std::uint64_t>(i), blocks);
    GroupPrefixCache::Table table;
    const std::size_t found =
        cache.find(std::span(keys).first(static_cast<std::size_t>((prompt.count() - 1) / block.count())));
    count += found > 0 ? 1 : 0;
    cache.attach(table, keys, found);
    std::size_t sealed = found;
    for (std::int64_t computed = static_cast<std::int64_t>(found) * block.count(); computed < prompt.count();) {
      computed = std::min(prompt.count(), computed + chunk.count());
      cache.extend(table, blocks_for(Tokens{computed}, block).count());
      const auto full = static_cast<std::size_t>(computed / block.count());
      cache.seal(table, sealed, std::span(keys).first(full), Policy::keeps);
      sealed = full;
    }
    cache.release(table);
  }
  return count;
}

/// Qwen3.5-4B: 32 layers, of which every fourth has full attention (two K and V of 4 heads of 256, two bytes each); the
/// others have a gated delta rule's state. vLLM makes its blocks 528 tokens long, which is as large as the state.
KvBlocks qwen() {
  KvGroups kv;
  for (int layer = 0; layer < 32; ++layer)
    REQUIRE(kv.add(layer, layer % 4 == 3 ? KvRule{.entry = 4096} : KvRule{.kind = KvKind::state, .entry = 2'146'304}));
  return KvBlocks(kv, Tokens{528});
}

} // namespace

TEST_CASE("random requests: hits and room are those of the plain reference, and no hit lacks a group") {
  Random random(47);
  std::int64_t found_blocks = 0, windows = 0, evicted = 0;
  for (int round = 0; round < 1500; ++round) {
    const KvBlocks kv = random_groups(random);
    const std::int64_t room =
        kv.room(12) + static_cast<std::int64_t>(random.below(3 * static_cast<std::uint64_t>(kv.room(12))));
    GroupPrefixCache cache(LayerBlocks{room}, kv);
    PlainGroups plain(room, kv);
    const int policy = static_cast<int>(random.below(3));
    const auto keeps = [policy](const BlockEnd& end) { return keeps_some(policy, end); };
    struct Request {
      Keys keys;
      std::size_t sealed = 0;
      std::int64_t charged = 0; ///< blocks, less those that others held
      GroupPrefixCache::Table table;
      PlainGroups::Request plain;
    };
    std::vector<Request> requests(6);
    for (std::size_t i = 0; i < requests.size(); ++i)
      requests[i].keys = keys_of(random.below(2), random.below(10), random.below(4), random.below(12) + 1);
    for (int step = 0; step < 60; ++step) {
      Request& request = requests[random.below(requests.size())];
      const Keys& keys = request.keys;
      if (request.table.blocks > 0 && random.below(3) == 0) {
        cache.release(request.table);
        plain.release(request.plain);
        request.sealed = 0;
      } else if (request.table.blocks == 0) {
        const std::size_t found = cache.find(std::span(keys).first(keys.size() - 1));
        REQUIRE(found == plain.find(keys, keys.size() - 1));
        const std::int64_t total = static_cast<std::int64_t>(found) + 1;
        const std::int64_t held = cache.held(std::span(keys).first(found));
        REQUIRE(kv.room(total - held) >= plain.needs(keys, found, total));
        if (plain.needs(keys, found, total) > plain.free() || kv.room(total - held) > plain.free()) continue;
        cache.attach(request.table, keys, found);
        plain.attach(request.plain, keys, found);
        const std::int64_t before = cache.free().count();
        cache.extend(request.table, total);
        plain.extend(request.plain, total);
        REQUIRE(cache.free().count() <= before);
        request.sealed = found;
        request.charged = total - held;
        found_blocks += static_cast<std::int64_t>(found);
      } else if (static_cast<std::size_t>(request.table.blocks) < keys.size()) {
        const std::int64_t most = static_cast<std::int64_t>(keys.size()) - request.table.blocks;
        const std::int64_t more = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most))) + 1;
        // What the ledger counts for the growth is what the cache takes, and never less.
        const std::int64_t growth = kv.room(request.charged + more) - kv.room(request.charged);
        if (growth > cache.free().count()) continue;
        const std::int64_t before = cache.free().count();
        cache.extend(request.table, request.table.blocks + more);
        plain.extend(request.plain, request.plain.blocks + more);
        REQUIRE(before - cache.free().count() == growth);
        request.charged += more;
      } else {
        continue;
      }
      if (request.table.blocks > 0 && random.below(4) > 0) { // what it has room for is computed
        const auto full = static_cast<std::size_t>(request.table.blocks) - random.below(2);
        if (full >= request.sealed && full <= keys.size()) {
          cache.seal(request.table, request.sealed, std::span(keys).first(full), keeps);
          plain.seal(request.plain, request.sealed, keys, full, keeps);
          request.sealed = full;
        }
      }
      REQUIRE(cache.free().count() == plain.free());
      for (const Request& each : requests) {
        const std::size_t found = cache.find(each.keys);
        REQUIRE(found == plain.find(each.keys, each.keys.size()));
        for (std::size_t g = 0; found > 0 && g < kv.parts().size(); ++g) {
          const KvPart& part = kv.parts()[g];
          windows += !part.grows() && !part.state ? 1 : 0;
          if (part.state || part.first_read(static_cast<std::int64_t>(found)) < static_cast<std::int64_t>(found))
            REQUIRE(cache.has(g, std::span(each.keys).first(found)));
        }
        evicted += each.sealed == 0 && found == 0 ? 1 : 0;
      }
    }
    for (Request& request : requests) cache.release(request.table);
    REQUIRE(cache.free() == LayerBlocks{room});
  }
  CHECK(found_blocks > 1000); // otherwise the test would check little
  CHECK(windows > 1000);
  CHECK(evicted > 1000);
}

TEST_CASE("one group of all tokens finds, holds and frees what PrefixCache does") {
  Random random(48);
  std::size_t found_blocks = 0;
  for (int round = 0; round < 300; ++round) {
    const int layers = static_cast<int>(random.below(4)) + 1;
    KvGroups kv;
    for (int layer = 0; layer < layers; ++layer) REQUIRE(kv.add(layer, {.entry = 64}));
    const auto blocks = static_cast<std::int64_t>(random.below(40)) + 8;
    PrefixCache alike{TokenBlocks{blocks}};
    GroupPrefixCache groups(LayerBlocks{blocks * layers}, KvBlocks(kv, block_tokens));
    struct Request {
      Keys keys;
      PrefixCache::Table alike;
      GroupPrefixCache::Table groups;
    };
    std::vector<Request> requests(10);
    for (Request& request : requests)
      request.keys = keys_of(random.below(3), random.below(7), random(), random.below(10) + 1);
    for (int step = 0; step < 200; ++step) {
      Request& request = requests[random.below(requests.size())];
      const Keys& keys = request.keys;
      const std::size_t has = request.alike.blocks.size();
      if (has > 0 && random.below(3) == 0) {
        alike.release(request.alike);
        groups.release(request.groups);
      } else if (has == 0) {
        const std::size_t found = alike.find(keys);
        REQUIRE(groups.find(keys) == found);
        const std::span<const BlockKey> first = std::span(keys).first(found);
        REQUIRE(groups.held(first) == static_cast<std::int64_t>(alike.find_held(first).held));
        alike.attach(request.alike, first);
        groups.attach(request.groups, keys, found);
        found_blocks += found;
      }
      if (const std::size_t held = request.alike.blocks.size(); held < keys.size() && alike.free().count() > 0) {
        const auto most = std::min(keys.size() - held, static_cast<std::size_t>(alike.free().count()));
        const std::size_t count = random.below(most) + 1;
        const std::size_t sealed = request.alike.sealed;
        alike.extend(request.alike, count);
        groups.extend(request.groups, static_cast<std::int64_t>(held + count));
        const std::size_t full = std::max(sealed, held + count - random.below(2));
        alike.seal(request.alike, std::span(keys).first(full));
        groups.seal(request.groups, sealed, std::span(keys).first(full), ChunkEnds::keeps);
      }
      REQUIRE(groups.free() == across_layers(alike.free(), layers));
      for (const Request& each : requests) REQUIRE(groups.find(each.keys) == alike.find(each.keys));
    }
  }
  CHECK(found_blocks > 1000);
}

TEST_CASE("vllm#45238: a prefix 100 tokens shorter is never found with checkpoints at chunk ends") {
  // Blocks of 528 tokens, 64 prompts of 2,200 tokens with 12 prefixes, chunks of 2,048: 52 hits of 64 if 1,600 tokens
  // are shared, none if 1,500 are; 52 of both with a checkpoint per block.
  const Tokens block{528}, prompt{2200}, chunk{2048};
  CHECK(hits<ChunkEnds>(qwen(), block, prompt, Tokens{1600}, chunk, 64, 12) == 52);
  CHECK(hits<ChunkEnds>(qwen(), block, prompt, Tokens{1500}, chunk, 64, 12) == 0);
  CHECK(hits<EveryBlock>(qwen(), block, prompt, Tokens{1600}, chunk, 64, 12) == 52);
  CHECK(hits<EveryBlock>(qwen(), block, prompt, Tokens{1500}, chunk, 64, 12) == 52);
  // The second request of each prefix keeps the state where it parts from the first.
  CHECK(hits<BranchPoints>(qwen(), block, prompt, Tokens{1600}, chunk, 64, 12) == 40);
  CHECK(hits<BranchPoints>(qwen(), block, prompt, Tokens{1500}, chunk, 64, 12) == 40);
}

TEST_CASE("vllm#40696: with blocks of 528 tokens no prompt of fewer tokens is found") {
  for (const std::int64_t prompt : {1, 100, 527, 528}) // of 528 tokens the last is computed
    CHECK(hits<EveryBlock>(qwen(), Tokens{528}, Tokens{prompt}, Tokens{prompt}, Tokens{2048}, 8, 1) == 0);
  CHECK(hits<EveryBlock>(qwen(), Tokens{528}, Tokens{529}, Tokens{529}, Tokens{2048}, 8, 1) == 7);
}

TEST_CASE("BranchPoints: the third request with a prefix finds it where the first two part") {
  CHECK(BranchPoints::keeps({.blocks = 3, .last = 9, .shared = 3, .prompt = 9}));
  CHECK(BranchPoints::keeps({.blocks = 9, .last = 12, .shared = 3, .prompt = 9}));
  CHECK_FALSE(BranchPoints::keeps({.blocks = 12, .last = 12, .shared = 3, .prompt = 9}));
  GroupPrefixCache cache(LayerBlocks{qwen().room(4) * 100}, qwen());
  for (std::uint64_t i = 0; i < 3; ++i) {
    const Keys keys = keys_of(1, 2, i, 4);
    GroupPrefixCache::Table table;
    const std::size_t found = cache.find(keys);
    CHECK(found == (i < 2 ? 0u : 2u));
    cache.attach(table, keys, found);
    table.prompt = 4;
    cache.extend(table, 4);
    cache.seal(table, found, keys, BranchPoints::keeps);
    cache.release(table);
  }
}
