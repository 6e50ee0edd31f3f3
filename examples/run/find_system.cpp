// SPDX-License-Identifier: Apache-2.0
// A system by its name.
#include "sluice/core/text.hpp"

#include "nearest.hpp"
#include "run/job.hpp"
#include "run/options.hpp"

#include <string>
#include <vector>

namespace running {

sluice::Expected<const System*> find_system(std::string_view name) {
  std::vector<std::string_view> names;
  for (const System& system : systems()) {
    if (system.name == name) return &system;
    names.push_back(system.name);
  }
  return flag_error("--system", "there is no system '" + sluice::excerpt(name) + "'",
                    std::string{nearest(name, names)} + ", or another of those that --list names");
}

} // namespace running
