// SPDX-License-Identifier: Apache-2.0
// OffloadSettings: what other servers' settings of KV below the device say, for --kv-transfer-config.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/core/utf8.hpp"

#include <algorithm>
#include <charconv>
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
};

namespace offload_detail {

using sluice::Error;
using sluice::ErrorCode;
using sluice::excerpt;
using sluice::Expected;
using sluice::JsonFields;
using sluice::Status;

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

/// A scalar of YAML, as PyYAML reads it: true, 5, 2.5, null, or a text with or without quotes.
inline nlohmann::json scalar(std::string_view text) {
  const auto is = [text](std::initializer_list<std::string_view> all) {
    return std::find(all.begin(), all.end(), text) != all.end();
  };
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front())
    return std::string{text.substr(1, text.size() - 2)};
  if (is({"true", "True", "yes", "on"})) return true;
  if (is({"false", "False", "no", "off"})) return false;
  if (is({"null", "~", "None"})) return nullptr;
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto [at, code] = std::from_chars(text.data(), end, whole); code == std::errc{} && at == end) return whole;
  double number = 0;
  if (const auto [at, code] = std::from_chars(text.data(), end, number); code == std::errc{} && at == end)
    return number;
  return std::string{text};
}

inline std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

/// A line without its comment, and without blanks at its end; empty if nothing else is there, or only YAML's `---`.
inline std::string_view uncommented(std::string_view line) {
  if (const std::size_t comment = line.find(" #"); comment != std::string_view::npos) line = line.substr(0, comment);
  const std::string_view rest = trimmed(line);
  if (rest.empty() || rest.starts_with('#') || rest == "---") return {};
  return line.substr(0, static_cast<std::size_t>(rest.data() + rest.size() - line.data()));
}

/// Whether `text` is a command line or its flags: a line has `--` and a letter at its beginning, or in a later word
/// that no `key: ` precedes.
inline bool has_flags(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(std::string{uncommented(line)});
    std::string word;
    while (words >> word && !word.ends_with(':'))
      if (word.size() > 2 && word.starts_with("--") && word[2] >= 'a' && word[2] <= 'z') return true;
  }
  return false;
}

/// The error of bytes that are no UTF-8, which no JSON text may have; the parser of JSON finds them by itself.
inline Status check_utf8(std::string_view text, const std::string& where) {
  for (int line = 1; !text.empty();) {
    const sluice::Utf8Step step = sluice::next_utf8(text);
    if (step.kind != sluice::Utf8Kind::whole)
      return Error{ErrorCode::bad_input, where + ":" + std::to_string(line), "there are bytes that are no UTF-8",
                   "a text in UTF-8"};
    if (text.front() == '\n') ++line;
    text.remove_prefix(static_cast<std::size_t>(step.bytes));
  }
  return {};
}

/// Values that are lists or objects. They are refused before anything copies them: nlohmann copies and writes them by
/// recursion, for which a file can be too deep.
inline Status check_flat(const nlohmann::json& settings, const std::string& where, OffloadBy by,
                         std::string_view except = {}) {
  for (const auto& [key, value] : settings.items())
    if (value.is_structured() && key != except)
      return Error{ErrorCode::unsupported, where, "'" + excerpt(key) + "' is nested",
                   key == "secondary_tiers" ? std::string{"no such field: "} + below_host(by)
                                            : "a number, a text, true or false"};
  return {};
}

/// Lines `key: value`. LMCache's file has no others, save settings that no system here has, so this needs no library
/// for YAML: a nested value is refused by its key.
inline Expected<nlohmann::json> read_lines(const std::string& text, const std::string& where) {
  nlohmann::json read = nlohmann::json::object();
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string_view rest = uncommented(line);
    if (rest.empty()) continue;
    const std::string at = where + ":" + std::to_string(number);
    const std::size_t colon = rest.find(": ");
    const bool ends = colon == std::string_view::npos && trimmed(rest).ends_with(':');
    if (colon == std::string_view::npos && !ends)
      return Error{ErrorCode::bad_input, at, "it is '" + excerpt(std::string{trimmed(rest)}) + "'", "key: value"};
    const std::string key{trimmed(rest.substr(0, ends ? rest.rfind(':') : colon))};
    const std::string_view value = ends ? std::string_view{} : trimmed(rest.substr(colon + 1));
    if (ends || rest.front() == ' ' || value.empty() || std::string_view{"[{|>&*!"}.find(value.front()) < 7)
      return Error{ErrorCode::unsupported, at, "'" + excerpt(key) + "' is nested, or has no value",
                   "key: value, a line each"};
    if (!read.emplace(key, scalar(value)).second)
      return Error{ErrorCode::bad_input, at, "'" + excerpt(key) + "' is there twice", "one value"};
  }
  return read;
}

/// Flags of a command line, from the first one on.
inline nlohmann::json read_flags(const std::string& text) {
  nlohmann::json read = nlohmann::json::object();
  std::istringstream lines(text);
  std::string line, uncommented_text;
  while (std::getline(lines, line)) (uncommented_text += uncommented(line)) += '\n';
  std::istringstream words(uncommented_text);
  std::string word, key;
  while (words >> word) {
    if (word == "\\") continue;
    if (word.starts_with("--")) {
      const std::size_t equals = word.find('=');
      key = word.substr(2, equals == std::string::npos ? equals : equals - 2);
      read[key] =
          equals == std::string::npos ? nlohmann::json(true) : scalar(std::string_view{word}.substr(equals + 1));
    } else if (!key.empty()) {
      read[key] = scalar(word);
    }
  }
  return read;
}

/// SGLang's file and flags spell alike.
inline nlohmann::json with_underscores(const nlohmann::json& settings) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [key, value] : settings.items()) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '-', '_');
    out[name] = value;
  }
  return out;
}

inline Expected<OffloadSettings> read_vllm(const nlohmann::json& config, const std::string& where, OffloadBy by) {
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
  nlohmann::json own = nlohmann::json::object();
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

/// vLLM's flags of offloading, without its JSON.
inline Expected<OffloadSettings> read_vllm_flags(const nlohmann::json& settings, const std::string& where,
                                                 OffloadBy by) {
  const JsonFields fields(settings, where);
  if (Status known = fields.only({"kv_offloading_size", "kv_offloading_backend"}); !known) return known.error();
  const Expected<std::int64_t> bytes = read_size(fields, "kv_offloading_size", gib, "GiB, above 0");
  if (!bytes) return bytes.error();
  const nlohmann::json backend = settings.value("kv_offloading_backend", nlohmann::json("native"));
  if (backend == "native") return read_offloading({{"cpu_bytes_to_use", *bytes}}, where, by);
  if (backend == "lmcache") return read_lmcache({{"max_local_cpu_size", static_cast<double>(*bytes) / gib}}, where, by);
  return Error{ErrorCode::unsupported, where, "kv_offloading_backend is " + excerpt(backend.dump()),
               "native or lmcache"};
}

/// The JSON object with which a text begins: a command line may have other flags, with JSON of their own, behind it.
/// The whole text if the object does not end.
inline std::string_view first_object(std::string_view text) {
  bool quoted = false;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == '{') {
      ++depth;
    } else if (!quoted && text[i] == '}' && --depth == 0) {
      return text.substr(0, i + 1);
    }
  }
  return text;
}

inline Expected<OffloadSettings> read_content(const std::string& content, const std::string& where, OffloadBy by) {
  nlohmann::json settings;
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && content[first] == '{') {
    Expected<nlohmann::json> object = sluice::parse_json_object(content, where);
    if (!object) return object.error();
    settings = *std::move(object);
    const bool vllm = settings.contains("kv_connector");
    if (Status flat = check_flat(settings, where, by, vllm ? "kv_connector_extra_config" : ""); !flat)
      return flat.error();
    if (vllm) return read_vllm(settings, where, by);
  } else if (Status text = check_utf8(content, where); !text) {
    return text.error();
  } else if (has_flags(content)) {
    // A command line of vLLM's has the JSON in it.
    const std::size_t flag = content.find("--kv-transfer-config"), open = content.find('{', flag);
    if (flag != std::string::npos && open != std::string::npos)
      return read_content(std::string{first_object(std::string_view{content}.substr(open))}, where, by);
    settings = read_flags(content);
  } else {
    Expected<nlohmann::json> lines = read_lines(content, where);
    if (!lines) return lines.error();
    settings = *std::move(lines);
  }
  bool hicache = false, lmcache = false;
  for (const auto& [key, value] : settings.items()) {
    hicache = hicache || key.starts_with("hicache") || key.starts_with("enable-hier") || key.starts_with("enable_hier");
    lmcache = lmcache || key == "chunk_size" || key.starts_with("local_") || key.starts_with("max_local_");
  }
  if (settings.contains("kv-offloading-size") || settings.contains("kv_offloading_size"))
    return read_vllm_flags(with_underscores(settings), where, by);
  if (hicache) return read_hicache(with_underscores(settings), where, by);
  if (lmcache) return read_lmcache(settings, where, by);
  return Error{ErrorCode::unsupported, where,
               settings.empty() ? "it says nothing"
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
