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
/// request decodes, and at most one prompt is computed, whole, in the one iteration between two times. A request's
/// tokens in between have no times: its context is that of a steady pace. So requests whose pace is far from the usual,
/// which were preempted, make an iteration unknown. The simulated time says how many iterations lie between two times;
/// more than three, or no clear number, are left out. Not for engines in lock step, whose times mix.
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
    const ChunkWork chunk{Tokens{one.chunk}, Tokens{0}};
    if (one.chunk > 0) work.chunks = {&chunk, 1};
    one.simulated_s = world.step(work).total(layers).count();
    const double steps = std::round((to - from) / one.simulated_s);
    constexpr double clear = 0.3;
    if (steps < 1 || steps > (one.chunk > 0 ? 1 : 3) || std::abs((to - from) / one.simulated_s - steps) > clear)
      continue;
    one.decodes = work.decodes;
    one.context = static_cast<double>(work.decode_context.count()) / static_cast<double>(work.decodes);
    one.measured_s = (to - from) / steps;
    all.push_back(one);
  }
  return all;
}

/// Three scatter plots (SVG): measured minus simulated milliseconds by decodes, by mean context and by chunk. Decoding
/// alone is blue, with a chunk orange.
inline std::string draw(const std::string& title, const std::vector<IterationResidual>& all) {
  constexpr double width = 330, height = 260, left = 46, top = 34;
  double lowest = -1, highest = 1;
  for (const IterationResidual& one : all) {
    lowest = std::min(lowest, one.residual_ms());
    highest = std::max(highest, one.residual_ms());
  }
  std::string escaped;
  for (const char c : title) escaped += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"16\">{3}: measured minus simulated, ms, of {4} iterations</text>\n",
      3 * (width + left) + 10, height + top + 40, left, escaped, all.size());
  struct Axis {
    const char* name;
    double (*of)(const IterationResidual&);
  };
  constexpr Axis axes[] = {{"decodes", [](const IterationResidual& r) { return static_cast<double>(r.decodes); }},
                           {"mean context, tokens", [](const IterationResidual& r) { return r.context; }},
                           {"chunk, tokens", [](const IterationResidual& r) { return static_cast<double>(r.chunk); }}};
  const auto y_of = [&](double ms) { return top + height * (highest - ms) / (highest - lowest); };
  double x0 = left;
  for (const Axis& axis : axes) {
    double most = 1;
    for (const IterationResidual& one : all) most = std::max(most, axis.of(one));
    svg += fmt::format("<path d=\"M{0} {1}V{2}H{3}M{0} {4}H{3}\" stroke=\"#888\" fill=\"none\"/>\n"
                       "<text x=\"{5}\" y=\"{6}\">{7:.1f}</text><text x=\"{5}\" y=\"{2}\">{8:.1f}</text>\n"
                       "<text x=\"{0}\" y=\"{9}\">0 to {10:.0f} {11}</text>\n",
                       x0, top, top + height, x0 + width, y_of(0), x0 - 40, top + 8, highest, lowest, top + height + 18,
                       most, axis.name);
    for (const IterationResidual& one : all)
      svg +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\" fill=\"{}\" fill-opacity=\"0.5\"/>\n",
                      x0 + width * axis.of(one) / most, y_of(one.residual_ms()), one.chunk > 0 ? "#d95f02" : "#1f78b4");
    x0 += width + left;
  }
  return svg + "</svg>\n";
}

} // namespace recorded
