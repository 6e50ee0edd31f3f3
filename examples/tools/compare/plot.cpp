// SPDX-License-Identifier: Apache-2.0
// check_plot: checks whether a figure can be drawn.
#include "compare/plot.hpp"

#include "compare/systems.hpp"
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

namespace compared {

using namespace sluice;

Status check_plot(const Options& options, std::size_t comparisons, const std::vector<Axis>& axes) {
  constexpr std::size_t most_lines = 8;
  const std::string& path = options.plot;
  if (!path.ends_with(".svg") && !path.ends_with(".pdf"))
    return flag_error("--plot", fmt::format("'{}' ends neither in .svg nor in .pdf", path),
                      "a file such as figure.pdf");
  if (!can_plot())
    return flag_error("--plot", "this build cannot draw: cairo was missing", "Debian's libcairo2-dev, and cmake again");
  if (options.capacity)
    return flag_error("--plot", "a search for capacities has no figure", "--out, whose page draws it");
  if (options.slo_scales.size() > 1)
    return flag_error("--plot", "a figure is of one SLO scale, and there are several", "one --slo-scale");
  if (axes.size() > 1)
    return flag_error("--plot",
                      fmt::format("a figure has one axis, and {} and {} are swept", axes[0].name, axes[1].name),
                      "one flag with several values");
  if (axes.empty() && comparisons > 1)
    return flag_error("--plot", fmt::format("there are {} comparisons", comparisons), "a preset of one case, or none");
  if (axes.empty()) return {};
  if (options.deposit == "both")
    return flag_error("--plot", "each line would be drawn with and without a deposit", "--deposit on or off");
  const Expected<std::vector<const System*>> systems = chosen_systems(options.systems);
  if (systems && systems->size() > most_lines)
    return flag_error("--plot", fmt::format("there are {} systems", systems->size()),
                      fmt::format("--systems with at most {}: more lines cannot be told apart", most_lines));
  return {};
}

} // namespace compared
