// SPDX-License-Identifier: Apache-2.0
#include "validate/suite.hpp"

#include "sluice/report/observer/json_writer.hpp"

#include "shared/version.hpp"
#include "validate/client_recording.hpp"
#include "validate/comparison.hpp"
#include "validate/iterations.hpp"
#include "validate/known_recordings.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace sluice;
using namespace recorded;
namespace fs = std::filesystem;

namespace {

/// The file of a load generator's result in a recording's folder: blis observe's, AIPerf's, GuideLLM's, and a name of
/// one's own for the others.
constexpr std::array client_files{"trace.csv", "profile_export.jsonl", "benchmarks.json", "load.json", "load.jsonl"};

/// A recording's folder, what kind it is, and the bundle for it.
struct Found {
  fs::path folder;
  std::string server_folder; ///< where its server is stated: the folder itself, or one above a client's recording
  std::string client;        ///< a load generator's file; empty: LLMServingSim's or sluice-serve's recording
  std::vector<std::string> profiles;
};

/// One row of the table.
struct Row {
  std::string name;
  std::size_t requests = 0;
  Differences differences;
  std::optional<double> peer; ///< its largest difference
  const Bound* bound = nullptr;
  std::vector<Input> inputs;
  std::vector<std::pair<std::string, double>> ablation; ///< largest difference of other sets of mechanisms
  bool averaged = false;                                ///< its means count in the averages of the unsaturated traces

  [[nodiscard]] bool holds() const { return bound == nullptr || bound->holds(differences); }
};

/// Folders with a recording, in the order of their paths.
Expected<std::vector<Found>> find_recordings(const SuiteOptions& options) {
  std::vector<Found> found;
  std::error_code failed;
  const fs::path top(options.recordings);
  fs::recursive_directory_iterator walk(top, fs::directory_options::follow_directory_symlink, failed);
  const auto consider = [&](const fs::path& folder) {
    std::error_code ignored;
    if (fs::exists(folder / "requests.jsonl", ignored) && fs::exists(folder / "meta.json", ignored))
      return static_cast<void>(found.push_back({folder, folder.string(), "", {}}));
    for (const char* name : client_files)
      if (fs::exists(folder / name, ignored))
        return static_cast<void>(found.push_back({folder, stated_server(folder, top), (folder / name).string(), {}}));
  };
  if (!failed) consider(top);
  for (; !failed && walk != fs::recursive_directory_iterator(); walk.increment(failed)) {
    std::error_code ignored;
    if (walk->is_directory(ignored)) consider(walk->path());
  }
  if (failed)
    return Error{ErrorCode::bad_input, options.recordings, "the folder cannot be read: " + failed.message(),
                 "a folder of recordings"};
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.folder < b.folder; });
  return found;
}

/// The bundles of a recording: the one that its meta.json names, or those in the folder of bundles with its folder's
/// name without "-vllm", or with that name, a plus sign and more.
Expected<std::vector<std::string>> find_profiles(const Found& recording, const SuiteOptions& options) {
  const Expected<nlohmann::json> meta = read_json_object((fs::path(recording.server_folder) / "meta.json").string());
  if (!meta) return meta.error();
  const JsonFields fields(*meta, recording.server_folder);
  if (fields.has("profile")) {
    const Expected<std::string> named = fields.text("profile", "a folder");
    if (!named) return named.error();
    return std::vector<std::string>{(fs::path(recording.server_folder) / *named).lexically_normal().string()};
  }
  std::string name = recording.folder.filename().string();
  if (constexpr std::string_view suffix = "-vllm"; name.size() > suffix.size() && name.ends_with(suffix))
    name.resize(name.size() - suffix.size());
  std::vector<std::string> bundles;
  const fs::path top(options.recordings);
  for (const fs::path& place : options.profiles.empty() ? std::vector<fs::path>{top / "profiles", top / "../profiles"}
                                                        : std::vector<fs::path>{options.profiles}) {
    std::error_code failed;
    for (fs::directory_iterator entry(place, failed); !failed && entry != fs::directory_iterator();
         entry.increment(failed)) {
      const std::string bundle = entry->path().filename().string();
      if (bundle == name || bundle.starts_with(name + "+"))
        bundles.push_back(entry->path().lexically_normal().string());
    }
    if (!bundles.empty()) break;
  }
  std::sort(bundles.begin(), bundles.end());
  return bundles;
}

/// The largest difference that LLMServingSim 2.0 states for its own simulation of a run.
std::optional<double> peer_of(const fs::path& folder) {
  Expected<LineReader> lines = LineReader::open((folder / "llmservingsim2_summary.txt").string());
  if (!lines) return std::nullopt;
  std::optional<double> worst;
  for (;;) {
    const Expected<std::optional<std::string_view>> line = lines->next();
    if (!line || !*line) return worst;
    if (!(*line)->ends_with('%')) continue;
    std::string_view number = (*line)->substr((*line)->find_last_of(' ') + 1);
    number.remove_suffix(1);
    if (number.starts_with('+')) number.remove_prefix(1);
    double percent = 0;
    if (std::from_chars(number.data(), number.data() + number.size(), percent).ec == std::errc{})
      worst = std::max(worst.value_or(0), std::abs(percent));
  }
}

Expected<Differences> compare(const Recording& recording, const std::string& profile, const Mechanisms& mechanisms,
                              const Stated& stated, const LatencyDistributions& real, std::vector<Input>* inputs) {
  const Expected<BuiltWorld> world = build_world(profile, recording.server, mechanisms, stated);
  if (!world) return world.error();
  const Expected<std::vector<Served>> served =
      replay(recording.server, mechanisms, *world, recording.records, recording.due, recording.prompts);
  if (!served) return served.error();
  if (inputs != nullptr) inputs->insert(inputs->end(), world->inputs.begin(), world->inputs.end());
  return Differences(real, latencies_of(*served));
}

/// Replays with no mechanism, each one alone, and all but each one; not of long recordings.
constexpr std::size_t longest_for_ablation = 2000;

Status ablate(const Recording& recording, const std::string& profile, const Stated& stated,
              const LatencyDistributions& real, Row& row) {
  const auto add = [&](std::string name, const Mechanisms& mechanisms) -> Status {
    const Expected<Differences> differences = compare(recording, profile, mechanisms, stated, real, nullptr);
    if (!differences) return differences.error();
    row.ablation.emplace_back(std::move(name), differences->worst());
    return {};
  };
  if (Status status = add("none", {}); !status) return status;
  for (const MechanismName& mechanism : mechanism_names) {
    if (mechanism.member == &Mechanisms::closed && recording.server.in_flight == 0) continue;
    if (mechanism.member == &Mechanisms::skew) continue;
    Mechanisms alone, without = Mechanisms::all();
    alone.*mechanism.member = true;
    without.*mechanism.member = false;
    if (Status status = add("only " + std::string{mechanism.name}, alone); !status) return status;
    if (Status status = add("all but " + std::string{mechanism.name}, without); !status) return status;
  }
  std::error_code ignored;
  if (fs::exists(bundle_folder(profile, recording.server.tensor_parallel) / "skew.csv", ignored)) {
    Mechanisms looked_up = Mechanisms::all();
    looked_up.tail = false;
    looked_up.skew = true;
    if (Status status = add("skew.csv instead of tail", looked_up); !status) return status;
  }
  return {};
}

/// Writes the picture of a recording's iterations, with all mechanisms.
Status picture(const Recording& recording, const std::string& profile, const Stated& stated, const std::string& name,
               const std::string& folder) {
  const Expected<BuiltWorld> world = build_world(profile, recording.server, Mechanisms::all(), stated);
  if (!world) return world.error();
  std::string file = name;
  std::replace(file.begin(), file.end(), '/', '-');
  std::error_code failed;
  fs::create_directories(folder, failed);
  const std::string path = (fs::path(folder) / (file + ".svg")).string();
  std::ofstream out(path, std::ios::binary);
  out << draw(name, residuals_of(recording, world->rank, world->shape.layers));
  out.close();
  if (!out) return Error{ErrorCode::bad_input, path, "the file cannot be written", "a folder that can be written to"};
  return {};
}

Expected<std::vector<Row>> rows_of(const Found& found, const SuiteOptions& options) {
  Expected<Recording> recording = found.client.empty() ? read_run(found.folder.string(), 0, "")
                                                       : read_client_recording(found.client, found.server_folder);
  if (!recording) return recording.error();
  const LatencyDistributions real = latencies_of(measured(recording->records));
  std::vector<Row> rows;
  for (const std::string& profile : found.profiles) {
    const Expected<BundleMeta> meta = read_bundle_meta(profile);
    if (!meta) return meta.error();
    const KnownRecording* known = find_known(*recording, meta->gpu);
    // Devices that communicate: as measured, if the bundle has it, and by a link that is stated for this recording.
    std::vector<Stated> ways{{}};
    const bool communicates = recording->server.tensor_parallel * recording->server.data_parallel > 1;
    if (communicates) {
      ways.clear();
      std::error_code ignored;
      if (fs::exists(bundle_folder(profile, recording->server.tensor_parallel) / "all_reduce.csv", ignored))
        ways.push_back({});
      if (known != nullptr && known->link_rate > 0)
        ways.push_back({"", known->link_rate, known->link_latency_s, 0, Input::Source::calibrated,
                        "the peer simulator's configuration of this recording"});
      if (ways.empty()) ways.push_back({}); // says what is missing
    }
    for (const Stated& stated : ways) {
      Row row;
      row.name = found.folder.lexically_relative(options.recordings).string();
      if (row.name == ".") row.name = found.folder.filename().string();
      if (const std::size_t plus = profile.rfind('+'); plus != std::string::npos) row.name += profile.substr(plus);
      if (communicates) row.name += stated.link_rate > 0 ? ", stated link" : ", measured all-reduce";
      row.requests = recording->records.size();
      row.inputs = recording->server.inputs;
      row.peer = peer_of(found.folder);
      if (known != nullptr) row.bound = stated.link_rate > 0 ? &known->linked : &known->measured;
      row.averaged = !found.client.empty() && recording->server.in_flight == 0;
      const Expected<Differences> differences =
          compare(*recording, profile, Mechanisms::all(), stated, real, &row.inputs);
      if (!differences) return differences.error();
      row.differences = *differences;
      if (options.ablation && row.requests <= longest_for_ablation) {
        if (Status status = ablate(*recording, profile, stated, real, row); !status) return status.error();
      }
      // A client's times include what the front end adds; engines in lock step mix theirs.
      if (!options.iterations.empty() && found.client.empty() && recording->server.data_parallel == 1)
        if (Status status = picture(*recording, profile, stated, row.name, options.iterations); !status)
          return status.error();
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

/// The mean sizes of the means' differences over the unsaturated traces.
std::optional<std::array<double, 3>> averages(const std::vector<Row>& rows) {
  std::array<double, 3> sums{};
  double count = 0;
  for (const Row& row : rows) {
    if (!row.averaged) continue;
    ++count;
    for (std::size_t m = 0; m < sums.size(); ++m) sums[m] += std::abs(row.differences.mean_of(m));
  }
  if (count == 0) return std::nullopt;
  for (double& sum : sums) sum /= count;
  return sums;
}
/// What these averages may be, by agreement.
constexpr std::array<double, 3> agreed_averages{15, 3, 3};
bool averages_hold(const std::vector<Row>& rows) {
  const auto means = averages(rows);
  for (std::size_t m = 0; means && m < means->size(); ++m)
    if ((*means)[m] > agreed_averages[m]) return false;
  return true;
}

void print_table(const std::vector<Row>& rows) {
  std::size_t width = 10;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  fmt::print("{:<{}}", "difference, %", width);
  for (const Metric& metric : metrics)
    for (const Figure& figure : figures)
      fmt::print("{:>8}", figure.name == figures[0].name ? metric.label : figure.name);
  fmt::print("{:>8}{:>8}  {}\n", "largest", "peer", "agreed");
  for (const Row& row : rows) {
    fmt::print("{:<{}}", row.name, width);
    for (const auto& metric : row.differences.percent)
      for (const double percent : metric) fmt::print("{:>+8.1f}", percent);
    fmt::print("{:>8.2f}{:>8}  {}\n", row.differences.worst(), row.peer ? fmt::format("{:.1f}", *row.peer) : "",
               row.bound == nullptr ? "none agreed"
               : row.holds()        ? "holds"
                                    : "MISSED");
  }
  fmt::print("(the columns TTFT, TPOT and Latency are means)\n");
  if (const auto means = averages(rows)) {
    fmt::print("unsaturated traces, means on average: TTFT {:.1f} %, TPOT {:.1f} %, latency {:.1f} %: {}\n",
               (*means)[0], (*means)[1], (*means)[2], averages_hold(rows) ? "holds" : "MISSED");
  }
  std::vector<const Row*> ablated;
  for (const Row& row : rows)
    if (!row.ablation.empty()) ablated.push_back(&row);
  for (const Row* row : ablated) {
    fmt::print("\n{}: largest difference, % (all: {:.2f})\n", row->name, row->differences.worst());
    for (const auto& [name, worst] : row->ablation) fmt::print("  {:<28}{:>8.2f}\n", name, worst);
  }
  std::vector<std::string> told;
  fmt::print("\ninputs that the recordings do not have\n");
  for (const Row& row : rows)
    for (const Input& input : row.inputs) {
      std::string text = fmt::format("{}: {} ({})", source_name(input.source), input.what, input.from);
      if (std::find(told.begin(), told.end(), text) != told.end()) continue;
      std::string users;
      std::size_t count = 0;
      for (const Row& user : rows) {
        const bool uses = std::any_of(user.inputs.begin(), user.inputs.end(), [&](const Input& other) {
          return other.what == input.what && other.from == input.from;
        });
        if (uses && ++count <= 3) users += (users.empty() ? "" : "; ") + user.name;
      }
      if (count > 3) users = fmt::format("{} rows", count);
      fmt::print("  {}\n    {}\n", text, users);
      told.push_back(std::move(text));
    }
}

void print_json(const std::vector<Row>& rows) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("made_by", made_by().line());
  json.key("recordings").begin_array();
  for (const Row& row : rows) {
    json.begin_object().field("name", row.name);
    json.key("requests").value(row.requests);
    for (std::size_t m = 0; m < metrics.size(); ++m) {
      json.key(metrics[m].key).begin_object();
      for (std::size_t f = 0; f < figures.size(); ++f) json.key(figures[f].name).value(row.differences.percent[m][f]);
      json.end_object();
    }
    json.key("largest").value(row.differences.worst());
    if (row.peer) json.key("peer").value(*row.peer);
    if (row.bound != nullptr) json.key("holds").value(row.holds());
    json.key("ablation").begin_object();
    for (const auto& [name, worst] : row.ablation) json.key(name.c_str()).value(worst);
    json.end_object();
    json.key("inputs").begin_array();
    for (const Input& input : row.inputs)
      json.begin_object()
          .field("what", input.what)
          .field("source", source_name(input.source))
          .field("from", input.from)
          .end_object();
    json.end_array();
    json.end_object();
  }
  json.end_array().end_object();
  fmt::print("{}\n", text);
}

} // namespace

int run_suite(const SuiteOptions& options) {
  const auto fail = [](const Error& error) {
    fmt::print(stderr, "sluice-validate: {}\n", error.line());
    return 2;
  };
  Expected<std::vector<Found>> found = find_recordings(options);
  if (!found) return fail(found.error());
  if (found->empty())
    return fail({ErrorCode::bad_input, options.recordings, "no folder in it holds a recording",
                 "folders with meta.json and requests.jsonl, or with a load generator's result (docs/fidelity.md)"});
  std::vector<Row> rows;
  for (Found& recording : *found) {
    if (recording.server_folder.empty())
      return fail({ErrorCode::bad_input, recording.folder.string(), "nothing states the trace's server",
                   "meta.json in it or in a folder above"});
    Expected<std::vector<std::string>> profiles = find_profiles(recording, options);
    if (!profiles) return fail(profiles.error());
    if (profiles->empty())
      return fail({ErrorCode::bad_input, recording.folder.string(), "there is no profile for it",
                   "a bundle of its name in --profiles, or \"profile\" in its meta.json"});
    recording.profiles = std::move(*profiles);
    Expected<std::vector<Row>> more = rows_of(recording, options);
    if (!more) return fail(more.error());
    for (Row& row : *more) rows.push_back(std::move(row));
  }
  options.json ? print_json(rows) : print_table(rows);
  const bool all = std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.holds(); });
  return all && averages_hold(rows) ? 0 : 1;
}
