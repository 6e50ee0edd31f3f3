// SPDX-License-Identifier: Apache-2.0
// Without cairo there are no figures; check_plot() says so.
#include "compare/plot.hpp"

namespace compared {

bool can_plot() { return false; }

sluice::Status write_plot(const std::string& /*path*/, std::span<const Ran> /*all*/,
                          const std::vector<Axis>& /*axes*/) {
  return flag_error("--plot", "this build cannot draw", "cairo");
}

} // namespace compared
