// SPDX-License-Identifier: Apache-2.0
// SloInterval: the smallest interval that meets the SLO, by the evaluator or by a performance record (Select-N).
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/math.hpp"
#include "sluice/core/numbers.hpp"
#include "sluice/core/units.hpp"
#include "sluice/policy/weights/interval_source.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

// The error texts for an SLO that cannot be met.
// Functions instead of a policy's members, and cold: rarely made texts would otherwise cost code in every engine.
namespace sluice::detail {

[[nodiscard, gnu::cold, gnu::noinline]] inline std::string milliseconds(Seconds time) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g ms", 1e3 * time.count());
  return text;
}

[[nodiscard, gnu::cold, gnu::noinline]] inline Error slo_refusal(const std::string& asked, Seconds best,
                                                                 const std::string& more, int streamed) {
  Error error{ErrorCode::infeasible, {}, "its SLO of " + asked + " cannot be met", {}};
  if (!math::isfinite(best.count())) {
    error.what += ": no recorded interval makes room for its KV in that time";
    error.expected = "a shorter request, or a longer SLO";
    return error;
  }
  error.what += ": " + milliseconds(best) + " is the best" + more;
  if (streamed > 0)
    error.what += ", since the weights of " + std::to_string(streamed) + " layers must stream to make room for its KV";
  error.expected = "at least that";
  return error;
}

/// `left`: the SLO less the time that the request has waited.
[[nodiscard, gnu::cold, gnu::noinline]] inline Error first_token_refusal(Seconds slo, Seconds left, Seconds best,
                                                                         int streamed) {
  const std::string waited = left < slo ? ", and it has waited " + milliseconds(slo - left) : std::string{};
  return slo_refusal(milliseconds(slo) + " to the first token", best, waited, streamed);
}

[[nodiscard, gnu::cold, gnu::noinline]] inline Error token_refusal(Seconds slo, Seconds best, int streamed) {
  return slo_refusal(milliseconds(slo) + " a token", best, {}, streamed);
}

} // namespace sluice::detail

namespace sluice {

/// Select-N's interval (4.2, 4.3): the smallest one, which keeps most weights on the host, with which an iteration
/// still takes no longer than its batch's tightest SLO. `Source` finds it: by the paper's record, or by the evaluator.
///
/// *Two phases, two instances.* The paper deploys a model twice, for prompts and for decodes, each on its own device
/// with its own weights and interval (5.1): no weights move between the two. So an engine is one of them, and `phase`
/// says which. `decode` sizes by the token SLO and the steady decode. `prefill` sizes by the SLO of the first token
/// less what its request has waited, over the iterations that its prompt still takes. An engine that serves both, as
/// this project's do by default, keeps what decodes need: prompts compute longer, so the same interval or a smaller one
/// hides their transfers. Rejected: a separate interval for each prompt between decodes. The weights that return for a
/// decode cross the link as a streamed layer would, once for each prompt that evicted them, and memory that is free for
/// one iteration holds no KV.
///
/// *Larger models*: if the weights alone do not fit the device (`WeightsTask::own` below 0), the longest interval is
/// the one that leaves room for a block of each layer; it is used if no SLO can be met.
///
/// *Levels*: all longer intervals that free memory, the smallest first, for a bus coordinator to choose from. Among
/// those that stream equally many layers only the longest counts, which spaces them most evenly.
///
/// *Batch*: as many of the requests that would run as fit the memory that their own interval leaves, required claims
/// first. A larger batch computes longer and takes a longer interval, which has room for fewer requests: sized for all
/// waiting requests, it would keep out requests that a shorter interval has room for.
///
/// *Changes*: two intervals stream nearly disjoint layers. The layers that return cross the link in the iteration that
/// changes the interval, which can exceed the SLO that once. So a longer interval in force stays while KV has no use
/// for more memory. A record, whose answers change only with the next power of two, changes the interval less often
/// than the evaluator.
///
/// *Submission*: an SLO that this machine cannot meet even for that request alone is refused, and the refusal states
/// the best possible one: at the longest context that is known then, with the weights streaming that make room for it.
///
/// *Alone*: a request whose KV outgrows what its SLO's interval frees gets the interval that frees enough, and misses
/// its SLO. Otherwise it would wait for memory that nobody holds.
template <class Source>
struct BasicSloInterval {
  using role = roles::Weights;
  static constexpr bool promises = true;
  static constexpr bool lends = false;
  struct State {
    typename Source::State source;
    std::vector<ChunkWork> chunks;
    int interval = 0; ///< in force; above the number of layers that may: nothing streams; 0: not determined yet
  };

  Source source{};
  InferencePhase phase = InferencePhase::decode;
  bool refuses = true; ///< false: requests whose SLO cannot be met are served as well as possible
  static constexpr auto numbers = Numbers{"SloInterval", Number{"refuses", &BasicSloInterval::refuses, 0, 1,
                                                                "0: a request whose SLO cannot be met is served"}};

  template <class Task>
  void offer(const Task& task, State& state, std::vector<WeightsLevel>& levels) const {
    const Geometry& geometry = task.view.geometry;
    const int layers = geometry.streamable_layers();
    int longest = layers + 1;
    if (task.own < LayerBlocks{0}) longest = longest_that_frees(geometry, geometry.kv_of(TokenBlocks{1}) - task.own);
    if (longest == 0) return; // no interval frees enough
    int good = longest;
    LayerBlocks demand = task.demand;
    bool alone = task.claims.size() == 1;
    if (phase == InferencePhase::prefill) {
      good = std::min(longest, for_prompts(task, state));
    } else {
      // The longest prefix of the claims that fits: by bisection between one that fits and one that does not.
      const auto fits = [&](std::size_t count) {
        const Front front = front_of(task, count);
        demand = front.demand;
        good = std::min(longest, for_decodes(task, front, count, state));
        return demand <= task.own + interval_level(geometry, good).plan.freed;
      };
      std::size_t fitting = 0;
      while (fitting < task.claims.size() && task.claims[fitting].required) ++fitting;
      fitting = std::max<std::size_t>(1, fitting); // even if it does not fit: Relief chooses the victim
      std::size_t last = task.claims.size();
      if (!fits(last)) {
        for (std::size_t beyond = last; beyond - fitting > 1;) {
          const std::size_t middle = fitting + (beyond - fitting) / 2;
          (fits(middle) ? fitting : beyond) = middle;
        }
        alone = fitting == 1;
        (void)fits(fitting);
      }
    }
    if (alone && demand > task.own + interval_level(geometry, good).plan.freed) {
      const LayerBlocks most = most_freed(geometry); // a Placement that moves layers may need less than all KV
      const int roomy = longest_that_frees(geometry, std::min(demand - task.own, most));
      if (roomy > 0) good = roomy;
    }
    if (state.interval > good && demand <= task.own + interval_level(geometry, state.interval).plan.freed)
      good = std::min(longest, state.interval);
    state.interval = good;
    for (int interval = good; interval <= std::min(longest, layers); interval = most_even(layers, interval + 1)) {
      const WeightsLevel level = interval_level(geometry, interval);
      if (level.plan.level < 1) break; // below 1: the layer's slot takes as much as it frees
      levels.push_back(level);
    }
  }
  [[nodiscard]] LayerBlocks most_freed(const Geometry& geometry) const {
    return std::max({LayerBlocks{0}, interval_level(geometry, 1).plan.freed, interval_level(geometry, 2).plan.freed});
  }

  template <class Request>
  [[nodiscard]] Status promise(const Request& request) const {
    if (!refuses) return {};
    const Geometry& geometry = request.geometry;
    WeightsPlan plan;
    int interval = geometry.streamable_layers() + 1;
    if (request.lacking > LayerBlocks{0}) {
      interval = longest_that_frees(geometry, request.lacking);
      if (interval == 0) return {}; // too little with any SLO: refused for memory
      plan = interval_level(geometry, interval).plan;
    }
    const Slo& slo = request.spec.slo;
    const Seconds left = slo.ttft - (request.now - request.spec.arrival);
    if (slo.ttft < Seconds{std::numeric_limits<double>::infinity()})
      if (const Seconds first = first_token(request, plan); first > left * (1 + 1e-9))
        return detail::first_token_refusal(slo.ttft, left, first, plan.streamed.count());
    if (phase == InferencePhase::prefill || request.spec.output_bound() == Tokens{1}) return {};
    Work work;
    work.decodes = work.samples = 1;
    work.decode_context = request.context;
    const IntervalQuestion<std::remove_cvref_t<decltype(request.cost)>> last{
        request.cost, geometry, InferencePhase::decode, work, 1, work.decode_context};
    Seconds best = request.cost.step(work).total(geometry.layers);
    if (!plan.streamed.empty()) {
      typename Source::State state;
      best = source.best(last, state, interval);
    }
    if (best > slo.tbt * (1 + 1e-9)) return detail::token_refusal(slo.tbt, best, plan.streamed.count());
    return {};
  }

 private:
  /// The interval to use if `smallest` is the smallest that meets the SLO; above the number of layers if none does.
  template <class Task>
  static int taken(const Task& task, int smallest) {
    const int layers = task.view.geometry.streamable_layers();
    return smallest == 0 ? layers + 1 : most_even(layers, smallest);
  }
  /// The longest interval that streams as many layers as `interval`.
  static int most_even(int layers, int interval) { return interval > layers ? interval : layers / (layers / interval); }
  /// The sums of the first `count` claims.
  struct Front {
    Work steady;
    Seconds slo{std::numeric_limits<double>::infinity()};
    LayerBlocks demand{0};
  };
  template <class Task>
  static Front front_of(const Task& task, std::size_t count) {
    Front front;
    const Limits& limits = task.view.limits;
    for (const Claim& claim : task.claims.first(count)) {
      const RequestRow& who = task.view.row(claim.slot);
      front.slo = std::min(front.slo, who.spec.slo.tbt);
      front.steady.decode_context += who.context() + Tokens{1};
      front.demand +=
          task.view.geometry.kv_of(who.blocks_after(std::max(claim.tokens, claim.reserve), limits.block_tokens));
    }
    front.steady.decodes = front.steady.samples = static_cast<std::int64_t>(count);
    if (count == task.claims.size()) { // all claims: the engine has computed the sums
      front.steady = task.steady;
      front.demand = task.demand;
    }
    return front;
  }
  template <class Task>
  int for_decodes(const Task& task, const Front& front, std::size_t count, State& state) const {
    const auto batch = static_cast<std::int64_t>(count);
    const Tokens length{(front.steady.decode_context.count() + batch - 1) / batch};
    return taken(task, source.smallest(question(task, front.steady, batch, length), state.source, front.slo));
  }
  template <class Task>
  int for_prompts(const Task& task, State& state) const {
    Seconds slo{std::numeric_limits<double>::infinity()};
    Work work;
    Tokens longest{1};
    state.chunks.clear();
    for (const Claim& claim : task.claims) {
      const RequestRow& who = task.view.row(claim.slot);
      if (claim.tokens <= Tokens{0}) continue;
      state.chunks.push_back({claim.tokens, who.computed});
      longest = std::max(longest, who.computed + claim.tokens);
      work.samples += claim.tokens >= who.pending() ? 1 : 0;
      if (who.generated > Tokens{0}) continue; // the request's first token exists
      const Seconds left = who.spec.slo.ttft - (task.view.now - who.spec.arrival);
      const std::int64_t iterations = (who.pending().count() + claim.tokens.count() - 1) / claim.tokens.count();
      slo = std::min(slo, std::max(Seconds{0}, left) / static_cast<double>(iterations));
    }
    work.chunks = state.chunks;
    const auto batch = static_cast<std::int64_t>(state.chunks.size());
    return taken(task, source.smallest(question(task, work, batch, longest), state.source, slo));
  }
  template <class Task>
  IntervalQuestion<typename Task::cost_type> question(const Task& task, const Work& work, std::int64_t batch,
                                                      Tokens length) const {
    return {task.cost, task.view.geometry, phase, work, batch, length};
  }

  /// The longest interval that frees `needed`; 0 if none does.
  static int longest_that_frees(const Geometry& geometry, LayerBlocks needed) {
    for (int interval = geometry.streamable_layers(); interval >= 1; --interval)
      if (interval_level(geometry, interval).plan.freed >= needed) return interval;
    return 0;
  }
  /// The time of a prompt alone, in chunks of the token budget, until its first token.
  template <class Request>
  static Seconds first_token(const Request& request, const WeightsPlan& plan) {
    StreamedStep step;
    Seconds sum{0};
    for (Tokens done{0}; done < request.spec.prompt;) {
      const ChunkWork chunk{std::min(request.limits.batch_tokens, request.spec.prompt - done), done};
      done += chunk.fresh;
      Work work;
      work.chunks = {&chunk, 1};
      work.samples = done == request.spec.prompt ? 1 : 0;
      sum += step.of(request.cost, request.geometry, work, plan);
    }
    return sum;
  }
};

/// The smallest interval by the evaluator, for exactly the present batch.
using SloInterval = BasicSloInterval<EvaluatedInterval>;
/// The smallest interval by a performance record, as in the paper.
using RecordedSloInterval = BasicSloInterval<RecordedInterval>;

static_assert(Weights<SloInterval> && PromisesSlo<SloInterval>);
static_assert(Weights<RecordedSloInterval> && PromisesSlo<RecordedSloInterval>);

} // namespace sluice
