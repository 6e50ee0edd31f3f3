// SPDX-License-Identifier: Apache-2.0
// --kv-transfer-config and --print-config: other servers' settings of offloading as a system here, and vLLM's back.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/report/report.hpp"

#include "compare/command_line.hpp"

#include <string>

namespace compared {

/// Sets system and host memory by --kv-transfer-config, if it is given. Error: another flag says otherwise.
sluice::Status take_kv_transfer(CommandLine& asked);

/// Returns the command that runs the best system of each block in vLLM, as far as vLLM has it.
std::string vllm_command(const sluice::ComparisonReport& report);

} // namespace compared
