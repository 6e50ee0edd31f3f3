// SPDX-License-Identifier: Apache-2.0
// SessionHints: what a client says of the KV that an answer leaves behind; HintSet: which hints are said, or heeded.
#pragma once

#include "sluice/core/units.hpp"

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

} // namespace sluice
