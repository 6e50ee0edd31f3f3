// SPDX-License-Identifier: Apache-2.0
// report.html: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/cause_groups.hpp"
#include "sluice/report/html_why.hpp"
#include "sluice/report/why_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::detail {

inline constexpr std::size_t most_drawn_requests = 24; ///< for each row: a page of forty rows stays a few megabytes

inline constexpr std::size_t most_drawn_spells = 80; ///< for each request: a screen shows no more

/// Writes each spell as [group, begin, end, stalled]. Adjacent spells of one group are merged; if there are too many,
/// the shortest are merged into the spell before them.
inline void write_spells(JsonWriter& json, const RequestTime& of) {
  struct Drawn {
    std::size_t group;
    std::int64_t begin, end, stalled;
  };
  std::vector<Drawn> drawn;
  for (std::int64_t least = 0;; least = std::max(2 * least, of.whole() / 2000 + 1)) { // coarser until few are left
    drawn.clear();
    for (const TimeSpell& spell : of.spells) {
      const std::size_t group = group_of(spell.cause);
      if (!drawn.empty() && (drawn.back().group == group || spell.end - spell.begin < least)) {
        drawn.back().end = spell.end;
        drawn.back().stalled += spell.stalled;
      } else {
        drawn.push_back({group, spell.begin, spell.end, spell.stalled});
      }
    }
    if (drawn.size() <= most_drawn_spells) break;
  }
  json.begin_array();
  for (const Drawn& one : drawn)
    json.begin_array()
        .value(one.group)
        .rounded(seconds_of(one.begin), 6)
        .rounded(seconds_of(one.end), 6)
        .rounded(seconds_of(one.stalled), 4)
        .end_array();
  json.end_array();
}

SLUICE_REPORT_INLINE void write_time(JsonWriter& json, const TimeReport& time) {
  if (time.whole() <= 0) {
    json.null();
    return;
  }
  std::array<double, cause_groups.size()> spent{}, missed{};
  for (std::size_t i = 0; i < time_causes; ++i) {
    const std::size_t group = group_of(static_cast<TimeCause>(i));
    spent[group] += seconds_of(time.spent[i]);
    missed[group] += time.missed[i];
  }
  missed.back() += time.turned_away;
  json.begin_object();
  const auto numbers = [&](std::string_view name, const auto& all) {
    json.key(name).begin_array();
    for (const double number : all) json.rounded(number, 5);
    json.end_array();
  };
  numbers("spent", spent);
  numbers("missed", missed);
  std::vector<const RequestTime*> drawn;
  const auto asked = [&](const RequestTime* of) { return static_cast<std::int64_t>(index(of->id)) == time.wanted; };
  for (const RequestTime& of : time.requests)
    if (!of.spells.empty() || asked(&of)) drawn.push_back(&of);
  std::stable_sort(drawn.begin(), drawn.end(), [&](const RequestTime* a, const RequestTime* b) {
    if (asked(a) != asked(b)) return asked(a);
    return a->all_missed() != b->all_missed() ? a->all_missed() > b->all_missed() : a->whole() > b->whole();
  });
  if (drawn.size() > most_drawn_requests) drawn.resize(most_drawn_requests);
  json.field("seen", time.seen).field("asked", time.wanted).key("requests").begin_array();
  for (const RequestTime* of : drawn) {
    json.begin_object().field("id", index(of->id)).field("missed", std::llround(of->all_missed()));
    json.field("why", why_sentence(*of)).key("spells");
    write_spells(json, *of);
    json.end_object();
  }
  json.end_array().end_object();
}

} // namespace sluice::detail
