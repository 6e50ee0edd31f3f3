// SPDX-License-Identifier: Apache-2.0
// Reads the file of --numbers.
#include "explore/numbers_plan.hpp"

#include "sluice/core/nlohmann/json_fields.hpp"
#include "sluice/core/random.hpp"
#include "sluice/core/text.hpp"
#include "sluice/workload/seeds.hpp"

#include "compare/command_line.hpp"
#include "compare/systems.hpp"
#include "engines/registry.hpp"
#include "shared/files_digest.hpp"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace explored {

using namespace sluice;
using nlohmann::json;

namespace {

Error wrong(const std::string& path, std::string what, std::string expected) {
  return {ErrorCode::bad_input, path, std::move(what), std::move(expected)};
}

/// `[least, most]` for a number of the system.
Expected<SearchedNumber> read_number(const std::string& path, const std::string& name, const json& range,
                                     const compared::System& system) {
  const std::vector<engines::NumberRow> all = system.numbers();
  const auto row = std::find_if(all.begin(), all.end(), [&](const engines::NumberRow& one) {
    return std::string{one.policy} + "." + std::string{one.name} == name;
  });
  if (row == all.end()) {
    std::vector<std::string> names;
    for (const engines::NumberRow& one : all) names.push_back(fmt::format("{}.{}", one.policy, one.name));
    return wrong(path, fmt::format("{} has no number '{}'{}", system.name, excerpt(name), did_you_mean(name, names)),
                 "one of those that sluice-compare --list numbers has for its policies");
  }
  const bool two = range.is_array() && range.size() == 2 && range[0].is_number() && range[1].is_number();
  const double least = two ? range[0].get<double>() : 1, most = two ? range[1].get<double>() : 0;
  if (!(least < most) || least < row->least || most > row->most)
    return wrong(path, fmt::format("{} has the range {}", name, excerpt(range.dump())),
                 fmt::format("[least, most] within {:g} and {:g}", row->least, row->most));
  return SearchedNumber{*row, least, most};
}

/// Flags of sluice-compare that are the search's own, or ask for output that it does not have.
bool of_no_workload(const std::string& flag) {
  constexpr std::array<std::string_view, 26> flags{
      "--baseline", "--bound",     "--capacity",       "--cells", "--columns",   "--data",    "--deposit",
      "--devices",  "--dry-run",   "--help",           "--list",  "--mpi",       "--out",     "--plot",
      "--preset",   "--seed",      "--seeds",          "--table", "--systems",   "--threads", "--tokens",
      "--trace-at", "--no-traces", "--iteration-rows", "--why",   "--wall-times"};
  return flag == "--version" || flag == "-h" || std::find(flags.begin(), flags.end(), flag) != flags.end();
}

/// Whether the workload's flags set this number: by --set, or to another value by a flag of its own such as
/// --max-pause.
bool sets(const engines::NumberRow& number, const std::vector<std::string>& by_set,
          const std::vector<engines::NumberSetting>& all) {
  const std::string begin = fmt::format("{}.{}=", number.policy, number.name);
  return std::any_of(by_set.begin(), by_set.end(), [&](const std::string& one) { return one.starts_with(begin); }) ||
         std::any_of(all.begin(), all.end(), [&](const engines::NumberSetting& one) {
           return one.policy == number.policy && one.name == number.name && one.value != number.value;
         });
}

Expected<SearchedWorkload> read_workload(const NumbersPlan& plan, const std::string& name, const std::string& flags,
                                         const std::vector<std::uint64_t>& seeds) {
  std::vector<std::string> words{"--systems", plan.system_name, "--deposit", plan.deposit ? "on" : "off"};
  const std::string where = plan.path + ": " + name;
  std::istringstream in(flags);
  for (std::string word; in >> word; words.push_back(word))
    if (const std::string flag = word.substr(0, word.find('=')); of_no_workload(flag))
      return wrong(where, "it has " + flag, "flags of the workload and the machine alone");
  compared::CommandLine line;
  if (const Expected<std::string> read = line.read(words); !read) {
    Error error = read.error();
    error.where = where + ": " + error.where;
    return error;
  }
  if (!line.listed.empty())
    return wrong(where, line.listed.front().flag + " has several values", "one value for each flag");
  compared::Options options = line.options;
  if (seeds.size() > 1) {
    options.workload.seeds = seeds;
  } else {
    options.workload.seed = seeds.front();
    options.workload.seed_stated = true;
  }
  Expected<compared::Comparison> comparison = prepare_seeds(options, "");
  if (!comparison) {
    Error error = comparison.error();
    error.where = where + ": " + error.where;
    return error;
  }
  for (const SearchedNumber& number : plan.numbers)
    if (sets(number.of, line.options.tuning.set, comparison->setup.numbers))
      return wrong(where, fmt::format("it sets {}.{}, which is searched", number.of.policy, number.of.name),
                   "only numbers that the search does not draw");
  if (comparison->scales.size() != 1) return wrong(where, "it has several SLO scales", "one --slo-scale");
  return SearchedWorkload{name, flags, files_digest(words), std::move(options), *std::move(comparison)};
}

Expected<SearchedSet> read_set(const NumbersPlan& plan, const json& file, const char* name) {
  const std::string expected = R"({"seeds": "1..4", "workloads": ["a name", ...]})";
  if (!file.contains(name) || !file[name].is_object())
    return wrong(plan.path, std::string{name} + " is missing", expected);
  const JsonFields fields(file[name], plan.path + ": " + name);
  if (Status known = fields.only({"seeds", "workloads"}); !known) return known.error();
  const Expected<std::string> text = fields.text("seeds", "seeds such as \"1..4\"");
  if (!text) return text.error();
  Expected<std::vector<std::uint64_t>> seeds = parse_seeds(*text);
  if (!seeds) return wrong(fields.where(), "seeds is '" + excerpt(*text) + "'", seeds.error().expected);
  SearchedSet set{*std::move(seeds), {}};
  const json& names = file[name].value("workloads", json());
  if (!names.is_array() || names.empty()) return wrong(fields.where(), "workloads is missing", expected);
  for (const json& one : names) {
    const std::string of = one.is_string() ? one.get<std::string>() : one.dump();
    const json& flags = file["workloads"].contains(of) ? file["workloads"][of] : json();
    if (!flags.is_string()) {
      std::vector<std::string> known;
      for (const auto& item : file["workloads"].items()) known.push_back(item.key());
      return wrong(fields.where(), "there is no workload '" + excerpt(of) + "'" + did_you_mean(of, known),
                   "a name from \"workloads\", whose value is a text of flags");
    }
    Expected<SearchedWorkload> workload = read_workload(plan, of, flags.get<std::string>(), set.seeds);
    if (!workload) return workload.error();
    set.workloads.push_back(*std::move(workload));
  }
  return set;
}

/// A workload in no set would be read by nobody, and a mistake in it stay.
Status check_used(const NumbersPlan& plan, const json& workloads) {
  for (const auto& item : workloads.items()) {
    const auto is_it = [&](const SearchedWorkload& one) { return one.name == item.key(); };
    if (std::none_of(plan.train.workloads.begin(), plan.train.workloads.end(), is_it) &&
        std::none_of(plan.test.workloads.begin(), plan.test.workloads.end(), is_it))
      return wrong(plan.path, "the workload '" + excerpt(item.key()) + "' is in no set", "each in train or in test");
  }
  return {};
}

/// A setting that was chosen on a run is not tested by the same run.
Status check_apart(const NumbersPlan& plan) {
  for (const SearchedWorkload& train : plan.train.workloads)
    for (const SearchedWorkload& test : plan.test.workloads)
      for (const std::uint64_t seed : plan.train.seeds)
        if (train.flags == test.flags &&
            std::find(plan.test.seeds.begin(), plan.test.seeds.end(), seed) != plan.test.seeds.end())
          return wrong(plan.path, fmt::format("{} has seed {} in both sets", test.name, seed),
                       "test seeds that no train workload has");
  return {};
}

} // namespace

Expected<NumbersPlan> read_numbers_plan(const std::string& path) {
  const Expected<json> file = read_json_object(path);
  if (!file) return file.error();
  const JsonFields fields(*file, path);
  if (Status known =
          fields.only({"about", "system", "deposit", "numbers", "settings", "seed", "workloads", "train", "test"});
      !known)
    return known.error();
  NumbersPlan plan;
  plan.path = path;
  const Expected<std::string> system = fields.text("system", "a system's name");
  if (!system) return system.error();
  const Expected<std::vector<const compared::System*>> found = compared::chosen_systems(*system);
  if (!found || found->size() != 1 || found->front()->numbers == nullptr) {
    std::vector<std::string_view> known;
    for (const compared::System& one : engines::simulated_systems()) known.push_back(one.name);
    return wrong(path, "system is '" + excerpt(*system) + "'" + (found ? "" : did_you_mean(*system, known)),
                 "one simulated system");
  }
  plan.system_name = *system;
  plan.system = found->front();
  if (fields.has("deposit")) {
    const Expected<bool> deposit = fields.flag("deposit");
    if (!deposit) return deposit.error();
    plan.deposit = *deposit;
  }
  const Expected<std::int64_t> settings = fields.whole("settings", 1, 100'000);
  if (!settings) return settings.error();
  plan.settings = *settings;
  if (fields.has("seed")) {
    const Expected<std::int64_t> seed = fields.whole("seed", 0, INT64_MAX);
    if (!seed) return seed.error();
    plan.seed = static_cast<std::uint64_t>(*seed);
  }
  for (const char* name : {"numbers", "workloads"})
    if (!file->contains(name) || !(*file)[name].is_object() || (*file)[name].empty())
      return fields.missing(name, name == std::string{"numbers"} ? R"({"Policy.number": [least, most]})"
                                                                 : R"({"a name": "flags of sluice-compare"})");
  for (const auto& [name, range] : (*file)["numbers"].items()) {
    Expected<SearchedNumber> number = read_number(path, name, range, *plan.system);
    if (!number) return number.error();
    plan.numbers.push_back(*std::move(number));
  }
  for (const auto& [name, set] : {std::pair{"train", &plan.train}, std::pair{"test", &plan.test}}) {
    Expected<SearchedSet> read = read_set(plan, *file, name);
    if (!read) return read.error();
    *set = *std::move(read);
  }
  if (Status used = check_used(plan, (*file)["workloads"]); !used) return used.error();
  if (Status apart = check_apart(plan); !apart) return apart.error();
  return plan;
}

std::vector<std::vector<double>> NumbersPlan::drawn() const {
  Random random{seed};
  std::vector<std::vector<double>> all(1);
  for (const SearchedNumber& number : numbers) all.front().push_back(number.of.value);
  for (std::int64_t i = 0; i < settings; ++i) {
    std::vector<double> values;
    for (const SearchedNumber& number : numbers) {
      const double at = random.uniform();
      const double value = number.least > 0 ? number.least * std::pow(number.most / number.least, at)
                                            : number.least + (number.most - number.least) * at;
      // Three digits, so that a setting can be typed as it was run.
      const double scale = std::pow(10, std::floor(std::log10(std::max(std::abs(value), 1e-9))) - 2);
      const double rounded = number.of.whole ? std::round(value) : std::round(value / scale) * scale;
      values.push_back(std::clamp(rounded, number.least, number.most));
    }
    all.push_back(std::move(values));
  }
  return all;
}

} // namespace explored
