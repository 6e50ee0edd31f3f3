// SPDX-License-Identifier: Apache-2.0
// FairShare: OrbitFlow's text (3.3.1): a stream per request, and the link in equal shares.
#pragma once

#include "sluice/transfer/request_buffers.hpp"
#include "sluice/transfer/transfer_scheduler.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sluice {

/// A request's transfer may start when its previous offloaded layer has been computed: it has a buffer of one layer,
/// and one layer in flight. All transfers in flight divide the link evenly, and when one ends its share goes to the
/// others. Next token's first layer follows this token's last.
///
/// The printed Algorithm 1 differs from that text (it credits only the preceding layer's time to a transfer) and
/// contradicts the paper's own Fig. 3, so the text is built.
struct FairShare {
  using role = roles::Transfer;
  static constexpr std::string_view name = "fair-share";
  static constexpr bool needs_room = false;

  struct State {
    /// Link work already done for each stream's first layer of the next token, in the order of `Pipeline::streams`
    /// (`extra_blocks` last). Whoever adds, removes or reorders streams clears it.
    std::vector<double> ahead_link_s;
    double behind_blocks = 0; ///< of a plan's delta, not moved yet

    void clear() {
      std::fill(ahead_link_s.begin(), ahead_link_s.end(), 0.0);
      behind_blocks = 0;
    }

    /// Scratch of `evaluate`, kept so that a steady state allocates nothing.
    struct Flow {
      int target = -1;         ///< the layer in flight (L and above: the next token's), or -1
      double finish_share = 0; ///< it ends when the share that each flow has had since the start reaches this
      double begin_s = 0;
    };
    std::vector<Flow> flows;
  };

  static double held_blocks(std::span<const double> loads, std::span<const LayerStream> streams) {
    return detail::request_buffers(loads, streams);
  }

  template <class Sink = NoTimeline>
  static StepCost evaluate(const Pipeline& pipeline, State& state, Sink&& sink = Sink{}) {
    return Walk<Sink>{pipeline, state, sink}.run();
  }

 private:
  template <class Sink>
  class Walk {
   public:
    Walk(const Pipeline& pipeline, State& state, Sink& sink)
        : pipeline_(pipeline), state_(state), sink_(sink), streams_(pipeline), layers_(pipeline.layers()) {}

    StepCost run() {
      const double behind = state_.behind_blocks + pipeline_.behind_blocks;
      begin();
      double stall_s = 0;
      double time = pipeline_.before_s;
      for (int l = 0; l < layers_; ++l) {
        serve_until(time);
        double start = time;
        StallCause cause = StallCause::none;
        while (in_flight(l)) {
          start = finish_next();
          cause = idled_ ? StallCause::room : StallCause::link;
        }
        stall_s += start - time;
        const double end = start + pipeline_.compute_s[static_cast<std::size_t>(l)];
        if constexpr (record) sink_.layer(l, start, end, start - time, cause);
        time = end;
        serve_until(time);
        for (std::size_t s = 0; s < streams_.size(); ++s) {
          if (!streams_.uses(s, l)) continue;
          const int next = streams_.after(s, l);
          launch(s, next >= 0 ? next : streams_.first(s) + layers_,
                 streams_.work_s(s, next >= 0 ? next : streams_.first(s)));
        }
      }
      time += pipeline_.after_s;
      serve_until(time);
      for (std::size_t s = 0; s < streams_.size(); ++s) {
        const int first = streams_.first(s);
        if (first < 0) continue;
        const State::Flow& flow = state_.flows[s];
        state_.ahead_link_s[s] =
            std::max(0.0, streams_.work_s(s, first) - (flow.target >= 0 ? flow.finish_share - share_ : 0));
      }
      state_.behind_blocks = detail::behind_left(behind, time - busy_s_, pipeline_.link);
      return {time, stall_s};
    }

   private:
    static constexpr bool record = std::decay_t<Sink>::enabled;

    void begin() {
      state_.ahead_link_s.resize(streams_.size(), 0.0);
      state_.flows.assign(streams_.size(), {});
      now_ = pipeline_.urgent_blocks / pipeline_.link.blocks_per_s;
      busy_s_ = now_;
      for (std::size_t s = 0; s < streams_.size(); ++s)
        if (const int first = streams_.first(s); first >= 0)
          launch(s, first, streams_.work_s(s, first) - state_.ahead_link_s[s]);
    }
    void launch(std::size_t stream, int target, double work_s) {
      if (work_s <= 0) return;
      state_.flows[stream] = {target, share_ + work_s, now_};
      ++active_;
    }
    [[nodiscard]] bool in_flight(int layer) const {
      for (const State::Flow& flow : state_.flows)
        if (flow.target == layer) return true;
      return false;
    }
    [[nodiscard]] std::size_t nearest_finish() const {
      std::size_t best = 0;
      double finish = std::numeric_limits<double>::infinity();
      for (std::size_t s = 0; s < state_.flows.size(); ++s)
        if (state_.flows[s].target >= 0 && state_.flows[s].finish_share < finish) {
          finish = state_.flows[s].finish_share;
          best = s;
        }
      return best;
    }
    void finish(std::size_t stream) {
      State::Flow& flow = state_.flows[stream];
      share_ = flow.finish_share;
      if constexpr (record) sink_.transfer(static_cast<int>(stream), flow.target, flow.begin_s, now_);
      flow.target = -1;
      --active_;
    }
    /// Lets the flow that ends first end; the time of that.
    double finish_next() {
      const std::size_t stream = nearest_finish();
      const double spent_s = (state_.flows[stream].finish_share - share_) * active_;
      busy_s_ += spent_s;
      now_ += spent_s;
      finish(stream);
      return now_;
    }
    void serve_until(double until) {
      while (now_ < until) {
        if (active_ == 0) {
          idled_ = true;
          now_ = until;
          return;
        }
        const std::size_t stream = nearest_finish();
        const double spent_s = (state_.flows[stream].finish_share - share_) * active_;
        if (now_ + spent_s <= until) {
          busy_s_ += spent_s;
          now_ += spent_s;
          finish(stream);
        } else {
          busy_s_ += until - now_;
          share_ += (until - now_) / active_;
          now_ = until;
        }
      }
    }

    const Pipeline& pipeline_;
    State& state_;
    Sink& sink_;
    detail::BufferedStreams streams_;
    int layers_;
    double now_ = 0;   ///< the link's clock
    double share_ = 0; ///< link seconds that a flow in flight from the start would have had
    double busy_s_ = 0;
    int active_ = 0;
    bool idled_ = false;
  };
};

static_assert(TransferScheduler<FairShare>);

} // namespace sluice
