// SPDX-License-Identifier: Apache-2.0
// Defines the flags of sluice-compare.
#include "compare/command_line.hpp"

#include "sluice/report/json.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/seeds.hpp"

#include "compare/lower_tiers_flag.hpp"
#include "compare/run.hpp"
#include "compare/why.hpp"
#include "engines/program.hpp"
#include "shared/kv_dtype.hpp"
#include "shared/link_flag.hpp"
#include "shared/mpi/ranks.hpp"
#include "shared/set_flag.hpp"
#include "shared/shell_word.hpp"
#include "shared/slo_classes_flag.hpp"
#include "shared/trace_at.hpp"
#include "shared/trace_flags.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace compared {

using namespace sluice;

CommandLine::CommandLine()
    : flags_(engines::program_name(),
             "Serves one workload with many systems, simulated, and compares what their users get.") {
  CLI::App& app = flags_.app();
  constexpr std::int64_t many = 1'000'000'000;
  constexpr std::int64_t whole = std::numeric_limits<std::int64_t>::max();
  app.footer("Numeric flags, --model and --device also take several values with commas, such as --kv-blocks 400,600: a "
             "grid of\n"
             "comparisons, with one table and one plot (docs/sweeps.md). --slo-scale, --seeds and --systems are lists "
             "within\neach comparison; --seed, --capacity, --iteration-rows and --threads take one number.");
  flags_.lists_into(&listed);
  app.add_option("--preset", options.preset,
                 "a paper's experiment by name, e.g. mirage: it sets every flag that you do not give; --list names "
                 "them");
  add_trace_flags(flags_, options.workload, "a trace file (default: a generated workload, \"demo\")");
  app.add_option("--lengths", options.workload.lengths,
                 "a generated workload: its lengths replace those of the trace's requests");
  app.add_option("--generate", options.workload.generate,
                 "a generated workload instead, e.g. sharegpt:rate=2,requests=200; see docs/workloads.md");
  flags_.whole("--limit", options.workload.limit, 0, whole,
               "serve N requests only: the first ones, or as many of each seed or window");
  add_arrival_flags(flags_, options.workload.rate_scale, options.workload.sessions);
  app.add_option("--arrivals", options.workload.arrivals,
                 "of a trace whose arrivals count engine steps (orbitflow): seconds turns them into times once, by the "
                 "step of a full budget; steps: a request arrives when the system itself has run that many steps, idle "
                 "ones skipped (default: seconds)");
  flags_.name("--model", options.machine.model,
              "a model by name, or a folder or file of a Hugging Face config (default: the profile's, or " +
                  std::string{default_model} + ")");
  flags_.name("--kv-dtype", options.machine.kv_dtype, kv_dtype_help)->default_str(options.machine.kv_dtype);
  flags_.name("--device", options.machine.device, "a device by name, or a JSON file (docs/devices.md)")
      ->default_str(options.machine.device);
  flags_.whole("--tp", options.machine.tp, 1, 1024,
               "devices that serve the model together, each with a part of every layer (default: 1)");
  flags_.whole("--gpus-per-link", options.machine.gpus_per_link, 1, 1024,
               "devices of the group that share one link to the host (default: 1)");
  app.add_option(
      "--all-reduce", options.machine.all_reduce,
      "measured all-reduces of the group: a CSV of bytes,time_us (default: computed from the device's figures)");
  app.add_option("--profile", options.machine.profile,
                 "measured times: an OrbitFlow profile (.json) or a folder of kernel times (default: a roofline)");
  flags_.app()
      .add_option("--tenants", options.node.tenants,
                  "several models in one simulation, each with its share of the device's memory (weights and KV), "
                  "and a proportional share of the host's: "
                  "opt-13b@0.35,llama2-13b@0.35,llama3-8b@0.2")
      ->delimiter(',');
  flags_.app().add_option("--tenant-load", options.node.tenant_loads,
                          "a generated workload for each tenant, in the tenants' order (default: all requests are one "
                          "stream, assigned to tenants at random)");
  flags_.app().add_option(
      "--sharing", options.node.sharing,
      "how tenants share: turns or together on one device, parts (each has a part of the device), or devices "
      "(each has its own) (default: turns)");
  flags_.number("--quantum", options.node.quantum, 0, false,
                "seconds of a tenant's turn while others wait (default: 1)");
  flags_.rate("--bus", options.node.bus, false,
              "bytes per second to the devices that the tenants share, e.g. 25GB/s (default: one device's link)");
  flags_.app().add_option(
      "--remap-order", options.node.remap_order,
      "whose weights Mirage's controller lends first: the most (mru) or least recently active tenant's (lru) "
      "(default: mru)");
  add_link(flags_, options.machine.link, "; each way");
  flags_.number("--bandwidth-fraction", options.machine.bandwidth_fraction, 0, false,
                "share of the data sheet's memory bandwidth that the device reaches (default: the device's, or the "
                "roofline's 0.92; measured profiles: 0.17 to 0.89; docs/devices.md)");
  flags_.number("--memory-share", options.machine.memory_share, 0, false,
                "share of the device's memory for weights and KV (default: 0.9)");
  flags_.size("--device-memory", options.machine.device_memory, 1,
              "the device's memory for weights and KV, e.g. 192GB (default: the device's)");
  flags_.size("--host-memory", options.machine.host_memory, 0,
              "the host's memory for KV, e.g. 64GB, for all tenants together (default: the device's host)");
  flags_.rate("--host-attention", options.machine.host_attention, false,
              "bytes of KV per second that the host's processor attends in its own memory, e.g. 50GB/s "
              "(default: the device's, 0 unless its file says more)");
  add_lower_tiers(flags_, options.machine.lower_tiers);
  app.add_option(
      "--kv-transfer-config", options.kv_transfer,
      "vLLM's setting of that name, as JSON or a file; or LMCache's file, or SGLang's --hicache-... flags or file: "
      "sets --systems and --host-memory to what that is here");
  app.add_option("--print-config", options.print_config,
                 "vllm: also print how to run the first system of each table there, as far as it can");
  flags_.whole("--kv-blocks", options.machine.kv_blocks, 1, many,
               "device memory for KV, in token blocks of 16 tokens (all layers; default: the trace's, 600 for the "
               "demo, or what --memory-share leaves beside the weights)");
  flags_.size("--kv-memory", options.machine.kv_memory, 1,
              "the device's memory for KV, e.g. 4GB (instead of --kv-blocks; of all devices of a group)");
  flags_.whole("--batch", options.machine.batch, 1, 1'000'000,
               "most requests in a batch (default: the trace's, 4 for the demo, or 256)");
  flags_.whole("--max-batch-tokens", options.machine.batch_tokens, 1, many,
               "most tokens computed in one iteration (default: the trace's, 32768 for the demo, or 2048)");
  flags_.numbers("--slo-scale", options.slo_scales, 0, false, "multiples of the base SLO, with commas (default: 1.5)");
  flags_.number("--slo-tbt", options.slo_tbt, 0, false, "the base SLO, seconds per token (default: see --slo-base)");
  app.add_option(
         "--slo-base", options.slo_base,
         "without --slo-tbt, the base SLO is a decode step with nothing offloaded: budget: one request that "
         "fills the KV budget; batch: a full batch of the workload's mean lengths; fixed: as budget in the first cell "
         "of a grid, and the same in all others")
      ->capture_default_str();
  flags_.number("--slo-ttft", options.slo_ttft, 0, false, "seconds to the first token (default: 5)");
  add_slo_classes(flags_, options.slo_classes);
  app.add_option("--systems", options.systems, "names with commas, or all")->capture_default_str();
  app.add_option("--transfer", options.transfer,
                 "run every system with this transfer rule: own, next-layer, fair-share, earliest-deadline-first, "
                 "deadline-pool")
      ->capture_default_str();
  app.add_option("--deposit", options.deposit, "both, on or off: token deposit for every system")
      ->capture_default_str();
  flags_.number("--alpha", options.tuning.alpha, 0, true,
                "misses per step that OrbitFlow's plans may accept (default: 1, as in the paper)");
  flags_.whole("--plan-nodes", options.tuning.plan_nodes, 1, many,
               "placements that OrbitFlow's planner evaluates before it uses the best one (default: 200)");
  flags_.number("--max-pause", options.tuning.max_pause, 0, true,
                "seconds after which OrbitFlow's paused requests may return (default: never bounded)");
  flags_.whole("--rotation-blocks", options.tuning.rotation_blocks, 0, many,
               "token blocks that one decision of SuperInfer may move beyond the free memory (default: what the link "
               "moves in 0.4 of the SLO per token, at most 0.4 of the memory and the paper's 2400)");
  flags_.number("--lag-alpha", options.tuning.lag_alpha, 0, true,
                "SuperInfer: weight of a rotated request's lag, relative to a waiting one's (default: 3)");
  flags_.number("--lag-first", options.tuning.lag_first, 0, true,
                "SuperInfer: share of the first token's SLO after which waiting counts as lag (default: 0.5)");
  flags_.number("--lag-next", options.tuning.lag_next, 0, true,
                "SuperInfer: share of the next token's SLO after which a rotated request lags (default: 0)");
  flags_.whole("--interval", options.tuning.interval, 1, 100'000,
               "DeepSpeedWeights: one in this many layers is on the host (default: 1)");
  flags_.whole("--remap-layers", options.tuning.remapped, 0, 100'000,
               "the most layers whose memory Mirage lends to KV (default: as many as computation hides)");
  add_set_flag(app, options.tuning.set);
  app.add_option("--tune", options.tune,
                 "choose each system's own numbers on other seeds or windows than those that judge, by goodput: "
                 "max-batch-tokens=128,512,2048;Pause.max_wait=5,20 (max-batch-tokens, batch, or numbers of --list "
                 "numbers)");
  app.add_option("--record", options.record,
                 "the performance record that SelectN looks up, made by sluice-profile (default: its own cost "
                 "model)");
  flags_.folder(
      "--out", options.out,
      "folder for report.html, report.json, tables as CSV and the traces; a folder for each case of a preset");
  app.add_flag("--no-traces", options.no_traces, "with --out, leave no traces, which take most of its space");
  app.add_flag("--tokens", options.tokens, "with --out, leave tokens.csv.gz, a row for each token of each run");
  add_trace_at(flags_, options.trace_at);
  flags_.lists_into(nullptr);
  flags_.whole("--iteration-rows", options.iteration_rows, 2, many,
               "most rows of each run in iterations.csv, around the point of its trace (default: a share of a million "
               "rows in all)");
  add_seed_flags(flags_, options);
  app.add_option("--baseline", options.baseline,
                 "with several seeds: the system that the others are compared with (default: the best)");
  flags_.whole("--threads", options.threads, 1, 1024, "runs at once (default: one per processor)");
  add_why_flag(app, options.why);
  flags_.other(
      "--plot",
      "draw a figure of a paper's column width into this file, figure.svg or figure.pdf: TBT and SLO attainment "
      "and mean E2E, by system or against the one flag that is swept",
      [this](const std::string& text) -> std::string {
        options.plot = text;
        return text.empty() ? "a file such as figure.pdf" : "";
      });
  app.add_option("--table", options.table, "full, or one table of --columns: md, latex or csv")->capture_default_str();
  app.add_option(
      "--columns", options.columns,
      "columns of that table, with commas, from the names that --columns help lists; NAME@2: NAME at SLO scale 2");
  flags_.number("--capacity", options.capacity, 0, false,
                "search each system's highest arrival rate at which this share of the requests meets both SLOs, "
                "such as 0.9");
  app.add_flag("--bound", options.bound,
               "also compute which share of the requests any schedule could keep within both SLOs, knowing all "
               "arrivals and lengths (docs/bound.md)");
  app.add_flag("--audit", options.audit,
               "also print what a reviewer would ask of this comparison, and which answers stand");
  app.add_flag("--cells", options.cells,
               "for a grid with --out: also write each comparison's own report, in its own folder");
  app.add_option("--data", options.data,
                 "folder of the public traces that some presets read (default: data in $SLUICE_SHARED, or in shared "
                 "here or in the parent folder)");
  app.add_option_function<std::string>(
         "--list", [this](const std::string& what) { options.list = what; },
         "name the systems and the presets, or with \"numbers\" the numbers that --set sets, or with \"formats\" the "
         "files "
         "that --trace reads, and stop")
      ->expected(0, 1)
      ->default_str("names")
      ->type_name("[numbers|formats]");
  app.add_flag("--devices", options.devices,
               "print the named devices and models, with the figures that decide and their sources, and stop");
  app.add_flag("--dry-run", options.dry_run, "read all input, print the runs that it asks for, and stop");
  app.add_flag("--wall-times", options.wall_times,
               "add measured planning times to report.json (they differ from run to run)");
  app.add_flag("--quiet", options.quiet, "show no progress");
  app.add_flag("--mpi", options.mpi, mpi_help);
}

void add_seed_flags(Flags& flags, Options& options) {
  flags
      .whole("--seed", options.workload.seed, 0, std::numeric_limits<std::int64_t>::max(),
             "the generator's seed (default: 1), or the one that resamples a trace", ", or --seeds for several")
      ->each([&options](const std::string&) { options.workload.seed_stated = true; });
  flags
      .other("--seeds",
             "several seeds, such as 1..20 or 1,2,5: one workload each, means with 95 % intervals, paired differences",
             [&options](const std::string& text) -> std::string {
               sluice::Expected<std::vector<std::uint64_t>> seeds = sluice::parse_seeds(text);
               if (!seeds) return seeds.error().expected;
               options.workload.seeds = *std::move(seeds);
               return {};
             })
      ->excludes("--seed");
  flags.app().add_option(
      "--resample", options.workload.resample,
      "how a seed resamples a trace: in blocks of consecutive requests (blocks, or blocks:N of N each), or "
      "only its arrivals (arrivals) (default: blocks with --seed or --seeds, else as recorded)");
  flags
      .other("--windows",
             "instead of --seeds: so many parts of a trace, as recorded, each of --limit requests, spread over all of "
             "it: means with 95 % intervals, paired differences",
             [&options](const std::string& text) -> std::string {
               const auto [end, wrong] =
                   std::from_chars(text.data(), text.data() + text.size(), options.workload.windows);
               const bool number = wrong == std::errc{} && end == text.data() + text.size();
               if (!number || options.workload.windows < 2 || options.workload.windows > 100'000)
                 return "a whole number from 2 to 100000";
               options.workload.seeds.resize(static_cast<std::size_t>(options.workload.windows));
               std::iota(options.workload.seeds.begin(), options.workload.seeds.end(), std::uint64_t{1});
               return {};
             })
      ->excludes("--seed")
      ->excludes("--seeds");
  flags.whole("--offset", options.workload.offset, 0, std::numeric_limits<std::int64_t>::max(),
              "leave out the first N requests (or sessions) of a trace");
  flags.number("--warmup", options.workload.warmup, 0, true,
               "seconds: requests that arrive earlier are served, but no figure counts them (default: 0)");
  flags.number("--horizon", options.workload.horizon, 0, false,
               "seconds: the same for requests that arrive later (default: none)");
}

std::optional<int> CommandLine::parse(const std::vector<std::string>& words) {
  std::vector<std::string> all{engines::program_name()};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& word : all) pointers.push_back(word.data());
  if (const std::optional<int> status = flags_.parse(static_cast<int>(pointers.size()), pointers.data())) return status;
  return std::nullopt;
}

namespace {

/// Returns whether --mpi is among the words, before they are parsed; accepts the values that CLI11 accepts.
std::optional<bool> asks_for_mpi(const std::vector<std::string>& words) {
  std::optional<bool> asks;
  for (const std::string& word : words) {
    if (word == "--mpi") asks = true;
    if (word.starts_with("--mpi=")) {
      const std::string value = word.substr(6);
      asks = value != "false" && value != "0" && value != "off" && value != "no";
    }
  }
  return asks;
}

/// Returns how many processes a launcher started, and the index of this one.
struct Launched {
  std::int64_t processes = 1, rank = 0;
};
Launched launched() {
  constexpr const char* launchers[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                          {"PMI_SIZE", "PMI_RANK"},
                                          {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
  const auto number = [](const char* name, std::int64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : static_cast<std::int64_t>(std::strtoll(text, nullptr, 10));
  };
  for (const auto& [size, rank] : launchers)
    if (number(size, 1) > 1) return {number(size, 1), number(rank, 0)};
  return {};
}

/// FNV-1a, 64 bits: detects another trace or another version of a file, not deliberate changes.
class Hash {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) state_ = (state_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  }
  void add(double value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    add(std::string_view{bytes, sizeof bytes});
  }
  [[nodiscard]] std::string text() const { return fmt::format("{:016x}", state_); }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325U;
};

void add_file(Hash& hash, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> part(1 << 16);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())), file.gcount() > 0)
    hash.add(std::string_view{part.data(), static_cast<std::size_t>(file.gcount())});
}

/// Returns the hash of a file's bytes, or of a folder's tables and configurations (not of its weights). The name of a
/// model that this program ships is no path: it gets the hash of an empty text.
std::string hash_of_path(const std::filesystem::path& path) {
  std::error_code ignored;
  Hash hash;
  if (std::filesystem::is_regular_file(path, ignored)) add_file(hash, path);
  if (std::filesystem::is_directory(path, ignored)) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path, ignored))
      if (entry.is_regular_file(ignored) && (entry.path().extension() == ".json" || entry.path().extension() == ".csv"))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const std::filesystem::path& file : files) {
      hash.add(file.filename().string());
      add_file(hash, file);
    }
  }
  return hash.text();
}

std::string hash_of_requests(const Setup& setup) {
  const Expected<Requests> opened = setup.open({});
  if (!opened) return opened.error().line();
  Requests requests = *opened;
  const Expected<std::vector<RequestSpec>> all = read_all(requests);
  if (!all) return all.error().line();
  Hash hash;
  for (const RequestSpec& request : *all)
    for (const double value : {request.arrival.count(), static_cast<double>(request.prompt.count()),
                               static_cast<double>(request.output.count()), static_cast<double>(request.priority),
                               request.output_is_bound ? 1.0 : 0.0})
      hash.add(value);
  return hash.text();
}

} // namespace

Expected<std::unique_ptr<Crew>> crew_of(const std::vector<std::string>& words) {
  const std::optional<bool> asks = asks_for_mpi(words);
  if (asks.value_or(false)) return mpi_crew();
  if (const Launched of = launched(); !asks && of.processes > 1) {
    // Otherwise every process would print the error.
    if (of.rank > 0 && std::freopen("/dev/null", "w", stderr) == nullptr) std::fclose(stderr);
    return flag_error("--mpi", fmt::format("{} processes were started, and each would run all of it", of.processes),
                      "--mpi, which spreads the runs over them, or --mpi=false");
  }
  return std::unique_ptr<Crew>{std::make_unique<ThreadCrew>()};
}

std::string told(const Options& options, const Comparison& comparison) {
  if (!options.mpi) return {}; // a single process
  std::string text = made_by().line();
  JsonWriter json(text);
  detail::write_workload(json, comparison.workload);
  for (const System* system : comparison.systems) text += " " + std::string{system->name};
  text += " requests " + hash_of_requests(comparison.setup);
  for (const Setup& setup : comparison.redrawn) text += " " + hash_of_requests(setup);
  for (const std::string& named : {options.workload.trace, options.machine.model.value_or(""), options.machine.device,
                                   options.machine.profile, options.record, options.machine.all_reduce})
    text += " " + hash_of_path(named);
  return text;
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line{engines::program_name()};
  bool is_count = false; // the previous word was --threads
  for (const std::string& word : words) {
    const bool told = !is_count && word != "--mpi" && !word.starts_with("--mpi=") && word != "--threads" &&
                      !word.starts_with("--threads=");
    if (told) line += " " + shell_word(word);
    is_count = !is_count && word == "--threads";
  }
  return line;
}

} // namespace compared
