// SPDX-License-Identifier: Apache-2.0
// KvBlocks::movable: the layers among which placements choose, of random models by its definition, and of published
// ones.
#include "sluice/core/random.hpp"
#include "sluice/model/kv_groups.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/state/plan/space.hpp"

#include "support/shared_data.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

using namespace sluice;

namespace movable_layers_test {

/// Bytes of one layer's KV after `tokens`, by the rules of its groups.
std::int64_t layer_bytes(const KvGroups& kv, int layer, std::int64_t tokens) {
  std::int64_t sum = 0;
  for (const KvGroup& group : kv.groups())
    if (group.layers.contains(layer)) sum += group.rule.bytes(Tokens{tokens}).count();
  return sum;
}
std::int64_t bytes_of(const KvGroups& kv, LayerSet layers, std::int64_t tokens) {
  std::int64_t sum = 0;
  layers.for_each([&](int layer) { sum += layer_bytes(kv, layer, tokens); });
  return sum;
}
/// Whether a layer's KV is proportional to the tokens.
bool only_grows(const KvGroups& kv, int layer, Tokens block) {
  bool grows = false;
  for (const KvGroup& group : kv.groups()) {
    if (!group.layers.contains(layer)) continue;
    if (!group.rule.grows() || group.rule.stride > block.count()) return false;
    grows = true;
  }
  return grows;
}

/// Whether every member of the space frees more than the member before, of a request of any of these lengths.
template <class Space>
bool is_monotone(const KvGroups& kv, LayerSet among) {
  std::vector<LayerSet> sets;
  Space::candidates(among, sets);
  for (const std::int64_t tokens : {1024, 32768, 1048576}) {
    std::int64_t before = -1;
    for (const LayerSet set : sets) {
      const std::int64_t freed = bytes_of(kv, set, tokens);
      if (freed <= before) return false;
      before = freed;
    }
  }
  return true;
}

TEST_CASE("movable layers are those that only grow, of the one size that grows the most in all") {
  const KvRule rules[] = {{.entry = 64},
                          {.kind = KvKind::latent, .entry = 96},
                          {.kind = KvKind::indexer, .entry = 32},
                          {.kind = KvKind::sliding, .entry = 64, .window = 40},
                          {.kind = KvKind::compressed, .entry = 512, .stride = 4},
                          {.kind = KvKind::compressed, .entry = 4096, .stride = 64},
                          {.kind = KvKind::state, .entry = 2048}};
  Random random{5};
  int some = 0, none = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    KvGroups kv;
    const int layers = 1 + static_cast<int>(random.below(12));
    for (int layer = 0; layer < layers; ++layer)
      for (std::uint64_t more = random.below(3); more > 0; --more) (void)kv.add(layer, rules[random.below(7)]);
    const Tokens block{16};
    const KvBlocks blocks(kv, block);
    std::map<std::int64_t, LayerSet> by_size; // of the layers that only grow
    for (int layer = 0; layer < layers; ++layer)
      if (only_grows(kv, layer, block)) by_size[layer_bytes(kv, layer, 16)].insert(layer);
    std::int64_t most = 0;
    for (const auto& [bytes, set] : by_size) most = std::max(most, bytes * set.count());
    const LayerSet movable = blocks.movable();
    REQUIRE(movable.empty() == by_size.empty());
    (movable.empty() ? none : some) += 1;
    if (movable.empty()) {
      CHECK(blocks.movable_units() == 0);
      continue;
    }
    const std::int64_t each = layer_bytes(kv, movable.lowest(), 16);
    CHECK(movable == by_size[each]);
    CHECK(each * movable.count() == most);
    CHECK(blocks.movable_units() * blocks.quantum().count() == each);
    for (const std::int64_t total : {1, 7, 40}) // what one such layer takes is proportional to the blocks
      CHECK(blocks.room(0, total, total, LayerSet{}.insert(movable.highest())) == total * blocks.movable_units());
  }
  CHECK((some > 500 && none > 100));
}

TEST_CASE("of every published model, each further member of a space over movable layers frees more" *
          sluice_test::needs_shared({"data/models/reference.csv"})) {
  int read = 0, grouped = 0, unmovable = 0, not_over_all = 0;
  for (const auto& entry : std::filesystem::directory_iterator(sluice_test::shared_path("data/models"))) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    CAPTURE(entry.path().filename().string());
    const Expected<SimulatedModel> model = find_or_read_simulated(entry.path().string());
    CHECK_MESSAGE(model, (model ? std::string{} : model.error().line()));
    if (!model) continue;
    ++read;
    if (!model->layered) continue; // uniform: all layers are movable, and equal
    ++grouped;
    const KvGroups& kv = model->layered->kv;
    const Tokens block{16};
    LayerSet all, growing;
    for (int layer = 0; layer < model->shape.layers; ++layer) {
      if (layer_bytes(kv, layer, 1) > 0 || layer_bytes(kv, layer, 4096) > 0) all.insert(layer);
      if (only_grows(kv, layer, block)) growing.insert(layer);
    }
    const LayerSet movable = KvBlocks(kv, block).movable();
    CHECK((movable - growing).empty());
    CHECK(movable.empty() == growing.empty());
    MESSAGE(entry.path().filename().string() << ": " << model->shape.layers << " layers, " << growing.count()
                                             << " only grow, " << movable.count() << " movable");
    unmovable += movable.empty() ? 1 : 0;
    if (!movable.empty()) // why such models' layers are not rebuilt from hidden states
      CHECK(layer_bytes(kv, movable.lowest(), 1024) <= 1024 * model->shape.hidden_bytes_per_token().count());
    CHECK(is_monotone<DistanceSpace>(kv, movable));
    CHECK(is_monotone<EvenSpace>(kv, movable));
    not_over_all += is_monotone<DistanceSpace>(kv, all) ? 0 : 1;
  }
  CHECK(read >= 54);
  CHECK(grouped > unmovable);
  CHECK(not_over_all > 0); // why placements do not choose among all layers
}

} // namespace movable_layers_test
