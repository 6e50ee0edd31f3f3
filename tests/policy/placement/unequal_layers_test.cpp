// SPDX-License-Identifier: Apache-2.0
// Placements of models whose layers keep different amounts: plans against all plans, counted block by block.
#include "sluice/policy/placement/distance_placement.hpp"
#include "sluice/policy/placement/fewest_layers.hpp"
#include "sluice/policy/placement/fixed_distance.hpp"
#include "sluice/policy/placement/slo_uniform.hpp"
#include "sluice/policy/placement/uniform_distance.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/next_layer.hpp"

#include "engine/reckoning.hpp"
#include "support/hand_made.hpp"
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace unequal_layers_test {
using namespace sluice;
using namespace sluice::testing;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Layers that take different times.
struct UnevenCost : PlainCost {
  bool layer_times(const Work& work, std::span<double> layers_s) const {
    const double mean = step(work).layer.count();
    double sum = 0;
    for (std::size_t layer = 0; layer < layers_s.size(); ++layer) sum += static_cast<double>(1 + layer % 3);
    for (std::size_t layer = 0; layer < layers_s.size(); ++layer)
      layers_s[layer] = mean * static_cast<double>((1 + layer % 3) * layers_s.size()) / sum;
    return true;
  }
};
static_assert(TimesLayers<UnevenCost> && !TimesLayers<PlainCost>);

struct Scene {
  KvLayers kv;
  HandMade made;
  std::vector<Claim> claims;
  LayerBlocks device{0};
  UnevenCost cost;
};

/// Up to four requests of a model with full layers, and layers with a window, a state, less or nothing.
void fill_scene(Scene& scene, Random& random) {
  const KvRule rules[] = {{.entry = 128},
                          {.kind = KvKind::latent, .entry = 80},
                          {.kind = KvKind::sliding, .entry = 128, .window = 50},
                          {.kind = KvKind::state, .entry = 3072}};
  scene.made.geometry.layers = static_cast<int>(between(random, 2, 10));
  KvGroups kv;
  for (int layer = 0; layer < scene.made.geometry.layers; ++layer)
    if (const std::uint64_t of = random.below(8); layer == 0 || of < 7)
      REQUIRE(kv.add(layer, rules[layer == 0 || of < 3 ? 0 : of - 3]));
  scene.kv = {KvBlocks(kv, scene.made.limits.block_tokens), ReadLimits{kv}};
  scene.made.geometry.layer_block_bytes = scene.kv.blocks.quantum();
  scene.made.geometry.groups = &scene.kv;
  scene.made.geometry.moved_units = scene.kv.blocks.movable_units(); // as an engine sets it
  scene.cost.rate = BytesPerSecond{1e6 + 3e7 * random.uniform()};
  const std::int64_t count = between(random, 1, 4);
  std::int64_t all = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Slot slot = scene.made.decoding(Tokens{between(random, 1, 400)}, Tokens{1}, Tokens{50});
    scene.claims.push_back({slot, Tokens{1}, Tokens{0}, true});
    RequestRow& row = scene.made.rows[index(slot)];
    if (random.below(3) == 0) row.holding.host = LayerSet::all(scene.made.geometry.layers); // it was preempted
    all += scene.kv.blocks.room(row.blocks_after(Tokens{1}, scene.made.limits.block_tokens).count());
  }
  scene.device = LayerBlocks{static_cast<std::int64_t>(static_cast<double>(all) * (0.2 + 0.9 * random.uniform()))};
}

template <class Transfer>
using TaskOf = PlacementTask<UnevenCost, Transfer, PerLayer>;
template <class Transfer, class Ask>
auto with_task(const Scene& scene, Window window, Ask&& ask) {
  const View view = scene.made.view();
  return ask(TaskOf<Transfer>{view, scene.claims, scene.claims.size(), scene.device, LayerBlocks{1 << 30}, scene.cost,
                              window});
}

/// The layers that may move, from their definition: of the layers that keep every token and nothing else, those of the
/// size that makes up most.
std::vector<int> movable_layers(const Scene& scene) {
  std::vector<int> best;
  std::int64_t most = 0;
  for (int layer = 0; layer < scene.made.geometry.layers; ++layer) {
    const auto size = [&](int of) { return size_of(scene.made.geometry, of, 0, 1000); }; // of the oldest block
    std::vector<int> same;
    for (int other = 0; other < scene.made.geometry.layers; ++other)
      if (size(other) == size(layer) && size(other) > 0 &&
          size_of(scene.made.geometry, other, 999, 1000) == size(other))
        same.push_back(other);
    if (size(layer) * static_cast<std::int64_t>(same.size()) > most) {
      most = size(layer) * static_cast<std::int64_t>(same.size());
      best = same;
    }
  }
  return best;
}

/// OrbitFlow's distances over these layers: for each count that occurs, the largest distance; all of them; none.
std::vector<LayerSet> distances(const std::vector<int>& layers) {
  std::vector<LayerSet> sets{LayerSet{}};
  for (std::size_t count = 1; count <= layers.size(); ++count)
    for (std::size_t distance = layers.size(); distance >= 1; --distance) {
      if (layers.size() / distance != count) continue;
      LayerSet set;
      for (std::size_t place = distance; place <= layers.size(); place += distance) set.insert(layers[place - 1]);
      sets.push_back(set);
      break;
    }
  return sets;
}

/// The step with these layers away, `later` steps from now; infinite if that does not fit. Counted block by block.
template <class Transfer>
double step_s(const Scene& scene, const std::vector<LayerSet>& sets, std::int64_t later = 0) {
  const Geometry& geometry = scene.made.geometry;
  double resident = 0;
  std::vector<double> loads(static_cast<std::size_t>(geometry.layers), 0.0);
  std::vector<LayerStream> streams;
  Work work;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const RequestRow& row = scene.made.rows[index(scene.claims[i].slot)];
    const std::int64_t total = row.blocks_after(Tokens{1 + later}, scene.made.limits.block_tokens).count();
    double moved = 0;
    for (int layer = 0; layer < geometry.layers; ++layer) {
      double here = 0;
      for (std::int64_t block = 0; block < total; ++block)
        here += static_cast<double>(size_of(geometry, layer, block, total));
      if (!sets[i].contains(layer)) {
        resident += here;
        continue;
      }
      moved = here;
      loads[static_cast<std::size_t>(layer)] += here;
    }
    if (!sets[i].empty()) streams.push_back({sets[i], moved});
    work.add_decode(row.context() + Tokens{1}, geometry.reads()); // of the first step, as plans assume
  }
  work.samples = work.decodes;
  const auto device = static_cast<double>(scene.device.count());
  if (resident + Transfer::held_blocks(loads, streams) > device) return infinity;
  std::vector<double> compute_s(loads.size());
  REQUIRE(scene.cost.layer_times(work, compute_s));
  const StepTime time = scene.cost.step(work);
  Pipeline pipeline;
  pipeline.compute_s = compute_s;
  pipeline.before_s = time.before.count();
  pipeline.after_s = time.after.count();
  pipeline.link = {scene.cost.rate.count() / static_cast<double>(scene.kv.blocks.quantum().count()), 1e-6};
  pipeline.streams = streams;
  pipeline.room_blocks = device - resident;
  typename Transfer::State state;
  return Transfer::evaluate(pipeline, state).step_s;
}

template <class Transfer, class P>
std::vector<LayerSet> plan_of(const Scene& scene, const P& policy, double& predicted_s) {
  return with_task<Transfer>(scene, Window{1, 1}, [&](const auto& task) {
    typename P::template State<Transfer> state;
    Plan plan;
    const Verdict verdict = policy.solve(task, state, plan);
    std::vector<LayerSet> sets;
    if (!verdict.feasible) return sets;
    predicted_s = plan.predicted_step.count();
    for (std::size_t i = 0; i < scene.claims.size(); ++i)
      sets.push_back(plan.requests.empty() ? plan.unseen.host : plan.requests[i].holding.host);
    return sets;
  });
}

TEST_CASE_TEMPLATE("DistancePlacement's plan is the shortest of all over the layers that may move", T, DeadlinePool,
                   FairShare, NextLayer) {
  Random random(91);
  int some = 0, none = 0, unequal = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    Scene scene;
    fill_scene(scene, random);
    const std::vector<int> movable = movable_layers(scene);
    LayerSet among;
    for (const int layer : movable) among.insert(layer);
    REQUIRE(scene.made.geometry.movable() == among);
    const std::vector<LayerSet> space = distances(movable);
    std::vector<LayerSet> listed;
    DistanceSpace::candidates(among, listed);
    REQUIRE(listed == space);
    unequal += movable.size() < static_cast<std::size_t>(scene.made.geometry.layers) ? 1 : 0;

    double best = infinity, best_alike = infinity; // for each request its own, and one for all
    std::vector<std::size_t> digits(scene.claims.size(), 0);
    for (bool more = true; more;) {
      std::vector<LayerSet> sets;
      for (const std::size_t digit : digits) sets.push_back(space[digit]);
      const double step = step_s<T>(scene, sets);
      best = std::min(best, step);
      if (std::count(sets.begin(), sets.end(), sets[0]) == static_cast<std::ptrdiff_t>(sets.size()))
        best_alike = std::min(best_alike, step);
      std::size_t r = 0;
      while (r < digits.size() && ++digits[r] == space.size()) digits[r++] = 0;
      more = r < digits.size();
    }
    const auto check = [&](const auto& policy, double expected) {
      double predicted = 0;
      const std::vector<LayerSet> sets = plan_of<T>(scene, policy, predicted);
      REQUIRE(sets.empty() == (expected == infinity));
      if (sets.empty()) return;
      CHECK(predicted == doctest::Approx(expected).epsilon(1e-9));
      CHECK(step_s<T>(scene, sets) == doctest::Approx(expected).epsilon(1e-9));
    };
    DistancePlacement each;
    each.options.node_limit = 1'000'000;
    check(each, best);
    check(UniformDistance{}, best_alike);
    (best == infinity ? none : some) += 1;
  }
  CHECK((some > 100 && none > 5 && unequal > 200));
}

TEST_CASE_TEMPLATE("a plan of unequal layers lasts as long as it fits, windows and states included", T, DeadlinePool,
                   FairShare, NextLayer) {
  constexpr int most = 64;
  Random random(93);
  int ends = 0, lasts = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    Scene scene;
    fill_scene(scene, random);
    with_task<T>(scene, Window{1, most}, [&](const auto& task) {
      typename DistancePlacement::State<T> state;
      Plan plan;
      if (!DistancePlacement{}.solve(task, state, plan).feasible) return;
      std::vector<LayerSet> sets;
      for (const RequestPlan& request : plan.requests) sets.push_back(request.holding.host);
      const std::int64_t window = plan.expires_at_step - task.view.step;
      REQUIRE((1 <= window && window <= most));
      CHECK(step_s<T>(scene, sets, window - 1) < infinity);
      if (window < most) CHECK(step_s<T>(scene, sets, window) == infinity);
      (window < most ? ends : lasts) += 1;
    });
  }
  CAPTURE(ends);
  CAPTURE(lasts);
  CHECK((ends > 50 && lasts > 4));
}

TEST_CASE_TEMPLATE("every placement of unequal layers fits, and moves only layers that may move", T, DeadlinePool,
                   FairShare, NextLayer) {
  Random random(92);
  int moved = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    Scene scene;
    fill_scene(scene, random);
    const std::vector<int> movable = movable_layers(scene);
    const auto check = [&](const auto& policy) {
      double predicted = 0;
      for (const LayerSet set : plan_of<T>(scene, policy, predicted)) {
        CHECK((set - scene.made.geometry.movable()).empty());
        moved += set.empty() ? 0 : 1;
      }
      const std::vector<LayerSet> sets = plan_of<T>(scene, policy, predicted);
      if (!sets.empty()) CHECK(step_s<T>(scene, sets) < infinity);
      return sets;
    };
    check(SloUniform{});
    check(OffloadAll{});
    const std::vector<LayerSet> thirds = check(FixedDistance<3>{});
    if (!thirds.empty()) CHECK(thirds[0].count() == static_cast<int>(movable.size()) / 3);
    const std::vector<LayerSet> fewest = check(FewestLayers{});
    for (int count = 0; count <= static_cast<int>(movable.size()); ++count) { // evenly spaced: none with fewer fits
      LayerSet set;
      for (int i = 1; i <= count; ++i)
        set.insert(movable[static_cast<std::size_t>(i) * movable.size() / static_cast<std::size_t>(count) - 1]);
      const bool fits = step_s<T>(scene, std::vector<LayerSet>(scene.claims.size(), set)) < infinity;
      if (!fewest.empty() && count < fewest[0].count()) CHECK(!fits);
      if (!fewest.empty() && count == fewest[0].count()) CHECK(fewest[0] == set);
      if (fewest.empty()) CHECK(!fits);
    }
  }
  CHECK(moved > 300);
}

} // namespace unequal_layers_test
