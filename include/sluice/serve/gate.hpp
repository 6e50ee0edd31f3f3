// SPDX-License-Identifier: Apache-2.0
// Gate: admits or refuses a newcomer before it reaches the engine; whether an engine and gates make a server.
#pragma once

#include "sluice/core/role.hpp"
#include "sluice/engine/engine.hpp"
#include "sluice/engine/with.hpp"
#include "sluice/serve/forecast_errors.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/measured_pace.hpp"
#include "sluice/serve/outlook.hpp"
#include "sluice/state/view/view.hpp"

#include <algorithm>
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
  std::optional<Hold> hold;           ///< of a newcomer not admitted: it is not refused either, and the gate is asked
                                      ///< again between later steps
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
///    it. A gate may hold a newcomer (`GateAnswer::hold`) while the engine is not empty: it is asked again between two
///    later steps, in the order that the gate states, and at `Hold::until` at the latest.
///  - `left(hold)`, optional: the client of a newcomer that the gate holds has left.
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
  std::int64_t most = 256;       ///< waiting and preempted requests
  Seconds half_full{0};          ///< measured: when the queue was half full last
  std::int64_t left = 0;         ///< measured: requests that had left the engine then
  std::int64_t refused = 0;      ///< measured: newcomers refused since a request left the engine
  std::int64_t left_refused = 0; ///< measured: requests that had left the engine at the last refusal

  template <class E>
  [[nodiscard]] GateAnswer answer(const Generation& /*newcomer*/, const Outlook<E>& outlook) {
    const View view = outlook.engine().view();
    const auto waiting = static_cast<std::int64_t>(view.waiting) + static_cast<std::int64_t>(view.preempted.size()) +
                         outlook.others_held();
    if (2 * waiting <= most) half_full = view.now, left = outlook.have_left();
    if (waiting < most) return {};
    GateAnswer answer;
    answer.admit = false;
    answer.error.status = 429;
    answer.error.type = "rate_limit_error";
    answer.error.code = "queue_full";
    answer.error.message =
        "the queue is full: " + std::to_string(waiting) + " requests wait; expected below " + std::to_string(most);
    if (left_refused != outlook.have_left()) refused = 0, left_refused = outlook.have_left();
    ++refused;
    // A place is free when a request leaves: at the pace since the queue was half full, one for each refused client.
    const auto gone = static_cast<double>(outlook.have_left() - left);
    const double next_s =
        gone > 0 ? static_cast<double>(refused) * (view.now - half_full).count() / gone : until_they_leave(outlook);
    answer.retry_after_s = std::clamp(next_s, 0.05, 60.0);
    return answer;
  }

 private:
  /// Seconds until as many running requests end as newcomers were refused, if none has left from which a pace is known:
  /// each step gives each a token. 1 before the first step.
  template <class E>
  [[nodiscard]] double until_they_leave(const Outlook<E>& outlook) const {
    const View view = outlook.engine().view();
    std::vector<double> steps;
    for (const Slot slot : view.running) {
      const RequestRow& row = view.row(slot);
      const Tokens length = MeasuredLengths::expected(row, outlook.correction().length_share);
      steps.push_back(static_cast<double>(std::max<std::int64_t>(1, (length - row.generated).count())));
    }
    if (steps.empty() || outlook.pace().mean_s() <= 0) return 1;
    std::sort(steps.begin(), steps.end());
    const auto of = static_cast<std::size_t>(refused);
    const std::size_t whole = (of - 1) / steps.size(); // batches before
    const auto times = static_cast<double>(whole);
    return outlook.pace().mean_s() * (times * steps.back() + steps[(of - 1) % steps.size()]);
  }
};

// explain_server: checks whether an engine and gates make a server, and explains why not.

namespace detail {

template <class E>
inline constexpr bool is_basic_engine = false;
template <class C>
inline constexpr bool is_basic_engine<BasicEngine<C>> = true;
template <class E>
inline constexpr bool is_rejected_engine = false;
template <class Explained>
inline constexpr bool is_rejected_engine<RejectedEngine<Explained>> = true;

template <class List>
inline constexpr bool has_feed = false;
template <class... Os>
inline constexpr bool has_feed<Parts<Os...>> = (std::same_as<Os, GenerationFeed> || ...);
template <class E>
concept FeedsServer = has_feed<typename E::observer_types>;

} // namespace detail

/// `E` and `Gates` make a server: E is an engine that serves bounds and has a GenerationFeed, and each gate is a Gate.
template <class E, class... Gates>
concept MakesServer = detail::is_basic_engine<E> && ServesBounds<E> && detail::FeedsServer<E> &&(Gate<Gates, E>&&...);

/// `static_assert(explain_server<E, Gates…>());` reports one sentence per mistake. A rejected engine has its own
/// sentences: the server adds none.
template <class E, class... Gates>
consteval bool explain_server() {
  static_assert(detail::is_basic_engine<E> || detail::is_rejected_engine<E>,
                "sluice: the first parameter of a server is its engine: `LiveServer<With<OrbitFlow, GenerationFeed>, "
                "QueueLimit>`");
  if constexpr (detail::is_basic_engine<E>) {
    static_assert(detail::FeedsServer<E>, "sluice: this engine has no GenerationFeed, so that no token would reach a "
                                          "client: write `With<E, GenerationFeed>`");
    return explain_bounds<E>() && explain_gates<E, Gates...>();
  }
  return true;
}

} // namespace sluice
