// SPDX-License-Identifier: Apache-2.0
// ProgressWatch: detects an engine that runs forever without progress.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/state/view/view.hpp"

#include <cstdint>
#include <string>

namespace sluice {

/// Policies that undo each other's work livelock an engine: requests are preempted with nothing kept, return, compute
/// the same prefix again and are preempted again, without end. Code that steps an engine to its end asks a watch after
/// each step.
///
/// Progress is a new token, or one request fewer. Tokens recomputed after a drop do not count, because they counted
/// when they were generated. The watch allows 4,096 iterations, plus one for each block of live context, so that it
/// does not report a prefill that computes at least a block per iteration. Rejected: a bound on virtual time, which
/// slow devices and long idle times exceed without a fault.
class ProgressWatch {
 public:
  /// Ok, or the livelock. Scans the rows once in 512 steps; otherwise one comparison.
  template <class E>
  [[nodiscard]] Status check(const E& engine) {
    if (engine.steps() < look_at_) return {};
    return look(engine.view(), engine.steps(), engine.alive());
  }

 private:
  static constexpr std::int64_t between_looks = 512, patience = 4096; ///< steps

  [[nodiscard]] Status look(const View& view, std::int64_t step, std::int64_t alive) {
    look_at_ = step + between_looks;
    std::int64_t generated = 0, context = 0, preemptions = 0;
    for (const RequestRow& row : view.rows) {
      if (row.phase == Phase::ended) continue;
      generated += row.generated.count();
      context += row.context().count();
      preemptions += row.times_preempted;
    }
    // Without an end, `generated` falls only if a request is refused or cancelled: that is one fewer, too.
    if (generated != generated_ || view.finished != finished_ || alive < alive_) {
      since_ = step;
      began_ = view.now;
    }
    generated_ = generated;
    finished_ = view.finished;
    alive_ = alive;
    if (step - since_ <= patience + context / view.limits.block_tokens.count()) return {};
    return Error{ErrorCode::livelocked, "step " + std::to_string(step),
                 "livelocked: in " + std::to_string(step - since_) + " iterations (" +
                     std::to_string((view.now - began_).count()) +
                     " s) no request ended and no token was made, after " + std::to_string(view.finished) +
                     " had ended; " + std::to_string(view.running.size()) + " requests run, " +
                     std::to_string(view.preempted.size()) + " are preempted and " + std::to_string(view.waiting) +
                     " wait, preempted " + std::to_string(preemptions) + " times",
                 "policies that let a request keep what it has computed, or more memory"};
  }

  std::int64_t look_at_ = between_looks;
  std::int64_t since_ = 0; ///< step of the last progress
  Seconds began_{0};       ///< time of the last progress
  std::int64_t generated_ = 0, finished_ = 0, alive_ = 0;
};

} // namespace sluice
