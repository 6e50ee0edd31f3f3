// SPDX-License-Identifier: Apache-2.0
// Iterations: how long single iterations of a recorded server took, and how long the replay's world says they take.
#pragma once

#include "validate/recording.hpp"
#include "validate/world.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace recorded {

/// One iteration, or the mean of some that followed each other and computed nearly the same.
struct IterationResidual {
  double measured_s = 0, simulated_s = 0;
  std::int64_t decodes = 0;
  double context = 0;     ///< mean, of the decodes
  std::int64_t chunk = 0; ///< tokens of a prompt, computed whole in this iteration

  [[nodiscard]] double residual_ms() const { return (measured_s - simulated_s) * 1e3; }
};

/// The iterations between neighbouring recorded times (first and last tokens) whose work is known: every running
/// request decodes, and at most one prompt is computed, whole, in the last iteration between two times. A request's
/// tokens in between have no times: its context is that of a steady pace. So requests whose pace is far from the usual,
/// which were preempted, make an iteration unknown. The simulated time says how many iterations lie between two times;
/// more than three beside a chunk's, or no clear number, are left out. Not for engines in lock step, whose times mix.
inline std::vector<IterationResidual> residuals_of(const Recording& recording, const World& world, int layers) {
  using namespace sluice;
  std::vector<double> times, paces;
  const auto pace_of = [](const VllmRunRecord& record) {
    return (record.last_token - record.first_token).count() /
           static_cast<double>(std::max<std::int64_t>(1, record.output.count() - 1));
  };
  for (const VllmRunRecord& record : recording.records) {
    times.push_back(record.first_token.count());
    times.push_back(record.last_token.count());
    paces.push_back(pace_of(record));
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  std::nth_element(paces.begin(), paces.begin() + static_cast<std::ptrdiff_t>(paces.size() / 2), paces.end());
  const double slowest_pace = 1.5 * paces[paces.size() / 2];

  std::vector<IterationResidual> all;
  std::vector<Tokens> contexts;
  for (std::size_t i = 0; i + 1 < times.size(); ++i) {
    const double from = times[i], to = times[i + 1];
    contexts.clear();
    IterationResidual one;
    bool known = true;
    Work work;
    for (const VllmRunRecord& record : recording.records) {
      const double first = record.first_token.count(), last = record.last_token.count();
      if (last <= from || record.scheduled.count() >= to) continue;
      if (first <= from) {
        const double pace = pace_of(record);
        known = known && pace <= slowest_pace;
        contexts.push_back(record.prompt + Tokens{1 + std::llround((from - first) / pace)});
      } else if (first == to && one.chunk == 0 &&
                 record.prompt <= recording.server.limits.batch_tokens - Tokens{recording.server.limits.batch}) {
        one.chunk = record.prompt.count();
      } else {
        known = false;
      }
    }
    if (!known || contexts.empty()) continue;
    for (const Tokens context : contexts) work.decode_context += context;
    work.decodes = work.samples = static_cast<std::int64_t>(contexts.size());
    work.contexts = contexts;
    const double decoding_s = world.step(work).total(layers).count();
    const ChunkWork chunk{Tokens{one.chunk}, Tokens{0}};
    if (one.chunk > 0) work.chunks = {&chunk, 1};
    one.simulated_s = one.chunk > 0 ? world.step(work).total(layers).count() : decoding_s;
    // Beside the one with the chunk, iterations that only decode may lie between the two times.
    const double beside = one.chunk > 0 ? one.simulated_s : 0;
    const double steps = std::round((to - from - beside) / decoding_s);
    constexpr double clear = 0.3;
    if (steps < (one.chunk > 0 ? 0 : 1) || steps > 3 || std::abs((to - from - beside) / decoding_s - steps) > clear)
      continue;
    one.decodes = work.decodes;
    one.context = static_cast<double>(work.decode_context.count()) / static_cast<double>(work.decodes);
    one.measured_s = one.chunk > 0 ? to - from - steps * decoding_s : (to - from) / steps;
    all.push_back(one);
  }
  return all;
}

/// A round step (1, 2 or 5 times a power of ten), of which `span` has at most six.
inline double tick_step(double span) {
  const double power = std::pow(10, std::floor(std::log10(span)));
  for (const double step : {0.2, 0.5, 1.0, 2.0})
    if (span / (step * power) <= 6) return step * power;
  return 2 * power;
}

/// Three scatter plots (SVG) of measured minus simulated milliseconds: iterations that only decode by number and by
/// mean context, and those with a chunk by its tokens. Each has its own scale: a chunk takes so long that its residuals
/// would hide the others.
inline std::string draw(const std::string& title, const std::vector<IterationResidual>& all) {
  constexpr double width = 330, height = 240, left = 56, top = 62;
  std::string escaped;
  for (const char c : title) escaped += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"18\" font-size=\"13\">{3}: measured minus simulated, ms, of {4} iterations</text>\n",
      3 * (width + left) + 16, height + top + 44, left, escaped, all.size());
  struct Plot {
    const char* title;
    const char* axis;
    bool chunk;
    double (*of)(const IterationResidual&);
  };
  constexpr Plot plots[] = {
      {"only decoding", "decodes", false, [](const IterationResidual& r) { return static_cast<double>(r.decodes); }},
      {"only decoding", "mean context, tokens", false, [](const IterationResidual& r) { return r.context; }},
      {"with a chunk", "chunk, tokens", true, [](const IterationResidual& r) { return static_cast<double>(r.chunk); }}};
  double x0 = left;
  for (const Plot& plot : plots) {
    double lowest = -1, highest = 1, most = 1;
    int points = 0;
    for (const IterationResidual& one : all) {
      if ((one.chunk > 0) != plot.chunk) continue;
      ++points;
      lowest = std::min(lowest, one.residual_ms());
      highest = std::max(highest, one.residual_ms());
      most = std::max(most, plot.of(one));
    }
    const double y_step = tick_step(highest - lowest), x_step = std::max(1.0, tick_step(most));
    lowest = std::floor(lowest / y_step) * y_step;
    highest = std::ceil(highest / y_step) * y_step;
    most = std::ceil(most / x_step) * x_step;
    const auto y_of = [&](double ms) { return top + height * (highest - ms) / (highest - lowest); };
    const auto x_of = [&](double at) { return x0 + width * at / most; };
    svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\">{}: {} iterations</text>\n", x0, top - 12, plot.title, points);
    const int rows = static_cast<int>(std::lround((highest - lowest) / y_step));
    for (int i = 0; i <= rows; ++i) {
      const double ms = highest - i * y_step;
      const bool zero = std::abs(ms) < y_step / 2;
      svg += fmt::format("<path d=\"M{:.0f} {:.1f}h{:.0f}\" stroke=\"{}\"/><text x=\"{:.0f}\" y=\"{:.1f}\" "
                         "text-anchor=\"end\">{:g}</text>\n",
                         x0, y_of(ms), width, zero ? "#555" : "#ddd", x0 - 6, y_of(ms) + 4, zero ? 0.0 : ms);
    }
    for (int i = 0; i <= static_cast<int>(std::lround(most / x_step)); ++i)
      svg += fmt::format("<path d=\"M{0:.1f} {1:.0f}v4\" stroke=\"#555\"/><text x=\"{0:.1f}\" y=\"{2:.0f}\" "
                         "text-anchor=\"middle\">{3:g}</text>\n",
                         x_of(i * x_step), top + height, top + height + 16, i * x_step);
    svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n", x0 + width / 2,
                       top + height + 34, plot.axis);
    for (const IterationResidual& one : all)
      if ((one.chunk > 0) == plot.chunk)
        svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\" fill-opacity=\"0.5\"/>\n",
                           x_of(plot.of(one)), y_of(one.residual_ms()), plot.chunk ? "#d95f02" : "#1f78b4");
    x0 += width + left;
  }
  return svg + "</svg>\n";
}

} // namespace recorded
