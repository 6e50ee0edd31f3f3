// SPDX-License-Identifier: Apache-2.0
// check_outputs: checks that no output replaces another output or an input of the run.
#pragma once

#include "sluice/core/expected.hpp"

#include "run/options.hpp"

#include <string>
#include <utility>
#include <vector>

namespace running {

/// A flag and its file; no file if the name is empty.
using NamedFile = std::pair<const char*, std::string>;

/// Errors: two outputs refer to one file, or one refers to a file of --model or --profile, to --trace or
/// --replay-clock. `also_read`, `also_written`: further files of a program that has more.
sluice::Status check_outputs(const Options& options, const std::vector<NamedFile>& also_read = {},
                             const std::vector<NamedFile>& also_written = {});

} // namespace running
