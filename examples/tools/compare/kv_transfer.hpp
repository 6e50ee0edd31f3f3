// SPDX-License-Identifier: Apache-2.0
// --kv-transfer-config and --print-config: vLLM's settings of an offloading connector as a system here, and back.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/report/report.hpp"

#include "compare/command_line.hpp"

#include <cstdint>
#include <string>

namespace compared {

/// What a vLLM connector is here.
struct KvTransfer {
  std::string system;      ///< "VllmOffload"
  std::int64_t host_bytes; ///< of the host's memory for KV
};

/// Reads vLLM's KVTransferConfig, as JSON or from a file that has it. Everything in it must have a counterpart here: a
/// setting that has none is refused by its name.
sluice::Expected<KvTransfer> read_kv_transfer(const std::string& text);

/// Sets system and host memory by --kv-transfer-config, if it is given. Error: another flag says otherwise.
sluice::Status take_kv_transfer(CommandLine& asked);

/// Returns the command that runs the best system of each block in vLLM, as far as vLLM has it.
std::string vllm_command(const sluice::ComparisonReport& report);

} // namespace compared
