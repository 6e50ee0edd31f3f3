// SPDX-License-Identifier: Apache-2.0
// Holding, footprint, movement and ledger: no block is lost, counted twice or moved without need.
#include "sluice/policy/layout/all_layers.hpp"
#include "sluice/policy/layout/layer_groups.hpp"
#include "sluice/policy/layout/layout.hpp"
#include "sluice/policy/layout/per_layer.hpp"
#include "sluice/state/memory/ledger.hpp"

#include "support/hand_made.hpp"
#include "support/stored_states.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr Tokens block{16};

LayerSet random_set(Random& random, int layers) {
  LayerSet set;
  for (int layer = 0; layer < layers; ++layer)
    if (random.below(3) == 0) set.insert(layer);
  return set;
}

/// Every layer on the device, on the host or nowhere.
Holding random_holding(Random& random, int layers) {
  const LayerSet host = random_set(random, layers);
  return {all_tokens, host, random_set(random, layers) - host};
}
/// The same for an oldest share of the tokens, or for all.
Holding random_headed(Random& random, int layers) {
  Holding holding = random_holding(random, layers);
  if (random.below(3) != 0) holding.head = Tokens{16 * between(random, 0, 300)};
  if (random.below(2) == 0) holding.copied = Tokens{16 * between(random, 0, 300)};
  return holding;
}

/// On the host, as the only place or as a copy.
bool on_host(const Holding& holding, int layer, std::int64_t block_index) {
  if (holding.host.contains(layer)) return holding.head == all_tokens || block_index < holding.head.count() / 16;
  return !holding.nowhere.contains(layer) && block_index < holding.copied.count() / 16;
}

enum class Place { device, host, nowhere };
Place place(const Holding& holding, int layer, std::int64_t block_index = 0) {
  if (holding.head != all_tokens && block_index >= holding.head.count() / 16) return Place::device;
  return holding.host.contains(layer) ? Place::host : holding.nowhere.contains(layer) ? Place::nowhere : Place::device;
}

} // namespace

TEST_CASE("a footprint counts every layer block once, where it is") {
  Random random(61);
  for (int round = 0; round < 500; ++round) {
    const int layers = static_cast<int>(between(random, 1, 80));
    const Holding holding = random_holding(random, layers);
    const TokenBlocks blocks{between(random, 0, 300)};
    std::int64_t device = 0, host = 0;
    for (int layer = 0; layer < layers; ++layer) {
      device += place(holding, layer) == Place::device ? blocks.count() : 0;
      host += place(holding, layer) == Place::host ? blocks.count() : 0;
    }
    const Footprint room = footprint<PerLayer>(holding, blocks, block, layers);
    CHECK(room.device.count() == device);
    CHECK(room.host.count() == host);
  }
}

TEST_CASE("copies ahead take memory on both sides, and reduce a later movement to the host by their size") {
  Random random(66);
  for (int round = 0; round < 500; ++round) {
    const int layers = static_cast<int>(between(random, 1, 80));
    const Holding holding = random_headed(random, layers);
    const TokenBlocks blocks{between(random, 0, 300)};
    std::int64_t host = 0;
    for (int layer = 0; layer < layers; ++layer)
      for (std::int64_t i = 0; i < blocks.count(); ++i) host += on_host(holding, layer, i) ? 1 : 0;
    CHECK(footprint<PerLayer>(holding, blocks, block, layers).host.count() == host);
    Holding plain = holding;
    plain.copied = Tokens{0};
    CHECK(footprint<PerLayer>(plain, blocks, block, layers).device ==
          footprint<PerLayer>(holding, blocks, block, layers).device);
    Holding preempted;
    preempted.host = LayerSet::all(layers);
    if (!holding.nowhere.empty()) continue;
    const std::int64_t all = blocks.count() * layers;
    CHECK(movement(holding, preempted, blocks, block, layers).to_host.count() <= all - host);
  }
}

TEST_CASE_TEMPLATE("footprints add up over blocks, and other layouts take no less", L, PerLayer, LayerGroups<4>,
                   AllLayers) {
  Random random(62);
  for (int round = 0; round < 500; ++round) {
    const int layers = static_cast<int>(between(random, 1, 80));
    const Holding holding = random_holding(random, layers);
    const TokenBlocks a{between(random, 0, 300)}, b{between(random, 0, 300)};
    const Footprint whole = footprint<L>(holding, a + b, block, layers);
    CHECK(whole == footprint<L>(holding, a, block, layers) + footprint<L>(holding, b, block, layers));
    const Footprint least = footprint<PerLayer>(holding, a + b, block, layers);
    CHECK(whole.device >= least.device);
    CHECK(whole.host >= least.host);
  }
}

TEST_CASE("with a head, the sets refer to it only, and newer tokens are resident") {
  Random random(63);
  for (int round = 0; round < 500; ++round) {
    const int layers = static_cast<int>(between(random, 1, 80));
    Holding holding = random_holding(random, layers);
    const TokenBlocks blocks{between(random, 0, 300)};
    const std::int64_t head = between(random, 0, 300);
    holding.head = Tokens{16 * head};
    const TokenBlocks old{std::min(head, blocks.count())};
    const Holding all{all_tokens, holding.host, holding.nowhere};
    const Footprint expected =
        footprint<PerLayer>(all, old, block, layers) + footprint<PerLayer>(Holding{}, blocks - old, block, layers);
    CHECK(footprint<PerLayer>(holding, blocks, block, layers) == expected);
  }
}

TEST_CASE("a movement fetches and writes exactly the layers that change their memory") {
  Random random(64);
  for (int round = 0; round < 500; ++round) {
    const int layers = static_cast<int>(between(random, 1, 80));
    const Holding from = random_headed(random, layers), to = random_headed(random, layers);
    const TokenBlocks blocks{between(random, 0, 300)};
    std::int64_t fetched = 0, written = 0;
    for (int layer = 0; layer < layers; ++layer)
      for (std::int64_t i = 0; i < blocks.count(); ++i) {
        fetched += place(from, layer, i) == Place::host && place(to, layer, i) == Place::device ? 1 : 0;
        written += !on_host(from, layer, i) && on_host(to, layer, i) ? 1 : 0;
      }
    const Movement moved = movement(from, to, blocks, block, layers);
    CHECK(moved.to_device.count() == fetched);
    CHECK(moved.to_host.count() == written);
    // Staying costs nothing, and no detour is shorter.
    CHECK(movement(from, from, blocks, block, layers).to_device.count() == 0);
    CHECK(movement(from, from, blocks, block, layers).to_host.count() == 0);
    const Holding over = random_headed(random, layers);
    const Movement round_about =
        movement(from, over, blocks, block, layers) + movement(over, to, blocks, block, layers);
    if (over.nowhere.empty()) CHECK(round_about.to_device >= moved.to_device);
    CHECK(round_about.to_host >= moved.to_host);
  }
}

TEST_CASE("a ledger agrees with a count of all requests, and remembers its peak") {
  Random random(65);
  Ledger ledger(LayerBlocks{10'000}, LayerBlocks{20'000});
  std::vector<Footprint> held(12);
  LayerBlocks most{0};
  for (int step = 0; step < 5000; ++step) {
    Footprint& one = held[random.below(held.size())];
    const Footprint next{LayerBlocks{between(random, 0, 2000)}, LayerBlocks{between(random, 0, 2000)}};
    const bool fits =
        next.device - one.device <= ledger.device().free() && next.host - one.host <= ledger.host().free();
    if (!fits) continue;
    ledger.replace(one, next); // if memory is nearly full, only because the old blocks are freed first
    one = next;
    Footprint sum;
    for (const Footprint& room : held) sum = sum + room;
    most = std::max(most, sum.device);
    REQUIRE(ledger.device().used() == sum.device);
    REQUIRE(ledger.host().used() == sum.host);
    REQUIRE(ledger.device().free() + ledger.device().used() == ledger.device().capacity());
  }
  CHECK(ledger.device().peak() >= most);
  CHECK(ledger.device().peak() <= ledger.device().capacity());
  ledger.resize_device(ledger.device().used());
  CHECK(ledger.device().free() == LayerBlocks{0});
}

TEST_CASE("hidden states take host memory by their own size, and are written once") {
  Random random(67);
  for (int round = 0; round < 300; ++round) {
    const int layers = static_cast<int>(between(random, 1, 80));
    Holding holding = random_headed(random, layers);
    const TokenBlocks blocks{between(random, 0, 300)};
    const HiddenSize size{Bytes{between(random, 1, 400)}, Bytes{100}};
    const Footprint without = footprint<PerLayer>(holding, blocks, block, layers, size);
    CHECK(without == footprint<PerLayer>(holding, blocks, block, layers));
    const Holding before = holding;
    holding.hidden = random_set(random, layers) & holding.nowhere;
    holding.next_states = random.below(2) == 0; // the next block's, too
    const Footprint with = footprint<PerLayer>(holding, blocks, block, layers, size);
    CHECK(with.device == without.device);
    const std::int64_t head = holding.head_blocks(blocks, block).count();
    const std::int64_t states = std::min(blocks.count(), head + (holding.next_states ? 1 : 0)) * holding.hidden.count();
    const std::int64_t bytes = states * size.hidden.count();
    CHECK((with.host - without.host).count() * 100 >= bytes);
    CHECK((with.host - without.host).count() * 100 < bytes + 100);
    CHECK(movement(before, holding, blocks, block, layers, size).to_host == with.host - without.host);
    CHECK(movement(holding, holding, blocks, block, layers, size).to_host.count() == 0);
    CHECK(movement(holding, before, blocks, block, layers, size).to_host.count() == 0);

    // On the device each layer's take whole blocks, and they cross nothing.
    Holding here = holding;
    here.states_on_device = true;
    const Footprint on_device = footprint<PerLayer>(here, blocks, block, layers, size);
    const std::int64_t here_blocks = stored_states(holding.head_blocks(blocks, block).count(), size, block);
    CHECK((on_device.device - without.device).count() == holding.hidden.count() * here_blocks);
    CHECK(on_device.host == without.host);
    for (const Holding& from : {before, here}) {
      const Movement moved = movement(from, here, blocks, block, layers, size);
      CHECK(moved.to_host.count() == 0);
      CHECK(moved.to_device.count() == 0);
    }
    CHECK(movement(here, holding, blocks, block, layers, size).to_host == with.host - without.host);
  }
}

TEST_CASE(
    "saved states take memory in addition to resident KV, and cross the link once, not when their layers' KV moves") {
  Random random(68);
  const auto with_states = [&](int layers) {
    Holding holding = random_headed(random, layers);
    holding.hidden = random_set(random, layers) & holding.nowhere;
    holding.saved = random_set(random, layers) - holding.away();
    holding.next_states = random.below(2) == 0;
    return holding;
  };
  const auto has_states = [](const Holding& holding, int layer, std::int64_t block_index) {
    const std::int64_t by = holding.next_states ? std::max<std::int64_t>(0, block_index - 1) : block_index;
    return holding.saved.contains(layer) ||
           (holding.hidden.contains(layer) &&
            ((holding.next_states && block_index == 0) || place(holding, layer, by) == Place::nowhere));
  };
  const auto stateless = [](Holding holding) {
    holding.hidden = holding.saved = {};
    return holding;
  };
  for (int round = 0; round < 500; ++round) {
    const int layers = static_cast<int>(between(random, 1, 80));
    const Holding from = with_states(layers), to = with_states(layers);
    const TokenBlocks blocks{between(random, 0, 300)};
    const HiddenSize size{Bytes{between(random, 1, 400)}, Bytes{100}};
    std::int64_t kept = 0, written = 0;
    for (int layer = 0; layer < layers; ++layer)
      for (std::int64_t i = 0; i < blocks.count(); ++i) {
        kept += has_states(to, layer, i) ? 1 : 0;
        written += has_states(to, layer, i) && !has_states(from, layer, i) ? 1 : 0;
      }
    const Footprint room = footprint<PerLayer>(to, blocks, block, layers, size);
    const Footprint without = footprint<PerLayer>(stateless(to), blocks, block, layers, size);
    CHECK(room.device == without.device);
    CHECK(room.host - without.host == size.room(kept));
    const Footprint all{LayerBlocks{blocks.count() * layers}, LayerBlocks{0}};
    if (to.on_device_alone()) CHECK(room == all);
    const Movement moved = movement(from, to, blocks, block, layers, size);
    const Movement kv = movement(stateless(from), stateless(to), blocks, block, layers, size);
    CHECK(moved.to_device == kv.to_device);
    CHECK(moved.to_host - kv.to_host == size.room(written));

    // Preempted: the saved layers' KV is dropped, and their states stay.
    Holding resident;
    resident.saved = random_set(random, layers);
    Holding preempted;
    preempted.nowhere = preempted.hidden = resident.saved;
    preempted.host = LayerSet::all(layers) - resident.saved;
    CHECK(movement(resident, preempted, blocks, block, layers, size).to_host.count() ==
          blocks.count() * preempted.host.count());
    CHECK(movement(preempted, resident, blocks, block, layers, size).to_host.count() == 0);
  }
}

TEST_CASE("rebuilding from hidden states on the device needs the room of the layer whose moment needs the most") {
  Random random(69);
  const auto per_layer = [](TokenBlocks blocks, int layers) { return LayerBlocks{blocks.count() * layers}; };
  int larger = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    const int layers = static_cast<int>(between(random, 1, 12));
    const TokenBlocks blocks{between(random, 1, 40)};
    const HiddenSize size{Bytes{between(random, 1, 150)}, Bytes{100}};
    Holding from = random_holding(random, layers), to = random_holding(random, layers);
    if (random.below(4) == 0) to = Holding{};
    from.hidden = random_set(random, layers) & from.nowhere;
    from.states_on_device = random.below(4) != 0;
    to.states_on_device = random.below(2) == 0;
    if (to.states_on_device) to.hidden = from.states_on_device ? from.hidden & to.nowhere : to.nowhere;
    const LayerBlocks room = rebuilding_room(from, to, blocks, block, size);
    if (!from.states_on_device && !to.states_on_device) {
      CHECK(room == LayerBlocks{0});
      continue;
    }
    const LayerSet had = from.states_on_device ? from.hidden : LayerSet{};
    const LayerSet keeps = to.states_on_device ? to.hidden : LayerSet{};
    const std::int64_t states = stored_states(blocks.count(), size, block);
    std::int64_t most = 0;
    for (int now = 0; now < layers; ++now) { // the layer that computes
      std::int64_t there = 0;
      for (int layer = 0; layer < layers; ++layer) {
        const bool gives_up = had.contains(layer) && !keeps.contains(layer);
        if (keeps.contains(layer) || (gives_up && layer >= now)) there += states;
        if (to.away().contains(
                layer)) // K and V are there while the layer computes; what is fetched is counted elsewhere
          there += layer == now && (gives_up || to.nowhere.contains(layer)) ? blocks.count() : 0;
        else
          there += gives_up && layer > now ? 0 : blocks.count();
      }
      most = std::max(most, there);
    }
    const std::int64_t counted = footprint_by(per_layer, to, blocks, block, layers, size).device.count();
    CHECK(counted + room.count() == std::max(counted, most));
    larger += room > LayerBlocks{states + blocks.count()} ? 1 : 0;
  }
  CHECK(larger > 0); // several layers that give up their states without K and V instead
}
