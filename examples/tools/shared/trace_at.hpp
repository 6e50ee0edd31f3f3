// SPDX-License-Identifier: Apache-2.0
// --trace-at: the part of a run that a trace shows in detail.
#pragma once

#include "sluice/report/observer/timeline.hpp"

#include "shared/flags.hpp"

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <system_error>

/// Parses "worst-stall", "all", or seconds on the run's clock.
inline void add_trace_at(Flags& flags, sluice::TraceAt& at) {
  flags.other("--trace-at",
              "iterations that a trace shows with layers, transfers and stalls: around the longest stall "
              "(worst-stall), around this time of the run in seconds, or all (default: worst-stall)",
              [&at](std::string_view text) -> std::string {
                using Point = sluice::TraceAt::Point;
                double seconds = 0;
                const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), seconds);
                const bool number = wrong == std::errc{} && end == text.data() + text.size();
                if (text == "worst-stall" || text == "all")
                  at = {text == "all" ? Point::all : Point::worst_stall};
                else if (number && std::isfinite(seconds) && seconds >= 0)
                  at = {Point::time, sluice::Seconds{seconds}};
                else
                  return "worst-stall, all, or a number of seconds of at least 0";
                return {};
              });
}
