// SPDX-License-Identifier: Apache-2.0
// tune: reads what --tune varies, runs the candidates by successive halving, and keeps each system's best.
#include "compare/tune.hpp"

#include "sluice/core/text.hpp"

#include "compare/halving.hpp"
#include "engines/registry.hpp"
#include "shared/crew.hpp"
#include "shared/files_digest.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

namespace compared {

using namespace sluice;

Expected<std::vector<TunedNumber>> read_tuned(std::string_view text) {
  const char* const form = "NAME=VALUE,... with semicolons between names, such as max-batch-tokens=128,512,2048";
  std::vector<TunedNumber> all;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    const std::string_view one = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t is = one.find('=');
    TunedNumber number{std::string{one.substr(0, is)}, {}};
    if (is == std::string_view::npos || number.name.empty())
      return flag_error("--tune", fmt::format("'{}' names no values", excerpt(one)), form);
    for (std::size_t from = is + 1; from <= one.size();) {
      const std::size_t to = std::min(one.find(',', from), one.size());
      std::string value{one.substr(from, to - from)};
      from = to + 1;
      if (value.empty()) return flag_error("--tune", fmt::format("a value of {} is empty", number.name), form);
      if (std::find(number.values.begin(), number.values.end(), value) != number.values.end())
        return flag_error("--tune", fmt::format("{} has the value {} twice", number.name, value), "each value once");
      number.values.push_back(std::move(value));
    }
    if (std::any_of(all.begin(), all.end(), [&](const TunedNumber& other) { return other.name == number.name; }))
      return flag_error("--tune", number.name + " is named twice", "each name once");
    all.push_back(std::move(number));
  }
  return all;
}

namespace {

/// Values for some of the tuned numbers, by name: a candidate. Empty: the numbers as given.
using Setting = std::vector<std::pair<std::string, std::string>>;

std::string text_of(const Setting& setting) {
  std::string text;
  for (const auto& [name, value] : setting) text += (text.empty() ? "" : ";") + name + "=" + value;
  return text.empty() ? "as given" : text;
}

bool is_flag(std::string_view name) { return name == "max-batch-tokens" || name == "batch"; }

Status apply(const Setting& setting, Options& options) {
  for (const auto& [name, value] : setting) {
    if (!is_flag(name)) {
      options.tuning.set.push_back(name + "=" + value);
      continue;
    }
    std::int64_t number = 0;
    const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (wrong != std::errc{} || end != value.data() + value.size() || number < 1 || number > 1'000'000)
      return flag_error("--tune", fmt::format("{} is '{}'", name, excerpt(value)), "a whole number from 1 to 1000000");
    (name == "batch" ? options.machine.batch : options.machine.batch_tokens) = number;
  }
  return {};
}

std::vector<engines::NumberRow> numbers_of(const System& system) {
  return system.numbers != nullptr ? system.numbers() : std::vector<engines::NumberRow>{};
}
std::string name_of(const engines::NumberRow& row) { return std::string{row.policy} + "." + std::string{row.name}; }

/// Returns whether a system has a number: all have the flags.
bool concerns(std::string_view name, const System& system) {
  const std::vector<engines::NumberRow> rows = numbers_of(system);
  return is_flag(name) || std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return name_of(row) == name; });
}

/// Returns a system's candidates, as given first.
std::vector<Setting> candidates_of(const std::vector<TunedNumber>& numbers, const System& system) {
  std::vector<Setting> all{Setting{}};
  for (const TunedNumber& number : numbers) {
    if (!concerns(number.name, system)) continue;
    std::vector<Setting> more;
    for (const Setting& one : all)
      for (const std::string& value : number.values) {
        more.push_back(one);
        more.back().emplace_back(number.name, value);
      }
    all.insert(all.end(), more.begin(), more.end()); // some of the numbers as given, the others not
  }
  return all;
}

/// A row of systems that is tuned: with and without a deposit apart.
struct Tuned {
  const System* system;
  bool deposit;
  std::vector<Setting> candidates;
  std::vector<std::size_t> left;            ///< of the candidates
  std::vector<std::size_t> rounds;          ///< workloads that have run after each (`rounds_of`)
  std::size_t round = 0;                    ///< the next one
  std::vector<std::vector<double>> goodput; ///< by candidate, then by run: workloads and SLO scales

  /// Workloads that ran before the next round.
  [[nodiscard]] std::size_t ran() const { return round == 0 ? 0 : rounds[round - 1]; }
  [[nodiscard]] bool chosen() const { return left.size() == 1 || round == rounds.size(); }
  [[nodiscard]] std::vector<double> scores() const {
    std::vector<double> all;
    for (const std::vector<double>& runs : goodput)
      all.push_back(runs.empty() ? -2
                                 : std::accumulate(runs.begin(), runs.end(), 0.0) / static_cast<double>(runs.size()));
    return all;
  }
};

/// A run that scores a candidate.
using Key =
    std::tuple<std::string, bool, std::string, double, std::uint64_t>; ///< system, deposit, setting, scale, seed

/// The file of all scored runs, from which a repeated command continues.
class Record {
 public:
  Record(const Options& options, const std::string& command) {
    if (options.out.empty()) return;
    path_ = options.out + "/tuning.csv";
    head_ = "# " + command + ", " + made_by().line();
    const MachineOptions& machine = options.machine;
    if (const std::string files =
            files_digest(std::array{options.workload.trace, machine.model.value_or(""), machine.device, machine.profile,
                                    machine.all_reduce, options.record, options.kv_transfer});
        !files.empty())
      head_ += ", files " + files;
    std::ifstream file(path_);
    std::string line;
    if (!std::getline(file, line) || line != head_) return; // another command or program, or other files
    std::getline(file, line);                               // the column names
    while (std::getline(file, line)) read(line);
  }
  [[nodiscard]] std::optional<double> find(const Key& key) const {
    const auto found = known_.find(key);
    return found == known_.end() ? std::nullopt : std::optional{found->second};
  }
  void add(const Key& key, double goodput) { known_.emplace(key, goodput); }

  Status write() const {
    if (path_.empty()) return {};
    const std::string unfinished = path_ + ".part"; // a killed program leaves the file before this one
    std::ofstream file(unfinished, std::ios::trunc);
    file << head_ << "\nsystem,deposit,setting,slo_scale,seed,goodput_requests_per_s\n";
    for (const auto& [key, goodput] : known_) {
      const auto& [system, deposit, setting, scale, seed] = key;
      file << fmt::format("{},{},{},{},{},{}\n", system, deposit ? "on" : "off", setting, scale, seed, goodput);
    }
    std::error_code refused;
    if (file.close(); file) std::filesystem::rename(unfinished, path_, refused);
    if (!file || refused) return flag_error("--out", path_ + " cannot be written", "a folder with room");
    return {};
  }

 private:
  void read(const std::string& line) {
    std::vector<std::string> cells;
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find(',', begin), line.size());
      cells.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    double scale = 0, goodput = 0;
    std::uint64_t seed = 0;
    const auto number = [](const std::string& text, auto& value) {
      const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
      return wrong == std::errc{} && end == text.data() + text.size();
    };
    if (cells.size() == 6 && number(cells[3], scale) && number(cells[4], seed) && number(cells[5], goodput))
      known_.emplace(Key{cells[0], cells[1] == "on", cells[2], scale, seed}, goodput);
  }

  std::string path_, head_;
  std::map<Key, double> known_;
};

/// Returns the seeds that tune: as many as those that judge, and others.
std::vector<std::uint64_t> tuning_seeds(const Options& judged) {
  std::vector<std::uint64_t> seeds = judged.workload.seeds;
  const std::uint64_t behind = *std::max_element(seeds.begin(), seeds.end());
  for (std::size_t i = 0; i < seeds.size(); ++i) seeds[i] = judged.workload.windows > 0 ? 2 * i + 1 : behind + 1 + i;
  return seeds;
}

/// Returns the flags of one candidate's comparison, of these systems and seeds, without any output. Of the user's
/// --set, only what these systems have and the candidate does not replace.
Expected<Options> options_of(Options options, const Setting& setting, const std::set<std::string_view>& systems,
                             std::vector<std::uint64_t> seeds) {
  options.workload.seeds = std::move(seeds);
  options.systems = fmt::format("{}", fmt::join(systems, ","));
  options.composes = true; // a flag may concern the other systems
  std::erase_if(options.tuning.set, [&](const std::string& text) {
    const std::string_view name = std::string_view{text}.substr(0, text.find('='));
    const bool replaced =
        std::any_of(setting.begin(), setting.end(), [&](const auto& value) { return value.first == name; });
    const auto& all = engines::simulated_systems();
    return replaced || std::none_of(all.begin(), all.end(), [&](const System& system) {
             return systems.count(system.name) > 0 && concerns(name, system);
           });
  });
  options.out.clear();
  options.why.reset();
  options.bound = options.tokens = options.no_traces = false;
  options.columns.clear();
  options.baseline.clear();
  if (Status applied = apply(setting, options); !applied) return applied.error();
  return options;
}

/// The candidates that run together: one setting, and the systems that it is still a candidate of.
struct Batch {
  Setting setting;
  std::set<std::string_view> systems;
};

} // namespace

Options judging(const Options& options) {
  Options judged = options;
  if (judged.tune.empty() || judged.workload.windows == 0) return judged;
  for (std::size_t i = 0; i < judged.workload.seeds.size(); ++i) judged.workload.seeds[i] = 2 * (i + 1);
  judged.workload.windows *= 2;
  return judged;
}

Expected<RunCount> tune(const Options& options, const std::string& command, Comparison& c, Crew& crew) {
  const Expected<std::vector<TunedNumber>> numbers = read_tuned(options.tune);
  if (!numbers) return numbers.error();
  for (const TunedNumber& number : *numbers) {
    if (std::any_of(c.systems.begin(), c.systems.end(), [&](const System* s) { return concerns(number.name, *s); }))
      continue;
    std::vector<std::string> names{"max-batch-tokens", "batch"};
    for (const System* system : c.systems)
      for (const engines::NumberRow& row : numbers_of(*system)) names.push_back(name_of(row));
    const std::vector<std::string_view> known(names.begin(), names.end());
    return flag_error("--tune",
                      fmt::format("no system here has '{}'{}", excerpt(number.name), did_you_mean(number.name, known)),
                      "max-batch-tokens, batch, or a number that --list numbers names");
  }
  if (options.workload.seeds.size() < 2)
    return flag_error("--tune", "one workload cannot choose numbers and judge them",
                      "--seeds 1..8, or of a trace --windows 8, as well");
  if (options.mpi || !options.node.tenants.empty())
    return flag_error("--tune", options.mpi ? "its rungs run in one process" : "tenants share their numbers",
                      options.mpi ? "no --mpi" : "no --tenants");

  const std::vector<std::uint64_t> seeds = tuning_seeds(options);
  std::vector<Tuned> all;
  for (const System* system : c.systems)
    for (const bool deposit : {false, true}) {
      if (deposit ? !c.with_deposit || system->deposit_never : !c.without_deposit) continue;
      Tuned one{system, deposit, candidates_of(*numbers, *system), {}, {}, 0, {}};
      one.rounds = rounds_of(one.candidates.size(), seeds.size());
      one.left.resize(one.candidates.size());
      std::iota(one.left.begin(), one.left.end(), std::size_t{0});
      one.goodput.resize(one.candidates.size());
      all.push_back(std::move(one));
    }

  Record record(options, command);
  RunCount runs;
  // A system's rounds are its own, so that the others do not decide how well it is tuned.
  for (bool more = true; more;) {
    std::map<std::pair<std::string, std::vector<std::uint64_t>>, Batch> batches; // by setting and workloads
    const auto workloads = [&](const Tuned& one) {
      return std::vector<std::uint64_t>(seeds.begin() + static_cast<std::ptrdiff_t>(one.ran()),
                                        seeds.begin() + static_cast<std::ptrdiff_t>(one.rounds[one.round]));
    };
    more = false;
    for (const Tuned& one : all)
      for (const std::size_t candidate : one.left) {
        if (one.chosen()) break;
        more = true;
        const std::vector<std::uint64_t> now = workloads(one);
        const std::string name = text_of(one.candidates[candidate]);
        const bool known = std::all_of(now.begin(), now.end(), [&](std::uint64_t seed) {
          return std::all_of(c.scales.begin(), c.scales.end(), [&](double scale) {
            return record.find({std::string{one.system->name}, one.deposit, name, scale, seed}).has_value();
          });
        });
        if (known) continue;
        Batch& batch = batches[{name, now}];
        batch.setting = one.candidates[candidate];
        batch.systems.insert(one.system->name);
      }
    std::vector<std::pair<Options, Comparison>> prepared;
    if (!more) break;
    std::vector<std::string> names;
    for (const auto& [key, batch] : batches) {
      const auto& [name, now] = key;
      const Expected<Options> made = options_of(options, batch.setting, batch.systems, now);
      if (!made) return made.error();
      Expected<Comparison> comparison = prepare_seeds(*made, command);
      if (!comparison) return comparison.error();
      comparison->as_recorded.reset();   // a candidate is chosen by its seeds
      comparison->base_slo = c.base_slo; // of the first judged workload, as for the judged runs
      prepared.emplace_back(*made, *std::move(comparison));
      prepared.back().first.case_label = "tuning, " + name;
      names.push_back(name);
    }
    std::vector<Asked> asked;
    asked.reserve(prepared.size());
    for (const auto& [made, comparison] : prepared) asked.push_back({made, comparison});
    Status no_files;
    const Expected<Compared> made = compare_all(asked, crew, no_files);
    if (!made) return made.error();
    runs += made->runs;
    for (std::size_t i = 0; i < made->reports.size(); ++i)
      for (const SystemReport& row : made->reports[i].systems) {
        const std::vector<std::uint64_t>& now = prepared[i].first.workload.seeds;
        for (std::size_t seed = 0; seed < now.size(); ++seed) {
          const bool stuck = row.livelocks.empty() ? !row.livelock.empty() : !row.livelocks[seed].empty();
          const Metrics& metrics = row.per_seed.empty() ? row.metrics : row.per_seed[seed];
          const double goodput = metrics.goodput_requests_per_s;
          record.add({row.name, row.deposit, names[i], row.slo_scale, now[seed]},
                     stuck || std::isnan(goodput) ? -1 : goodput);
        }
      }
    if (Status written = record.write(); !written) return written.error();
    if (!runs.whole()) return runs;
    for (Tuned& one : all) {
      if (one.chosen()) continue;
      for (const std::size_t candidate : one.left)
        for (const std::uint64_t seed : workloads(one))
          for (const double scale : c.scales)
            one.goodput[candidate].push_back(*record.find(
                {std::string{one.system->name}, one.deposit, text_of(one.candidates[candidate]), scale, seed}));
      one.left = better_half(one.left, one.scores());
      ++one.round;
    }
  }

  std::map<std::string, std::vector<Setup>> setups; // by setting and system
  for (Tuned& one : all) {
    const std::vector<double> scores = one.scores();
    while (one.left.size() > 1) one.left = better_half(one.left, scores);
    const Setting& best = one.candidates[one.left.front()];
    const std::string name = text_of(best);
    std::vector<Setup>& made = setups[name + " of " + std::string{one.system->name}];
    if (!best.empty() && made.empty()) {
      const Expected<Options> chosen = options_of(options, best, {one.system->name}, options.workload.seeds);
      if (!chosen) return chosen.error();
      Expected<Comparison> comparison = prepare_seeds(*chosen, command);
      if (!comparison) return comparison.error();
      made = std::move(comparison->redrawn);
      if (comparison->as_recorded) made.push_back(std::move(comparison->as_recorded->setup));
      for (Setup& setup : made) setup.slo_classes = c.setup.slo_classes;
    }
    c.tuned.push_back({one.system, one.deposit, name, best.empty() ? std::vector<Setup>{} : made});
  }
  const char* const drawn = options.workload.windows > 0     ? "windows of the trace"
                            : options.workload.trace.empty() ? "seeds"
                                                             : "seeds, which draw the same trace's requests again";
  c.workload.notes.emplace_back(
      "Tuned",
      fmt::format("each system's best of {} by goodput, or as given; chosen on {} other {}, by successive halving",
                  options.tune, seeds.size(), drawn));
  return runs;
}

} // namespace compared
