// SPDX-License-Identifier: Apache-2.0
// Without cairo, no figures are drawn; check_plot() reports that.
#include "compare/plot.hpp"

namespace compared {

bool can_plot() { return false; }

sluice::Status write_plot(const std::string& /*path*/, std::span<const Ran> /*all*/,
                          const std::vector<Axis>& /*axes*/) {
  return flag_error("--plot", "this build cannot draw", "cairo");
}

} // namespace compared
