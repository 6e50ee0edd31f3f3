// SPDX-License-Identifier: Apache-2.0
// Why: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/why.hpp"
#include "sluice/workload/request.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice {

SLUICE_INLINE void Why::on(State& state, const events::Submitted& event) const {
  if (!enabled) return;
  known(state, event.row.id, event.row.spec);
  state.waiting.enter(event.row);
}

SLUICE_INLINE void Why::on(State& state, const events::Refused& event) const {
  if (!enabled) return;
  RequestTime& of = known(state, event.id, event.spec);
  if (std::isfinite(of.slo_tbt.count())) of.turned_away = static_cast<double>(event.spec.output.count() - of.delivered);
  close(state, of, event.now, RequestEnd::refused);
}

SLUICE_INLINE void Why::on(State& state, const events::Preempted& event) const {
  const RequestRow& row = event.row;
  if (!enabled) return;
  RequestTime& of = known(state, row.id, row.spec);
  advance(of, ticks_of(event.now));
  cover(of, row);
  of.doing = event.kept == Kept::nothing ? TimeCause::dropped : TimeCause::paused;
  ++of.times_preempted;
  state.leaving.push_back(row.id);
}

SLUICE_INLINE void Why::on(State& state, const events::Resumed& event) const {
  if (!enabled) return;
  RequestTime& of = known(state, event.row.id, event.row.spec);
  advance(of, ticks_of(event.now));
  of.doing = TimeCause::between;
}

SLUICE_INLINE void Why::on(State& state, const events::Missed& event) const {
  if (enabled) known(state, event.row.id, event.row.spec).misses += event.causes;
}

SLUICE_INLINE void Why::on(State& state, const events::Ended& event) const {
  if (enabled) close(state, known(state, event.row.id, event.row.spec), event.now, RequestEnd::served);
}

SLUICE_INLINE void Why::on(State& state, const events::Cancelled& event) const {
  if (enabled) close(state, known(state, event.row.id, event.row.spec), event.now, RequestEnd::cancelled);
}

SLUICE_INLINE void Why::on(State& state, const events::Delivered& event) const {
  const RequestRow& row = event.row;
  const Seconds when = event.when;
  if (!enabled || event.count.count() <= 0) return;
  RequestTime& of = known(state, row.id, row.spec);
  if (of.delivered > 0) {
    const Seconds gap = when - of.last_delivery;
    if (!on_time(gap, row.spec.slo.tbt, when))
      of.miss(static_cast<double>(deadlines_missed(gap, row.spec.slo.tbt, when)), ticks_of(when));
  }
  of.delivered += event.count.count();
  of.last_delivery = when;
  of.deliver(ticks_of(when));
}

SLUICE_INLINE void Why::on(State& state, const events::Planned& event) const {
  if (enabled) state.waiting.learn(event.view);
}

SLUICE_INLINE void Why::on(State& state, const events::Iterated& event) const {
  const IterationRecord& record = event.record;
  if (!enabled) return;
  Parts parts;
  parts.begin = ticks_of(record.start);
  const std::int64_t whole = std::max<std::int64_t>(0, ticks_of(record.start + record.duration) - parts.begin);
  parts.planning = std::clamp<std::int64_t>(ticks_of(record.planning), 0, whole);
  parts.stall = std::clamp<std::int64_t>(ticks_of(record.stall), 0, whole - parts.planning);
  parts.compute = whole - parts.planning - parts.stall;
  for (const Claim& claim : record.batch)
    if (claim.tokens.count() > 0 && has_prompt(record.rows[index(claim.slot)])) ++parts.prompts;
  if (parts.stall > 0) {
    detail::record_iteration(record, event.replay, state.replayed);
    lay_blame(state, record, parts);
  }
  name_leavers(state, record);
  for (std::size_t i = 0; i < record.batch.size(); ++i) {
    const Claim& claim = record.batch[i];
    const RequestRow& row = record.rows[index(claim.slot)];
    RequestTime& of = known(state, row.id, row.spec);
    // A request that joined after the wait for the planner did not wait for it.
    if (of.since < parts.begin || of.since > parts.begin + parts.planning)
      advance(of, std::clamp(of.since, parts.begin, parts.begin + parts.planning));
    cover(of, row);
    spend(state, record, i, parts, of);
    of.doing = TimeCause::between;
    of.last_step = record.step;
  }
  state.last_step = record.step;
  state.waiting.judge(record, [&](RequestId id, TimeCause cause) {
    RequestTime& of = state.requests[index(id)];
    advance(of, parts.begin);
    of.doing = cause;
  });
}

SLUICE_INLINE std::vector<RequestTime> Why::at_end(const State& state, Seconds end) const {
  std::vector<RequestTime> all;
  for (RequestTime of : state.requests) {
    if (of.known && of.end == RequestEnd::unfinished) {
      advance(of, ticks_of(end));
      const Seconds promise = std::isinf(of.slo_ttft.count()) ? Seconds{0} : of.slo_ttft;
      const Seconds since = of.delivered > 0 ? of.last_delivery : Seconds{seconds_of(of.arrival)} + promise;
      of.miss(static_cast<double>(deadlines_passed(since, end, of.slo_tbt)));
      of.forget_recent();
    }
    if (of.known) all.push_back(std::move(of));
  }
  return all;
}

SLUICE_INLINE RequestTime& Why::known(State& state, RequestId id, const KnownSpec& spec) const {
  if (index(id) >= state.requests.size()) state.requests.resize(std::size_t{index(id)} + 1);
  RequestTime& of = state.requests[index(id)];
  if (!of.known) {
    of.known = true;
    of.id = id;
    of.prompt = spec.prompt.count();
    of.slo_tbt = spec.slo.tbt;
    of.slo_ttft = spec.slo.ttft;
    of.arrival = of.since = ticks_of(spec.arrival);
    of.gap_begin = of.arrival + (std::isinf(of.slo_ttft.count()) ? 0 : ticks_of(of.slo_ttft));
  }
  return of;
}

SLUICE_INLINE void Why::advance(RequestTime& of, std::int64_t now) const {
  if (now < of.since) of.take_back_to(now);
  // On the time line a wait is for memory or not: otherwise its limits would alternate.
  const bool other = of.doing == TimeCause::batch || of.doing == TimeCause::tokens;
  of.add_spell(other                           ? TimeCause::queue
               : of.doing == TimeCause::behind ? TimeCause::memory
                                               : of.doing,
               now, max_spells);
  of.add(of.doing, now - of.since);
}

SLUICE_INLINE void Why::close(State& state, RequestTime& of, Seconds now, RequestEnd end) const {
  advance(of, ticks_of(now));
  state.waiting.leave(of.id);
  of.end = end;
  of.forget_recent();
  of.spells.shrink_to_fit();
  if (static_cast<std::int64_t>(index(of.id)) == wanted) return;
  const auto matters_more = [&](RequestId a, RequestId b) {
    const RequestTime &one = state.requests[index(a)], &other = state.requests[index(b)];
    if (one.all_missed() != other.all_missed()) return one.all_missed() > other.all_missed();
    return one.whole() != other.whole() ? one.whole() > other.whole() : a < b;
  };
  state.kept.push_back(of.id);
  std::push_heap(state.kept.begin(), state.kept.end(), matters_more);
  if (state.kept.size() <= max_timelines) return;
  std::pop_heap(state.kept.begin(), state.kept.end(), matters_more);
  state.requests[index(state.kept.back())].spells = {};
  state.kept.pop_back();
}

SLUICE_INLINE void Why::cover(RequestTime& of, const RequestRow& row) {
  const std::int64_t held = row.deposit().count();
  of.covered_until = held > 0 && row.delivered.count() > 0 && std::isfinite(row.spec.slo.tbt.count())
                         ? ticks_of(row.due + row.spec.slo.tbt * static_cast<double>(held - 1))
                         : of.since;
}

SLUICE_INLINE void Why::spend(const State& state, const IterationRecord& record, std::size_t place, const Parts& parts,
                              RequestTime& of) const {
  const Claim& claim = record.batch[place];
  const RequestRow& row = record.rows[index(claim.slot)];
  const std::int64_t end = parts.begin + parts.planning + parts.stall + parts.compute;
  const TimeCause doing = doing_in(claim, row, parts, of);
  const bool runs = claim.tokens.count() > 0;
  const TimeCause shown = doing == TimeCause::beside ? TimeCause::decode : doing; // otherwise they would alternate
  of.add_spell(shown, end, max_spells, runs ? parts.stall : 0);
  if (!runs) {
    for (const Claim& other : record.batch)
      if (const RequestRow& its = record.rows[index(other.slot)];
          doing == TimeCause::held && other.tokens.count() > 0 && has_prompt(its))
        of.blame_spell(its.id);
    of.add(doing, end - of.since);
    return;
  }
  of.computed_most = std::max(of.computed_most, (row.computed + claim.tokens).count());
  of.add(TimeCause::planning, parts.begin + parts.planning - of.since);
  if (parts.stall > 0) {
    const double own = state.blame[place];
    const auto part = [&](double share) { return std::llround(share * static_cast<double>(parts.stall)); };
    std::int64_t left = parts.stall;
    const auto take = [&](TimeCause cause, std::int64_t some) {
      some = std::clamp<std::int64_t>(some, 0, left);
      of.add(cause, some);
      left -= some;
      return some;
    };
    const bool others = own + parts.weights + parts.moves + parts.host < 1 - 1e-9;
    take(TimeCause::host, others || own > 0 || parts.weights > 0 || parts.moves > 0 ? part(parts.host) : left);
    take(TimeCause::moves, others || own > 0 || parts.weights > 0 ? part(parts.moves) : left);
    take(TimeCause::weights, others || own > 0 ? part(parts.weights) : left);
    of.caused += take(TimeCause::own_kv, others ? part(own) : left);
    std::int64_t unnamed = left;
    for (std::size_t i = 0; i < state.blame.size() && unnamed > 0; ++i) {
      if (i == place || state.blame[i] <= 0) continue;
      const std::int64_t its = std::min<std::int64_t>(part(state.blame[i]), unnamed);
      of.blame(record.rows[index(record.batch[i].slot)].id, its);
      unnamed -= its;
    }
    take(TimeCause::others_kv, left);
  }
  of.add(doing, end - of.since);
}

SLUICE_INLINE bool Why::has_prompt(const RequestRow& row) {
  return row.generated.count() == 0 || row.pending().count() > 1;
}

SLUICE_INLINE TimeCause Why::doing_in(const Claim& claim, const RequestRow& row, const Parts& parts,
                                      const RequestTime& of) {
  if (claim.tokens.count() == 0) return parts.prompts > 0 ? TimeCause::held : TimeCause::crowded;
  // A chunk that contains both counts as its larger part.
  if (row.generated.count() == 0)
    return 2 * (of.computed_most - row.computed.count()) > claim.tokens.count() ? TimeCause::again : TimeCause::prompt;
  if (row.pending().count() > 1) return TimeCause::again;
  return parts.prompts > 0 ? TimeCause::beside : TimeCause::decode;
}

SLUICE_INLINE void Why::lay_blame(State& state, const IterationRecord& record, Parts& parts) {
  state.blame.assign(record.batch.size(), 0.0);
  double sum = 0;
  for (const LayerSlice& layer : state.replayed.layer_slices) {
    if (layer.stall_s <= 0) continue;
    sum += layer.stall_s;
    if (layer.cause == StallCause::host) {
      parts.host += layer.stall_s;
      continue;
    }
    const TransferSlice* last = nullptr;
    for (const TransferSlice& transfer : state.replayed.transfers)
      if (transfer.layer == layer.layer && (last == nullptr || transfer.end_s >= last->end_s)) last = &transfer;
    if (last == nullptr) {
      parts.moves += layer.stall_s;
    } else if (state.replayed.of_weights(*last)) {
      parts.weights += layer.stall_s;
    } else if (const RequestId* owner = state.replayed.owner_of(*last)) {
      const std::size_t place = place_of(record, *owner);
      (place < state.blame.size() ? state.blame[place] : parts.moves) += layer.stall_s;
    } else {
      share_layer(state, record, layer, parts);
    }
  }
  if (sum <= 0) { // longer because of other link traffic, not because of a particular request's transfer
    parts.moves = 1;
    return;
  }
  for (double& seconds : state.blame) seconds /= sum;
  parts.weights /= sum;
  parts.moves /= sum;
  parts.host /= sum;
}

SLUICE_INLINE std::size_t Why::place_of(const IterationRecord& record, RequestId id) {
  const auto found = std::find_if(record.batch.begin(), record.batch.end(),
                                  [&](const Claim& claim) { return record.rows[index(claim.slot)].id == id; });
  return static_cast<std::size_t>(found - record.batch.begin());
}

SLUICE_INLINE void Why::share_layer(State& state, const IterationRecord& record, const LayerSlice& layer,
                                    Parts& parts) {
  const auto blocks = [&](const Claim& claim) {
    const RequestRow& row = record.rows[index(claim.slot)];
    const bool away = (row.holding.fetched() | row.holding.hidden_on_host()).contains(layer.layer);
    return away ? static_cast<double>(row.blocks.count()) : 0.0;
  };
  double all = 0;
  for (const Claim& claim : record.batch) all += blocks(claim);
  if (all <= 0) parts.moves += layer.stall_s;
  for (std::size_t i = 0; all > 0 && i < record.batch.size(); ++i)
    state.blame[i] += layer.stall_s * blocks(record.batch[i]) / all;
}

SLUICE_INLINE void Why::name_leavers(State& state, const IterationRecord& record) const {
  if (state.leaving.empty()) return;
  const auto row_of = [&](std::size_t i) -> const RequestRow& { return record.rows[index(record.batch[i].slot)]; };
  state.order.clear();
  for (std::size_t i = 0; i < record.batch.size(); ++i)
    if (const RequestId id = row_of(i).id;
        index(id) >= state.requests.size() || state.requests[index(id)].last_step != state.last_step)
      state.order.push_back(i);
  std::sort(state.order.begin(), state.order.end(), [&](std::size_t a, std::size_t b) {
    return row_of(a).blocks != row_of(b).blocks ? row_of(a).blocks > row_of(b).blocks : row_of(a).id < row_of(b).id;
  });
  for (const RequestId id : state.leaving) {
    RequestTime& of = state.requests[index(id)];
    const bool away = of.doing == TimeCause::paused || of.doing == TimeCause::dropped;
    if (!away || of.end != RequestEnd::unfinished) continue;           // the request has already resumed or ended
    const std::int64_t end = ticks_of(record.start + record.duration); // the request does not run during this
                                                                       // iteration
    of.add_spell(of.doing, end, max_spells);
    of.add(of.doing, end - of.since);
    if (of.open.cause != of.doing) continue;
    for (const std::size_t i : state.order) of.blame_spell(row_of(i).id);
  }
  state.leaving.clear();
}

} // namespace sluice
