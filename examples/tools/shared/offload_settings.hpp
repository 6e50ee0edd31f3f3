// SPDX-License-Identifier: Apache-2.0
// OffloadSettings: what other servers' settings of KV below the device say, for --kv-transfer-config.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"

#include "shared/settings_text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Who keeps the settings: a simulation, whose systems have fixed rules, or a machine's host tier, whose rules are
/// flags.
enum class OffloadBy : std::uint8_t { simulation, machine };

struct OffloadSettings {
  std::string system;          ///< in a simulation: VllmOffload, Lmcache, HiCache or HiCacheBack
  std::int64_t host_bytes = 0; ///< of the host's memory for KV
  double host_ratio = 0;       ///< instead of `host_bytes`: of the device's memory for KV
  bool answers = false;        ///< KV of answers is kept, too
  std::string evicts = "lru";  ///< or "lfu", "arc"
  std::string disk;            ///< a folder; empty: there is no disk
  std::int64_t disk_bytes = 0;
  std::string ignored; ///< "ignored, as not about KV offloading: max_model_len, tp", of a server's flags; empty: none
};

namespace offload_detail {

using sluice::JsonFields;

inline constexpr double gib = 1024.0 * 1024 * 1024;
inline constexpr const char* expected_settings =
    "vLLM's JSON with kv_connector, LMCache's file with lines such as max_local_cpu_size: 5, or SGLang's --hicache-... "
    "flags";

/// Settings that have these values here, and why. A field that is missing asks for nothing.
struct Only {
  const char* name;
  std::vector<nlohmann::json> values;
  const char* why;
};

inline Status check_only(const nlohmann::json& settings, const std::string& where, std::initializer_list<Only> all) {
  for (const Only& one : all) {
    const auto field = settings.find(one.name);
    if (field == settings.end() || field->is_null() ||
        std::find(one.values.begin(), one.values.end(), *field) != one.values.end())
      continue;
    std::string expected;
    for (const nlohmann::json& value : one.values) expected += value.dump() + ", ";
    const std::string given = field->is_structured() ? field->type_name() : field->dump();
    return Error{ErrorCode::unsupported, where, std::string{one.name} + " is " + excerpt(given),
                 expected + "or no such field: " + one.why};
  }
  return {};
}

/// A size in units of `unit` bytes.
inline Expected<std::int64_t> read_size(const JsonFields& fields, const char* name, double unit,
                                        const std::string& expected) {
  const Expected<double> given = fields.number(name, 1e-6, 1e6, expected);
  if (!given) return given.error();
  return static_cast<std::int64_t>(*given * unit);
}

/// What to say of settings of memories below the host.
inline const char* below_host(OffloadBy by) {
  return by == OffloadBy::machine ? "--disk-cache is the memory below the host"
                                  : "use --lower-tiers for memories below the host";
}

inline Expected<OffloadSettings> read_offloading(const nlohmann::json& settings, const std::string& where,
                                                 OffloadBy by) {
  const bool real = by == OffloadBy::machine;
  const JsonFields fields(settings, where);
  if (fields.has("num_cpu_blocks") && !fields.has("cpu_bytes_to_use")) // with it, the older name is not read
    return Error{ErrorCode::unsupported, where, "num_cpu_blocks counts blocks, whose bytes the model decides",
                 "cpu_bytes_to_use, in bytes"};
  if (Status known =
          fields.only({"cpu_bytes_to_use", "block_size", "eviction_policy", "spec_name", "offload_prompt_only",
                       "store_threshold", "num_cpu_blocks", "max_tracker_size", "blocks_per_chunk"});
      !known)
    return known.error();
  const std::vector<nlohmann::json> lru{"lru"}, lru_arc{"lru", "arc"}, prompts{true}, any{true, false};
  if (Status only = check_only(settings, where,
                               {{"block_size", {16}, "the blocks of the host are those of the device"},
                                {"eviction_policy", real ? lru_arc : lru, "VllmOffload evicts the least recent here"},
                                {"spec_name", {"CPUOffloadingSpec"}, below_host(by)},
                                {"offload_prompt_only", real ? any : prompts, "VllmOffload writes no answers here"},
                                {"blocks_per_chunk", {1}, "the blocks of the host are those of the device"},
                                {"store_threshold", {0, 1}, "every block is stored at its first use"}});
      !only)
    return only.error();
  // vLLM takes the whole part, so 1e10 is as good as 10000000000.
  const Expected<double> bytes = fields.number("cpu_bytes_to_use", 1, 0x1p62, "bytes, 1 or more");
  if (!bytes) return bytes.error();
  OffloadSettings read;
  read.system = "VllmOffload";
  read.host_bytes = static_cast<std::int64_t>(*bytes);
  read.answers = settings.value("offload_prompt_only", nlohmann::json(true)) == false;
  if (fields.has("eviction_policy")) read.evicts = settings["eviction_policy"];
  return read;
}

inline Expected<OffloadSettings> read_lmcache(const nlohmann::json& settings, const std::string& where, OffloadBy by) {
  const bool real = by == OffloadBy::machine;
  const JsonFields fields(settings, where);
  if (Status known =
          fields.only({"chunk_size", "local_cpu", "max_local_cpu_size", "local_disk", "max_local_disk_size",
                       "cache_policy", "use_layerwise", "save_decode_cache", "save_unfull_chunk",
                       // These are checked below, or change neither what is kept nor when.
                       "remote_url", "remote_serde", "enable_blending", "enable_p2p", "enable_pd", "enable_controller",
                       "enable_async_loading", "min_retrieve_tokens", "gds_path", "reserve_local_cpu_size",
                       "blocking_timeout_secs", "lookup_timeout_ms", "pre_caching_hash_algorithm", "numa_mode",
                       "py_enable_gc", "lmcache_instance_id", "internal_api_server_enabled", "internal_api_server_host",
                       "local_cpu_use_hugepages", "internal_api_server_port_start", "local_disk_path_sharding"});
      !known)
    return known.error();
  const std::vector<nlohmann::json> lru{"LRU"}, lru_lfu{"LRU", "LFU"}, prompts{false}, any{true, false};
  if (Status only = check_only(
          settings, where,
          {{"chunk_size", {real ? 16 : 256}, real ? "a block has 16 tokens here" : "Lmcache has chunks of 256 here"},
           {"local_cpu", {true}, "KV is kept in the host's memory here"},
           {"cache_policy", real ? lru_lfu : lru, real ? "the host has these" : "Lmcache evicts the least recent here"},
           {"use_layerwise",
            {real},
            real ? "requests load layer by layer here" : "Lmcache loads and saves in the step here"},
           {"save_decode_cache", real ? any : prompts, "Lmcache writes no answers here"},
           {"save_unfull_chunk", {false}, "only whole blocks are kept here"},
           {"remote_url", {nullptr}, below_host(by)},
           {"enable_blending", {false}, "only prefixes are found here"},
           {"enable_p2p", {false}, "one server both writes and reads"},
           {"enable_pd", {false}, "one server both writes and reads"},
           {"enable_controller", {false}, "one server both writes and reads"},
           {"enable_async_loading", {false}, "requests wait for what they load here"},
           {"min_retrieve_tokens", {0}, "everything that is found is loaded here"},
           {"gds_path", {nullptr}, "the host's memory is between device and disk here"},
           {"reserve_local_cpu_size", {0}, "the host's memory is as large as max_local_cpu_size says"}});
      !only)
    return only.error();
  OffloadSettings read;
  read.system = "Lmcache";
  read.host_bytes = static_cast<std::int64_t>(5 * gib); // LMCache's default
  if (fields.has("max_local_cpu_size")) {
    const Expected<std::int64_t> bytes = read_size(fields, "max_local_cpu_size", gib, "GiB, above 0");
    if (!bytes) return bytes.error();
    read.host_bytes = *bytes;
  }
  read.answers = settings.value("save_decode_cache", nlohmann::json(false)) == true;
  if (settings.value("cache_policy", nlohmann::json("LRU")) == "LFU") read.evicts = "lfu";
  if (!fields.has("local_disk")) {
    if (fields.has("max_local_disk_size") && settings["max_local_disk_size"] != 0)
      return Error{ErrorCode::bad_input, where, "max_local_disk_size is given, and no local_disk", "a folder as well"};
    return read;
  }
  if (!real)
    return Error{ErrorCode::unsupported, where, "local_disk has no rates",
                 "--lower-tiers SIZE@RATE@LATENCY instead, and no such field"};
  const Expected<std::string> folder = fields.text("local_disk", "a folder, such as file:///var/cache/kv");
  if (!folder) return folder.error();
  read.disk = folder->starts_with("file://") ? folder->substr(7) : *folder;
  if (read.disk.empty())
    return Error{ErrorCode::bad_input, where, "local_disk is empty", "a folder, such as file:///var/cache/kv"};
  const Expected<std::int64_t> bytes = read_size(fields, "max_local_disk_size", gib, "GiB, above 0");
  if (!bytes) return bytes.error();
  read.disk_bytes = *bytes;
  return read;
}

inline Expected<OffloadSettings> read_hicache(const nlohmann::json& settings, const std::string& where, OffloadBy by) {
  const bool real = by == OffloadBy::machine;
  const JsonFields fields(settings, where);
  if (Status known =
          fields.only({"enable_hierarchical_cache", "page_size", "hicache_ratio", "hicache_size",
                       "hicache_write_policy", "hicache_io_backend", "hicache_mem_layout", "hicache_storage_backend",
                       "hicache_storage_prefetch_policy"}); // which only a storage backend reads
      !known)
    return known.error();
  const std::vector<nlohmann::json> through{"write_through"}, both{"write_through", "write_back"};
  if (Status only =
          check_only(settings, where,
                     {{"enable_hierarchical_cache", {true}, "the other settings need it"},
                      {"page_size", {16}, "a block has 16 tokens here"},
                      {"hicache_write_policy", real ? through : both,
                       real ? "the device keeps nothing of ended requests here" : "no system here writes selectively"},
                      {"hicache_io_backend", {"kernel"}, "a copy takes the link's time alone here"},
                      {"hicache_mem_layout", {"layer_first"}, "the host's blocks are those of layers here"},
                      {"hicache_storage_backend", {nullptr}, below_host(by)}});
      !only)
    return only.error();
  OffloadSettings read;
  read.system = settings.value("hicache_write_policy", nlohmann::json("write_through")) == "write_back" ? "HiCacheBack"
                                                                                                        : "HiCache";
  read.answers = true;
  if (fields.has("hicache_size") && settings["hicache_size"] != 0) {
    const Expected<std::int64_t> bytes = read_size(fields, "hicache_size", 1e9, "GB, above 0");
    if (!bytes) return bytes.error();
    read.host_bytes = *bytes;
    return read;
  }
  read.host_ratio = 2; // SGLang's default
  if (fields.has("hicache_ratio")) {
    const Expected<double> ratio = fields.number("hicache_ratio", 1e-6, 1e6, "the host's KV over the device's");
    if (!ratio) return ratio.error();
    read.host_ratio = *ratio;
  }
  return read;
}

/// Values that are lists or objects. They are refused before anything copies them: nlohmann copies and writes them by
/// recursion, for which a file can be too deep.
inline Status check_flat(const nlohmann::json& settings, const std::string& where, OffloadBy by,
                         std::string_view except = {}, const Nested& nested = {}) {
  for (const auto& [key, value] : settings.items())
    if (value.is_structured() && key != except)
      return Error{ErrorCode::unsupported, nested.contains(key) ? nested.at(key) : where,
                   "'" + excerpt(key) + "' is nested" + (nested.contains(key) ? ", or has no value" : ""),
                   key == "secondary_tiers" ? std::string{"no such field: "} + below_host(by)
                                            : "a number, a text, true or false"};
  return {};
}

/// Moves a server's flags that are about something else than offloading out of `settings`, and returns their names. A
/// name that is nearly one of `own`, or begins as they do, stays, and is refused.
inline std::string take_others(nlohmann::json& settings, std::string_view prefix,
                               std::initializer_list<std::string_view> own) {
  std::string names;
  const std::vector<std::string_view> known(own);
  for (auto field = settings.begin(); field != settings.end();) {
    if (field.key().starts_with(prefix) || std::find(own.begin(), own.end(), field.key()) != own.end() ||
        !sluice::did_you_mean(field.key(), known).empty()) {
      ++field;
      continue;
    }
    names += (names.empty() ? "" : ", ") + excerpt(field.key());
    field = settings.erase(field);
  }
  return names.empty() ? names : "ignored, as not about KV offloading: " + names;
}

/// `environment`: LMCache's settings, which those of its connector precede.
inline Expected<OffloadSettings> read_vllm(const nlohmann::json& config, const std::string& where, OffloadBy by,
                                           const nlohmann::json& environment = nlohmann::json::object()) {
  const JsonFields fields(config, where);
  constexpr const char* connectors = "OffloadingConnector or LMCacheConnectorV1";
  const Expected<std::string> connector = fields.text("kv_connector", connectors);
  if (!connector) return connector.error();
  if (*connector != "OffloadingConnector" && *connector != "LMCacheConnectorV1")
    return Error{
        ErrorCode::unsupported, where, "kv_connector is '" + excerpt(*connector) + "', which no system here is",
        *connector == "MultiConnector" ? "one of its connectors alone, " + std::string{connectors} : connectors};
  // The other fields are about servers that exchange KV.
  if (Status known =
          fields.only({"kv_connector", "kv_role", "kv_connector_extra_config", "engine_id", "kv_buffer_device",
                       "kv_buffer_size", "kv_rank", "kv_parallel_size", "kv_ip", "kv_port", "kv_load_failure_policy",
                       "kv_connector_module_path", "enable_permute_local_kv"});
      !known)
    return known.error();
  if (Status only = check_only(config, where, {{"kv_role", {"kv_both"}, "one server both writes and reads"}}); !only)
    return only.error();
  nlohmann::json settings = nlohmann::json::object();
  constexpr const char* extra = "kv_connector_extra_config";
  const std::string inside = where + ": " + extra;
  if (fields.has(extra)) {
    const nlohmann::json& given = config[extra];
    if (!given.is_object())
      return Error{ErrorCode::bad_input, inside, std::string{"it is a JSON "} + given.type_name(), "an object"};
    if (Status flat = check_flat(given, inside, by); !flat) return flat.error();
    settings = given;
  }
  if (*connector == "OffloadingConnector") return read_offloading(settings, inside, by);
  nlohmann::json own = environment;
  for (const auto& [key, value] : settings.items()) {
    constexpr std::string_view prefix = "lmcache.";
    if (key == "use_native") continue; // which of two implementations
    if (!key.starts_with(prefix))
      return Error{ErrorCode::bad_input, inside, "there is no field '" + excerpt(key) + "'",
                   "names such as lmcache.max_local_cpu_size"};
    own[key.substr(prefix.size())] = value;
  }
  return read_lmcache(own, inside, by);
}

/// vLLM's flags of offloading, without its JSON. `environment`: LMCache's settings, which the flags precede.
inline Expected<OffloadSettings> read_vllm_flags(const nlohmann::json& settings, const std::string& where, OffloadBy by,
                                                 nlohmann::json environment) {
  const JsonFields fields(settings, where);
  if (Status known = fields.only({"kv_offloading_size", "kv_offloading_backend"}); !known) return known.error();
  const Expected<std::int64_t> bytes = read_size(fields, "kv_offloading_size", gib, "GiB, above 0");
  if (!bytes) return bytes.error();
  const nlohmann::json backend = settings.value("kv_offloading_backend", nlohmann::json("native"));
  if (backend == "native") return read_offloading({{"cpu_bytes_to_use", *bytes}}, where, by);
  if (backend == "lmcache") {
    environment["local_cpu"] = true;
    environment["max_local_cpu_size"] = static_cast<double>(*bytes) / gib;
    return read_lmcache(environment, where, by);
  }
  return Error{ErrorCode::unsupported, where, "kv_offloading_backend is " + excerpt(backend.dump()),
               "native or lmcache"};
}

/// vLLM's connector as a text of JSON, which a file may have within double quotes.
inline Expected<OffloadSettings> read_connector(const std::string& text, const std::string& where, OffloadBy by,
                                                const nlohmann::json& environment) {
  const bool escaped =
      std::string_view{text}.substr(std::min(text.find_first_not_of(" {"), text.size())).starts_with("\\\"");
  const std::string plain = escaped ? unescaped(text) : text;
  const Expected<nlohmann::json> config = sluice::parse_json_object(first_object(plain), where);
  if (!config) return config.error();
  if (Status flat = check_flat(*config, where, by, "kv_connector_extra_config"); !flat) return flat.error();
  return read_vllm(*config, where, by, environment);
}

/// vLLM's flags of a connector one by one: --kv-transfer-config.kv_connector NAME. Empty if there are none.
inline nlohmann::json dotted_connector(const nlohmann::json& settings) {
  nlohmann::json config = nlohmann::json::object();
  constexpr std::string_view prefix = "kv_transfer_config.", extra = "kv_connector_extra_config.";
  for (const auto& [key, value] : settings.items()) {
    if (!key.starts_with(prefix)) continue;
    const std::string name = key.substr(prefix.size());
    if (name.starts_with(extra))
      config["kv_connector_extra_config"][name.substr(extra.size())] = value;
    else
      config[name] = value;
  }
  return config;
}

/// vLLM's connector, or its size of KV below the device: of both, vLLM would take parts.
inline Expected<OffloadSettings> read_own(const nlohmann::json& settings, const std::string& content,
                                          const std::string& where, OffloadBy by) {
  const Expected<nlohmann::json> environment = read_environment(content, where);
  if (!environment) return environment.error();
  const nlohmann::json dotted = dotted_connector(settings);
  const bool whole = settings.contains("kv_transfer_config");
  if ((whole || !dotted.empty()) && settings.contains("kv_offloading_size"))
    return Error{
        ErrorCode::unsupported, where,
        "kv_offloading_size and kv_transfer_config are both given, and vLLM lets the size replace the connector",
        "one of the two"};
  if (whole && !dotted.empty())
    return Error{ErrorCode::unsupported, where, "kv_transfer_config is given both whole and field by field",
                 "all its fields in one JSON object"};
  if (!dotted.empty()) return read_vllm(dotted, where, by, *environment);
  if (!whole) return read_vllm_flags(settings, where, by, *environment);
  const nlohmann::json& config = settings["kv_transfer_config"];
  if (config.is_object()) {
    if (Status flat = check_flat(config, where, by, "kv_connector_extra_config"); !flat) return flat.error();
    return read_vllm(config, where, by, *environment);
  }
  const std::string text = config.is_string() ? config.get<std::string>() : "";
  if (trimmed(text).starts_with('{')) return read_connector(text, where, by, *environment);
  return Error{ErrorCode::unsupported, where, "kv_transfer_config is " + excerpt(config.dump()),
               "its JSON, or that file instead of this text"};
}

/// A server's command line, or its configuration file: `settings` are its flags, with underscores.
inline Expected<OffloadSettings> read_server_flags(nlohmann::json settings, const std::string& content,
                                                   const std::string& where, OffloadBy by, const Nested& nested) {
  const bool sglang = std::any_of(settings.items().begin(), settings.items().end(), [](const auto& one) {
    return one.key().starts_with("hicache") || one.key().starts_with("enable_hier");
  });
  if (Status only = check_only(settings, where,
                               {{"block_size", {16}, "a block has 16 tokens here"},
                                {"enable_prefix_caching", {true}, "what is offloaded is found by its prefix"},
                                {"no_enable_prefix_caching", {false}, "what is offloaded is found by its prefix"},
                                {"disable_radix_cache", {false}, "what is offloaded is found by its prefix"}});
      !only)
    return only.error();
  for (const char* const checked :
       {"block_size", "enable_prefix_caching", "no_enable_prefix_caching", "disable_radix_cache"})
    settings.erase(checked);
  if (sglang) {
    const std::string others = take_others(settings, "hicache",
                                           {"enable_hierarchical_cache", "page_size", "hicache_size", "hicache_ratio",
                                            "hicache_write_policy", "hicache_io_backend", "hicache_mem_layout"});
    if (Status flat = check_flat(settings, where, by, {}, nested); !flat) return flat.error();
    Expected<OffloadSettings> read = read_hicache(settings, where, by);
    if (read) read->ignored = others;
    return read;
  }
  const std::string others =
      take_others(settings, "kv_transfer_config", {"kv_offloading_size", "kv_offloading_backend"});
  const bool object = settings.contains("kv_transfer_config") && settings["kv_transfer_config"].is_object();
  if (Status flat = check_flat(settings, where, by, object ? "kv_transfer_config" : "", nested); !flat)
    return flat.error();
  Expected<OffloadSettings> read = read_own(settings, content, where, by);
  if (read) read->ignored = others;
  return read;
}

inline Expected<OffloadSettings> read_content(const std::string& content, const std::string& where, OffloadBy by) {
  nlohmann::json settings;
  Nested nested;
  bool command_line = false;
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && content[first] == '{') {
    Expected<nlohmann::json> object = sluice::parse_json_object(content, where);
    if (!object) return object.error();
    settings = *std::move(object);
    if (settings.contains("kv_connector")) {
      if (Status flat = check_flat(settings, where, by, "kv_connector_extra_config"); !flat) return flat.error();
      return read_vllm(settings, where, by);
    }
    for (auto& [key, value] : settings.items())
      if (value.is_structured() && !(is_connector(key) && value.is_object())) value = nlohmann::json::array();
  } else if (Status text = check_utf8(content, where); !text) {
    return text.error();
  } else if (has_flags(content)) {
    command_line = true;
    settings = read_flags(content);
  } else {
    Expected<nlohmann::json> lines = read_lines(content, where, nested);
    if (!lines) return lines.error();
    settings = *std::move(lines);
  }
  bool server = false, lmcache = false;
  for (const auto& [given, value] : settings.items()) {
    const std::string key = with_underscores(given);
    server = server || key.starts_with("hicache") || key.starts_with("enable_hier") || key == "kv_offloading_size" ||
             key.starts_with("kv_transfer_config");
    lmcache = lmcache || key == "chunk_size" || key.starts_with("local_") || key.starts_with("max_local_");
  }
  if (server) {
    nlohmann::json flags = nlohmann::json::object(); // moved: nlohmann copies by recursion
    for (auto& [key, value] : settings.items()) flags[with_underscores(key)] = std::move(value);
    Nested lists;
    for (const auto& [key, at] : nested) lists[with_underscores(key)] = at;
    return read_server_flags(std::move(flags), content, where, by, lists);
  }
  if (lmcache) {
    if (Status flat = check_flat(settings, where, by, {}, nested); !flat) return flat.error();
    return read_lmcache(settings, where, by);
  }
  return Error{ErrorCode::unsupported, where,
               settings.empty() ? "it says nothing"
               : command_line   ? "none of its flags is about KV offloading"
                                : "'" + excerpt(settings.begin().key()) + "' is no setting of these",
               expected_settings};
}

} // namespace offload_detail

/// Reads the settings of vLLM's connectors (KVTransferConfig, as JSON), of LMCache (its configuration file) or of
/// SGLang's HiCache (its flags, or its configuration file), from `text` or from a file of that name. Everything in them
/// must have a counterpart here: a setting that has none is refused by its name. `flag`: opens the error's line.
[[nodiscard]] inline sluice::Expected<OffloadSettings> read_offload_settings(const std::string& text,
                                                                             const std::string& flag, OffloadBy by) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool itself =
      first != std::string::npos && (text[first] == '{' || std::string_view{text}.substr(first).starts_with("--") ||
                                     text.find(" --") != std::string::npos); // a command line: no file's name
  if (itself) return offload_detail::read_content(text, flag, by);
  const sluice::Expected<std::string> file = sluice::read_json_text(text, std::size_t{1} << 20);
  if (!file) return file.error();
  return offload_detail::read_content(*file, text, by);
}

/// The host's bytes, where the device has `kv_memory` for KV (which only a ratio needs).
[[nodiscard]] inline sluice::Expected<std::int64_t>
host_bytes_of(const OffloadSettings& settings, std::optional<std::int64_t> kv_memory, const std::string& flag) {
  if (settings.host_bytes > 0) return settings.host_bytes;
  std::ostringstream ratio;
  ratio << "the host has " << settings.host_ratio << " times the device's memory for KV";
  if (!kv_memory)
    return sluice::Error{sluice::ErrorCode::bad_input, flag, ratio.str(), "--kv-memory as well, or hicache_size"};
  const double bytes = settings.host_ratio * static_cast<double>(*kv_memory);
  if (!(bytes >= 1 && bytes <= 0x1p62))
    return sluice::Error{sluice::ErrorCode::bad_input, flag,
                         ratio.str() + ", which is " + std::to_string(*kv_memory) + " bytes",
                         "a host of at least 1 byte and at most 4 EiB"};
  return static_cast<std::int64_t>(bytes);
}
