// SPDX-License-Identifier: Apache-2.0
// UncachedProblem: time and memory of a batch whose oldest tokens have no KV, by the planner's cost model.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/core/math.hpp"
#include "sluice/policy/cost/rebuild.hpp"
#include "sluice/policy/placement/ellm_equations.hpp"
#include "sluice/policy/placement/placement.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice {

/// Where a rebuilt layer that follows a swapped one gets its hidden states.
enum class PrefixStates : std::uint8_t {
  cheaper, ///< whichever of the two below takes less time, by the cost model
  passed,  ///< the prefix is computed through the swapped layers too
  on_host, ///< kept on the host and fetched; free if `Geometry::layer_hidden_bytes` is 0, as in the paper
};

/// The pattern of the oldest share's layers: `pair.recomputed` rebuilt ones, `pair.swapped` fetched ones, and so on.
struct UncachedLayers {
  LayerPair pair;
  bool states_on_host = false;

  /// The residency of a request whose oldest `head` tokens follow the pattern. The inputs of layer 0 are embeddings,
  /// which need no storage.
  [[nodiscard]] constexpr Holding holding(Tokens head, int layers) const {
    Holding held{head, {}, {}, {}};
    for (int layer = 0; layer < layers; ++layer) {
      const int turn = layer % pair.period();
      (turn < pair.recomputed ? held.nowhere : held.host).insert(layer);
      if (states_on_host && turn == 0 && layer > 0) held.hidden.insert(layer);
    }
    return held;
  }
  friend constexpr bool operator==(const UncachedLayers&, const UncachedLayers&) = default;
};

/// eLLM's equation 1 for the claims of a placement task, as a BatchShareProblem. T is the cost model's prediction for
/// the batch's steady decode, layer by layer, or the link's work if that takes longer: with room for two periods in
/// flight the two overlap. (For equation 5 as T, use `FlopCount` as the cost model.)
///
/// The sums over the first b claims are stored, so that each question costs O(1); between whole batches they are
/// interpolated.
class UncachedSums {
 public:
  /// Fills in the sums of `task`'s claims. At most `blocks - 1` blocks of a request can have no KV: the newest tokens
  /// stay. Where layers differ, `blocks` is the room of all layers, and none can have no KV.
  template <class Task>
  void gather(const Task& task) {
    const std::size_t count = task.claims.size() + 1;
    for (std::vector<double>* sums : {&context_, &blocks_, &old_blocks_, &old_squares_, &slo_s_})
      sums->assign(count, 0);
    slo_s_[0] = std::numeric_limits<double>::infinity();
    double waited_s = 0;
    for (std::size_t i = 0; i + 1 < count; ++i) {
      const Claim& claim = task.claims[i];
      const RequestRow& row = task.view.row(claim.slot);
      const Geometry& geometry = task.view.geometry;
      const TokenBlocks all = task.blocks(claim);
      const auto blocks = static_cast<double>(geometry.alike() ? all.count() : geometry.kv_of(all).count());
      const double old = geometry.alike() ? std::max(0.0, blocks - 1) : 0;
      context_[i + 1] = context_[i] + static_cast<double>(row.context().count()) + 1;
      blocks_[i + 1] = blocks_[i] + blocks;
      old_blocks_[i + 1] = old_blocks_[i] + old;
      old_squares_[i + 1] = old_squares_[i] + old * old;
      if (row.phase == Phase::running && row.generated > Tokens{0})
        waited_s = std::max(waited_s, (task.view.now - row.last_token).count());
      const double slo_s = row.spec.slo.tbt.count();
      shortest_slo_s_ = i == 0 ? slo_s : std::min(shortest_slo_s_, slo_s);
      slo_s_[i + 1] = shortest_slo_s_ - waited_s;
    }
  }
  [[nodiscard]] double context(double b) const { return between(context_, b); }
  [[nodiscard]] double blocks(double b) const { return between(blocks_, b); }
  [[nodiscard]] double old_blocks(double b) const { return between(old_blocks_, b); }
  [[nodiscard]] double old_squares(double b) const { return between(old_squares_, b); }
  /// The shortest SLO of the batch, less the longest time that a running request has waited for its token. (A preempted
  /// request has already missed its SLO: counting its wait would keep it preempted forever.)
  [[nodiscard]] double slo_s(double b) const {
    return slo_s_[std::min(slo_s_.size() - 1, static_cast<std::size_t>(math::ceil(b)))];
  }

 private:
  [[nodiscard]] static double between(const std::vector<double>& sums, double b) {
    const auto low = std::min(sums.size() - 1, static_cast<std::size_t>(b));
    const auto high = std::min(sums.size() - 1, low + 1);
    return sums[low] + (b - static_cast<double>(low)) * (sums[high] - sums[low]);
  }

  std::vector<double> context_, blocks_, old_blocks_, old_squares_, slo_s_;
  double shortest_slo_s_ = 0;
};

template <class Task>
class UncachedProblem {
 public:
  double room_budget;
  double host_budget;
  double most_share;
  std::int64_t least;
  std::int64_t most;

  /// `workspace`: the pair to reserve room for (M_o), {2, 3} before one is chosen. `sums`: the sums of `task`, which
  /// must outlive this object.
  UncachedProblem(const Task& task, const UncachedSums& sums, UncachedLayers layers, LayerPair workspace,
                  double largest_share)
      : room_budget(static_cast<double>(task.device_budget.count())),
        host_budget(static_cast<double>(task.host_budget.count())),
        most_share(largest_share),
        least(static_cast<std::int64_t>(task.required)),
        most(static_cast<std::int64_t>(task.claims.size())),
        task_(task),
        sums_(sums),
        period_(layers.pair.period()) {
    using L = typename Task::layout_type;
    const int count = task.layers();
    const Holding held = layers.holding(all_tokens, count);
    const LayerSet passed = passed_layers(held.nowhere, held.hidden);
    kinds_ = {(held.nowhere - passed).count(), (passed - held.nowhere).count(), (held.nowhere & passed).count()};
    block_room_ = task.view.geometry.alike() ? static_cast<double>(L::room(TokenBlocks{1}, count, count).count()) : 1;
    workspace_room_ = static_cast<double>(L::room(TokenBlocks{1}, 2 * workspace.period(), count).count());
    const HiddenSize hidden = task.view.geometry.hidden_size();
    fetched_ = held.host.count() + hidden.blocks(held.hidden.count());
    host_room_ = static_cast<double>(L::room(TokenBlocks{1}, held.host.count(), count).count()) +
                 hidden.blocks(held.hidden.count());
    fetches_ = held.host.count() + held.hidden.count();
  }

  [[nodiscard]] double seconds(double b, double r) const {
    const double low = math::floor(b);
    const double part = b - low;
    const double below = whole(low, r).step_s();
    return part > 0 ? below + part * (whole(low + 1, r).step_s() - below) : below;
  }
  [[nodiscard]] double room(double b, double r) const {
    return block_room_ * (sums_.blocks(b) - r * sums_.old_blocks(b)) + workspace_room_ * r * sums_.old_blocks(b);
  }
  [[nodiscard]] double host_room(double b, double r) const { return host_room_ * r * sums_.old_blocks(b); }
  [[nodiscard]] double limit_s(double b) const {
    return task_.enforce_slo ? sums_.slo_s(b) : std::numeric_limits<double>::infinity();
  }

  /// For one period of layers: how long its transfers take, and its computation besides decoding (equations 6 and 7, by
  /// the cost model).
  struct Mismatch {
    double swap_s = 0;
    double recompute_s = 0;
  };
  [[nodiscard]] Mismatch mismatch(double b, double r) const {
    const Times times = whole(math::floor(b), r);
    const double periods = static_cast<double>(task_.layers()) / period_;
    return {times.link_s / periods, (times.compute_s - times.plain_s) / periods};
  }

 private:
  struct Times {
    double plain_s = 0;   ///< nothing rebuilt
    double compute_s = 0; ///< including rebuilt layers
    double link_s = 0;
    double on_link_s = 0; ///< of the computation, also on the link, slowed while both are active (`contended`)
    [[nodiscard]] double step_s() const {
      const double alone_s = std::max(compute_s, link_s);
      return on_link_s > 0 ? alone_s + on_link_s / compute_s * std::min(compute_s, link_s) : alone_s;
    }
  };
  [[nodiscard]] Times whole(double b, double r) const {
    Work work;
    work.decodes = work.samples = static_cast<std::int64_t>(b);
    if (work.decodes == 0) return {};
    work.decode_context = Tokens{static_cast<std::int64_t>(sums_.context(b))};
    const StepTime plain = task_.cost.step(work);
    Times times;
    times.plain_s = times.compute_s = plain.total(task_.layers()).count();
    times.on_link_s = plain.on_link * times.plain_s;
    if (r <= 0) return times;
    const auto block_tokens = static_cast<double>(task_.view.limits.block_tokens.count());
    const double blocks = r * sums_.old_blocks(b);
    const Tokens tokens{static_cast<std::int64_t>(math::llround(blocks * block_tokens))};
    const double pairs =
        0.5 * (r * r * sums_.old_squares(b) * block_tokens * block_tokens + static_cast<double>(tokens.count()));
    const std::array<LayerRebuild, 3> kinds{
        LayerRebuild{tokens, Tokens{0}, 0}, {Tokens{0}, tokens, pairs}, {tokens, tokens, pairs}};
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      if (kinds_[kind] == 0) continue;
      work.rebuilt = kinds[kind];
      const StepTime with = task_.cost.step(work);
      times.compute_s += kinds_[kind] * (with.layer - plain.layer).count();
      times.on_link_s += kinds_[kind] * (with.on_link * with.layer - plain.on_link * plain.layer).count();
    }
    times.link_s = task_.block_link().seconds(blocks * fetched_, fetches_);
    return times;
  }

  const Task& task_;
  const UncachedSums& sums_;
  int period_;
  std::array<int, 3> kinds_{}; ///< layers that only project, only pass, or do both
  double block_room_ = 0;      ///< of a token block that is resident in every layer
  double workspace_room_ = 0;  ///< of a block without KV: M_o
  double host_room_ = 0;       ///< the same on the host
  double fetched_ = 0;         ///< layer blocks fetched per block without KV
  int fetches_ = 0;            ///< transfers per iteration
};

} // namespace sluice
