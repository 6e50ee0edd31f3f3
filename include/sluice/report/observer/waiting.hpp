// SPDX-License-Identifier: Apache-2.0
// Waiting: the requests that have never run, and the limit that keeps each of them out of an iteration.
#pragma once

#include "sluice/core/units.hpp"
#include "sluice/report/observer/event.hpp"
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

} // namespace sluice
