// SPDX-License-Identifier: Apache-2.0
// Seeds: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/workload/seeds.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>
#include <system_error>

namespace sluice {

SLUICE_INLINE std::vector<std::uint64_t> seed_range(std::uint64_t first, std::uint64_t last) {
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = first; seed <= last; ++seed) seeds.push_back(seed);
  return seeds;
}

SLUICE_INLINE Expected<std::vector<std::uint64_t>> parse_seeds(std::string_view text) {
  constexpr std::size_t most = 10'000;
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto wrong = [&](std::string what) {
    return Error{ErrorCode::bad_input, "--seeds", std::move(what),
                 "whole numbers such as 1,2,5 or a range such as 1..20, each seed once, at most " +
                     std::to_string(most)};
  };
  std::vector<std::uint64_t> seeds;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    begin = end + 1;
    std::uint64_t first = 0, last = 0;
    const char* const stop = part.data() + part.size();
    std::from_chars_result read = std::from_chars(part.data(), stop, first);
    last = first;
    if (read.ec == std::errc{} && part.substr(static_cast<std::size_t>(read.ptr - part.data())).starts_with(".."))
      read = std::from_chars(read.ptr + 2, stop, last);
    if (read.ec != std::errc{} || read.ptr != stop || std::max(first, last) > largest)
      return wrong("'" + excerpt(part) + "' is no seed");
    if (last < first) return wrong("the range '" + excerpt(part) + "' runs backwards");
    if (last - first >= most || seeds.size() + (last - first) >= most) return wrong("there are too many");
    for (const std::uint64_t seed : seed_range(first, last)) {
      if (std::find(seeds.begin(), seeds.end(), seed) != seeds.end())
        return wrong("seed " + std::to_string(seed) + " is named twice");
      seeds.push_back(seed);
    }
  }
  return seeds;
}

SLUICE_INLINE std::string seeds_text(const std::vector<std::uint64_t>& seeds) {
  std::string text;
  for (std::size_t i = 0; i < seeds.size();) {
    std::size_t run = i + 1;
    while (run < seeds.size() && seeds[run] == seeds[run - 1] + 1) ++run;
    text += (text.empty() ? "" : ",") + std::to_string(seeds[i]);
    if (run - i > 2) text += ".." + std::to_string(seeds[run - 1]);
    i = run - i > 2 ? run : i + 1;
  }
  return text;
}

} // namespace sluice
