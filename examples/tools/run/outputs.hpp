// SPDX-License-Identifier: Apache-2.0
// check_outputs: no file that is written replaces another, or what the run reads.
#pragma once

#include "sluice/core/expected.hpp"

#include "run/options.hpp"

namespace running {

/// Errors: two outputs lead to one file, or one leads to a file of --model or --profile, to --trace or --replay-clock.
sluice::Status check_outputs(const Options& options);

} // namespace running
