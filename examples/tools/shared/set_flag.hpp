// SPDX-License-Identifier: Apache-2.0
// --set: sets numbers of single policies.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

/// Adds --set, which may be given several times; `engines::read_setting` reads each value.
inline void add_set_flag(CLI::App& app, std::vector<std::string>& settings) {
  app.add_option("--set", settings,
                 "a number of a policy, e.g. Pause.max_wait=20; sluice-compare --list numbers names them; may be given "
                 "several times")
      ->type_name("POLICY.NUMBER=VALUE")
      ->allow_extra_args(false);
}
