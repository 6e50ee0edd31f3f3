// SPDX-License-Identifier: Apache-2.0
// Successive halving over the train seeds, then the front's figures on the test set.
#include "explore/numbers_search.hpp"

#include "sluice/report/order.hpp"

#include "compare/drawn_table.hpp"
#include "compare/outcome.hpp"
#include "compare/rows.hpp"
#include "shared/crew.hpp"
#include "shared/progress.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

namespace explored {

using namespace sluice;
using nlohmann::json;

namespace {

/// SLO attainment, goodput, E2E and gap of all requests. A livelocked run has none of the first two, and waits for
/// ever.
using RunFigures = std::array<double, 4>;

/// One run: a setting on one workload with one seed.
struct RunAt {
  std::size_t setting = 0;
  const SearchedWorkload* workload = nullptr;
  std::size_t seed = 0; ///< index in the set
  std::uint64_t drawn_by = 0;
};

std::string settings_text(const NumbersPlan& plan, const std::vector<double>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += fmt::format("{}{}.{}={}", i > 0 ? " " : "", plan.numbers[i].of.policy, plan.numbers[i].of.name, values[i]);
  return text;
}

/// What a run depends on, besides the build: the key of its line in runs.jsonl.
std::string key_of(const NumbersPlan& plan, const std::vector<double>& values, const RunAt& run) {
  const std::string& files = run.workload->files;
  return fmt::format("{}{} | {}{}{} | seed {} | {}", plan.system_name, plan.deposit ? " with deposit" : "",
                     run.workload->flags, files.empty() ? "" : " | files ", files, run.drawn_by,
                     settings_text(plan, values));
}

json as_json(const RunFigures& figures) {
  json all = json::array();
  for (const double one : figures) all.push_back(std::isfinite(one) ? json(one) : json());
  return all;
}
RunFigures figures_of(const json& all) {
  const double worst[] = {0, 0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  RunFigures figures;
  for (std::size_t i = 0; i < figures.size(); ++i)
    figures[i] = all.at(i).is_null() ? worst[i] : all.at(i).get<double>();
  return figures;
}

/// The finished runs, also of earlier calls: in memory, and in a file line by line.
class RunJournal {
 public:
  /// Reads what is there. A last line without an end was being written when the program was killed: it is cut off.
  static Expected<RunJournal> open(const std::string& folder) {
    RunJournal journal;
    if (folder.empty()) return journal;
    journal.path_ = folder + "/runs.jsonl";
    std::string whole;
    std::ifstream in(journal.path_, std::ios::binary);
    std::size_t number = 0;
    for (std::string line; std::getline(in, line) && !in.eof(); ++number) {
      const json one = json::parse(line, nullptr, false);
      const bool head = number == 0 && one.is_object() && one.contains("made_by");
      if (head && one["made_by"] != made_by().line())
        return Error{ErrorCode::bad_input, journal.path_, "its runs are of another build: " + one["made_by"].dump(),
                     "an empty folder, or the same build: " + made_by().line()};
      const bool run = number > 0 && one.is_object() && one.contains("run") && one["run"].is_string() &&
                       one.contains("figures") && one["figures"].is_array() && one["figures"].size() == 4;
      if (!head && !run)
        return Error{ErrorCode::bad_input, fmt::format("{}:{}", journal.path_, number + 1), "it is no line of a search",
                     "an empty folder, or one that sluice-explore --numbers left"};
      if (run) journal.runs_[one["run"].get<std::string>()] = figures_of(one["figures"]);
      whole += line + "\n";
    }
    if (whole.empty()) whole = json{{"made_by", made_by().line()}}.dump() + "\n";
    // Written anew beside the old file, which a kill or a full disk must not lose.
    const std::string anew = journal.path_ + ".new";
    std::ofstream(anew, std::ios::binary | std::ios::trunc) << whole;
    std::error_code wrong;
    if (std::filesystem::file_size(anew, wrong) == whole.size() && !wrong)
      std::filesystem::rename(anew, journal.path_, wrong);
    else
      wrong = std::make_error_code(std::errc::io_error);
    journal.out_.open(journal.path_, std::ios::binary | std::ios::app);
    if (wrong || !journal.out_)
      return Error{ErrorCode::bad_input, journal.path_, "it cannot be written", "a folder that can be written to"};
    journal.loaded_ = journal.runs_.size();
    return journal;
  }

  [[nodiscard]] std::size_t loaded() const { return loaded_; } ///< runs of earlier calls
  [[nodiscard]] const RunFigures* find(const std::string& key) const {
    const auto found = runs_.find(key);
    return found == runs_.end() ? nullptr : &found->second;
  }
  Status add(const std::string& key, const RunFigures& figures) {
    runs_[key] = figures_of(as_json(figures)); // as a later call will read it
    if (!out_.is_open()) return {};
    out_ << json{{"run", key}, {"figures", as_json(figures)}}.dump() << "\n" << std::flush;
    if (out_) return {};
    return Error{ErrorCode::bad_input, path_, "a run cannot be written", "room on the disk"};
  }

 private:
  std::string path_;
  std::map<std::string, RunFigures> runs_;
  std::size_t loaded_ = 0;
  std::ofstream out_;
};

/// The runs of a search. Every process of the crew makes the same calls; the leader has the figures.
class Search {
 public:
  Search(const NumbersPlan& plan, RunJournal journal, bool quiet, Crew& crew)
      : plan_(plan), journal_(std::move(journal)), quiet_(quiet), crew_(crew), settings_(plan.drawn()) {}

  [[nodiscard]] const std::vector<std::vector<double>>& settings() const { return settings_; }
  [[nodiscard]] std::size_t kept() const { return journal_.loaded(); }
  [[nodiscard]] std::size_t ran() const { return ran_; }

  /// Runs these settings on the first `seeds` seeds of the set. False after an interrupt.
  Expected<bool> run(const SearchedSet& set, const std::vector<std::size_t>& which, std::size_t seeds) {
    const std::vector<RunAt> all = all_runs(set, which, seeds);
    std::string missing; // the leader's journal decides which runs are made
    for (const RunAt& one : all)
      missing += journal_.find(key_of(plan_, settings_[one.setting], one)) != nullptr ? '0' : '1';
    missing = crew_.share(missing);
    std::vector<RunAt> runs;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (missing[i] == '1') runs.push_back(all[i]);
    std::vector<RunFigures> figures(runs.size());
    std::mutex ending; // guards the journal, `progress` and `ended`
    Progress progress(static_cast<double>(runs.size()), stderr,
                      quiet_ || runs.empty() ? Progress::Style::silent : Progress::Style::detect);
    std::size_t ended = 0;
    Status written;
    Jobs jobs;
    jobs.count = runs.size();
    jobs.run = [&](std::size_t i) { return run_one(runs[i], figures[i]); };
    jobs.pack = [&](std::size_t i) { return as_json(figures[i]).dump(); };
    jobs.unpack = [&](std::size_t i, std::string_view bytes) {
      figures[i] = figures_of(json::parse(bytes));
      return Status{};
    };
    jobs.ended = [&](std::size_t i) {
      const std::lock_guard lock(ending);
      if (Status added = journal_.add(key_of(plan_, settings_[runs[i].setting], runs[i]), figures[i]); !added)
        written = added;
      progress.update(static_cast<double>(++ended),
                      fmt::format("{} settings on {} seed{}", which.size(), seeds, seeds > 1 ? "s" : ""));
    };
    if (Status status = crew_.run(jobs); !status) return status.error();
    if (!written) return written.error();
    ran_ += ended;
    const bool whole = crew_.share(crew_.leads() && ended == runs.size() ? "whole" : "") == "whole";
    if (!whole) progress.finish("interrupted after");
    return whole;
  }

  /// Means over the first `seeds` seeds, for each of `which`.
  [[nodiscard]] std::vector<SettingFigures> figures(const SearchedSet& set, const std::vector<std::size_t>& which,
                                                    std::size_t seeds) const {
    std::vector<SettingFigures> all;
    for (const std::size_t setting : which) {
      SettingFigures of{0, 0, 0, 0};
      double count = 0;
      for (const RunAt& run : all_runs(set, {setting}, seeds)) {
        RunAt defaults = run;
        defaults.setting = 0;
        const RunFigures& own = *journal_.find(key_of(plan_, settings_[setting], run));
        const RunFigures& base = *journal_.find(key_of(plan_, settings_[0], defaults));
        const auto ratio = [](double a, double b) {
          return a == b ? 0.0 : std::log(std::max(a, 1e-9) / std::max(b, 1e-9));
        };
        of.slo += own[0];
        of.goodput += ratio(own[1], base[1]);
        of.e2e += ratio(own[2], base[2]);
        of.gap += ratio(own[3], base[3]);
        ++count;
      }
      all.push_back({of.slo / count, std::exp(of.goodput / count), std::exp(of.e2e / count), std::exp(of.gap / count)});
    }
    return all;
  }

 private:
  static std::vector<RunAt> all_runs(const SearchedSet& set, const std::vector<std::size_t>& which, std::size_t seeds) {
    std::vector<RunAt> runs;
    for (const std::size_t setting : which)
      for (const SearchedWorkload& workload : set.workloads)
        for (std::size_t seed = 0; seed < seeds; ++seed) runs.push_back({setting, &workload, seed, set.seeds[seed]});
    return runs;
  }
  Status run_one(const RunAt& run, RunFigures& figures) const {
    const compared::Comparison& comparison = run.workload->comparison;
    compared::Setup setup = comparison.redrawn.empty() ? comparison.setup : comparison.redrawn[run.seed];
    for (std::size_t i = 0; i < plan_.numbers.size(); ++i) {
      const engines::NumberRow& number = plan_.numbers[i].of;
      setup.numbers.push_back({std::string{number.policy}, std::string{number.name}, settings_[run.setting][i]});
    }
    compared::Outcome outcome;
    const compared::Request request{.setup = setup,
                                    .slo = compared::slo_at(comparison, comparison.scales.front()),
                                    .deposit = plan_.deposit,
                                    .rule = plan_.system->rule,
                                    .tell = [](std::int64_t) { drop_if_interrupted(); }};
    if (Status status = compared::run(*plan_.system, request, outcome); !status) return status;
    const Metrics& of = outcome.report.metrics;
    figures = {of.slo_attainment, of.goodput_requests_per_s, of.mean_e2e_all_s, of.longest_gap_all_s};
    if (!outcome.report.livelock.empty()) figures.fill(std::numeric_limits<double>::quiet_NaN());
    figures = figures_of(as_json(figures));
    return {};
  }

  const NumbersPlan& plan_;
  RunJournal journal_;
  bool quiet_;
  Crew& crew_;
  std::vector<std::vector<double>> settings_;
  std::size_t ran_ = 0;
};

std::vector<Costs> costs_of(const std::vector<SettingFigures>& figures) {
  std::vector<Costs> costs;
  for (const SettingFigures& one : figures) costs.push_back(one.costs());
  return costs;
}

} // namespace

Expected<NumbersFound> search_numbers(const NumbersPlan& plan, const std::string& out, bool quiet, Crew& crew) {
  Expected<RunJournal> journal = crew.leads() ? RunJournal::open(out) : RunJournal{};
  if (Status agreed = crew.agree(journal ? Status{} : Status{journal.error()}, plan.path); !agreed)
    return agreed.error();
  Search search(plan, *std::move(journal), quiet, crew);
  NumbersFound found;
  std::vector<std::size_t> alive(search.settings().size());
  for (std::size_t i = 0; i < alive.size(); ++i) alive[i] = i;
  for (std::size_t seeds = 1;; seeds = std::min(2 * seeds, plan.train.seeds.size())) {
    const Expected<bool> whole = search.run(plan.train, alive, seeds);
    if (!whole) return whole.error();
    found.kept = search.kept();
    found.ran = search.ran();
    found.whole = *whole;
    if (!*whole) return found;
    found.rounds.emplace_back(alive.size(), seeds);
    if (seeds == plan.train.seeds.size()) break;
    // Every process goes on with the settings that the leader chose.
    json chosen = json::array();
    if (crew.leads())
      for (const std::size_t i : survivors(costs_of(search.figures(plan.train, alive, seeds)), (alive.size() + 1) / 2))
        chosen.push_back(alive[i]);
    alive = json::parse(crew.share(chosen.dump())).get<std::vector<std::size_t>>();
  }
  const Expected<bool> whole = search.run(plan.test, alive, plan.test.seeds.size());
  if (!whole) return whole.error();
  found.ran = search.ran();
  found.whole = *whole;
  if (!*whole || !crew.leads()) return found;
  const std::vector<SettingFigures> train = search.figures(plan.train, alive, plan.train.seeds.size());
  const std::vector<SettingFigures> test = search.figures(plan.test, alive, plan.test.seeds.size());
  const std::vector<std::size_t> by_train = pareto_layers(costs_of(train)), by_test = pareto_layers(costs_of(test));
  for (std::size_t i = 0; i < alive.size(); ++i)
    found.settings.push_back(
        {alive[i], search.settings()[alive[i]], train[i], test[i], by_train[i] == 0, by_test[i] == 0});
  return found;
}

std::string numbers_text(const NumbersPlan& plan, const NumbersFound& found) {
  const auto list = [](const SearchedSet& set) {
    std::string text;
    for (const SearchedWorkload& one : set.workloads) text += (text.empty() ? "" : ", ") + one.name;
    text += set.seeds.size() > 1 ? "; seeds " : "; seed ";
    for (std::size_t i = 0; i < set.seeds.size(); ++i) text += fmt::format("{}{}", i > 0 ? "," : "", set.seeds[i]);
    return text;
  };
  std::string text = fmt::format("{}{}: {} drawn settings of {} numbers and the defaults\n",
                                 marked(plan.system_name, marks_of(false, plan.system->foresees)),
                                 plan.deposit ? " with deposit" : "", plan.settings, plan.numbers.size());
  text += "chosen on (train): " + list(plan.train) + "\nnever chosen on (test): " + list(plan.test) + "\n";
  for (const auto& [settings, seeds] : found.rounds)
    text += fmt::format("{} settings on {} train seed{}\n", settings, seeds, seeds > 1 ? "s" : "");
  text += "\nThe Pareto front of the last round by the train set, and the defaults, by SLO attainment, then goodput;\n"
          "goodput, mean E2E and longest gap of all requests relative to the defaults; *: on the front by the test "
          "set, too\n\n";
  std::vector<std::string> heads{"setting", "train SLO", "goodput", "E2E", "gap", "test SLO", "goodput", "E2E", "gap"};
  for (const SearchedNumber& number : plan.numbers)
    heads.push_back(fmt::format("{}.{}", number.of.policy, number.of.name));
  std::vector<std::vector<std::string>> rows;
  std::vector<FoundSetting> shown = found.settings;
  std::erase_if(shown, [](const FoundSetting& one) { return !one.front && one.number != 0; });
  std::stable_sort(shown.begin(), shown.end(), [](const FoundSetting& a, const FoundSetting& b) {
    return std::pair{a.train.slo, a.train.goodput} > std::pair{b.train.slo, b.train.goodput};
  });
  for (const FoundSetting& one : shown) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back((one.number == 0 ? std::string{"defaults"} : fmt::format("{}", one.number)) +
                  (one.front_of_test ? "*" : ""));
    for (const SettingFigures& of : {one.train, one.test})
      for (const std::string& cell : {fmt::format("{:.1f}", 100 * of.slo), fmt::format("{:.3f}", of.goodput),
                                      fmt::format("{:.3f}", of.e2e), fmt::format("{:.3f}", of.gap)})
        row.push_back(cell);
    for (const double value : one.values) row.push_back(fmt::format("{:g}", value));
  }
  std::vector<bool> left(heads.size(), false);
  left.front() = true;
  return text + compared::drawn_table("full", heads, rows, left);
}

std::string numbers_csv(const NumbersPlan& plan, const NumbersFound& found) {
  std::string text = "setting,oracle,front,front_of_test";
  for (const char* set : {"train", "test"})
    for (const char* figure : {"slo_attainment", "goodput_of_defaults", "e2e_of_defaults", "gap_of_defaults"})
      text += fmt::format(",{}_{}", set, figure);
  for (const SearchedNumber& number : plan.numbers) text += fmt::format(",{}.{}", number.of.policy, number.of.name);
  text += "\n";
  for (const FoundSetting& one : found.settings) {
    text += fmt::format("{},{},{},{}", one.number, plan.system->foresees, one.front, one.front_of_test);
    for (const SettingFigures& of : {one.train, one.test})
      text += fmt::format(",{},{},{},{}", of.slo, of.goodput, of.e2e, of.gap);
    for (const double value : one.values) text += fmt::format(",{}", value);
    text += "\n";
  }
  return text;
}

} // namespace explored
