// SPDX-License-Identifier: Apache-2.0
// Gate: admission control: admits or refuses a newcomer before it reaches the engine.
#pragma once

#include "sluice/serve/forecast_errors.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/measured_pace.hpp"
#include "sluice/serve/outlook.hpp"
#include "sluice/state/view/view.hpp"

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// The result of a gate that looked ahead.
struct Foresight {
  Seconds ttft{-1};                 ///< the newcomer's TTFT if it is admitted now; below 0: not predicted
  double took_s = 0;                ///< time used on the engine's thread
  std::optional<ForeseenStep> next; ///< the engine's next iteration after this answer, if predicted
  std::vector<Foretold> foretold;   ///< after an admission: forecast times of the newcomer and of the requests that
                                    ///< were followed
  std::optional<Slo> keep;          ///< after an admission: the SLO that the engine must keep; no value: the SLO less
                                    ///< delivery's lead
};

/// A gate's answer about a newcomer.
struct GateAnswer {
  bool admit = true;
  ApiError error;                     ///< of a refusal
  double retry_after_s = 0;           ///< of a refusal: when to retry; 0: unknown
  std::string forecast;               ///< for a response header, for admitted requests too; may be empty
  std::optional<Foresight> foresight; ///< from gates that look ahead
  bool unlooked = false;              ///< the gate had too little time to look ahead to the end

  /// Makes a permanent refusal: status 400 with message `why`.
  [[nodiscard]] static GateAnswer refused(std::string why) {
    GateAnswer answer;
    answer.admit = false;
    answer.error.message = std::move(why);
    return answer;
  }
};

/// Called on the engine's thread between two steps, so it must answer quickly.
///
///  - `answer(newcomer, outlook)`: `outlook` has the engine in its current state, without the newcomer, and can copy
///  it.
template <class G, class E>
concept Gate = requires(G& gate, const Generation& newcomer, const Outlook<E>& outlook) {
  { gate.answer(newcomer, outlook) } -> std::same_as<GateAnswer>;
};

namespace detail {

template <class G, class E>
consteval bool explain_gate() {
  static_assert(Gate<G, E>, "sluice: this gate needs `GateAnswer answer(const Generation&, const Outlook<E>&)`, as "
                            "serve/gate.hpp declares it, for this server's engine E");
  return true;
}

} // namespace detail

/// `static_assert(explain_gates<E, Gates…>());` prints one sentence for each type that is not a Gate.
template <class E, class... Gates>
consteval bool explain_gates() {
  return (detail::explain_gate<Gates, E>() && ...);
}

/// Refuses newcomers while `most` requests wait, so that clients learn at once that the queue is too long.
struct QueueLimit {
  std::int64_t most = 256; ///< waiting and preempted requests

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
