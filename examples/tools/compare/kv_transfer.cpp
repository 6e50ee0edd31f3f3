// SPDX-License-Identifier: Apache-2.0
// Reads and writes vLLM's settings.
#include "compare/kv_transfer.hpp"

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/report/leads.hpp"
#include "sluice/report/order.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <initializer_list>
#include <limits>
#include <string_view>

namespace compared {

using namespace sluice;

namespace {

constexpr const char* flag = "--kv-transfer-config";
constexpr std::int64_t gib = std::int64_t{1} << 30;

/// A setting that has one value here.
struct Only {
  const char* name;
  nlohmann::json value;
  const char* why;
};

Status check_only(const nlohmann::json& settings, const std::string& where, std::initializer_list<Only> all) {
  for (const Only& one : all) {
    const auto field = settings.find(one.name);
    if (field == settings.end() || field->is_null() || *field == one.value) continue;
    return Error{ErrorCode::unsupported, where, std::string{one.name} + " is " + excerpt(field->dump()),
                 one.value.dump() + ", or no such field: " + one.why};
  }
  return {};
}

Expected<KvTransfer> read_offloading(const nlohmann::json& settings, const std::string& where) {
  const JsonFields fields(settings, where);
  if (fields.has("num_cpu_blocks") && !fields.has("cpu_bytes_to_use"))
    return Error{ErrorCode::unsupported, where, "num_cpu_blocks counts blocks, whose bytes the model decides",
                 "cpu_bytes_to_use, in bytes"};
  if (Status known = fields.only(
          {"cpu_bytes_to_use", "block_size", "eviction_policy", "spec_name", "offload_prompt_only", "store_threshold"});
      !known)
    return known.error();
  if (Status only = check_only(settings, where,
                               {{"block_size", 16, "the blocks of the host are those of the device"},
                                {"eviction_policy", "lru", "VllmOffload evicts the least recent here"},
                                {"spec_name", "CPUOffloadingSpec", "use --lower-tiers for memories below the host"},
                                {"offload_prompt_only", true, "VllmOffload writes no answers here"},
                                {"store_threshold", 0, "every block is stored at its first use"}});
      !only)
    return only.error();
  const Expected<std::int64_t> bytes = fields.whole("cpu_bytes_to_use", 1, std::numeric_limits<std::int64_t>::max());
  if (!bytes) return bytes.error();
  return KvTransfer{"VllmOffload", *bytes};
}

Expected<KvTransfer> read_lmcache(const nlohmann::json& settings, const std::string& where) {
  const JsonFields fields(settings, where);
  constexpr const char* size = "lmcache.max_local_cpu_size";
  if (Status known = fields.only({size, "lmcache.chunk_size", "lmcache.local_cpu", "lmcache.cache_policy",
                                  "lmcache.use_layerwise", "lmcache.save_decode_cache"});
      !known)
    return known.error();
  if (Status only = check_only(settings, where,
                               {{"lmcache.chunk_size", 256, "Lmcache has chunks of 256 tokens here"},
                                {"lmcache.local_cpu", true, "Lmcache keeps KV in the host's memory here"},
                                {"lmcache.cache_policy", "LRU", "Lmcache evicts the least recent here"},
                                {"lmcache.use_layerwise", false, "Lmcache loads and saves in the step here"},
                                {"lmcache.save_decode_cache", false, "Lmcache writes no answers here"}});
      !only)
    return only.error();
  double gibibytes = 5; // LMCache's default
  if (fields.has(size)) {
    const Expected<double> given = fields.number(size, 1e-3, 1e6, "GiB, above 0");
    if (!given) return given.error();
    gibibytes = *given;
  }
  return KvTransfer{"Lmcache", static_cast<std::int64_t>(gibibytes * static_cast<double>(gib))};
}

} // namespace

Expected<KvTransfer> read_kv_transfer(const std::string& text) {
  const bool json =
      text.find_first_not_of(" \t\n") != std::string::npos && text[text.find_first_not_of(" \t\n")] == '{';
  const Expected<nlohmann::json> config = json ? parse_json_object(text, flag) : read_json_object(text);
  if (!config) return config.error();
  const JsonFields fields(*config, flag);
  constexpr const char* connectors = "OffloadingConnector or LMCacheConnectorV1";
  const Expected<std::string> connector = fields.text("kv_connector", connectors);
  if (!connector) return connector.error();
  if (Status known = fields.only({"kv_connector", "kv_role", "kv_connector_extra_config", "engine_id"}); !known)
    return known.error();
  if (Status only = check_only(*config, flag, {{"kv_role", "kv_both", "one server both writes and reads"}}); !only)
    return only.error();
  nlohmann::json settings = nlohmann::json::object();
  constexpr const char* extra = "kv_connector_extra_config";
  if (fields.has(extra)) settings = (*config)[extra];
  const std::string where = std::string{flag} + ": " + extra;
  if (!settings.is_object())
    return Error{ErrorCode::bad_input, where, std::string{"it is a JSON "} + settings.type_name(), "an object"};
  if (*connector == "OffloadingConnector") return read_offloading(settings, where);
  if (*connector == "LMCacheConnectorV1") return read_lmcache(settings, where);
  return Error{ErrorCode::unsupported, flag, "kv_connector is '" + excerpt(*connector) + "', which no system here is",
               connectors};
}

Status take_kv_transfer(CommandLine& asked) {
  if (!asked.given(flag)) return {};
  Expected<KvTransfer> read = read_kv_transfer(asked.options.kv_transfer);
  if (!read) return read.error();
  if (asked.given("--host-memory"))
    return flag_error("--host-memory", fmt::format("{} is given as well, which says it", flag), "one of the two");
  const std::string listed = "," + asked.options.systems + ",";
  if (asked.given("--systems") && listed.find("," + read->system + ",") == std::string::npos)
    return flag_error("--systems", fmt::format("{} is {}, which is not among them", flag, read->system),
                      fmt::format("{} among them, or no --systems", read->system));
  if (!asked.given("--systems")) asked.options.systems = read->system;
  asked.options.machine.host_memory = read->host_bytes;
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
