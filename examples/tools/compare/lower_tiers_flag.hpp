// SPDX-License-Identifier: Apache-2.0
// add_lower_tiers: --lower-tiers, the memories below the host's: "2TB@6GB/s,20TB@3GB/s@500us".
#pragma once

#include "compare/options.hpp"
#include "shared/flags.hpp"
#include "shared/sizes.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace compared {

/// Reads one tier; empty if the text is none.
inline std::optional<LowerTier> read_lower_tier(std::string_view text) {
  const std::size_t rate_at = text.find('@');
  if (rate_at == std::string_view::npos) return std::nullopt;
  const std::size_t latency_at = std::min(text.find('@', rate_at + 1), text.size());
  const std::optional<double> bytes = read_bytes(text.substr(0, rate_at));
  const std::optional<double> rate = read_rate(text.substr(rate_at + 1, latency_at - rate_at - 1));
  if (!bytes || !rate || *rate < 1) return std::nullopt;
  LowerTier tier{static_cast<std::int64_t>(*bytes), *rate, 0};
  if (latency_at == text.size()) return tier;
  const std::string_view latency = text.substr(latency_at + 1);
  double us = 0;
  const auto [stopped, wrong] = std::from_chars(latency.data(), latency.data() + latency.size(), us);
  if (wrong != std::errc{} || std::string_view(stopped, latency.data() + latency.size()) != "us" ||
      !(us >= 0 && us <= 1e9))
    return std::nullopt;
  tier.latency_s = us * 1e-6;
  return tier;
}

inline void add_lower_tiers(Flags& flags, std::vector<LowerTier>& place) {
  const std::string expected = "a size and a rate, and perhaps the latency of a read, such as 2TB@6GB/s@100us, or "
                               "several with commas";
  flags.read("--lower-tiers", "SIZE@RATE[@us],...",
             "memories below the host's, the nearest first, for systems that keep KV after its request, e.g. "
             "2TB@6GB/s@100us (default: none)",
             [&place, expected](std::string_view text) -> std::string {
               place.clear();
               for (std::size_t begin = 0; begin <= text.size();) {
                 const std::size_t end = std::min(text.find(',', begin), text.size());
                 const std::optional<LowerTier> tier = read_lower_tier(text.substr(begin, end - begin));
                 if (!tier) return expected;
                 place.push_back(*tier);
                 begin = end + 1;
               }
               return {};
             });
}

} // namespace compared
