// SPDX-License-Identifier: Apache-2.0
#include "fleet/replay.hpp"

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/text.hpp"
#include "sluice/engine/serve.hpp"
#include "sluice/model/device/device.hpp"
#include "sluice/model/nlohmann/hf_config.hpp"
#include "sluice/model/shape.hpp"
#include "sluice/report/html_tables.hpp"
#include "sluice/report/number_text.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/order.hpp"
#include "sluice/workload/nlohmann/whole_trace.hpp"

#include "compare/comparison.hpp"
#include "engines/program.hpp"
#include "fleet/layer_tables.hpp"
#include "fleet/page.hpp"
#include "fleet/run.hpp"
#include "fleet/table_rows.hpp"
#include "shared/out_folder.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fleets {

using namespace sluice;
namespace fs = std::filesystem;

namespace {

/// One recorded fleet: config/NAME_config.json.
struct Recorded {
  std::string name;
  std::string model, hardware;
  int devices = 1; ///< of an instance
  Bytes memory{0};
  BytesPerSecond link{0};
  Seconds latency{0};
  std::size_t together = 0, prefill = 0, decode = 0; ///< instances
};

struct Measured {
  double tokens_per_s = Interval::absent, ttft_s = Interval::absent, tpot_s = Interval::absent;
};

struct Replayed {
  Recorded of;
  Measured real, ours;
  std::int64_t refused = 0;      ///< requests, which `ours` leaves out
  bool from_seconds = false;     ///< `real` is from the tokens of each second: there are no latencies
  std::vector<double> by_second; ///< simulated
  std::vector<std::pair<double, double>> real_by_second; ///< measured
};

Error bad(const fs::path& path, std::string what, std::string expected) {
  return {ErrorCode::bad_input, path.string(), std::move(what), std::move(expected)};
}

Expected<Recorded> read_config(const fs::path& path) {
  const Expected<nlohmann::json> json = read_json_object(path.string());
  if (!json) return json.error();
  Recorded of;
  of.name = path.stem().string();
  of.name = of.name.substr(0, of.name.find("_config"));
  const auto nodes = json->find("nodes");
  const JsonFields top(*json, path.string());
  const Expected<double> link = top.number("link_bw", 1e-9, 1e9, "GB/s above 0");
  if (!link) return link.error();
  const Expected<double> latency = top.number("link_latency", 0, 1e12, "nanoseconds from 0");
  if (!latency) return latency.error();
  of.link = BytesPerSecond{*link * 1e9};
  of.latency = Seconds{*latency * 1e-9};
  if (nodes == json->end() || !nodes->is_array() || nodes->size() != 1 || !nodes->front().contains("instances") ||
      !nodes->front()["instances"].is_array())
    return bad(path, "it has no list of one node with instances", "an LLMServingSim cluster of one node");
  for (const nlohmann::json& one : nodes->front()["instances"]) {
    const JsonFields fields(one, path.string() + ": instances");
    Expected<std::string> model = fields.text("model_name", "a model");
    if (!model) return model.error();
    const Expected<std::int64_t> devices = fields.whole("npu_num", 1, 64);
    if (!devices) return devices.error();
    const nlohmann::json memory_of = one.value("npu_mem", nlohmann::json::object());
    const JsonFields memory(memory_of, path.string() + ": npu_mem");
    const Expected<double> size = memory.number("mem_size", 1e-3, 1e6, "GB above 0");
    if (!size) return size.error();
    const auto found = one.find("hardware");
    const std::string hardware = found != one.end() && found->is_string() ? found->get<std::string>() : "";
    const Bytes bytes{static_cast<std::int64_t>(*size * 1e9)};
    const std::size_t so_far = of.together + of.prefill + of.decode;
    if (so_far > 0 && (*model != of.model || *devices != of.devices || hardware != of.hardware || bytes != of.memory))
      return bad(path, "its instances differ", "instances of one model, hardware, number of devices and memory");
    of.model = *std::move(model);
    of.hardware = hardware;
    of.devices = static_cast<int>(*devices);
    of.memory = bytes;
    const auto part = one.find("pd_type");
    if (part == one.end() || part->is_null())
      ++of.together;
    else if (*part == "prefill")
      ++of.prefill;
    else if (*part == "decode")
      ++of.decode;
    else
      return bad(path, "pd_type is " + excerpt(part->dump()), "prefill, decode or null");
  }
  if ((of.together == 0) == (of.prefill == 0 || of.decode == 0))
    return bad(path, "it has neither only whole instances nor both prefill and decode", "one of the two");
  return of;
}

/// Reads the measured figures of a fleet: NAME_latency.tsv and the tokens of each second, as far as they are there.
/// Without the former, tokens/s are those of the latter up to the last second that has any.
Status read_measured(const fs::path& folder, Replayed& of) {
  double tokens = 0, last = 0;
  if (const fs::path path = folder / "reference" / (of.of.name + "_throughput.tsv"); fs::exists(path)) {
    TableRows seconds(path, {"time_s", "throughput"});
    while (seconds.next()) {
      of.real_by_second.emplace_back(seconds.number(0, 0, 1e9), seconds.number(1, 0, 1e12));
      const auto [second, count] = of.real_by_second.back();
      tokens += count;
      if (count > 0) last = std::max(last, second);
    }
    if (!seconds.status()) return seconds.status();
  }
  // "SD+PC" is SD with a prefix cache that finds nothing: the artifact has the latencies of SD alone.
  fs::path latency = folder / "reference" / (of.of.name + "_latency.tsv");
  if (!fs::exists(latency))
    latency = folder / "reference" / (of.of.name.substr(0, of.of.name.find('+')) + "_latency.tsv");
  if (!fs::exists(latency)) {
    of.from_seconds = true;
    if (last > 0) of.real.tokens_per_s = tokens / last;
    return {};
  }
  bool found = false;
  TableRows rows(latency, {"framework", "throughput_tok_s", "mean_ttft_ms", "mean_tpot_ms"});
  while (rows.next()) {
    if (rows.text(0) != "vLLM") continue; // simulators, some of which have no figures
    found = true;
    of.real = {rows.number(1, 1e-6, 1e12), rows.number(2, 1e-6, 1e12) * 1e-3, rows.number(3, 1e-6, 1e12) * 1e-3};
  }
  if (!rows.status()) return rows.status();
  if (!found) return bad(latency, "there is no row of vLLM", "the measured figures, as framework vLLM");
  return {};
}

/// Adds a request of a workload. It has a session, by which the second pool's first token is found. Returns false if it
/// arrives before the one above it.
bool add(std::vector<RequestSpec>& requests, Seconds arrival, std::int64_t prompt, std::int64_t output) {
  if (!requests.empty() && arrival < requests.back().arrival) return false;
  RequestSpec& spec = requests.emplace_back();
  spec.arrival = arrival;
  spec.prompt = Tokens{prompt};
  spec.output = Tokens{output};
  spec.session = static_cast<std::uint32_t>(requests.size());
  return true;
}

/// The artifact's own form of a workload: a JSON object a line.
Expected<std::vector<RequestSpec>> read_json_requests(const fs::path& path) {
  std::vector<RequestSpec> requests;
  Expected<LineReader> lines = LineReader::open(path.string());
  if (!lines) return lines.error();
  Expected<WholeTrace> trace = read_token_ids(*std::move(lines));
  if (!trace) return trace.error();
  for (;;) {
    const Expected<std::optional<RequestSpec>> next = trace->next();
    if (!next) return next.error();
    if (!*next) return requests;
    if ((*next)->follows || !add(requests, (*next)->arrival, (*next)->prompt.count(), (*next)->output.count()))
      return Error{ErrorCode::unsupported, path.string(), "some requests follow others of their session",
                   "requests that arrive at times of their own"};
  }
}

Expected<std::vector<RequestSpec>> read_requests(const fs::path& path) {
  std::vector<RequestSpec> requests;
  if (path.extension() == ".jsonl") {
    Expected<std::vector<RequestSpec>> read = read_json_requests(path);
    if (!read) return read.error();
    requests = *std::move(read);
  } else {
    TableRows rows(path, {"arrival_s", "prompt", "output"});
    while (rows.next()) {
      const Seconds arrival{rows.number(0, 0, 1e9)};
      const std::int64_t prompt = rows.whole(1, 1, 1'000'000'000), output = rows.whole(2, 1, 1'000'000'000);
      if (!add(requests, arrival, prompt, output))
        rows.refuse("it arrives before the request above it", "requests in the order of their arrivals");
    }
    if (!rows.status()) return rows.status().error();
  }
  if (requests.empty()) return bad(path, "it has no request", "a row for each request");
  return requests;
}

/// The file with the recording's requests.
Expected<fs::path> workload_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (const char* ending : {".csv", ".jsonl"})
    for (const auto& entry : fs::directory_iterator(folder, failed))
      if (entry.is_regular_file() && entry.path().extension() == ending) found.push_back(entry.path());
  if (found.size() != 1)
    return bad(folder, fmt::format("it has {} files *.csv and *.jsonl", found.size()), "one, with the requests");
  return found.front();
}

/// The folder with the kernel times of a fleet's instances. If one names a number of devices ("tp4"), as the profiler's
/// HARDWARE/ORGANISATION/MODEL/tp4 do, the rest of its name must be hardware and model, and it is for those alone. So
/// the times of Llama-3.1-8B-Instruct are not those of Llama-3.1-8B.
Expected<fs::path> profile_of(const fs::path& folder, const Recorded& of) {
  const std::string model = of.model.substr(of.model.rfind('/') + 1);
  const std::string organisation = of.model.substr(0, of.model.size() - model.size()); // with its "/"
  const auto is_for = [&](std::string_view name) {                                     // without the number of devices
    if (!name.starts_with(of.hardware) || !name.ends_with(model)) return false;
    name.remove_suffix(model.size());
    if (of.hardware.empty()) return name.empty() || name.ends_with('-') || name.ends_with('/'); // any
    name.remove_prefix(std::min(name.size(), of.hardware.size()));
    if (name == "-" || name == "/") return true;
    if (!organisation.empty()) return name == "/" + organisation;
    return name.size() > 2 && name.front() == '/' && name.find('/', 1) == name.size() - 1; // any
  };
  std::vector<fs::path> found;
  std::error_code failed;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "profile", failed)) {
    if (entry.path().filename() != "layers.csv") continue;
    const fs::path home = entry.path().parent_path();
    const std::string name = fs::relative(home, folder / "profile").generic_string();
    const std::size_t at = name.rfind("tp");
    const bool says = at != name.npos && (at == 0 || name[at - 1] == '/' || name[at - 1] == '-') &&
                      at + 2 < name.size() && name.find_first_not_of("0123456789", at + 2) == name.npos;
    const std::string_view before = std::string_view(name).substr(0, says && at > 0 ? at - 1 : 0);
    if (!says || (name.substr(at + 2) == std::to_string(of.devices) && is_for(before))) found.push_back(home);
  }
  if (found.size() == 1) return found.front();
  return bad(folder / "profile",
             fmt::format("it has {} folders with a layers.csv for {} on {} x {}", found.size(), of.model, of.devices,
                         of.hardware.empty() ? "its hardware" : of.hardware),
             "one, such as H100-Llama-3.1-70B-tp4");
}

/// "meta-llama/Llama-3.1-70B", or its -Instruct: a known model with that family and size.
Expected<ModelShape> model_of(const Options& options, const std::string& name) {
  std::string known = options.machine.model.value_or("");
  if (known.empty()) {
    for (const char c : name.substr(name.rfind('/') + 1)) known += static_cast<char>(std::tolower(c));
    for (const char* one : {"70b", "8b"}) // 3.1 has the shapes of 3
      for (const char* form : {"", "-instruct"})
        if (known == fmt::format("llama-3.1-{}{}", one, form)) known = fmt::format("llama3-{}", one);
  }
  Expected<ModelShape> shape = find_or_read_model(known);
  if (shape) return shape;
  return Error{ErrorCode::bad_input, "--model",
               fmt::format("the recording's model is '{}', which is not known", excerpt(name)),
               "a model's name or its config.json"};
}

/// What a fleet needs of the recording. Artifacts have fleets without measured figures or kernel times.
Status check_files(const Options& options, const Recorded& of) {
  const fs::path reference = fs::path(options.replay) / "reference";
  if (!fs::exists(reference / (of.name + "_throughput.tsv")) && !fs::exists(reference / (of.name + "_latency.tsv")))
    return bad(reference, fmt::format("it has neither {0}_throughput.tsv nor {0}_latency.tsv", of.name),
               "measured figures");
  if (const Expected<ModelShape> model = model_of(options, of.model); !model) return model.error();
  const Expected<fs::path> profile = profile_of(options.replay, of);
  return profile ? Status{} : Status{profile.error()};
}

Status replay_one(const Options& options, const std::vector<RequestSpec>& requests, Replayed& of) {
  const Recorded& recorded = of.of;
  const Expected<ModelShape> whole = model_of(options, recorded.model);
  if (!whole) return whole.error();
  const Expected<ModelShape> shard = tensor_shard(*whole, recorded.devices, recorded.name);
  if (!shard) return shard.error();
  const Expected<fs::path> profile = profile_of(options.replay, recorded);
  if (!profile) return profile.error();
  const Expected<TableProfile> kernels = read_layer_tables(*profile, recorded.devices, LinkCost{});
  if (!kernels) return kernels.error();
  AllReduce reduce;
  if (recorded.devices > 1)
    reduce = AllReduce{PeerLink{PeerPath::own, recorded.link, recorded.latency, Seconds{0}}, recorded.devices};
  engines::CostChoice cost{*kernels, *whole, reduce};
  if (recorded.prefill > 0 || options.host_step > 0)
    cost = cost.with_host({Seconds{options.host_step}, Seconds{recorded.prefill > 0 ? options.kv_copy : 0}});
  Device device{.name = recorded.name, .memory = recorded.memory};
  Limits limits{.batch = static_cast<int>(options.machine.batch.value_or(256)),
                .batch_tokens = Tokens{options.machine.batch_tokens.value_or(2048)}};
  engines::Setup setup{.limits = limits,
                       .geometry = {shard->layers, shard->layer_block_bytes(limits.block_tokens),
                                    shard->layer_weight_bytes(), shard->layer_hidden_bytes(limits.block_tokens)},
                       .cost = cost,
                       .model = *shard,
                       .device = device};
  setup.device_blocks = across_layers(kv_blocks_beside_weights(*shard, device, limits.block_tokens), shard->layers);
  const auto system = std::find_if(engines::systems().begin(), engines::systems().end(),
                                   [&](const engines::System& one) { return one.name == options.system; });
  if (system == engines::systems().end() || system->simulate == nullptr)
    return Error{ErrorCode::bad_input, "--system", "there is no system '" + excerpt(options.system) + "'",
                 "a name of sluice-compare --list"};
  Fleets fleets;
  fleets.system = &*system;
  fleets.setup = &setup;
  fleets.engines = recorded.together + recorded.prefill;
  if (recorded.prefill > 0) {
    fleets.decoder = fleets.system;
    fleets.decoders = recorded.decode;
  }
  fleets.every = Seconds{options.every};
  fleets.settings.handoff = {recorded.link, recorded.latency, Sends::whole};
  fleets.copies = Seconds{options.kv_copy * shard->layers};
  fleets.tells = fleets.notes = true;
  fleets.settings.threads = static_cast<int>(options.threads.value_or(1));
  std::size_t next = 0;
  engines::Requests reader{.next = [&]() -> Expected<std::optional<RequestSpec>> {
    return next < requests.size() ? std::optional<RequestSpec>{requests[next++]} : std::nullopt;
  }};
  TraceClients clients(reader, limits.block_tokens);
  const auto row =
      std::find_if(routers().begin(), routers().end(), [](const RouterRow& one) { return one.name == "round-robin"; });
  const Expected<Ran> ran = row->run(fleets, clients);
  if (!ran) return ran.error();
  // The client's first token is that of the engine that generates: it computes the prompt's last token again.
  std::map<std::uint32_t, double> seconds;
  for (const auto& [session, when] : ran->second_firsts) seconds[session] = when.count();
  double ttft = 0, tpot = 0, last = 0;
  std::int64_t tokens = 0, several = 0;
  for (const Fate& fate : ran->fates) {
    if (!fate.served) continue;
    double first = fate.first;
    std::int64_t generated = fate.tokens;
    if (const auto found = seconds.find(fate.session); found != seconds.end()) {
      first = found->second;
      --generated;
    }
    ttft += first - fate.sent;
    if (generated > 1) {
      tpot += (fate.last - first) / static_cast<double>(generated - 1);
      ++several;
    }
    tokens += fate.tokens;
    last = std::max(last, fate.last);
  }
  of.refused = ran->summary.refused;
  const auto mean = [](double sum, std::int64_t count) {
    return count > 0 ? sum / static_cast<double>(count) : Interval::absent;
  };
  of.ours = {last > 0 ? static_cast<double>(tokens) / last : Interval::absent, mean(ttft, ran->summary.served),
             mean(tpot, several)};
  of.by_second = ran->tokens;
  return {};
}

std::string differs(double ours, double real) {
  return std::isnan(ours / real) ? "-" : fmt::format("{:+.1f}", 100 * (ours / real - 1));
}

std::string table_of(const std::vector<Replayed>& all) {
  TextTable table({{"", "fleet"},
                   {"", "engines"},
                   {"tokens/s", "simulated"},
                   {"tokens/s", "measured"},
                   {"tokens/s", "diff, %"},
                   {"mean TTFT, ms", "simulated"},
                   {"mean TTFT, ms", "measured"},
                   {"mean TTFT, ms", "diff, %"},
                   {"mean TPOT, ms", "simulated"},
                   {"mean TPOT, ms", "measured"},
                   {"mean TPOT, ms", "diff, %"}});
  for (const Replayed& one : all)
    table.row({one.of.name + left_out_text(static_cast<double>(one.refused)),
               one.of.prefill > 0 ? fmt::format("{} + {}", one.of.prefill, one.of.decode)
                                  : fmt::format("{}", one.of.together),
               fixed_text(one.ours.tokens_per_s, 1), fixed_text(one.real.tokens_per_s, 1),
               differs(one.ours.tokens_per_s, one.real.tokens_per_s), milliseconds_text(one.ours.ttft_s),
               milliseconds_text(one.real.ttft_s), differs(one.ours.ttft_s, one.real.ttft_s),
               milliseconds_text(one.ours.tpot_s), milliseconds_text(one.real.tpot_s),
               differs(one.ours.tpot_s, one.real.tpot_s)});
  return table.text();
}

/// What a replay needs beyond the recording's own files.
std::string inputs_of(const Options& options, const std::vector<Replayed>& all) {
  std::string text;
  for (const Replayed& one : all)
    if (one.from_seconds)
      text += fmt::format("measured: {} by the tokens of each second; there are no latencies\n", one.of.name);
  return text +
         fmt::format(
             "input: requests, kernel times, instances, devices, memory and link (the recording's files)\n"
             "input: two all-reduces a layer as a ring over that link; KV as whole prompts over it (stated)\n"
             "input: {} tokens an iteration (the recording's program); {} requests a batch, 16 tokens a block, no "
             "asynchronous scheduling (stated: vLLM's defaults)\n"
             "input: round robin; a client's first token is that of the engine that generates (stated)\n"
             "input: {:g} ms per layer in which a connector copies a request's KV, at both ends (stated, calibrated by "
             "the TTFT of prefill and decode apart)\n",
             options.machine.batch_tokens.value_or(2048), options.machine.batch.value_or(256), options.kv_copy * 1e3);
}

std::string json_of(const std::vector<Replayed>& all) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("made_by", made_by().line()).key("rows").begin_array();
  const auto figure = [&](const char* name, double ours, double real) {
    json.key(name).begin_object().field("simulated", ours).field("measured", real).end_object();
  };
  for (const Replayed& one : all) {
    json.line().begin_object().field("fleet", one.of.name).field("refused", one.refused);
    figure("tokens_per_s", one.ours.tokens_per_s, one.real.tokens_per_s);
    figure("mean_ttft_s", one.ours.ttft_s, one.real.ttft_s);
    figure("mean_tpot_s", one.ours.tpot_s, one.real.tpot_s);
    json.key("tokens_by_second").begin_array();
    for (const double tokens : one.by_second) json.value(tokens);
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return text + "\n";
}

} // namespace

int replay_fleet(const Options& options, const std::string& command) {
  const auto fail = [](const Error& error) {
    fmt::print(stderr, "{}: {}\n", engines::program_name(), error.line());
    return 2;
  };
  const fs::path folder(options.replay);
  std::vector<fs::path> configs;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder / "config", failed))
    if (entry.path().filename().string().ends_with("_config.json")) configs.push_back(entry.path());
  if (configs.empty())
    return fail({ErrorCode::not_found, "--replay", options.replay + " has no config/NAME_config.json",
                 "a folder with a recorded fleet"});
  std::sort(configs.begin(), configs.end());
  const Expected<fs::path> workload = workload_of(folder);
  if (!workload) return fail(workload.error());
  const Expected<std::vector<RequestSpec>> requests = read_requests(*workload);
  if (!requests) return fail(requests.error());
  std::vector<std::pair<std::string, Error>> left_out;
  std::vector<Replayed> all;
  for (const fs::path& path : configs) {
    Expected<Recorded> of = read_config(path);
    if (!of) return fail(of.error());
    if (const Status checked = check_files(options, *of); !checked) {
      left_out.emplace_back(of->name, checked.error());
      continue;
    }
    Replayed& one = all.emplace_back();
    one.of = *std::move(of);
    if (Status read = read_measured(folder, one); !read) return fail(read.error());
    if (Status ran = replay_one(options, *requests, one); !ran) return fail(ran.error());
  }
  if (all.empty()) return fail(left_out.front().second);
  for (const auto& [name, why] : left_out)
    fmt::print(stderr, "{}: {} is left out: {}\n", engines::program_name(), name, why.line());
  std::sort(all.begin(), all.end(), [](const Replayed& a, const Replayed& b) {
    const auto rank = [](const Replayed& one) { return one.of.prefill * 1000 + one.of.together; };
    return rank(a) < rank(b);
  });
  std::fputs(options.json ? json_of(all).c_str() : (table_of(all) + "\n" + inputs_of(options, all)).c_str(), stdout);
  if (options.out.empty()) return 0;
  if (Status made = compared::make_folder(options.out); !made) return fail(made.error());
  std::vector<Chart> charts;
  for (const Replayed& one : all) {
    Chart& chart = charts.emplace_back(Chart{one.of.name, {}});
    if (!one.real_by_second.empty()) chart.curves.push_back({"measured", one.real_by_second});
    Curve& ours = chart.curves.emplace_back(Curve{"simulated", {}});
    for (std::size_t i = 0; i < one.by_second.size(); ++i)
      ours.points.emplace_back(static_cast<double>(i) + 1, one.by_second[i]);
  }
  const std::string table = "<pre>" + sluice::detail::escaped(table_of(all)) + "</pre>\n";
  const std::vector<NamedText> files{{"fleet.html", replay_page(folder.filename().string(), charts, table, command)},
                                     {"fleet.json", json_of(all)}};
  if (Status written = write_all(options.out, files); !written) return fail(written.error());
  return 0;
}

} // namespace fleets
