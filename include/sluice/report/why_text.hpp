// SPDX-License-Identifier: Apache-2.0
// Why's results as text: tables of the time of a row's requests by cause, and one request's time line and sentences.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/time_spent.hpp"
#include "sluice/report/report.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

namespace detail {

inline std::size_t place_of(TimeCause cause) { return static_cast<std::size_t>(cause); }

/// "request 3", "requests 3, 5 and 8", "requests 3, 5, 8, 9 and others".
std::string names_of(const TimeSpell& spell);

/// Returns why a row has no data about that request.
std::string no_request(const SystemReport& row, std::int64_t id);

} // namespace detail

/// Returns tables per block: the shares of all requests' time from arrival to end by cause, the missed deadlines,
/// counted as TBT attainment does, by the same causes, and the causes of misses in tiers, if a system has any.
[[nodiscard]] std::string why_table(const ComparisonReport& report);

/// Returns the request's time line in `width` letters, and their meanings.
[[nodiscard]] std::string why_line(const RequestTime& of, std::size_t width = 100);

/// Returns the request's time by cause, in sentences.
[[nodiscard]] std::string why_sentence(const RequestTime& of);

/// Returns the request with that id in every row.
[[nodiscard]] std::string why_request(const ComparisonReport& report, std::int64_t id);

// Groups of the causes of requests' time. Each has a letter on a time line of text and a colour on the page.
struct CauseGroup {
  std::string_view name;
  char letter;
};

/// In the order of the colours in report/pages/why.js; the last group, refused requests, is no cause.
inline constexpr std::array<CauseGroup, 12> cause_groups{{{"waits to start", '.'},
                                                          {"waits for memory", ':'},
                                                          {"its prompt", 'P'},
                                                          {"computes again", 'R'},
                                                          {"decodes", '#'},
                                                          {"decodes beside others' prompts", '+'},
                                                          {"held up or crowded out", '-'},
                                                          {"stalls", '!'},
                                                          {"paused", '~'},
                                                          {"dropped", 'x'},
                                                          {"planner, or another's turn", '?'},
                                                          {"refused", ' '}}};

/// Returns the cause's index in `cause_groups`. Decoding together with others' prompts is a separate group: the prompts
/// determine the length of such a step, and a busy server misses most deadlines in it.
[[nodiscard]] constexpr std::size_t group_of(TimeCause cause) {
  if (is_stall(cause)) return 7;
  switch (cause) {
  case TimeCause::queue:
  case TimeCause::batch:
  case TimeCause::tokens:
    return 0;
  case TimeCause::memory:
  case TimeCause::behind:
    return 1;
  case TimeCause::prompt:
    return 2;
  case TimeCause::again:
    return 3;
  case TimeCause::decode:
    return 4;
  case TimeCause::beside:
    return 5;
  case TimeCause::held:
  case TimeCause::crowded:
    return 6;
  case TimeCause::paused:
    return 8;
  case TimeCause::dropped:
    return 9;
  default:
    return 10;
  }
}

/// ". waits to start  P its prompt  ...": the letters of a time line.
[[nodiscard]] inline std::string cause_legend() {
  std::string text;
  for (const CauseGroup& group : cause_groups)
    if (group.letter != ' ')
      text += (text.empty() ? "" : "  ") + std::string{group.letter} + " " + std::string{group.name};
  return text;
}

} // namespace sluice

#ifndef SLUICE_REPORT_COMPILED
#include "sluice/report/why_text.inl.hpp"
#endif
