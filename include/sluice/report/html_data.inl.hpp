// SPDX-License-Identifier: Apache-2.0
// html_data: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/html_data.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/pages.hpp"
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

SLUICE_REPORT_INLINE std::string html_fact(std::string_view label, std::string_view text) {
  if (text.empty()) return {};
  const bool wide = text.size() > 40; // over two columns, since a sentence in one column makes the whole row high
  return std::string{wide ? "<div class=\"w\">" : "<div>"} + "<dt>" + escaped(label) + "</dt><dd>" + escaped(text) +
         "</dd></div>";
}

SLUICE_REPORT_INLINE void begin_page_data(JsonWriter& json, std::string_view kind, const WorkloadReport& workload) {
  json.begin_object().field("kind", kind).key("seeds").begin_array();
  for (const std::uint64_t seed : seeds_served(workload)) json.value(seed);
  json.end_array().line();
}

SLUICE_REPORT_INLINE void begin_page_row(JsonWriter& json, std::string_view name, bool deposit, bool control,
                                         double slo_scale) {
  json.line().begin_object().field("name", name).field("deposit", deposit).field("control", control);
  json.field("scale", slo_scale);
}

SLUICE_REPORT_INLINE std::string html_page(const HtmlPage& page, const WorkloadReport& workload,
                                           const MadeBy& made_by) {
  const std::string note = one_seed_note(workload);
  return pages::filled(
      pages::page_html,
      {{"title", escaped(page.title)},
       {"style", std::string{pages::base_css} + std::string{pages::results_css}},
       {"heading", escaped(page.heading)},
       {"under", escaped(page.under)},
       {"facts", page.facts},
       {"command", page.command.empty() ? std::string{} : "<pre><code>" + escaped(page.command) + "</code></pre>"},
       {"sections", page.sections},
       {"note", note.empty() ? std::string{} : "<p class=\"sub\">This is of " + escaped(note) + ".</p>"},
       {"made_by", escaped(made_by.known() ? made_by.line() : "Sluice")},
       {"simulated", escaped(page.simulated)},
       {"data", page.data},
       {"script", pages::joined(page.script)}});
}

} // namespace sluice::detail
