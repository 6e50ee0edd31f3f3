// SPDX-License-Identifier: Apache-2.0
// Gate: whether a newcomer is let in, asked before the engine hears of it.
#pragma once

#include "sluice/serve/generation.hpp"
#include "sluice/serve/measured_pace.hpp"
#include "sluice/serve/outlook.hpp"
#include "sluice/serve/server_role.hpp"
#include "sluice/view/view.hpp"

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace sluice {

/// What a gate that looked ahead saw.
struct Foresight {
  Seconds ttft{-1};                 ///< the newcomer's, if it is let in now; below 0: not seen
  double took_s = 0;                ///< of the engine's thread
  std::optional<ForeseenStep> next; ///< the engine's next iteration, by this answer; none: not seen
};

/// What a gate says of a newcomer.
struct GateAnswer {
  bool admit = true;
  ApiError error;                     ///< where it does not admit
  double retry_after_s = 0;           ///< above 0: when it would
  std::string forecast;               ///< for a response header, also of those that are admitted; may be empty
  std::optional<Foresight> foresight; ///< of gates that look ahead

  /// For good: 400, and this sentence.
  [[nodiscard]] static GateAnswer refused(std::string why) {
    GateAnswer answer;
    answer.admit = false;
    answer.error.message = std::move(why);
    return answer;
  }
};

/// Answers at once, on the engine's thread, between two steps.
///
///  - `answer(newcomer, outlook)`: `outlook` has the engine as it is, without the newcomer, and makes copies of it.
template <class G, class E>
concept Gate = requires(G& gate, const Generation& newcomer, const Outlook<E>& outlook) {
  { gate.answer(newcomer, outlook) } -> std::same_as<GateAnswer>;
};

/// Refuses newcomers while so many requests wait: who would wait longer than they care to hears so at once.
struct QueueLimit {
  using role = roles::Gate;

  std::int64_t most = 256; ///< requests that wait or are preempted

  template <class E>
  [[nodiscard]] GateAnswer answer(const Generation& /*newcomer*/, const Outlook<E>& outlook) const {
    const View view = outlook.engine().view();
    const auto waiting = static_cast<std::int64_t>(view.waiting) + static_cast<std::int64_t>(view.preempted.size());
    if (waiting < most) return {};
    GateAnswer answer;
    answer.admit = false;
    answer.error.status = 429;
    answer.error.type = "rate_limit_error";
    answer.error.code = "queue_full";
    answer.error.message =
        "the queue is full: " + std::to_string(waiting) + " requests wait; expected below " + std::to_string(most);
    answer.retry_after_s = 1;
    return answer;
  }
};

} // namespace sluice
