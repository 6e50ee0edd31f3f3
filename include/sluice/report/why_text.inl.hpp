// SPDX-License-Identifier: Apache-2.0
// why_text: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/report/number_text.hpp"
#include "sluice/report/order.hpp"
#include "sluice/report/report.hpp"
#include "sluice/report/seed_tables.hpp"
#include "sluice/report/why_text.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::detail {

/// Returns the causes with a visible share of any row's time or missed deadlines, in their usual order.
inline std::vector<TimeCause> causes_of(const ReportBlock& block) {
  constexpr double least = 0.0005;
  std::vector<TimeCause> causes;
  for (std::size_t i = 0; i < time_causes; ++i)
    if (std::any_of(block.rows.begin(), block.rows.end(), [i](const SystemReport* row) {
          return static_cast<double>(row->time.spent[i]) > least * static_cast<double>(row->time.whole()) ||
                 row->time.missed[i] > least * row->time.all_missed();
        }))
      causes.push_back(static_cast<TimeCause>(i));
  return causes;
}

SLUICE_REPORT_INLINE std::string names_of(const TimeSpell& spell) {
  std::string text = spell.blamed == 1 && !spell.by_more ? "request " : "requests ";
  for (std::size_t i = 0; i < spell.blamed; ++i)
    text += (i == 0                                    ? ""
             : i + 1 == spell.blamed && !spell.by_more ? " and "
                                                       : ", ") +
            std::to_string(index(spell.by[i]));
  return text + (spell.by_more ? " and others" : "");
}

SLUICE_REPORT_INLINE std::string no_request(const SystemReport& row, std::int64_t id) {
  const std::string name = "request " + std::to_string(id);
  if (row.time.requests.empty() && row.time.seen > 0)
    return "Several tenants, each of which numbers its own requests from 0: their rows report " + name +
           ", if they have one.";
  const std::string seen =
      row.time.seen == 1 ? "one request, 0," : std::to_string(row.time.seen) + " requests, from 0 on,";
  return row.livelock.empty()
             ? "There is no " + name + " here: " + seen + " came, by this row's own numbers."
             : "No " + name + " ever arrived: " + seen + " had come when the run was ended as livelocked.";
}

struct MissText {
  std::string_view head; ///< of a column
  std::string_view text; ///< in a sentence: "it computed 512 tokens ..."
  Tokens MissCauses::*tokens;
};

inline constexpr std::array<MissText, 4> miss_texts{{
    {"never written", "that had been overwritten before a tier got them", &MissCauses::unwritten},
    {"evicted", "that the tiers had evicted", &MissCauses::evicted},
    {"late", "that were not there yet", &MissCauses::late},
    {"cut", "that a tier had and that were not loaded", &MissCauses::cut},
}};

/// Returns a table of the prompt tokens that were computed although they had been computed before; empty if there are
/// none.
inline std::string miss_table(const ReportBlock& block) {
  std::vector<TextTable::Column> columns{{"", "system"}};
  for (const MissText& text : miss_texts) columns.push_back({"", std::string{text.head}});
  TextTable table(std::move(columns));
  bool any = false;
  for (const SystemReport* row : block.rows) {
    if (row->time.misses.all().count() == 0) continue;
    any = true;
    std::vector<std::string> cells{label_of(*row)};
    for (const MissText& text : miss_texts)
      cells.push_back(percent_text(static_cast<double>((row->time.misses.*text.tokens).count()) /
                                   static_cast<double>(row->time.prompts)));
    table.row(std::move(cells));
  }
  if (!any) return {};
  return "Why prompt tokens were computed that had been computed before, % of all prompt tokens; " + title_of(block) +
         "\n" + table.text() + "\n";
}

} // namespace sluice::detail

namespace sluice {

SLUICE_REPORT_INLINE std::string why_table(const ComparisonReport& report) {
  std::string out;
  for (const ReportBlock& block : blocks_of(report)) {
    const std::vector<TimeCause> causes = detail::causes_of(block);
    std::vector<TextTable::Column> columns{{"", "system"}};
    for (const TimeCause cause : causes)
      columns.push_back({is_stall(cause)   ? "stalled for"
                         : is_limit(cause) ? "waits for"
                                           : "",
                         std::string{text_of(cause).head}});
    std::vector<TextTable::Column> missed_columns = columns;
    columns.push_back({"", "hours"});
    if (block.deposit) columns.push_back({"in the", "deposit"});
    missed_columns.push_back({"", "refused"});
    missed_columns.push_back({"", "missed"});
    TextTable time(std::move(columns)), missed(std::move(missed_columns));
    for (std::size_t i = 0; i < block.rows.size(); ++i) {
      const SystemReport& row = *block.rows[i];
      const TimeReport& of = row.time;
      const auto whole = static_cast<double>(of.whole());
      std::int64_t covered = 0;
      std::vector<std::string> spent{label_of(row)}, lost{label_of(row)};
      for (const TimeCause cause : causes) {
        const std::size_t at = detail::place_of(cause);
        spent.push_back(percent_text(static_cast<double>(of.spent[at]) / whole));
        lost.push_back(percent_text(of.all_missed() > 0 ? of.missed[at] / of.all_missed() : 0));
      }
      for (const std::int64_t ticks : of.covered) covered += ticks;
      spent.push_back(short_text(whole * 1e-9 / 3600));
      if (block.deposit) spent.push_back(percent_text(static_cast<double>(covered) / whole));
      lost.push_back(percent_text(of.all_missed() > 0 ? of.turned_away / of.all_missed() : 0));
      lost.push_back(fixed_text(of.all_missed(), 0));
      if (row.control && i > 0) time.rule(), missed.rule();
      time.row(std::move(spent));
      missed.row(std::move(lost));
    }
    out += "Where the requests' time went, arrival to last token, % of it; " + title_of(block) + "\n" + time.text();
    out += "\nIn what the missed deadlines passed, % of them; " + title_of(block) + "\n" + missed.text() + "\n";
    out += detail::miss_table(block);
  }
  return out;
}

SLUICE_REPORT_INLINE std::string why_line(const RequestTime& of, std::size_t width) {
  if (of.whole() <= 0 || of.spells.empty()) return {};
  std::string line;
  for (std::size_t i = 0; i < width; ++i) {
    const auto edge = [&](std::size_t k) {
      return of.arrival + static_cast<std::int64_t>(static_cast<double>(of.whole()) * static_cast<double>(k) /
                                                    static_cast<double>(width));
    };
    Ticks within{};
    for (const TimeSpell& spell : of.spells) {
      const std::int64_t both = std::min(edge(i + 1), spell.end) - std::max(edge(i), spell.begin);
      if (both <= 0) continue;
      const auto stalled = static_cast<std::int64_t>(static_cast<double>(both) * static_cast<double>(spell.stalled) /
                                                     static_cast<double>(spell.end - spell.begin));
      within[detail::place_of(TimeCause::others_kv)] += stalled;
      within[detail::place_of(spell.cause)] += both - stalled;
    }
    const auto most = static_cast<std::size_t>(std::max_element(within.begin(), within.end()) - within.begin());
    line += cause_groups[group_of(static_cast<TimeCause>(most))].letter;
  }
  return line;
}

SLUICE_REPORT_INLINE std::string why_sentence(const RequestTime& of) {
  const auto text = [](std::int64_t ticks) { return time_text(seconds_of(ticks)); };
  constexpr std::string_view ends[] = {"it was not finished", "it was served", "it was refused", "its user left"};
  std::string out = "Request " + std::to_string(index(of.id)) + " (" + std::to_string(of.prompt) +
                    " tokens of prompt, " + std::to_string(of.delivered) + " delivered) arrived " +
                    (of.arrival > 0 ? "at " + text(of.arrival) : "at the start") + "; " +
                    std::string{ends[static_cast<std::size_t>(of.end)]} + " " + text(of.whole()) + " later.";
  if (of.whole() <= 0) return out;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < time_causes; ++i)
    if (of.spent[i] > 0) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return of.spent[a] > of.spent[b]; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int64_t ticks = of.spent[order[i]];
    out += (i == 0 ? " It spent " : ", ") + text(ticks) + " " +
           std::string{text_of(static_cast<TimeCause>(order[i])).text} + " (" +
           percent_text(static_cast<double>(ticks) / static_cast<double>(of.whole())) + " %)";
  }
  if (!order.empty()) out += ".";
  if (const TimeSpell& spell = of.longest_pause; spell.length() > 0) {
    out += of.times_preempted == 1
               ? std::string{" It was preempted once,"}
               : " It was preempted " + std::to_string(of.times_preempted) + " times, the longest time";
    out += " for " + text(spell.length()) + " from " + text(spell.begin) + " on";
    out += spell.blamed > 0 ? ", when it made room for " + detail::names_of(spell) : ", when no other request joined";
    out += ".";
  }
  if (const TimeSpell& spell = of.longest_held; spell.blamed > 0)
    out += " At a stretch it was held up longest, for " + text(spell.length()) + ", by the prompt" +
           (spell.blamed > 1 ? "s" : "") + " of " + detail::names_of(spell) + ".";
  if (const std::int64_t stalled = of.spent[detail::place_of(TimeCause::others_kv)]; stalled > 0) {
    const auto* const worst = std::max_element(of.stalled_by.begin(), of.stalled_by.end(),
                                               [](const auto& a, const auto& b) { return a.least < b.least; });
    if (worst->least > 0)
      out += std::string{2 * worst->least > stalled ? " Most of its stalls for others were"
                                                    : " Of the others it stalled longest"} +
             " for the KV of request " + std::to_string(index(worst->id)) + " (" +
             (worst->least < worst->ticks ? "at least " : "") + text(worst->least) + " of " + text(stalled) + ").";
  }
  bool first_miss = true;
  for (const detail::MissText& miss : detail::miss_texts) {
    const std::int64_t tokens = (of.misses.*miss.tokens).count();
    if (tokens == 0) continue;
    out += (first_miss ? " It computed " : ", ") + std::to_string(tokens) + " prompt tokens " + std::string{miss.text};
    first_miss = false;
  }
  if (!first_miss) out += ".";
  if (of.caused > 0) out += " Its own KV made its batches wait " + text(of.caused) + ".";
  std::int64_t covered = 0;
  for (const std::int64_t ticks : of.covered) covered += ticks;
  if (covered > 0) out += " For " + text(covered) + " of all that its user had tokens to come from the deposit.";
  const double missed = of.all_missed();
  if (missed > 0) {
    const std::string all = fixed_text(missed, 0);
    out += " " + all + (all == "1" ? " deadline" : " deadlines") + " passed without a token";
    const auto most =
        static_cast<std::size_t>(std::max_element(of.missed.begin(), of.missed.end()) - of.missed.begin());
    if (of.missed[most] > 0)
      out += ", " + (all == "1" ? std::string{"mostly"} : fixed_text(of.missed[most], 0) + " of them") +
             " while it was " + std::string{text_of(static_cast<TimeCause>(most)).text};
    else if (of.turned_away > 0)
      out += ", those of the tokens that it was refused";
    out += ".";
  } else {
    out += " No deadline passed without its token.";
  }
  return out;
}

SLUICE_REPORT_INLINE std::string why_request(const ComparisonReport& report, std::int64_t id) {
  std::string out;
  for (const ReportBlock& block : blocks_of(report)) {
    out += "Why, request " + std::to_string(id);
    if (const auto& seeds = report.workload.seeds; seeds.size() > 1)
      out += (report.workload.windows ? " of window " : " of seed ") + std::to_string(seeds.front());
    out += ", " + title_of(block) + "\n" + cause_legend() + "\n\n";
    for (const SystemReport* row : block.rows) {
      const auto found =
          std::find_if(row->time.requests.begin(), row->time.requests.end(),
                       [id](const RequestTime& of) { return static_cast<std::int64_t>(index(of.id)) == id; });
      out += label_of(*row) + "\n";
      if (found == row->time.requests.end()) {
        out += "  " + detail::no_request(*row, id) + "\n\n";
        continue;
      }
      if (const std::string line = why_line(*found); !line.empty()) out += "  " + line + "\n";
      out += "  " + why_sentence(*found) + "\n\n";
    }
  }
  return out;
}

} // namespace sluice
