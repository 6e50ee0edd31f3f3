// SPDX-License-Identifier: Apache-2.0
// Why: the observer that attributes every request's time and missed deadlines to causes. Waiting: the requests that
// have never run, and the limit that keeps each of them out of an iteration.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/units.hpp"
#include "sluice/report/observer/chosen_iteration.hpp"
#include "sluice/report/observer/event.hpp"
#include "sluice/report/observer/observer.hpp"
#include "sluice/report/observer/time_spent.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// The first limit that keeps a request out of an iteration: the batch is full; the iteration's tokens are used up; its
/// prompt and first token need more device memory than the iteration leaves free; or they do not, but a request that
/// arrived before it, or a preempted one, waits for memory.
///
/// Events do not say what a policy tried, so this is exact for a first-come queue whose prompts need device memory
/// whole (vLLM's). It does not know of prompts found in a cache, which need less; of placements that put KV on the
/// host, or reserve room for more tokens; nor of an admission's own budget. With another order than first come, a
/// request that fits and does not run counts as behind an earlier one although the policy may have chosen so. What no
/// limit explains stays `TimeCause::queue`: the policy's choice, or the iteration that ran at the arrival.
class Waiting {
 public:
  void enter(const RequestRow& row) {
    requests_.insert(place_of(row.id), {row.id, TimeCause::queue, row.spec.prompt, row.spec.arrival});
    ++fresh_;
  }
  void leave(RequestId id) {
    if (const auto found = place_of(id); found != requests_.end() && found->id == id) requests_.erase(found);
  }
  void learn(const View& view) {
    limits_ = view.limits;
    geometry_ = view.geometry;
  }

  /// Calls `tell(id, cause)` for each request whose cause is another one from the iteration's start on.
  template <class Tell>
  void judge(const IterationRecord& record, Tell&& tell) {
    if (requests_.empty()) return;
    for (const Claim& claim : record.batch)
      if (const RequestRow& row = record.rows[index(claim.slot)]; row.generated.count() == 0) leave(row.id);
    const bool full = static_cast<std::int64_t>(record.batch.size()) >= limits_.batch;
    const bool used_up = record.tokens >= limits_.batch_tokens;
    const LayerBlocks held = record.plan != nullptr ? record.plan->in_flight : LayerBlocks{0};
    const LayerBlocks free = record.device_capacity - record.device_used - held;
    bool behind = record.preempted > 0;
    const TimeCause all = full ? TimeCause::batch : used_up ? TimeCause::tokens : TimeCause::queue;
    // A long queue behind a full batch need not be read again in each iteration.
    const bool again = all != TimeCause::queue && all == all_;
    std::size_t at = again && requests_.size() > fresh_ ? requests_.size() - fresh_ : 0;
    for (all_ = all, fresh_ = 0; at < requests_.size(); ++at) {
      Request& request = requests_[at];
      if (request.arrival > record.start) { // it came while the iteration ran
        fresh_ = std::max(fresh_, requests_.size() - at);
        continue;
      }
      TimeCause cause = all;
      if (all == TimeCause::queue) {
        const TokenBlocks needed = blocks_for(request.prompt + Tokens{1}, limits_.block_tokens);
        const bool fits = geometry_.kv_of(needed) <= free;
        cause = !fits ? TimeCause::memory : behind ? TimeCause::behind : TimeCause::queue;
        behind = behind || !fits;
      }
      if (cause != request.cause) tell(request.id, cause);
      request.cause = cause;
    }
  }

 private:
  struct Request {
    RequestId id{};
    TimeCause cause = TimeCause::queue;
    Tokens prompt{0};
    Seconds arrival{0};
  };
  [[nodiscard]] std::vector<Request>::iterator place_of(RequestId id) {
    return std::lower_bound(requests_.begin(), requests_.end(), id,
                            [](const Request& request, RequestId of) { return request.id < of; });
  }

  Limits limits_;
  Geometry geometry_{};              ///< no layers before the first plan, when no request waits for memory
  std::vector<Request> requests_;    ///< by id, which follow arrivals
  TimeCause all_ = TimeCause::queue; ///< of all but the last `fresh_` requests; `queue`: each has its own
  std::size_t fresh_ = 0;
};

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
