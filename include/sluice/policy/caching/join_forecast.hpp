// SPDX-License-Identifier: Apache-2.0
// JoinForecast: what it would cost everybody if a request joined with this much of its prefix loaded.
#pragma once

#include "sluice/policy/caching/caching.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// A forecast of the iterations up to a request's first token.
struct JoinCost {
  /// The time by which requests miss their SLOs, each in units of its SLO, summed: TTFT of the request that joins, TBT
  /// of those that run, as far as their deposits do not cover it.
  double late = 0;
  Seconds first{0}; ///< from now to the first token

  friend constexpr auto operator<=>(const JoinCost&, const JoinCost&) = default;
};

/// Forecasts for one request, by the evaluator. The batch around it is the running one: the prompts that it computes
/// keep their share of the token budget, and its offloaded layers cross the link in each iteration. Not known: other
/// requests that join in the same iteration, and where the placement will have this request's layers.
class JoinForecast {
 public:
  JoinForecast(const View& view, const RequestRow& row, const FoundPrefix& found, const Estimate& estimate)
      : view_(&view),
        row_(&row),
        found_(found),
        estimate_(&estimate),
        weights_(view.geometry.stream_of(view.plan->weights)),
        room_(static_cast<double>(view.ledger->device().free().count())) {
    std::int64_t budget = view.limits.batch_tokens.count();
    for (const Slot slot : view.running) {
      const RequestRow& other = view.row(slot);
      const Tokens ready{std::min(other.ready().count(), budget)};
      budget -= ready.count();
      if (ready == other.pending()) ++decodes_.samples;
      if (ready == Tokens{1} && other.pending() == Tokens{1}) {
        ++decodes_.decodes;
        decodes_.decode_context += other.computed + Tokens{1};
      } else if (ready.count() > 0) {
        chunks_.push_back({ready, other.computed});
      }
      if (!other.holding.host.empty())
        streams_.push_back(
            {other.holding.host,
             static_cast<double>(other.holding.head_blocks(other.blocks, view.limits.block_tokens).count()),
             {}});
    }
    budget_ = std::max<std::int64_t>(1, budget);
    repeated_ = streams_.size();
    chunks_.emplace_back();
    const StepCost before = iteration(Tokens{0}, Tokens{0}, 0);
    if (!view.running.empty()) waits_s_ = before.step_s;
    idle_ = before.step_s > 0 ? std::max(0.0, 1 - before.link_s / before.step_s) : 1;
  }

  /// What `reuse` would cost, `before` from now on. It is layer by layer, or beside the computation.
  [[nodiscard]] JoinCost of(const Reuse& reuse, Seconds before = Seconds{0}) {
    spans_.clear();
    elapsed_s_ = before.count();
    const auto blocks = static_cast<double>(blocks_for(reuse.tokens, view_->limits.block_tokens).count());
    const double of_link = estimate_->link().blocks_per_s / view_->geometry.layers; // token blocks a second
    double channel_s = 0;                                                           // of the tier's own
    if (reuse.tokens.count() > 0 && found_.below.count() > 0)
      channel_s = found_.below_time.count() *
                  std::min(1.0, static_cast<double>(reuse.tokens.count()) / static_cast<double>(found_.below.count()));
    const Tokens after = found_.device + reuse.tokens + reuse.skipped;
    if (reuse.mode == LoadMode::layerwise) {
      compute(row_->context() - after, after, std::max(blocks, channel_s * of_link));
    } else {
      const double begun_s = elapsed_s_;
      compute(reuse.skipped, found_.device, 0);
      // What is computed meanwhile may be written: first if there is one lane, else beside the load.
      const BlockLink link = estimate_->link();
      double moved = blocks;
      if (!link.each_way()) moved += static_cast<double>(blocks_for(reuse.skipped, view_->limits.block_tokens).count());
      const double idle = std::max(1e-3, idle_ * (link.each_way() ? 1 - link.mix_loss : 1));
      const double load_s = std::max(moved / (of_link * idle), channel_s);
      double left_s = std::max(0.0, load_s - (elapsed_s_ - begun_s));
      if (waits_s_ > 0) left_s = std::ceil(left_s / waits_s_) * waits_s_; // it is over when an iteration ends
      elapsed_s_ += left_s;
      compute(row_->context() - after, after, 0);
    }
    return {lateness(), Seconds{elapsed_s_}};
  }

 private:
  struct Span {
    double step_s, times;
  };

  /// An iteration that computes `tokens` of the request behind `cached` others while `blocks` blocks of each layer
  /// load.
  [[nodiscard]] StepCost iteration(Tokens tokens, Tokens cached, double blocks) {
    Work work = decodes_;
    chunks_.back() = {tokens, cached};
    work.chunks = {chunks_.data(), chunks_.size() - (tokens.count() > 0 ? 0 : 1)};
    work.samples += tokens.count() > 0 && tokens + cached == row_->context() ? 1 : 0;
    streams_.resize(repeated_);
    if (blocks > 0) streams_.push_back({LayerSet::all(view_->geometry.layers), blocks, {}});
    return estimate_->step(work, streams_, repeated_, room_ + blocks * view_->geometry.layers, weights_);
  }
  void run(const StepCost& cost, double times) {
    spans_.push_back({cost.step_s, times});
    elapsed_s_ += cost.step_s * times;
  }
  /// The iterations that compute `tokens` tokens, with a load in the first one. Those between the first and the last
  /// take as long as the one in their middle.
  void compute(Tokens tokens, Tokens cached, double blocks) {
    const std::int64_t count = (tokens.count() + budget_ - 1) / budget_;
    if (count <= 0) return;
    const auto chunk = [&](std::int64_t i) {
      const std::int64_t done = i * budget_;
      return iteration(Tokens{std::min(budget_, tokens.count() - done)}, cached + Tokens{done}, i == 0 ? blocks : 0);
    };
    run(chunk(0), 1);
    if (count > 2) run(chunk((count - 1) / 2), static_cast<double>(count - 2));
    if (count > 1) run(chunk(count - 1), 1);
  }
  [[nodiscard]] double lateness() const {
    double late = 0;
    for (const Slot slot : view_->running) {
      const RequestRow& other = view_->row(slot);
      const double slo_s = other.spec.slo.tbt.count();
      if (other.generated.count() == 0 || std::isinf(slo_s)) continue;
      double over_s = -static_cast<double>(other.deposit().count()) * slo_s;
      for (const Span& span : spans_) over_s += span.times * std::max(0.0, span.step_s - slo_s);
      late += std::max(0.0, over_s) / slo_s;
    }
    const double slo_s = row_->spec.slo.ttft.count();
    const double ttft_s = (view_->now - row_->spec.arrival).count() + elapsed_s_;
    if (row_->generated.count() == 0 && ttft_s > slo_s) late += (ttft_s - slo_s) / slo_s;
    return late;
  }

  const View* view_;
  const RequestRow* row_;
  FoundPrefix found_;
  const Estimate* estimate_;
  WeightStream weights_;
  double room_;
  Work decodes_;
  std::vector<ChunkWork> chunks_;    ///< of running prompts, and the last one of the request
  std::vector<LayerStream> streams_; ///< of running requests, and the load
  std::size_t repeated_ = 0;
  std::int64_t budget_ = 1; ///< tokens of the request in an iteration
  double waits_s_ = 0;      ///< an iteration of the running batch alone
  double idle_ = 1;         ///< the part of it in which the lane to the device is idle
  std::vector<Span> spans_;
  double elapsed_s_ = 0;
};

} // namespace sluice
