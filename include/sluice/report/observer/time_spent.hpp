// SPDX-License-Identifier: Apache-2.0
// RequestTime: one request's time by cause, in whole nanoseconds.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/report/observer/event.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

namespace sluice {

/// The causes of a request's time. Each instant between its arrival and its end belongs to exactly one cause.
enum class TimeCause : std::uint8_t {
  queue,     ///< has never run, and none of the next four limits is known to keep it out (report/observer/why.hpp)
  batch,     ///< has never run: the batch is full
  tokens,    ///< has never run: the iterations' tokens are used up
  memory,    ///< has never run: it needs more device memory than is free
  behind,    ///< has never run: it would fit, and waits behind a request that waits for memory
  prompt,    ///< its prompt is computed
  decode,    ///< its next token is computed, in a batch that decodes
  beside,    ///< its next token is computed in an iteration that also computes others' prompts
  again,     ///< its dropped KV is recomputed
  held,      ///< keeps its memory but does not run while others' prompts are computed
  crowded,   ///< keeps its place but computes no token, because others' next tokens use up the budget
  own_kv,    ///< the batch waited for this request's KV
  others_kv, ///< the batch waited for another request's KV
  weights,   ///< the batch waited for weights
  moves,     ///< the batch waited for swaps, evictions or a plan's moves
  host,      ///< the batch waited for attention on the host
  planning,  ///< the batch waited for the planner
  paused,    ///< preempted; its KV is kept
  dropped,   ///< preempted; its KV is dropped
  between,   ///< in the batch, between two iterations: another engine's turn
};
inline constexpr std::size_t time_causes = 20;

struct CauseText {
  std::string_view key;  ///< in report.json
  std::string_view head; ///< head of a column
  std::string_view text; ///< in a sentence: "3.1 s ..."
};
[[nodiscard]] constexpr CauseText text_of(TimeCause cause) {
  constexpr std::array<CauseText, time_causes> texts{{
      {"queue", "queue", "waiting to start"},
      {"batch", "batch", "waiting for a place in the batch"},
      {"tokens", "tokens", "waiting for an iteration with tokens to spare"},
      {"memory", "memory", "waiting for memory"},
      {"behind", "others' memory", "waiting behind another request that waits for memory"},
      {"prompt", "prompt", "computing its prompt"},
      {"decode", "decode", "decoding"},
      {"beside_prompts", "beside", "decoding beside others' prompts"},
      {"again", "again", "computing again what had been dropped"},
      {"held", "held up", "held up by others' prompts"},
      {"crowded", "crowded", "crowded out of its batch by others' next tokens"},
      {"own_kv", "own KV", "stalled for its own KV"},
      {"others_kv", "others' KV", "stalled for the KV of others"},
      {"weights", "weights", "stalled for weights"},
      {"moves", "moves", "stalled for swaps and evictions"},
      {"host", "host", "stalled for attention on the host"},
      {"planning", "planner", "waiting for the planner"},
      {"paused", "paused", "paused"},
      {"dropped", "dropped", "dropped"},
      {"between", "between", "between iterations"},
  }};
  return texts[static_cast<std::size_t>(cause)];
}
/// Returns whether the batch waited for a transfer, or for the host.
[[nodiscard]] constexpr bool is_stall(TimeCause cause) {
  return cause >= TimeCause::own_kv && cause <= TimeCause::host;
}

/// Returns whether a request that has never run waits for one of an engine's limits.
[[nodiscard]] constexpr bool is_limit(TimeCause cause) {
  return cause >= TimeCause::batch && cause <= TimeCause::behind;
}

/// Nanoseconds as integers, so that parts add up exactly.
using Ticks = std::array<std::int64_t, time_causes>;
[[nodiscard]] inline std::int64_t ticks_of(Seconds time) { return std::llround(time.count() * 1e9); }
[[nodiscard]] constexpr double seconds_of(std::int64_t ticks) { return static_cast<double>(ticks) * 1e-9; }

enum class RequestEnd : std::uint8_t { unfinished, served, refused, cancelled };

/// A spell of a request's time. Stalls and waits for the planner are part of the spell in which the batch ran.
struct TimeSpell {
  TimeCause cause = TimeCause::queue;
  std::int64_t begin = 0, end = 0;
  std::int64_t stalled = 0;      ///< stalled part of the spell
  std::array<RequestId, 4> by{}; ///< the requests of the prompts if it was held up; the requests that joined then if it
                                 ///< was preempted
  std::uint8_t blamed = 0;
  bool by_more = false; ///< there are further requests

  [[nodiscard]] std::int64_t length() const { return end - begin; }
  void blame(RequestId id);
  void grow(std::int64_t until, std::int64_t stalls);
};

/// One request's time by cause.
struct RequestTime {
  RequestId id{};
  bool known = false;
  RequestEnd end = RequestEnd::unfinished;
  TimeCause doing = TimeCause::queue; ///< current cause
  std::int32_t times_preempted = 0;
  std::int64_t prompt = 0, delivered = 0; ///< tokens
  MissCauses misses;                      ///< of its prompt
  Seconds slo_tbt{std::numeric_limits<double>::infinity()}, slo_ttft{std::numeric_limits<double>::infinity()};

  std::int64_t arrival = 0;
  std::int64_t since = 0; ///< accounted for until this time; finally its end
  Ticks spent{};
  Ticks covered{};                          ///< the part during which the deposit still had tokens for the user
  std::array<double, time_causes> missed{}; ///< deadlines
  double turned_away = 0;                   ///< deadlines of tokens that were not delivered because of a refusal
  std::int64_t caused = 0;                  ///< time that the batch waited for this request's KV

  /// The true value is between `least` and `ticks`: a new entry replaces the smallest entry and inherits its ticks.
  struct Blamed {
    RequestId id{};
    std::int64_t ticks = 0, least = 0;
  };
  std::array<Blamed, 8> stalled_by{}; ///< the requests for whose KV it waited longest (Metwally's space saving)

  std::vector<TimeSpell> spells;
  TimeSpell open;          ///< the current spell, which is never merged to save memory
  TimeSpell longest_pause; ///< the longest preempted spell of one kind; empty if none
  TimeSpell longest_held;

  /// Activity since the last delivery, in order. If there is too much, the oldest part is only summed in `older`.
  struct Stretch {
    TimeCause cause;
    std::int64_t begin, end;
  };
  std::vector<Stretch> recent;
  Ticks older{};
  std::int64_t gap_begin = 0; ///< missed deadlines are attributed from this time on
  std::int64_t covered_until = 0;
  std::int64_t computed_most = 0; ///< the largest number of tokens computed so far; tokens below it are recomputed
  Seconds last_delivery{0};
  std::int64_t last_step = -2; ///< last step in which it ran

  [[nodiscard]] std::int64_t whole() const { return since - arrival; }
  [[nodiscard]] std::int64_t stalled() const;
  /// Returns this request's missed deadlines for TBT attainment (report/observer/measure.hpp), once the run is over.
  [[nodiscard]] double all_missed() const { return std::accumulate(missed.begin(), missed.end(), turned_away); }

  void add(TimeCause cause, std::int64_t ticks);
  /// Returns to the clock's time `now`, which may be a nanosecond before the sum of the rounded parts.
  void take_back_to(std::int64_t now);
  /// Handles a token that reached the user. With a deposit this may be before `since`: later activity belongs to the
  /// gap that begins here.
  void deliver(std::int64_t when);
  /// Divides `count` missed deadlines among the causes in proportion to the gap's time until `when`; time that is not
  /// yet accounted for belongs to the current cause.
  void miss(double count, std::int64_t when);
  void miss(double count) { miss(count, since); }
  /// Adds a spell of `cause` from `since` to `until`. Call it before `add`, which advances `since`. Keeps at most
  /// `most` spells, always including the longest of each kind.
  void add_spell(TimeCause cause, std::int64_t until, std::size_t most, std::int64_t stalled = 0);
  /// Attributes the last spell to this request.
  void blame_spell(RequestId other);
  void blame(RequestId other, std::int64_t ticks);
  /// Frees data that an ended request no longer needs.
  void forget_recent() { recent = {}; }

 private:
  static constexpr std::ptrdiff_t most_recent = 64;

  void keep_longest();
  /// Frees room: merges the shortest spell, except the first and the last, into the one before it, and also the next
  /// spell if it has the same cause.
  void merge_shortest();
};

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/observer/time_spent.inl.hpp"
#endif
