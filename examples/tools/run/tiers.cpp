// SPDX-License-Identifier: Apache-2.0
#include "run/tiers.hpp"

#include "sluice/records/record.hpp"
#include "sluice/world/host_tier/host_tier.hpp"
#include "sluice/world/local/memory.hpp"

#include "run/job.hpp"
#include "shared/offload_settings.hpp"
#include "shared/sizes.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

namespace running {

using namespace sluice;

Status take_kv_transfer(Options& options) {
  if (options.kv_transfer.empty()) return {};
  constexpr const char* flag = "--kv-transfer-config";
  const std::pair<const char*, bool> given[] = {{"--host-cache", options.host_cache > 0},
                                                {"--host-reuse", options.host_reuse.has_value()},
                                                {"--host-write", options.host_write.has_value()},
                                                {"--host-evict", options.host_evict.has_value()},
                                                {"--disk-cache", options.disk_cache.has_value()}};
  for (const auto& [other, is_given] : given)
    if (is_given) return flag_error(other, fmt::format("{} is given as well, which says it", flag), "one of the two");
  const Expected<OffloadSettings> read = read_offload_settings(options.kv_transfer, flag, OffloadBy::machine);
  if (!read) return read.error();
  const Expected<std::int64_t> host = host_bytes_of(*read, options.kv_memory, flag);
  if (!host) return host.error();
  if (!read->ignored.empty()) fmt::print(stderr, "{}: {}\n", flag, without_controls(read->ignored));
  options.host_cache = *host;
  options.host_reuse = engines::HostReuse::all; // these servers compare no times
  options.host_write = read->answers ? engines::HostWrite::computed : engines::HostWrite::prompts;
  options.host_evict = read->evicts == "lfu"   ? Replacement::least_frequent
                       : read->evicts == "arc" ? Replacement::adaptive
                                               : Replacement::least_recent;
  if (!read->disk.empty()) options.disk_cache = DiskCache{read->disk, read->disk_bytes};
  return {};
}

Status check_tiers(const Options& options) {
  const std::pair<const char*, bool> given[] = {{"--host-reuse", options.host_reuse.has_value()},
                                                {"--host-write", options.host_write.has_value()},
                                                {"--host-evict", options.host_evict.has_value()},
                                                {"--host-pin", options.host_pin.has_value()},
                                                {"--host-pin-share", options.host_pin_share.has_value()}};
  for (const auto& [flag, is_given] : given)
    if (options.host_cache == 0 && is_given)
      return flag_error(flag, "nothing is kept on the host", "--host-cache as well");
  if (const Expected<const engines::System*> system = find_system(options.system)) {
    const bool pins = options.host_pin.has_value() && (*system)->finds_released;
    if (pins && !(*system)->caches)
      return flag_error("--host-pin", options.system + " would pin blocks on the device, which all requests share",
                        "InferCept or Continuum, which do, or a system whose device keeps nothing, such as VllmSwap");
    for (const auto& [flag, is_given] : {std::pair{"--kv-transfer-config", !options.kv_transfer.empty()},
                                         {"--host-reuse", options.host_reuse.has_value()},
                                         {"--host-write", options.host_write.has_value()},
                                         {"--host-pin", options.host_pin.has_value()}})
      if (is_given && (*system)->caches)
        return flag_error(flag, options.system + " says itself what the host keeps and what is loaded",
                          "no such flag, or a system of another kind, such as VllmPrefixCaching");
    if (options.host_pin_share && (*system)->finds_released)
      return flag_error("--host-pin-share", options.system + " pins blocks on the device", "no such flag");
  }
  if (options.host_cache == 0 && !options.disk_cache) return {};
  const char* const flag = options.disk_cache ? "--disk-cache" : "--host-cache";
  if (options.host_cache == 0)
    return flag_error(flag, "blocks reach the disk through the host", "--host-cache as well");
  if (options.backend != "cpu") return flag_error(flag, "a GPU has no tiers yet", "--backend cpu");
  if (options.host_write == engines::HostWrite::never && !options.disk_cache)
    return flag_error("--host-write", "nothing would reach the host", "--disk-cache as well, or another choice");
  return {};
}

Status add_tiers(const Options& options, const ModelWeights& weights, const LocalMemory& memory, MachineSetup& setup) {
  const Expected<const engines::System*> system = find_system(options.system);
  if (options.host_cache == 0) {
    if (system && (*system)->caches)
      fmt::print(stderr, "{} without --host-cache keeps and finds nothing below the device\n", options.system);
    return {};
  }
  const int layers = weights.config.shape.layers;
  const std::int64_t token_blocks = options.host_cache / (memory.block.count() * layers);
  if (token_blocks == 0)
    return flag_error("--host-cache",
                      fmt::format("a block of {} tokens takes {}", setup.limits.block_tokens.count(),
                                  exact_bytes(memory.block.count() * layers)),
                      "room for at least one");
  if (options.host_cache > physical_memory().count())
    return flag_error("--host-cache",
                      fmt::format("this machine has {} of memory", exact_bytes(physical_memory().count())),
                      "less than that");
  setup.tier_blocks = LayerBlocks{token_blocks * layers};
  setup.tier_evicts = options.host_evict.value_or(system ? (*system)->evicts : setup.tier_evicts);
  if (options.host_pin_share) setup.tier_pin_share = *options.host_pin_share / 100.0;
  if (!options.disk_cache) return {};
  const std::int64_t record = static_cast<std::int64_t>(record_head_bytes + record_tail_bytes) +
                              4 * setup.limits.block_tokens.count() + memory.block.count() * layers;
  if (options.disk_cache->bytes < record)
    return flag_error("--disk-cache", "a record takes " + exact_bytes(record), "room for at least one");
  // Two builds may round differently: none finds what another has computed. Without a commit that names it, a build is
  // known by the time of its program.
  const MadeBy& made = made_by();
  std::string build = fmt::format("{} {} {}", made.version, made.commit, made.build);
  if (made.commit == "unknown" || made.commit.ends_with("-dirty")) {
    std::error_code ignored;
    const auto time = std::filesystem::last_write_time("/proc/self/exe", ignored);
    build += fmt::format(" {}", time.time_since_epoch().count());
  }
  Expected<std::shared_ptr<RecordStore>> records =
      open_records(*options.disk_cache, kv_digest(weights, 4, setup.limits.block_tokens, build));
  if (!records) {
    Error error = records.error();
    error.where = "--disk-cache: " + error.where;
    return error;
  }
  setup.records = *std::move(records);
  return {};
}

} // namespace running
