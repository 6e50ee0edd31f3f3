// SPDX-License-Identifier: Apache-2.0
// RequestTime: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/observer/time_spent.hpp"

#include <algorithm>

namespace sluice {

SLUICE_INLINE void TimeSpell::blame(RequestId id) {
  if (std::find(by.begin(), by.begin() + blamed, id) != by.begin() + blamed) return;
  if (blamed < by.size())
    by[blamed++] = id;
  else
    by_more = true;
}

SLUICE_INLINE void TimeSpell::grow(std::int64_t until, std::int64_t stalls) {
  end = until;
  stalled += stalls;
}

SLUICE_INLINE std::int64_t RequestTime::stalled() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < time_causes; ++i)
    if (is_stall(static_cast<TimeCause>(i))) sum += spent[i];
  return sum;
}

SLUICE_INLINE void RequestTime::add(TimeCause cause, std::int64_t ticks) {
  if (ticks <= 0) return;
  const auto at = static_cast<std::size_t>(cause);
  spent[at] += ticks;
  covered[at] += std::clamp<std::int64_t>(covered_until - since, 0, ticks);
  since += ticks;
  const std::int64_t begin = std::max(since - ticks, gap_begin);
  if (begin >= since) return;
  if (!recent.empty() && recent.back().cause == cause && recent.back().end == begin) {
    recent.back().end = since;
    return;
  }
  if (recent.size() >= static_cast<std::size_t>(most_recent)) {
    for (std::size_t i = 0; i < std::size_t{most_recent} / 2; ++i)
      older[static_cast<std::size_t>(recent[i].cause)] += recent[i].end - recent[i].begin;
    recent.erase(recent.begin(), recent.begin() + most_recent / 2);
  }
  recent.push_back({cause, begin, since});
}

SLUICE_INLINE void RequestTime::take_back_to(std::int64_t now) {
  const auto most = static_cast<std::size_t>(std::max_element(spent.begin(), spent.end()) - spent.begin());
  const auto from = recent.empty() ? most : static_cast<std::size_t>(recent.back().cause);
  const std::int64_t ticks = std::min(since - now, spent[from]);
  spent[from] -= ticks;
  covered[from] = std::min(covered[from], spent[from]);
  since -= ticks;
  while (!recent.empty() && recent.back().begin >= since) recent.pop_back();
  if (!recent.empty()) recent.back().end = std::min(recent.back().end, since);
  if (!spells.empty()) spells.back().end = std::min(spells.back().end, since);
  open.end = std::min(open.end, since);
}

SLUICE_INLINE void RequestTime::deliver(std::int64_t when) {
  gap_begin = when;
  older.fill(0);
  const auto first = std::find_if(recent.begin(), recent.end(), [when](const Stretch& s) { return s.end > when; });
  recent.erase(recent.begin(), first);
  if (!recent.empty()) recent.front().begin = std::max(recent.front().begin, when);
}

SLUICE_INLINE void RequestTime::miss(double count, std::int64_t when) {
  Ticks gap = older;
  for (const Stretch& s : recent)
    gap[static_cast<std::size_t>(s.cause)] += std::max<std::int64_t>(0, std::min(s.end, when) - s.begin);
  gap[static_cast<std::size_t>(doing)] += std::max<std::int64_t>(0, when - std::max(since, gap_begin));
  const std::int64_t all = std::accumulate(gap.begin(), gap.end(), std::int64_t{0});
  if (all <= 0) {
    missed[static_cast<std::size_t>(doing)] += count;
    return;
  }
  for (std::size_t i = 0; i < time_causes; ++i)
    missed[i] += count * static_cast<double>(gap[i]) / static_cast<double>(all);
}

SLUICE_INLINE void RequestTime::add_spell(TimeCause cause, std::int64_t until, std::size_t most, std::int64_t stalled) {
  if (until <= since) return;
  if (open.cause == cause && open.end == since && open.begin < since)
    open.grow(until, stalled);
  else
    open = {.cause = cause, .begin = since, .end = until, .stalled = stalled};
  keep_longest();
  if (most == 0) return;
  if ((spells.empty() || spells.back().cause != cause) && spells.size() >= most) merge_shortest();
  if (!spells.empty() && spells.back().cause == cause) // possible only after a merge
    spells.back().grow(until, stalled);
  else
    spells.push_back({.cause = cause, .begin = since, .end = until, .stalled = stalled});
}

SLUICE_INLINE void RequestTime::blame_spell(RequestId other) {
  open.blame(other);
  keep_longest();
  if (!spells.empty() && spells.back().cause == open.cause) spells.back().blame(other);
}

SLUICE_INLINE void RequestTime::blame(RequestId other, std::int64_t ticks) {
  if (ticks <= 0) return;
  auto* const found =
      std::find_if(stalled_by.begin(), stalled_by.end(), [&](const Blamed& b) { return b.ticks > 0 && b.id == other; });
  auto* const into = found != stalled_by.end()
                         ? found
                         : std::min_element(stalled_by.begin(), stalled_by.end(),
                                            [](const Blamed& a, const Blamed& b) { return a.ticks < b.ticks; });
  if (found == stalled_by.end()) into->least = 0;
  into->id = other;
  into->ticks += ticks;
  into->least += ticks;
}

SLUICE_INLINE void RequestTime::keep_longest() {
  const bool pause = open.cause == TimeCause::paused || open.cause == TimeCause::dropped;
  if (!pause && open.cause != TimeCause::held) return;
  TimeSpell& longest = pause ? longest_pause : longest_held;
  if (open.length() >= longest.length()) longest = open;
}

SLUICE_INLINE void RequestTime::merge_shortest() {
  if (spells.size() < 3) return;
  std::size_t shortest = 1;
  for (std::size_t i = 2; i + 1 < spells.size(); ++i)
    if (spells[i].length() < spells[shortest].length()) shortest = i;
  const auto swallow = [&](std::size_t into) {
    spells[into].grow(spells[into + 1].end, spells[into + 1].stalled);
    if (spells[into].cause == spells[into + 1].cause)
      for (std::size_t i = 0; i < spells[into + 1].blamed; ++i) spells[into].blame(spells[into + 1].by[i]);
    spells.erase(spells.begin() + static_cast<std::ptrdiff_t>(into) + 1);
  };
  swallow(shortest - 1);
  if (shortest < spells.size() && spells[shortest].cause == spells[shortest - 1].cause) swallow(shortest - 1);
}

} // namespace sluice
