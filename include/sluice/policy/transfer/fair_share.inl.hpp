// SPDX-License-Identifier: Apache-2.0
// An iteration under FairShare, flow by flow.
#pragma once

#include "sluice/policy/transfer/buffered_streams.hpp"
#include "sluice/policy/transfer/fair_share.hpp"
#include "sluice/policy/transfer/pipeline.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

namespace sluice {

/// Flows launched together end in the order of their work, which is the order of their sizes except for the latency
/// that they share. So each launch is a queue, and the next flow to end is at the head of one. Rejected: a search
/// through all flows at each end, which took most of a simulation's time with 256 streams.
template <class Sink>
class FairShare::Walk {
 public:
  Walk(const Pipeline& pipeline, State& state, Sink& sink)
      : pipeline_(pipeline),
        state_(state),
        sink_(sink),
        streams_(pipeline),
        clock_(pipeline.clock),
        slots_(pipeline.weights),
        layers_(pipeline.layers()) {}

  StepCost run() {
    const double background = state_.background_blocks + pipeline_.background_blocks;
    begin();
    double stall_s = 0;
    double time = clock_.after(0, pipeline_.before_s);
    for (int l = 0; l < layers_; ++l) {
      double start = l == 0 ? std::max(time, detail::first_layer_s(pipeline_)) : time;
      StallCause cause = start > time ? StallCause::link : StallCause::none;
      serve_until(start);
      while (in_flight_[static_cast<std::size_t>(l)] > 0) {
        start = finish_next();
        cause = idled_ ? StallCause::room : StallCause::link;
      }
      const double waited_s = clock_.seconds(start) - clock_.seconds(time);
      stall_s += waited_s;
      const double end = clock_.after(start, pipeline_.compute_s[static_cast<std::size_t>(l)]);
      if constexpr (record) sink_.layer(l, clock_.seconds(start), clock_.seconds(end), waited_s, cause);
      time = end;
      serve_until(time);
      const std::size_t from = state_.queue.size();
      for (const std::size_t s : state_.by_size) {
        if (!streams_.uses(s, l)) continue;
        if (streams_.is_weights(s)) {
          ++weights_computed_;
          continue; // below, once this launch is complete
        }
        const int next = streams_.after(s, l);
        launch(s, next >= 0 ? next : streams_.first(s) + layers_,
               streams_.work_s(s, next >= 0 ? next : streams_.first(s)));
      }
      launched(from);
      launch_weights(0);
    }
    time = clock_.after(time, pipeline_.after_s);
    serve_until(time);
    for (std::size_t s = 0; s < streams_.requests(); ++s) {
      const int first = streams_.first(s);
      if (first < 0) continue;
      const typename State::Flow& flow = state_.flows[s];
      state_.ahead_link_s[s] =
          std::max(0.0, streams_.work_s(s, first) - (flow.target >= 0 ? flow.finish_share - share_ : 0));
    }
    leave_weights();
    const double urgent_s = detail::urgent(pipeline_) / pipeline_.link.blocks_per_s;
    detail::tell_link(sink_, clock_, 0,
                      std::min(time, background > 0 ? busy_s_ + background / pipeline_.link.blocks_per_s : urgent_s));
    state_.background_blocks = detail::background_left(background, time - busy_s_, pipeline_.link);
    return {clock_.seconds(time), stall_s, busy_s_};
  }

 private:
  static constexpr bool record = Sink::enabled;

  void begin() {
    state_.ahead_link_s.resize(streams_.size(), 0.0);
    state_.flows.assign(streams_.size(), {});
    state_.queue.clear();
    state_.launches.clear();
    std::fill_n(in_flight_.begin(), 2 * layers_, 0);
    state_.by_size.resize(streams_.size());
    std::iota(state_.by_size.begin(), state_.by_size.end(), std::size_t{0});
    const auto blocks = [this](std::size_t s) {
      return s < pipeline_.streams.size() ? pipeline_.streams[s].blocks : 0.0;
    };
    std::sort(state_.by_size.begin(), state_.by_size.end(), [&](std::size_t a, std::size_t b) {
      return blocks(a) != blocks(b) ? blocks(a) < blocks(b)
                                    : a < b; // like std::stable_sort, which costs more to compile
    });
    now_ = detail::urgent(pipeline_) / pipeline_.link.blocks_per_s;
    busy_s_ = now_;
    for (const std::size_t s : state_.by_size)
      if (const int first = streams_.first(s); first >= 0 && !streams_.is_weights(s))
        launch(s, first, streams_.work_s(s, first) - state_.ahead_link_s[s]);
    launched(0);
    if (!pipeline_.weights.empty()) {
      weights_launched_ = state_.ahead_weights;
      launch_weights(state_.ahead_link_s[streams_.requests()]);
    }
  }
  /// Launches the weights' next layer if none is in flight and a slot is free; `done_s` of its link work is already
  /// done.
  void launch_weights(double done_s) {
    while (!weights_in_flight_ && weights_launched_ < slots_.released(weights_computed_)) {
      const int i = weights_launched_++;
      const std::size_t from = state_.queue.size();
      launch(streams_.requests(), static_cast<int>(slots_.position(i, pipeline_.compute_s.size())),
             streams_.work_s(streams_.requests(), slots_.layer(i)) - done_s);
      weights_in_flight_ = state_.queue.size() > from;
      launched(from);
      done_s = 0;
    }
  }
  void leave_weights() {
    if (pipeline_.weights.empty()) return;
    const std::size_t s = streams_.requests();
    state_.ahead_weights = weights_launched_ - slots_.count() - (weights_in_flight_ ? 1 : 0);
    const int target = state_.flows[s].target;
    state_.ahead_link_s[s] = 0;
    if (target >= 0)
      state_.ahead_link_s[s] =
          std::max(0.0, streams_.work_s(s, target - layers_) - (state_.flows[s].finish_share - share_));
  }
  void launch(std::size_t stream, int target, double work_s) {
    if (work_s <= 0) return;
    state_.flows[stream] = {target, share_ + work_s, now_};
    ++in_flight_[static_cast<std::size_t>(target)];
    ++active_;
    state_.queue.push_back(stream);
  }
  /// Sorts the flows launched since `from` by their end: by insertion, because they are nearly sorted.
  void launched(std::size_t from) {
    std::vector<std::size_t>& queue = state_.queue;
    if (from == queue.size()) return;
    for (std::size_t i = from + 1; i < queue.size(); ++i)
      for (std::size_t j = i; j > from && finish_share(queue[j]) < finish_share(queue[j - 1]); --j)
        std::swap(queue[j], queue[j - 1]);
    state_.launches.push_back({from, queue.size()});
  }
  [[nodiscard]] double finish_share(std::size_t stream) const { return state_.flows[stream].finish_share; }

  /// The launch whose head ends first.
  [[nodiscard]] std::size_t nearest_finish() const {
    std::size_t best = 0;
    double finish = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < state_.launches.size(); ++i)
      if (const double share = finish_share(state_.queue[state_.launches[i].next]); share < finish) {
        finish = share;
        best = i;
      }
    return best;
  }
  [[nodiscard]] double head_share(std::size_t launch) const {
    return finish_share(state_.queue[state_.launches[launch].next]);
  }
  void finish(std::size_t launch) {
    const std::size_t stream = state_.queue[state_.launches[launch].next];
    typename State::Flow& flow = state_.flows[stream];
    share_ = flow.finish_share;
    if constexpr (record)
      sink_.transfer(static_cast<int>(stream), flow.target, clock_.seconds(flow.begin_s), clock_.seconds(now_));
    --in_flight_[static_cast<std::size_t>(flow.target)];
    flow.target = -1;
    --active_;
    if (++state_.launches[launch].next == state_.launches[launch].end)
      state_.launches.erase(state_.launches.begin() + static_cast<std::ptrdiff_t>(launch));
    if (streams_.is_weights(stream)) {
      weights_in_flight_ = false;
      launch_weights(0);
    }
  }
  /// Advances the link by `spent_s` of work.
  void work(double spent_s) {
    detail::tell_link(sink_, clock_, now_, now_ + spent_s);
    busy_s_ += spent_s;
    now_ += spent_s;
  }
  /// Ends the flow that finishes first; returns when.
  double finish_next() {
    const std::size_t launch = nearest_finish();
    const double spent_s = (head_share(launch) - share_) * active_;
    work(spent_s);
    finish(launch);
    return now_;
  }
  void serve_until(double until) {
    while (now_ < until) {
      if (active_ == 0) {
        idled_ = true;
        now_ = until;
        return;
      }
      const std::size_t launch = nearest_finish();
      const double spent_s = (head_share(launch) - share_) * active_;
      if (now_ + spent_s <= until) {
        work(spent_s);
        finish(launch);
      } else {
        share_ += (until - now_) / active_;
        work(until - now_);
        now_ = until;
      }
    }
  }

  const Pipeline& pipeline_;
  State& state_;
  Sink& sink_;
  detail::BufferedStreams streams_;
  LinkClock clock_;
  detail::SlotOrder slots_;
  int layers_;
  int weights_computed_ = 0;
  int weights_launched_ = 0;
  bool weights_in_flight_ = false;
  std::array<int, 2 * max_layers> in_flight_; ///< flows for each layer of this token and the next
  double now_ = 0;                            ///< on the link's clock
  double share_ = 0;                          ///< link seconds that a flow in flight since the start would have had
  double busy_s_ = 0;
  int active_ = 0;
  bool idled_ = false;
};

template <class Sink>
StepCost FairShare::walk(const Pipeline& pipeline, State& state, Sink& sink) {
  return Walk<Sink>{pipeline, state, sink}.run();
}

} // namespace sluice
