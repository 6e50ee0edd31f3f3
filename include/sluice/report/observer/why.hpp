// SPDX-License-Identifier: Apache-2.0
// Why: the observer that attributes every request's time and missed deadlines to causes.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/chosen_iteration.hpp"
#include "sluice/report/observer/observer.hpp"
#include "sluice/report/observer/time_spent.hpp"
#include "sluice/report/observer/waiting.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// Accounts for every nanosecond between a request's arrival and its end. Each nanosecond belongs to exactly one cause,
/// so the causes add up exactly (times are integer nanoseconds of the run's clock).
///
/// A request in the batch gets the iteration's parts: the wait for the planner, the stalls, the computation. The
/// iteration is replayed layer by layer to attribute its stalls: the request whose blocks arrived last made the batch
/// wait. Transfers before any layer (swaps, evictions) are a separate cause.
///
/// Memory: one `RequestTime` per request (a kilobyte), with at most `max_spells` spells each. Of the ended requests,
/// only `wanted` and the `max_timelines` requests with the most missed deadlines keep their spells.
struct Why {
  using role = roles::Observer;
  using hears = Events<events::Submitted, events::Refused, events::Preempted, events::Resumed, events::Missed,
                       events::Ended, events::Cancelled, events::Delivered, events::Planned, events::Iterated>;
  static constexpr bool wants_timeline = true;

  bool enabled = true; ///< false: nothing is recorded, and no iteration is replayed
  std::size_t max_timelines = 1'000;
  std::size_t max_spells = 200;
  std::int64_t wanted = -1; ///< id of a request whose spells are always kept

  struct State {
    std::vector<RequestTime> requests; ///< by id
    Waiting waiting;
    std::vector<RequestId> leaving; ///< preempted since the last iteration; the requests that join in the next one took
                                    ///< their places
    /// Ended requests whose spells are kept, as a heap with the least important one on top.
    std::vector<RequestId> kept;
    std::int64_t last_step = -1;
    // Scratch of one iteration.
    RecordedIteration replayed;
    std::vector<double> blame; ///< by position in the batch: seconds that the iteration waited for the request's KV
    std::vector<std::size_t> order;
  };

  void on(State& state, const events::Submitted& event) const;
  void on(State& state, const events::Refused& event) const;
  void on(State& state, const events::Preempted& event) const;
  void on(State& state, const events::Resumed& event) const;
  void on(State& state, const events::Missed& event) const;
  void on(State& state, const events::Ended& event) const;
  void on(State& state, const events::Cancelled& event) const;
  /// A late gap's missed deadlines are divided among the causes in proportion to the gap's time.
  void on(State& state, const events::Delivered& event) const;

  void on(State& state, const events::Planned& event) const;
  void on(State& state, const events::Iterated& event) const;

  /// Returns the requests of a run that ended at `end`, all accounted for until then. For unfinished requests this
  /// includes the deadlines that passed since their last token (or since their first deadline).
  [[nodiscard]] std::vector<RequestTime> at_end(const State& state, Seconds end) const;

 private:
  /// An iteration's time, in ticks.
  struct Parts {
    std::int64_t begin = 0, planning = 0, stall = 0, compute = 0;
    double weights = 0, moves = 0, host = 0; ///< shares of the stall; the remainder is the requests' KV
    std::size_t prompts = 0;                 ///< requests whose prompt or dropped KV was computed
  };

  RequestTime& known(State& state, RequestId id, const KnownSpec& spec) const;
  /// Adds the time until `now` to the request's current cause.
  void advance(RequestTime& of, std::int64_t now) const;
  void close(State& state, RequestTime& of, Seconds now, RequestEnd end) const;
  /// Computes the time until which the deposit has tokens for the user, who receives one per SLO.
  static void cover(RequestTime& of, const RequestRow& row);

  /// Accounts for the iteration in the request at position `place` of the batch.
  void spend(const State& state, const IterationRecord& record, std::size_t place, const Parts& parts,
             RequestTime& of) const;
  /// Returns whether the request computes more than its next token.
  [[nodiscard]] static bool has_prompt(const RequestRow& row);
  [[nodiscard]] static TimeCause doing_in(const Claim& claim, const RequestRow& row, const Parts& parts,
                                          const RequestTime& of);

  /// Computes shares of the stall: requests' KV by position in the batch, weights, and transfers before any layer.
  static void lay_blame(State& state, const IterationRecord& record, Parts& parts);
  static std::size_t place_of(const IterationRecord& record, RequestId id);
  /// Divides a layer that moved as a whole in proportion to each request's blocks of it on the host.
  static void share_layer(State& state, const IterationRecord& record, const LayerSlice& layer, Parts& parts);

  /// Requests preempted before this iteration freed memory for those that join in it; the largest of these are named
  /// first.
  void name_leavers(State& state, const IterationRecord& record) const;
};

static_assert(explain<Why>());

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/report/observer/why.inl.hpp"
#endif
