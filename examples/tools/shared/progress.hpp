// SPDX-License-Identifier: Apache-2.0
// Progress: a bar on a terminal, plain lines elsewhere.
#pragma once

#include "sluice/report/number_text.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace sluice {

/// The progress of some work, with the remaining time at the rate so far.
///
/// On a terminal one line is redrawn, at most ten times per second. In a file or a pipe a line is written at most every
/// ten seconds, and one at the end, so that logs stay short. Other calls only read the clock.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Style { detect, bar, lines, silent };

  explicit Progress(double total, std::FILE* to = stderr, Style style = Style::detect)
      : total_(total),
        to_(to),
        style_(style == Style::detect ? detected(to) : style),
        begin_(Clock::now()),
        shown_(begin_) {}
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of the total, and a label of the current work.
  void update(double done, std::string_view label) {
    done_ = done;
    if (style_ == Style::silent) return;
    const auto now = Clock::now();
    const bool first = !any_;
    if (!first && now - shown_ < (style_ == Style::bar ? std::chrono::milliseconds{100} : std::chrono::seconds{10}))
      return;
    shown_ = now;
    any_ = true;
    label_ = label;
    draw(elapsed(now));
  }

  /// Prints the last state and ends the line; `how` says how the work ended. The destructor calls it.
  void finish(const char* how = "done in") {
    if (finished_) return;
    finished_ = true;
    if (style_ == Style::silent || !any_) return;
    if (style_ == Style::bar) std::fputs("\r\x1b[K", to_);
    std::fprintf(to_, "%s %s\n", how, time_text(elapsed(Clock::now())).c_str());
    std::fflush(to_);
  }

  /// Returns one state as text: "[#####.....]  50 %  OrbitFlow  12.0 s, 12.0 s left". `update` draws it.
  [[nodiscard]] static std::string text(double done, double total, double elapsed_s, std::string_view label,
                                        int width) {
    const double share = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 0.0;
    std::string line;
    if (width > 0) {
      const int full = static_cast<int>(share * width);
      line = '[' + std::string(static_cast<std::size_t>(full), '#') +
             std::string(static_cast<std::size_t>(width - full), '.') + "] ";
    }
    char percent[8];
    std::snprintf(percent, sizeof percent, "%3d %%", static_cast<int>(100 * share));
    line += percent;
    line += "  " + std::string{label} + "  " + time_text(elapsed_s);
    if (share > 0.02 && share < 1 && elapsed_s > 0.5)
      line += ", " + time_text(elapsed_s * (1 - share) / share) + " left";
    return line;
  }

 private:
  static Style detected([[maybe_unused]] std::FILE* to) {
#if defined(__unix__) || defined(__APPLE__)
    return isatty(fileno(to)) == 1 ? Style::bar : Style::lines;
#else
    return Style::lines;
#endif
  }
  [[nodiscard]] double elapsed(Clock::time_point now) const {
    return std::chrono::duration<double>(now - begin_).count();
  }
  void draw(double elapsed_s) const {
    const bool bar = style_ == Style::bar;
    const std::string line = text(done_, total_, elapsed_s, label_, bar ? 28 : 0);
    std::fprintf(to_, bar ? "\r\x1b[K%s" : "%s\n", line.c_str());
    std::fflush(to_);
  }

  double total_;
  double done_ = 0;
  std::FILE* to_;
  Style style_;
  Clock::time_point begin_;
  Clock::time_point shown_;
  std::string label_;
  bool any_ = false;
  bool finished_ = false;
};

} // namespace sluice
