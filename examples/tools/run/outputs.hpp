// SPDX-License-Identifier: Apache-2.0
// check_outputs: no file that is written replaces another, or what the run reads.
#pragma once

#include "sluice/core/expected.hpp"

#include "run/options.hpp"

#include <string>
#include <utility>
#include <vector>

namespace running {

/// A flag and what it names; nothing, if that is empty.
using NamedFile = std::pair<const char*, std::string>;

/// Errors: two outputs lead to one file, or one leads to a file of --model or --profile, to --trace or --replay-clock.
/// `also_read`, `also_written`: of a program that has more of them.
sluice::Status check_outputs(const Options& options, const std::vector<NamedFile>& also_read = {},
                             const std::vector<NamedFile>& also_written = {});

} // namespace running
