// SPDX-License-Identifier: Apache-2.0
// Weights that stream of models whose layers differ: which layers, how many, and what their own times hide.
#include "sluice/core/random.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/policy/weights/interval_source.hpp"
#include "sluice/policy/weights/parameter_remap.hpp"
#include "sluice/policy/weights/streamed_share.hpp"

#include "policy/weights/round_machine.hpp"
#include "support/shared_data.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace unequal_weights_test {
using namespace sluice;
using testing::layer_weights;
using testing::Machine;

/// Layers of two kinds in a pattern: the last `last` of every `period` layers compute for nine times as long.
struct PatternCost : testing::RoundCost {
  int period = 4, last = 1;
  bool layer_times(const Work&, std::span<double> layers_s) const {
    double sum = 0;
    for (std::size_t layer = 0; layer < layers_s.size(); ++layer) {
      layers_s[layer] = static_cast<int>(layer) % period >= period - last ? 9 : 1;
      sum += layers_s[layer];
    }
    for (double& one : layers_s) one *= compute_s * static_cast<double>(layers_s.size()) / sum;
    return true;
  }
};
static_assert(TimesLayers<PatternCost>);

std::vector<int> members(LayerSet set) {
  std::vector<int> all;
  set.for_each([&](int layer) { all.push_back(layer); });
  return all;
}

TEST_CASE("intervals, shares and lent layers are of those that may stream, evenly spaced among these") {
  Random random{9};
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    Machine machine(2 + static_cast<int>(random.below(60)), 1, 1);
    Geometry& geometry = machine.view.geometry;
    KvLayers differ;
    for (int layer = 0; layer < geometry.layers; ++layer)
      if (layer == 1 || random.below(3) > 0) differ.streamable.insert(layer);
    geometry.groups = &differ;
    const std::vector<int> among = members(differ.streamable);
    const auto places = [&](LayerSet set) { // of a set's members among those that may stream
      std::vector<int> at;
      for (const int layer : members(set)) {
        const auto found = std::find(among.begin(), among.end(), layer);
        REQUIRE(found != among.end());
        at.push_back(static_cast<int>(found - among.begin()));
      }
      return at;
    };
    for (int interval = 1; interval <= static_cast<int>(among.size()) + 1; ++interval) {
      const WeightsLevel level = interval_level(geometry, interval);
      const std::vector<int> at = places(level.plan.streamed);
      REQUIRE(at.size() == among.size() / static_cast<std::size_t>(interval));
      for (std::size_t i = 0; i < at.size(); ++i) CHECK(at[i] == (static_cast<int>(i) + 1) * interval - 1);
      CHECK(level.plan.freed == geometry.blocks_in(level.plan.streamed.count() - level.plan.slots));
    }
    const int count = 1 + static_cast<int>(random.below(among.size()));
    std::vector<int> even;
    for (int i = 0; i < count; ++i) even.push_back(i * static_cast<int>(among.size()) / count);
    CHECK(places(circular_layers(differ.streamable, count)) == even);
    CHECK(StreamedShare::level_of(geometry, 128).plan.streamed == differ.streamable);
    std::vector<WeightsLevel> levels;
    ParameterRemap remap;
    remap.only_hidden = false;
    ParameterRemap::State state;
    remap.offer(machine.task(LayerBlocks{1 << 30}, LayerBlocks{0}), state, levels);
    CHECK(levels.size() == static_cast<std::size_t>(std::max<int>(0, static_cast<int>(among.size()) - 2)));
    for (const WeightsLevel& level : levels) (void)places(level.plan.streamed);
  }
}

TEST_CASE("an interval over the layers that may stream is one over all layers that the pattern divides") {
  for (const int period : {2, 3, 4, 6})
    for (int k = 1; k < period; ++k) { // of each pattern, the last k layers may stream
      Geometry geometry{.layers = 10 * period, .layer_block_bytes = Bytes{1000}, .layer_weight_bytes = layer_weights};
      KvLayers differ;
      for (int layer = 0; layer < geometry.layers; ++layer)
        if (layer % period >= period - k) differ.streamable.insert(layer);
      for (const int patterns : {1, 2, 3, 5}) {
        const LayerSet all = interval_level(geometry, patterns * period).plan.streamed; // of layers that are alike
        geometry.groups = &differ;
        CHECK(interval_level(geometry, patterns * k).plan.streamed == all);
        geometry.groups = nullptr;
      }
    }
}

TEST_CASE("transfers hide behind the own times of the layers before theirs") {
  // Of each four layers the last computes for 9 units, the others for 1: together as long as four layers of 3.
  PatternCost cost;
  cost.compute_s = 3;
  Geometry geometry{.layers = 32, .layer_block_bytes = Bytes{1000}, .layer_weight_bytes = layer_weights};
  KvLayers slow, fast; // either kind may stream
  for (int layer = 0; layer < 32; ++layer) (layer % 4 == 3 ? slow : fast).streamable.insert(layer);
  StreamedStep step;
  Work work;
  work.decodes = work.samples = 1;
  // One layer of each pattern. The slot of a slow one is free for the 3 units of the others; that of a fast one for 11.
  for (const double transfer : {1.0, 2.5, 3.5, 10.5, 11.5}) {
    cost.transfer_s = transfer;
    CAPTURE(transfer);
    geometry.groups = &slow;
    const double of_slow = step.of(cost, geometry, work, interval_level(geometry, 1).plan).count();
    const WeightsPlan one_slot = WeightsLevel::of(geometry, slow.streamable, 1).plan;
    CHECK(step.of(cost, geometry, work, one_slot).count() == doctest::Approx(32 * 3 + 8 * std::max(0.0, transfer - 3)));
    CHECK(of_slow <= step.of(cost, geometry, work, one_slot).count()); // it has two slots
    geometry.groups = &fast;
    CHECK(step.of(cost, geometry, work, interval_level(geometry, 3).plan).count() ==
          doctest::Approx(32 * 3 + 8 * std::max(0.0, transfer - 11)));
  }
}

TEST_CASE("MIRAGE lends as many layers as their own times hide, through slots that hide them") {
  Random random{32};
  int some = 0, less = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    PatternCost cost;
    cost.period = 2 + static_cast<int>(random.below(5));
    cost.last = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(cost.period - 1)));
    cost.compute_s = 3;
    cost.transfer_s = 0.5 + 15 * random.uniform();
    Machine machine(8 + static_cast<int>(random.below(50)), 3, 1);
    Geometry& geometry = machine.view.geometry;
    KvLayers differ; // the slow layers stream, or the others do
    const bool slow = random.below(2) == 0;
    for (int layer = 0; layer < geometry.layers; ++layer)
      if ((layer % cost.period >= cost.period - cost.last) == slow) differ.streamable.insert(layer);
    geometry.groups = &differ;
    const auto task = machine.task(LayerBlocks{1 << 30}, LayerBlocks{0});
    const WeightsTask<PatternCost> own{task.view, cost, task.claims, task.demand, task.own, task.steady, 0, 0};
    StreamedStep step;
    const auto hidden = [&](int layers, int slots) {
      const WeightsLevel level = WeightsLevel::of(geometry, circular_layers(differ.streamable, layers), slots);
      return step(own, level.plan) <= step(own, {}) * (1 + 1e-9);
    };
    int most = 0;
    for (int alpha = 1; alpha + 2 <= differ.streamable.count(); ++alpha)
      if (hidden(alpha + 1, 1) || hidden(alpha + 2, 2)) most = alpha;
    ParameterRemap::State state;
    std::vector<WeightsLevel> levels;
    ParameterRemap{}.offer(own, state, levels);
    REQUIRE(levels.size() == static_cast<std::size_t>(most));
    if (most == 0) continue;
    ++some;
    less += most + 2 < differ.streamable.count() ? 1 : 0;
    CHECK(levels[0].plan.level == most);
    CHECK(step(own, levels[0].plan) <= step(own, {}) * (1 + 1e-9));
  }
  CHECK(some > 50);
  CHECK(less > 20);
}

TEST_CASE("the smallest interval meets the SLO, and the next smaller ones do not unless they are uneven") {
  Random random{31};
  int some = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    PatternCost cost;
    cost.period = 2 + static_cast<int>(random.below(5));
    cost.transfer_s = 0.5 + 20 * random.uniform();
    Geometry geometry{.layers = 8 + static_cast<int>(random.below(50)),
                      .layer_block_bytes = Bytes{1000},
                      .layer_weight_bytes = layer_weights};
    KvLayers differ;
    for (int layer = 0; layer < geometry.layers; ++layer)
      if (layer % cost.period != cost.period - 1) differ.streamable.insert(layer);
    geometry.groups = &differ;
    StreamedStep step;
    Work work;
    work.decodes = work.samples = 1;
    const auto time = [&](int interval) {
      return step.of(cost, geometry, work, interval_level(geometry, interval).plan);
    };
    const Seconds slo = time(geometry.layers + 1) * (1 + 0.5 * random.uniform());
    EvaluatedInterval::State state;
    const IntervalQuestion<PatternCost> asked{cost, geometry, InferencePhase::decode, work, 1, Tokens{1}};
    const int found = EvaluatedInterval{}.smallest(asked, state, slo);
    CHECK(found <= differ.streamable.count());
    if (found == 0) {
      CHECK(time(differ.streamable.count()) > slo);
      continue;
    }
    ++some;
    CHECK(time(found) <= slo * (1 + 1e-9));
    if (found > 1) CHECK(time(found - 1) > slo);
  }
  CHECK(some > 50);
}

TEST_CASE("of every published model, the layers that may stream are equally large, and the most of such" *
          sluice_test::needs_shared({"data/models/reference.csv"})) {
  int grouped = 0;
  for (const auto& entry : std::filesystem::directory_iterator(sluice_test::shared_path("data/models"))) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    CAPTURE(entry.path().filename().string());
    const Expected<SimulatedModel> model = find_or_read_simulated(entry.path().string());
    if (!model || !model->layered) continue;
    ++grouped;
    std::map<std::string, std::int64_t> bytes; // by what precedes the second dot
    for (const Module& module : model->layered->modules)
      if (module.name.rfind("layers.", 0) == 0)
        bytes[module.name.substr(0, module.name.find('.', 7))] += module.bytes();
    std::map<std::int64_t, int> layers; // of each size
    for (const auto& one : bytes) ++layers[one.second];
    std::int64_t most = 0;
    for (const auto& one : layers) most = std::max(most, one.first * one.second);
    const EqualWeights may = model->layered->streamable();
    for (const int layer : members(may.layers)) CHECK(bytes["layers." + std::to_string(layer)] == may.each.count());
    CHECK(may.layers.count() == layers[may.each.count()]);
    CHECK(may.each.count() * may.layers.count() == most);
    MESSAGE(entry.path().filename().string() << ": " << may.layers.count() << " of " << model->shape.layers
                                             << " layers may stream, " << may.each.count() / 1'000'000 << " MB each");
  }
  CHECK(grouped > 20);
}

} // namespace unequal_weights_test
