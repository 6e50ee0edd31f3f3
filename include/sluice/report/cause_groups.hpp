// SPDX-License-Identifier: Apache-2.0
// Groups of the causes of requests' time. Each has a letter on a time line of text and a colour on the page.
#pragma once

#include "sluice/report/observer/time_spent.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

struct CauseGroup {
  std::string_view name;
  char letter;
};

/// In the order of the colours in report/pages/why.js; the last group, refused requests, is no cause.
inline constexpr std::array<CauseGroup, 11> cause_groups{{{"waits to start", '.'},
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
  if (is_stall(cause)) return 6;
  switch (cause) {
  case TimeCause::queue:
    return 0;
  case TimeCause::prompt:
    return 1;
  case TimeCause::again:
    return 2;
  case TimeCause::decode:
    return 3;
  case TimeCause::beside:
    return 4;
  case TimeCause::held:
  case TimeCause::crowded:
    return 5;
  case TimeCause::paused:
    return 7;
  case TimeCause::dropped:
    return 8;
  default:
    return 9;
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
