// SPDX-License-Identifier: Apache-2.0
// WaitingRoom: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/fnv.hpp"
#include "sluice/serve/waiting_room.hpp"

#include <algorithm>
#include <bit>

namespace sluice {

SLUICE_INLINE std::uint64_t WaitingRoom::digest_of(const Generation& newcomer) {
  Fnv digest;
  digest.add(static_cast<std::int64_t>(newcomer.salt));
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
    const bool over = one.due + patience < now;
    if (over) learn(false);
    return over;
  });
}

SLUICE_INLINE const WaitingRoom::Ticket* WaitingRoom::find(std::uint64_t asks) const {
  const auto found =
      std::find_if(tickets_.begin(), tickets_.end(), [asks](const Ticket& one) { return one.asks == asks; });
  return found == tickets_.end() ? nullptr : &*found;
}

SLUICE_INLINE void WaitingRoom::came(std::uint64_t number) {
  Ticket* const ticket = by_number(number);
  if (ticket == nullptr || ticket->came) return;
  ticket->came = true;
  learn(true);
}

SLUICE_INLINE void WaitingRoom::admitted(std::uint64_t number, bool on_time) {
  // It says something about the pace from which its time was computed, which may have been long ago.
  if (const Ticket* const ticket = by_number(number); ticket != nullptr && on_time)
    pace_ += 0.03 * (std::max(pace_, 1.05 * ticket->pace) - pace_);
  forget(number);
}

SLUICE_INLINE void WaitingRoom::was_told_wrong(std::uint64_t number) {
  if (const Ticket* const ticket = by_number(number)) pace_ += 0.3 * (std::min(pace_, 0.8 * ticket->pace) - pace_);
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

SLUICE_INLINE bool WaitingRoom::keep(std::uint64_t asks, const Generation& newcomer, double work, Seconds due) {
  const Ticket* const found = find(asks);
  if (found == nullptr && tickets_.size() >= most) return false;
  Ticket& ticket = found == nullptr ? tickets_.emplace_back() : *by_number(found->number);
  if (found == nullptr) ticket.number = ++last_;
  ticket.asks = asks;
  ticket.work = work;
  ticket.due = due;
  ticket.pace = pace_;
  ticket.spec = spec_of(newcomer, due, newcomer.slo);
  ticket.lead = newcomer.lead;
  ticket.came = false;
  return true;
}

SLUICE_INLINE std::vector<Promised> WaitingRoom::expected(std::uint64_t before, Seconds now) const {
  std::vector<Promised> all;
  if (share_ < 0.1) return all;
  double part = 0.5;
  for (const Ticket& one : tickets_) {
    if (one.number >= before) break;
    if (one.due < now) continue; // its client is late, and may not come
    part += share_;
    if (part < 1) continue;
    part -= 1;
    all.push_back({one.spec, one.lead, one.work});
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

SLUICE_INLINE void WaitingRoom::learn(bool came) {
  seen_ = std::min(seen_ + 1, 32);
  share_ += ((came ? 1.0 : 0.0) - share_) / seen_;
}

} // namespace sluice
