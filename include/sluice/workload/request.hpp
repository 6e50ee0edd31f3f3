// SPDX-License-Identifier: Apache-2.0
// RequestSpec: a user's request and its arrival, with its SLO, and which deadlines a late token misses; SessionHints:
// what a client says of the KV that an answer leaves behind; HintSet: which hints are said, or heeded.
#pragma once

#include "sluice/core/math.hpp"
#include "sluice/core/units.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace sluice {

/// Kinds of hints.
struct HintSet {
  bool ttl = false;      ///< `SessionHints::ttl`
  bool keep = false;     ///< `SessionHints::keep`
  bool release = false;  ///< `SessionHints::release`
  bool prefetch = false; ///< `SessionHints::prefetch`

  /// Whether any is in the set.
  [[nodiscard]] constexpr bool any() const { return ttl || keep || release || prefetch; }
  friend constexpr bool operator==(const HintSet&, const HintSet&) = default;
  friend constexpr HintSet operator|(HintSet a, HintSet b) {
    return {a.ttl || b.ttl, a.keep || b.keep, a.release || b.release, a.prefetch || b.prefetch};
  }
  friend constexpr HintSet operator-(HintSet a, HintSet b) {
    return {a.ttl && !b.ttl, a.keep && !b.keep, a.release && !b.release, a.prefetch && !b.prefetch};
  }
};

/// "ttl, release"; "none".
[[nodiscard]] inline std::string name(HintSet of) {
  std::string text;
  for (const auto& [has, one] :
       {std::pair{of.ttl, "ttl"}, {of.keep, "keep"}, {of.release, "release"}, {of.prefetch, "prefetch"}})
    if (has) text += (text.empty() ? "" : ", ") + std::string{one};
  return text.empty() ? "none" : text;
}

/// What the client says of its request's KV after the answer. 0 and false say nothing. A hint binds nobody: a policy
/// reads those that it names (`uses_hints`), and a client may be wrong. Hints are not the future: a workload's true
/// delays and lengths are no hints unless its client says them.
struct SessionHints {
  Seconds ttl{0};        ///< the KV is worth keeping for so long after the answer, and not longer
  Seconds prefetch{0};   ///< the session's next request comes so long after the answer: its KV should be near by then
  std::int32_t keep = 0; ///< only so many of the oldest tokens (prompt and answer) will be used again
  bool release = false;  ///< nothing follows in this session: only `keep` tokens will be used again, or none

  friend constexpr bool operator==(const SessionHints&, const SessionHints&) = default;
  /// Which hints are said.
  [[nodiscard]] constexpr HintSet said() const { return {ttl.count() > 0, keep > 0, release, prefetch.count() > 0}; }
  /// How many of the oldest tokens will be used again, as far as is said.
  [[nodiscard]] constexpr Tokens kept() const {
    return release || keep > 0 ? Tokens{keep} : Tokens{std::numeric_limits<std::int64_t>::max()};
  }
  /// Only these hints.
  [[nodiscard]] constexpr SessionHints only(HintSet of) const {
    return {of.ttl ? ttl : Seconds{0}, of.prefetch ? prefetch : Seconds{0}, of.keep ? keep : 0, of.release && release};
  }
};

/// Writes the field `kv_hints` of an object: what is said, as readers and the API take it.
template <class Json>
void write_hints(Json& json, const SessionHints& hints) {
  json.key("kv_hints").begin_object();
  if (hints.ttl.count() > 0) json.key("ttl").value(hints.ttl.count());
  if (hints.keep > 0) json.key("keep").value(std::int64_t{hints.keep});
  if (hints.release) json.key("release").value(true);
  if (hints.prefetch.count() > 0) json.key("prefetch").value(hints.prefetch.count());
  json.end_object();
}

/// The longest `ttl` and `prefetch`. (A proposal for vLLM, vllm#52113, has the same bound for a TTL.)
inline constexpr Seconds longest_hint{3600};

/// A request's SLO. Infinite values mean no SLO.
struct Slo {
  Seconds ttft{std::numeric_limits<double>::infinity()}; ///< time from arrival to first token
  Seconds tbt{std::numeric_limits<double>::infinity()};  ///< time between tokens (the TPOT SLO is the same)

  friend constexpr bool operator==(const Slo&, const Slo&) = default;
};

/// One request of a workload. Arrivals are wall-clock seconds from the start of the run, the same for every system,
/// except for a request that `follows` another: its arrival depends on when the system has answered that one.
///
/// Both lengths are at least 1. The request *will* generate its output length: the engine ends it there. Policies see a
/// KnownSpec, which lacks it, and only oracles such as ShortestRemainingFirst may read it. With `output_is_bound` (a
/// server's `max_tokens`) the output length is the maximum, and the backend ends the request (`EndsRequests`): policies
/// may reserve memory for the maximum, and no policy knows the actual length.
struct RequestSpec {
  Seconds arrival{0};           ///< time of arrival, on the run's clock
  Tokens prompt{1};             ///< number of tokens of its prompt
  Tokens output{1};             ///< number of tokens that it will generate, or their maximum
  Slo slo;                      ///< its SLO
  bool output_is_bound = false; ///< `output` is the maximum, and the backend ends the request
  std::int32_t priority = 0;    ///< lower is served first (vLLM), with policies that use it: PriorityFirst and others

  std::uint32_t session = 0; ///< requests of one session have its number; 0: belongs to no session
  std::int32_t turn = 0;     ///< its position in the session, from 0
  bool follows = false;      ///< arrives `delay` after the previous request of its session has its last token
  Seconds delay{0};          ///< from the end of that answer to this arrival: the time of a tool or a user
  SessionHints hints{};      ///< what its client says of its KV after the answer, for policies that read it

  friend constexpr bool operator==(const RequestSpec&, const RequestSpec&) = default;
};

/// The end of an answer: the request of this session has its last token, or was refused.
struct Answered {
  std::uint32_t session = 0;
  Seconds when{0};
};

/// Seconds that rounding may add to a gap that is exactly the SLO: 1e-9 of the SLO, and two roundings of the clock at
/// `when` (doubles near 1e6 seconds are 1e-10 apart, which already exceeds 1e-9 of a short SLO).
[[nodiscard]] constexpr double deadline_slack_s(double slo_s, double when_s) {
  return 1e-9 * slo_s + 4 * std::numeric_limits<double>::epsilon() * when_s;
}

/// Whether a gap that ended at `when` is within the SLO, up to rounding.
[[nodiscard]] constexpr bool on_time(Seconds gap, Seconds slo, Seconds when) {
  return gap.count() <= slo.count() + deadline_slack_s(slo.count(), when.count());
}

/// Deadlines that passed without a token during a late gap: ceil(gap / SLO) - 1, since the late token's own deadline is
/// counted separately. 0 for a gap that is on time.
[[nodiscard]] inline std::int64_t deadlines_missed(Seconds gap, Seconds slo, Seconds when) {
  if (on_time(gap, slo, when)) return 0;
  const double exact = (gap.count() - deadline_slack_s(slo.count(), when.count())) / slo.count();
  // Bounded, so that a huge gap with a tiny SLO still gives a count that can be added up.
  return static_cast<std::int64_t>(std::min(math::ceil(exact) - 1, 1e15));
}

/// Deadlines that passed while a user waited from `since` to `end` for a token that never came: floor(wait / SLO),
/// including one at `end` itself. 0 without an SLO.
[[nodiscard]] inline std::int64_t deadlines_passed(Seconds since, Seconds end, Seconds slo) {
  if (end <= since || math::isinf(slo.count())) return 0;
  const double exact = ((end - since).count() + deadline_slack_s(slo.count(), end.count())) / slo.count();
  return static_cast<std::int64_t>(std::min(math::floor(exact), 1e15));
}

} // namespace sluice
