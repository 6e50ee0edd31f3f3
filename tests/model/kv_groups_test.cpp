// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/model/kv_groups.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>

using namespace sluice;

namespace kv_groups_test {

constexpr KvRule full{.entry = 4096};
constexpr KvRule window{.kind = KvKind::sliding, .entry = 2048, .window = 128};
constexpr KvRule state{.kind = KvKind::state, .entry = 100'000};
constexpr KvRule fourth{.kind = KvKind::compressed, .entry = 1024, .stride = 4};

/// Layers 0 to 5: window, window, full and state, in turn; layer 5 has compressed entries too.
KvGroups mixed() {
  KvGroups kv;
  for (int layer = 0; layer < 6; ++layer) {
    if (layer % 3 < 2) CHECK(kv.add(layer, window));
    if (layer % 3 == 2) CHECK(kv.add(layer, full));
    if (layer % 3 == 2) CHECK(kv.add(layer, state));
  }
  CHECK(kv.add(5, fourth));
  return kv;
}

/// Quanta of a request's blocks [first, last) in `held`, one block and layer at a time.
std::int64_t counted(const KvGroups& kv, Tokens block, std::int64_t first, std::int64_t last, std::int64_t total,
                     LayerSet held, std::int64_t quantum) {
  std::int64_t bytes = 0;
  for (const KvGroup& group : kv.groups())
    for (int layer = 0; layer < max_layers; ++layer) {
      if (!(group.layers & held).contains(layer)) continue;
      for (std::int64_t at = first; at < last; ++at) {
        const std::int64_t keep = group.rule.keep(block);
        if (keep == KvRule::unlimited || at >= total - keep) bytes += group.rule.block_bytes(block);
      }
    }
  CHECK(bytes % quantum == 0);
  return bytes / quantum;
}

TEST_CASE("a layer keeps all tokens, a window, an entry per few tokens or a state") {
  CHECK(full.bytes(Tokens{1000}) == Bytes{4096 * 1000});
  CHECK(window.bytes(Tokens{100}) == Bytes{2048 * 100});
  CHECK(window.bytes(Tokens{1000}) == Bytes{2048 * 128});
  CHECK(state.bytes(Tokens{0}) == Bytes{0});
  CHECK(state.bytes(Tokens{1}) == Bytes{100'000});
  CHECK(state.bytes(Tokens{1000}) == Bytes{100'000});
  CHECK(fourth.bytes(Tokens{7}) == Bytes{1024}); // three tokens are part of the running state
  CHECK(full.keep(Tokens{16}) == KvRule::unlimited);
  CHECK(window.keep(Tokens{16}) == 9); // a window that does not end at a block's end touches nine
  CHECK(KvRule{.kind = KvKind::chunked, .entry = 1, .window = 128}.keep(Tokens{16}) == 8);
  CHECK(state.keep(Tokens{16}) == 1);
}

TEST_CASE("groups add up to a request's bytes, of which a part stops growing") {
  const KvGroups kv = mixed();
  CHECK(kv.groups().size() == 4);
  CHECK(kv.growing() == (LayerSet{}.insert(2).insert(5)));
  CHECK(kv.fixed_bytes() == Bytes{4 * 2048 * 128 + 2 * 100'000});
  CHECK(kv.growth_bytes_per_token() == 2 * 4096 + 1024 / 4.0);
  for (const std::int64_t tokens : {128, 1024, 65536})
    CHECK(kv.bytes(Tokens{tokens}) == kv.fixed_bytes() + Bytes{(2 * 4096 + 256) * tokens});
  CHECK(!kv.uniform(6));
}

TEST_CASE("only one growing rule in all layers is uniform") {
  KvGroups kv;
  for (int layer = 0; layer < 4; ++layer) CHECK(kv.add(layer, full));
  CHECK(kv.uniform(4));
  CHECK(!kv.uniform(5)); // a layer without KV
  KvGroups windows;
  for (int layer = 0; layer < 4; ++layer) CHECK(windows.add(layer, window));
  CHECK(!windows.uniform(4));
}

TEST_CASE("a ninth kind of KV is one too many") {
  KvGroups kv;
  for (int kind = 0; kind < KvGroups::most; ++kind) CHECK(kv.add(0, {.entry = 16 + kind}));
  CHECK(kv.add(1, {.entry = 16}));
  CHECK(!kv.add(0, {.entry = 1}));
}

TEST_CASE("room in blocks is counted block by block, and its parts add up") {
  const KvGroups kv = mixed();
  const Tokens block{16};
  const KvBlocks blocks(kv, block);
  Random random(1);
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  const LayerSet all = LayerSet::all(6);
  for (int trial = 0; trial < 2000; ++trial) {
    const std::int64_t total = below(60), head = below(total + 1);
    LayerSet here;
    for (int layer = 0; layer < 6; ++layer)
      if (below(2) == 0) here.insert(layer);
    CHECK(blocks.room(0, head, total, here) == counted(kv, block, 0, head, total, here, blocks.quantum().count()));
    CHECK(blocks.room(0, head, total, here) + blocks.room(0, head, total, all - here) +
              blocks.room(head, total, total, all) ==
          blocks.room(0, total, total, all));
    CHECK(blocks.room(0, total, total, all) <= blocks.room(0, total + 1, total + 1, all));
    CHECK(blocks.room(total) == blocks.room(0, total, total, all));
    CHECK(blocks.room(total + 1) - blocks.room(total) <= blocks.room(1));
    // At least the exact bytes; at most one block of each windowed layer more.
    const Bytes room = blocks.quantum() * blocks.room(0, total, total, all);
    const Bytes exact = kv.bytes(block * total);
    CHECK(exact <= room);
    CHECK(room <= exact + Bytes{4 * 2048 * 16});
  }
}

TEST_CASE("a uniform model's quantum is its layer block") {
  KvGroups kv;
  for (int layer = 0; layer < 40; ++layer) CHECK(kv.add(layer, {.entry = 327'680 / 16}));
  const KvBlocks blocks(kv, Tokens{16});
  CHECK(blocks.quantum() == Bytes{327'680});
  for (const std::int64_t total : {0, 1, 77}) CHECK(blocks.room(0, total, total, LayerSet::all(33)) == total * 33);
}

TEST_CASE("entries that stand for several blocks take room when a block completes one") {
  KvGroups kv;
  CHECK(kv.add(0, {.kind = KvKind::compressed, .entry = 1024, .stride = 128})); // eight blocks of 16
  CHECK(kv.add(0, {.kind = KvKind::sliding, .entry = 64, .window = 32}));
  const KvBlocks blocks(kv, Tokens{16});
  CHECK(blocks.quantum() == Bytes{1024}); // a window's block, and an entry
  for (std::int64_t total = 0; total < 40; ++total) {
    CHECK(blocks.room(total) == total / 8 + std::min<std::int64_t>(total, 3));
    for (std::int64_t head = 0; head <= total; ++head) {
      const LayerSet one = LayerSet::all(1);
      CHECK(blocks.room(0, head, total, one) + blocks.room(head, total, total, one) == blocks.room(total));
    }
  }
  CHECK(KvBlocks::fits(kv, Tokens{256}));
  CHECK(!KvBlocks::fits(kv, Tokens{48}));
}

TEST_CASE("no groups count nothing, and uniform ones are not empty") {
  CHECK(KvBlocks{}.empty());
  CHECK(KvBlocks{}.room(7) == 0);
  CHECK(!KvBlocks(mixed(), Tokens{16}).empty());
}

TEST_CASE("layers read as far as a window, a chunk or the top k of sparse attention") {
  KvGroups kv = mixed(); // a window of 128
  CHECK(kv.add(2, {.kind = KvKind::latent, .entry = 8, .picked = 2048}));
  CHECK(kv.add(3, {.kind = KvKind::compressed, .entry = 8, .stride = 4, .picked = 512})); // of four tokens each
  const ReadLimits reads{kv};
  REQUIRE(reads.limits().size() == 2);
  CHECK(reads.limits()[0] == Tokens{128});
  CHECK(reads.limits()[1] == Tokens{2048});
  CHECK(reads.find(window) == 0);
  CHECK(reads.find({.kind = KvKind::compressed, .entry = 8, .stride = 4, .picked = 512}) == 1);
  CHECK(reads.find(full) == -1);
  CHECK(ReadLimits{}.limits().empty());
}

} // namespace kv_groups_test
