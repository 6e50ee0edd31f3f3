// SPDX-License-Identifier: Apache-2.0
// Takes other servers' settings, and writes vLLM's.
#include "compare/kv_transfer.hpp"

#include "sluice/core/text.hpp"
#include "sluice/report/leads.hpp"
#include "sluice/report/order.hpp"

#include "shared/offload_settings.hpp"
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>

namespace compared {

using namespace sluice;

namespace {

constexpr const char* flag = "--kv-transfer-config";
constexpr std::int64_t gib = std::int64_t{1} << 30;

} // namespace

Status take_kv_transfer(CommandLine& asked) {
  if (!asked.given(flag)) return {};
  Expected<OffloadSettings> read = read_offload_settings(asked.options.kv_transfer, flag, OffloadBy::simulation);
  if (!read) return read.error();
  if (asked.given("--host-memory"))
    return flag_error("--host-memory", fmt::format("{} is given as well, which says it", flag), "one of the two");
  const std::string listed = "," + asked.options.systems + ",";
  if (asked.given("--systems") && listed.find("," + read->system + ",") == std::string::npos)
    return flag_error("--systems", fmt::format("{} is {}, which is not among them", flag, read->system),
                      fmt::format("{} among them, or no --systems", read->system));
  if (!read->ignored.empty()) fmt::print(stderr, "{}: {}\n", flag, without_controls(read->ignored));
  auto& machine = asked.options.machine;
  const Expected<std::int64_t> host = host_bytes_of(*read, machine.kv_memory, flag);
  if (!host) return host.error();
  if (!asked.given("--systems")) asked.options.systems = read->system;
  machine.host_memory = *host;
  return {};
}

std::string vllm_command(const ComparisonReport& report) {
  const WorkloadReport& workload = report.workload;
  std::string out;
  for (const ReportBlock& block : blocks_of(report)) {
    const SystemReport* best = nullptr; // rows are in order of rank
    for (const SystemReport* row : block.rows)
      if (best == nullptr && can_lead(block, *row)) best = row;
    if (best == nullptr) continue;
    std::string more, before;
    if (best->name == "VllmRecompute") {
      more = " --no-enable-prefix-caching";
    } else if (best->name == "VllmPrefixCaching") {
      more = " --enable-prefix-caching";
    } else if (best->name == "VllmPriority") {
      more = " --no-enable-prefix-caching --scheduling-policy priority";
    } else if (best->name == "VllmOffload") {
      more = fmt::format(" --enable-prefix-caching --kv-transfer-config '{{\"kv_connector\":\"OffloadingConnector\","
                         "\"kv_role\":\"kv_both\",\"kv_connector_extra_config\":{{\"cpu_bytes_to_use\":{}}}}}'",
                         workload.host_budget_bytes);
    } else if (best->name == "Lmcache") {
      before = fmt::format("LMCACHE_LOCAL_CPU=True LMCACHE_MAX_LOCAL_CPU_SIZE={:.3f} ",
                           static_cast<double>(workload.host_budget_bytes) / static_cast<double>(gib));
      more = " --enable-prefix-caching --kv-transfer-config '{\"kv_connector\":\"LMCacheConnectorV1\",\"kv_role\":"
             "\"kv_both\"}'";
    } else {
      out += fmt::format("{}, first {}: vLLM has no such system\n", best->name, title_of(block));
      continue;
    }
    if (block.deposit) more += "  # without the token deposit, which vLLM has not";
    out += fmt::format("{}, first {}:\n{}vllm serve {} --block-size {} --num-gpu-blocks-override {} --max-num-seqs {} "
                       "--max-num-batched-tokens {}{}\n",
                       best->name, title_of(block), before, workload.model, workload.block_tokens,
                       workload.budget_blocks, workload.batch_limit, workload.max_batch_tokens, more);
  }
  return out;
}

} // namespace compared
