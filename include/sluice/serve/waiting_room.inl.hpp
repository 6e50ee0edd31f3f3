// SPDX-License-Identifier: Apache-2.0
// WaitingRoom: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/fnv.hpp"
#include "sluice/serve/waiting_room.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <unordered_map>

namespace sluice {

SLUICE_INLINE std::uint64_t WaitingRoom::digest_of(const Generation& newcomer) {
  Fnv digest;
  digest.add(static_cast<std::int64_t>(newcomer.salt));
  digest.add(static_cast<std::int64_t>(newcomer.session));
  digest.add(static_cast<std::int64_t>(newcomer.priority));
  digest.add(static_cast<std::int64_t>(newcomer.sequence)); // the choices of one request return each
  digest.add(newcomer.max_tokens);
  digest.add(std::bit_cast<std::int64_t>(newcomer.slo.ttft.count()));
  digest.add(std::bit_cast<std::int64_t>(newcomer.slo.tbt.count()));
  digest.add(reinterpret_cast<const std::byte*>(newcomer.prompt.data()),
             static_cast<std::int64_t>(newcomer.prompt.size() * sizeof newcomer.prompt[0]));
  return digest.value();
}

SLUICE_INLINE double WaitingRoom::work_of(const Generation& newcomer, const Limits& limits, double length_share) {
  const auto prompt = static_cast<double>(newcomer.prompt.size()) - static_cast<double>(newcomer.on_host.count());
  return std::max(0.0, prompt) / static_cast<double>(limits.batch_tokens.count()) +
         length_share * static_cast<double>(newcomer.max_tokens) / limits.batch;
}

SLUICE_INLINE void WaitingRoom::at(Seconds now) {
  std::erase_if(tickets_, [&](const Ticket& one) {
    const bool over = one.due + patience + (one.here ? one.spec.slo.ttft : Seconds{0}) < now;
    if (over && one.teaches && !one.came) learn(false);
    return over;
  });
}

SLUICE_INLINE const WaitingRoom::Ticket* WaitingRoom::find(std::uint64_t asks, Seconds now) const {
  const auto found = std::find_if(tickets_.begin(), tickets_.end(), [&](const Ticket& one) {
    return one.asks == asks && !one.here && one.due <= now + early;
  });
  return found == tickets_.end() ? nullptr : &*found;
}

SLUICE_INLINE void WaitingRoom::came(std::uint64_t number) {
  Ticket* const ticket = by_number(number);
  if (ticket == nullptr || ticket->came) return;
  ticket->came = true;
  if (ticket->teaches) learn(true);
}

SLUICE_INLINE void WaitingRoom::stays(std::uint64_t number) {
  if (Ticket* const ticket = by_number(number)) ticket->here = true;
}

SLUICE_INLINE void WaitingRoom::leaves(std::uint64_t number) {
  if (Ticket* const ticket = by_number(number)) ticket->here = false;
}

SLUICE_INLINE void WaitingRoom::admitted(std::uint64_t number, double waited) {
  // It says something about the pace from which its time was computed, which may have been long ago.
  constexpr double long_wait = 0.25;
  if (const Ticket* const ticket = by_number(number)) {
    if (waited > long_wait)
      slow_down(*ticket, 0.1, 1 - 0.2 * std::min(waited, 1.0));
    else
      pace_ = std::min(pace_ + 0.03 * (std::max(pace_, 1.05 * ticket->pace) - pace_), most_pace);
  }
  forget(number);
}

SLUICE_INLINE void WaitingRoom::was_told_wrong(std::uint64_t number) {
  if (const Ticket* const ticket = by_number(number)) slow_down(*ticket, 0.3, 0.8);
}

SLUICE_INLINE void WaitingRoom::forget(std::uint64_t number) {
  std::erase_if(tickets_, [number](const Ticket& one) { return one.number == number; });
}

SLUICE_INLINE Seconds WaitingRoom::place_at(double work, std::uint64_t before, Seconds now, double step_s) const {
  const std::vector<Promised> ahead = expected(before, now);
  const double each_s = share_ * step_s / pace_;
  if (ahead.empty()) return now + Seconds{before == after_all ? 0 : work * each_s};
  return std::max(now, ahead.back().spec.arrival) + Seconds{ahead.back().work * each_s};
}

SLUICE_INLINE bool WaitingRoom::keep(const Generation& newcomer, const Refused& refused) {
  Ticket* const found = by_number(refused.number);
  if (found == nullptr && !make_room(newcomer.salt, refused.asks)) return false;
  const bool teaches = std::none_of(tickets_.begin(), tickets_.end(),
                                    [&](const Ticket& one) { return one.teaches && one.asks == refused.asks; });
  Ticket& ticket = found == nullptr ? tickets_.emplace_back() : *found;
  if (found == nullptr) ticket.number = ++last_;
  ticket.asks = refused.asks;
  ticket.teaches = ticket.teaches || teaches;
  ticket.salt = newcomer.salt;
  ticket.work = refused.work;
  ticket.due = refused.due;
  ticket.pace = refused.by_pace ? pace_ : 0;
  ticket.spec = spec_of(newcomer, refused.due, newcomer.slo);
  ticket.lead = newcomer.lead;
  ticket.margin = refused.margin;
  ticket.came = false;
  ticket.here = false;
  return true;
}

SLUICE_INLINE std::vector<Promised> WaitingRoom::expected(std::uint64_t before, Seconds now) const {
  std::vector<Promised> all;
  double part = 0.5;
  for (const Ticket& one : tickets_) {
    if (one.number >= before) break;
    if (!one.here) {
      if (one.due < now || share_ < 0.1) continue; // its client is late, and may not come
      part += share_;
      if (part < 1) continue;
      part -= 1;
    }
    all.push_back({one.spec, one.lead, one.margin, one.work});
    if (one.here) all.back().spec.arrival = now;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Promised& a, const Promised& b) { return a.spec.arrival < b.spec.arrival; });
  return all;
}

SLUICE_INLINE WaitingRoom::Ticket* WaitingRoom::by_number(std::uint64_t number) {
  const auto found =
      std::find_if(tickets_.begin(), tickets_.end(), [number](const Ticket& one) { return one.number == number; });
  return found == tickets_.end() ? nullptr : &*found;
}

SLUICE_INLINE bool WaitingRoom::make_room(std::uint64_t salt, std::uint64_t asks) {
  const auto alike =
      std::count_if(tickets_.begin(), tickets_.end(), [&](const Ticket& one) { return one.asks == asks; });
  if (static_cast<std::size_t>(alike) >= most_alike) return false;
  if (tickets_.size() < most) return true;
  std::unordered_map<std::uint64_t, std::size_t> of; // tickets of each key
  for (const Ticket& one : tickets_) ++of[one.salt];
  std::size_t largest = 0;
  for (const auto& [key, count] : of) largest = std::max(largest, count);
  if (largest < of[salt] + 2) return false;
  const auto newest =
      std::find_if(tickets_.rbegin(), tickets_.rend(), [&](const Ticket& one) { return of.at(one.salt) == largest; });
  tickets_.erase(std::next(newest).base());
  return true;
}

SLUICE_INLINE void WaitingRoom::slow_down(const Ticket& ticket, double share, double factor) {
  if (ticket.pace > 0) pace_ = std::max(pace_ + share * (std::min(pace_, factor * ticket.pace) - pace_), least_pace);
}

SLUICE_INLINE void WaitingRoom::learn(bool came) {
  seen_ = std::min(seen_ + 1, 32);
  share_ += ((came ? 1.0 : 0.0) - share_) / seen_;
}

} // namespace sluice
