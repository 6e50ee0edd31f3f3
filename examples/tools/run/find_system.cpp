// SPDX-License-Identifier: Apache-2.0
// Finds a system by its name.
#include "sluice/core/text.hpp"

#include "run/job.hpp"
#include "run/options.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace running {

namespace {

/// Why a system of sluice-compare is missing here.
struct Missing {
  std::string_view name, why, instead;
};
constexpr std::string_view listed = "a system that --list names";
constexpr std::string_view variant = "it is a variant that only sluice-compare has";
constexpr std::array missing{
    Missing{"SwappedFirst", "it is another name of VllmSwap", "VllmSwap"},
    Missing{"Cake", "a machine computes nothing beside a load", "HiCacheIfFaster, or another system that --list names"},
    Missing{"MooncakeStore", "its pool is the memory of other machines", "Kvbm, or another system that --list names"},
    Missing{"OrbitFlowPause", "it is OrbitFlow without the token deposit, which only sluice-compare turns off",
            "OrbitFlow, or another system that --list names"},
    Missing{"OrbitFlowSrtf", variant, listed},
    Missing{"OrbitFlowPauseShortest", variant, listed},
    Missing{"OrbitFlowPauseRandom", variant, listed},
    Missing{"OrbitFlowEven", variant, listed},
};

} // namespace

sluice::Expected<const engines::System*> find_system(std::string_view name) {
  std::vector<std::string_view> names;
  for (const engines::System& system : engines::real_systems()) {
    if (system.name == name) return &system;
    names.push_back(system.name);
  }
  for (const Missing& known : missing)
    if (known.name == name)
      return flag_error("--system", std::string{name} + " is not available: " + std::string{known.why},
                        std::string{known.instead});
  return flag_error("--system", "there is no system '" + sluice::excerpt(name) + "'",
                    std::string{sluice::nearest(name, names)} + ", or another system that --list names");
}

} // namespace running
