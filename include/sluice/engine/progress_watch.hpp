// SPDX-License-Identifier: Apache-2.0
// ProgressWatch: finds an engine that runs for ever and gets nowhere.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/view/view.hpp"

#include <cstdint>
#include <string>

namespace sluice {

/// Policies that undo one another's work livelock an engine: requests are preempted with nothing kept, come back,
/// compute the same prefix again and are preempted again, in as many iterations as one cares to wait for. Whoever steps
/// an engine to its end asks a watch after each step.
///
/// Progress is a token that did not exist before, or a request fewer. Tokens that are computed again after a drop are
/// none, since dropped tokens were counted when they were made. The watch allows 4,096 iterations, and one more for
/// each block of context that is alive, so that no prefill is taken for a livelock which computes at least a block an
/// iteration. Rejected: a bound on virtual time, which slow devices and long idle times reach while all is well.
class ProgressWatch {
 public:
  /// Ok, or what the engine is caught in. Looks at the rows once in 512 steps; otherwise one comparison.
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
    // Without an end, `generated` falls only where a request is refused or cancelled: it is one fewer, too.
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
  std::int64_t since_ = 0; ///< step of the last progress that was seen
  Seconds began_{0};       ///< and its time
  std::int64_t generated_ = 0, finished_ = 0, alive_ = 0;
};

} // namespace sluice
