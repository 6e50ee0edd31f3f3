// SPDX-License-Identifier: Apache-2.0
// joint_reference: joint plans by enumeration and event simulation in whole numbers; shares only input types with the
// solver.
#pragma once

#include "sluice/core/layer_set.hpp"
#include "sluice/policy/placement/solver/joint_instance.hpp"

#include "policy/transfer/fluid_reference.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace sluice::test {

/// An instance in whole numbers: times in units in which the link moves one block.
struct WholeRequest {
  std::int64_t blocks = 1, state_blocks = 0, project = 0, pass = 0;
  LayerSet states;
};
struct WholeLevel {
  LayerSet layers;
  std::int64_t blocks = 0, gained = 0;
  int slots = 1;
};
struct WholeInstance {
  std::vector<std::int64_t> compute;
  std::int64_t before = 0, after = 0, latency = 0, device = 0;
  int held = 2;
  std::vector<WholeRequest> requests;
  std::vector<WholeLevel> levels; ///< at least one

  [[nodiscard]] int layers() const { return static_cast<int>(compute.size()); }
};

__extension__ using Wide = __int128;

/// Event simulation of one cold iteration in exact arithmetic. Time is in units of 1 / `scale`: under `FairShare` the
/// link divides by the number of transfers, and a remainder throws.
template <class Number>
class WholeRun {
 public:
  struct Stream {
    LayerSet layers;
    std::int64_t blocks = 0;
    bool weights = false;
  };

  WholeRun(ReferenceRule rule, Number scale) : rule_(rule), scale_(scale) {}

  /// When the iteration ends; -1 if it never does.
  Number end(const std::vector<std::int64_t>& compute, const WholeInstance& whole, const std::vector<Stream>& streams,
             int slots, std::int64_t room) {
    const int layers = static_cast<int>(compute.size());
    moves_.clear();
    for (int step = 0; step < 2 * layers; ++step) // this token's and the next one's
      for (std::size_t s = 0; s < streams.size(); ++s) {
        const int layer = step % layers;
        if (!streams[s].layers.contains(layer)) continue;
        int sharers = 0;
        bool first = true;
        for (std::size_t o = 0; o < streams.size(); ++o)
          if (streams[o].layers.contains(layer)) {
            ++sharers;
            first = first && o >= s;
          }
        Move move{static_cast<int>(s), step, -1, -1, 0, scale_ * streams[s].blocks, streams[s].weights};
        if (rule_ == ReferenceRule::deadline_pool || rule_ == ReferenceRule::next_layer)
          move.latency = first ? scale_ * whole.latency : 0;
        else
          move.latency = divided(scale_ * whole.latency, sharers);
        int mine = 0;
        for (const Move& other : moves_)
          if (other.stream == move.stream) {
            move.previous = other.step;
            ++mine;
          }
        if (move.weights && mine >= slots) {
          int at = 0;
          for (const Move& other : moves_)
            if (other.stream == move.stream && at++ == mine - slots) move.frees = other.step;
        }
        moves_.push_back(move);
      }
    Number now = 0, computing = scale_ * whole.before;
    int step = -1; // what computes: -1 is the part before the layers
    const auto computed = [&](int other) { return other < step; };
    bool busy = true;
    for (;;) {
      while (computing == 0) { // start what can start
        if (busy) {
          ++step;
          busy = false;
        }
        if (step == layers) {
          computing = scale_ * whole.after;
          return now + computing;
        }
        const bool ready = std::none_of(moves_.begin(), moves_.end(),
                                        [&](const Move& m) { return m.step == step && (m.left > 0 || m.latency > 0); });
        if (!ready) break;
        busy = true;
        computing = scale_ * compute[static_cast<std::size_t>(step)];
      }
      const int done = step; // layers below are computed
      const int started = busy ? step : step - 1;
      active_.clear();
      Number held = 0;
      for (const Move& m : moves_)
        if (!m.weights && m.step >= done) held += scale_ * streams[static_cast<std::size_t>(m.stream)].blocks - m.left;
      for (Move& m : moves_) {
        if (m.left == 0 && m.latency == 0) continue;
        bool may = true;
        if (m.weights) {
          may = m.frees < 0 || computed(m.frees);
          for (const Move& other : moves_)
            if (other.weights && other.step < m.step && other.left + other.latency > 0) may = false;
        }
        if (rule_ == ReferenceRule::next_layer) may = may && (m.step == 0 || started >= m.step - 1);
        if (rule_ == ReferenceRule::fair_share || rule_ == ReferenceRule::earliest_deadline_first)
          may = may && (m.weights || m.previous < 0 || computed(m.previous));
        if (rule_ == ReferenceRule::deadline_pool) may = may && (m.weights || held < scale_ * room);
        if (may) active_.push_back(&m);
        if (rule_ == ReferenceRule::deadline_pool) break; // one queue
      }
      if (rule_ == ReferenceRule::earliest_deadline_first && !active_.empty())
        active_ = {*std::min_element(active_.begin(), active_.end(),
                                     [](const Move* a, const Move* b) { return a->step < b->step; })};
      // A layer waits for all of its transfers, so their order does not matter where only one layer may move.
      if (rule_ == ReferenceRule::next_layer && active_.size() > 1) active_.resize(1);
      const auto flows = static_cast<std::int64_t>(active_.size());
      Number next = -1;
      const auto sooner = [&](Number time) {
        if (next < 0 || time < next) next = time;
      };
      if (busy) sooner(computing);
      for (const Move* m : active_) {
        sooner((m->latency > 0 ? m->latency : m->left) * flows);
        if (rule_ == ReferenceRule::deadline_pool && !m->weights && m->latency == 0) sooner(scale_ * room - held);
      }
      if (next < 0) return -1;
      for (Move* m : active_) (m->latency > 0 ? m->latency : m->left) -= divided(next, flows);
      now += next;
      if (busy) computing -= next;
    }
  }

 private:
  struct Move {
    int stream, step, previous, frees;
    Number latency, left;
    bool weights;
  };
  static Number divided(Number value, std::int64_t by) {
    if (value % by != 0) throw std::logic_error("the scale is too small");
    return value / by;
  }

  ReferenceRule rule_;
  Number scale_;
  std::vector<Move> moves_;
  std::vector<Move*> active_;
};

/// The exact time of a plan, or -1 if it does not fit, under the buffers that the rule holds.
class WholeJudge {
 public:
  explicit WholeJudge(ReferenceRule rule) : rule_(rule), exact_(rule, fair_scale()), plain_(rule, 1) {}

  /// How many units a tick has.
  [[nodiscard]] Wide scale(const WholeInstance& whole) const { return divides(whole) ? fair_scale() : 1; }

  /// `below`: plans that surely take as long are not simulated; -1: all are.
  Wide time(const WholeInstance& whole, std::size_t level, const std::vector<KvWays>& ways, Wide below = -1) {
    const int layers = whole.layers();
    compute_ = whole.compute;
    streams_.clear();
    wide_.clear();
    std::int64_t used = 0, own = 0, moved = 0;
    loads_.assign(whole.compute.size(), 0);
    const auto stream = [&](LayerSet set, std::int64_t blocks) {
      if (set.empty() || blocks == 0) return;
      streams_.push_back({set, blocks, false});
      own += blocks;
      moved += blocks * set.count();
      for (int l = 0; l < layers; ++l)
        if (set.contains(l)) loads_[static_cast<std::size_t>(l)] += blocks;
    };
    for (std::size_t r = 0; r < ways.size(); ++r) {
      const WholeRequest& request = whole.requests[r];
      const KvWays& way = ways[r];
      used += request.blocks * (layers - way.fetched.count() - way.rebuilt.count());
      if (!way.rebuilt.empty()) used += whole.held * request.blocks;
      stream(way.fetched, request.blocks);
      LayerSet states;
      for (int l = 0; l < layers; ++l) {
        if (!way.rebuilt.contains(l)) continue;
        compute_[static_cast<std::size_t>(l)] += request.project;
        if (l > 0 && request.states.contains(l)) {
          states.insert(l);
          continue;
        }
        // The tokens pass every layer from the nearest source below: states that are fetched anyway, or the embeddings.
        for (int below_l = l - 1; below_l >= 0; --below_l) {
          passed_.insert(below_l);
          if (below_l > 0 && way.rebuilt.contains(below_l) && request.states.contains(below_l)) break;
        }
      }
      for (int l = 0; l < layers; ++l)
        if (passed_.contains(l)) compute_[static_cast<std::size_t>(l)] += request.pass;
      passed_ = {};
      stream(states, request.state_blocks);
    }
    const WholeLevel& weights = whole.levels[level];
    const std::int64_t budget = whole.device + weights.gained;
    std::int64_t held = 0;
    for (std::size_t l = 0; l < loads_.size(); ++l) {
      const std::size_t after = l + 1 < loads_.size() ? l + 1 : 0;
      held = std::max(held, loads_[l] + (rule_ == ReferenceRule::next_layer ? loads_[after] : 0));
    }
    if (rule_ == ReferenceRule::fair_share || rule_ == ReferenceRule::earliest_deadline_first) held = own;
    if (used + held > budget) return -1;
    if (below >= 0) {
      std::int64_t computing = whole.before + whole.after;
      for (const std::int64_t ticks : compute_) computing += ticks;
      if (computing * scale(whole) >= below) return below;
      if (moved > 0 && (moved + whole.after + compute_.back()) * scale(whole) >= below) return below;
    }
    if (!weights.layers.empty()) streams_.push_back({weights.layers, weights.blocks, true});
    if (!divides(whole)) return plain_.end(compute_, whole, streams_, weights.slots, budget - used);
    for (const auto& one : streams_) wide_.push_back({one.layers, one.blocks, one.weights});
    return exact_.end(compute_, whole, wide_, weights.slots, budget - used);
  }

 private:
  [[nodiscard]] bool divides(const WholeInstance& whole) const {
    return rule_ == ReferenceRule::fair_share || (rule_ == ReferenceRule::earliest_deadline_first && whole.latency > 0);
  }
  static Wide fair_scale() {
    Wide scale = 1;
    for (const auto& [prime, times] : {std::pair{2, 44}, std::pair{3, 24}, std::pair{5, 6}, std::pair{7, 3}})
      for (int i = 0; i < times; ++i) scale *= prime;
    return scale;
  }

  ReferenceRule rule_;
  WholeRun<Wide> exact_;
  WholeRun<std::int64_t> plain_;
  std::vector<std::int64_t> compute_, loads_;
  std::vector<WholeRun<std::int64_t>::Stream> streams_;
  std::vector<WholeRun<Wide>::Stream> wide_;
  LayerSet passed_;
};

/// The least time over `options`, one list per request, and all levels; -1 if nothing fits.
inline Wide least_time(WholeJudge& judge, const WholeInstance& whole, const std::vector<std::vector<KvWays>>& options) {
  Wide best = -1;
  std::vector<KvWays> ways(options.size());
  for (std::size_t level = 0; level < whole.levels.size(); ++level) {
    std::vector<std::size_t> digits(options.size(), 0);
    for (;;) {
      for (std::size_t r = 0; r < ways.size(); ++r) ways[r] = options[r][digits[r]];
      const Wide time = judge.time(whole, level, ways, best);
      if (time >= 0 && (best < 0 || time < best)) best = time;
      std::size_t r = 0;
      while (r < digits.size() && ++digits[r] == options[r].size()) digits[r++] = 0;
      if (r == digits.size()) break;
    }
  }
  return best;
}

/// The pruned space by its definition: rebuild layers / 2^i layers, those that need only a projection first, and fetch
/// every k-th of the others (of equal counts, the largest k).
inline std::vector<KvWays> pruned_ways(int layers, const WholeRequest& request, bool rebuilds) {
  std::vector<KvWays> out;
  for (int count = layers;; count /= 2) {
    LayerSet rebuilt;
    for (const bool projects : {true, false})
      for (int l = 0; l < layers; ++l)
        if ((l == 0 || request.states.contains(l)) == projects && rebuilt.count() < count) rebuilt.insert(l);
    if (count > 0 && !rebuilds) continue;
    std::vector<int> others;
    for (int l = 0; l < layers; ++l)
      if (!rebuilt.contains(l)) others.push_back(l);
    const int n = static_cast<int>(others.size());
    out.push_back({{}, rebuilt});
    int last = 0;
    for (int k = n; k >= 1; --k) {
      if (n / k == last) continue;
      last = n / k;
      LayerSet fetched;
      for (int i = k; i <= n; i += k) fetched.insert(others[static_cast<std::size_t>(i - 1)]);
      out.push_back({fetched, rebuilt});
    }
    if (count == 0) return out;
  }
}

/// Every way: 3^layers of them.
inline std::vector<KvWays> all_ways(int layers, bool rebuilds) {
  std::vector<KvWays> out{{}};
  for (int l = 0; l < layers; ++l) {
    const std::size_t before = out.size();
    for (std::size_t i = 0; i < before; ++i) {
      KvWays way = out[i];
      way.fetched.insert(l);
      out.push_back(way);
      if (!rebuilds) continue;
      way = out[i];
      way.rebuilt.insert(l);
      out.push_back(way);
    }
  }
  return out;
}

} // namespace sluice::test
