// SPDX-License-Identifier: Apache-2.0
// sluice-run: generates text on this machine under the policies of a system, with real tokens and real bytes.
//
// The problem: a simulator shows no races, no late copies and no reads of blocks that have not arrived, so a policy
// needs a real run, too. Goals of this program: run any of the papers' systems with a real decoder, in two memories of
// given sizes; generate the same tokens under every policy; and report the costs for readers and for programs.
#include "engines/program.hpp"

#include "sluice/core/text.hpp"

#include "run/job.hpp"
#include "run/model.hpp"
#include "run/options.hpp"
#include "run/results.hpp"
#include "run/serve.hpp"
#include "shared/interrupt.hpp"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace {

int fail(const sluice::Error& error) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", engines::program_name(), error.line().c_str());
  return 2;
}

void list_names() {
  for (const engines::System& system : engines::real_systems()) fmt::print("{:<22} {}\n", system.name, system.what);
  fmt::print("\n--model:\n{}", running::models_text());
}

/// Catches what the standard library throws if the system refuses memory or threads, and returns it as an error line.
sluice::Expected<running::Served> serve_or_say(const running::Options& options, running::KeptWeights* kept = nullptr) {
  try {
    return running::serve(options, kept);
  } catch (const std::bad_alloc&) {
    return sluice::Error{sluice::ErrorCode::out_of_memory, "memory", "the system refuses what this run needs",
                         "smaller requests and memories, or a larger limit (ulimit -v)"};
  } catch (const std::system_error& error) {
    return sluice::Error{sluice::ErrorCode::out_of_memory, "--threads",
                         std::string{"the system refuses a thread: "} + error.what(),
                         "fewer, or a larger limit (ulimit -u, ulimit -v)"};
  }
}

/// The answer to one line of --runs; nothing if a signal ended the run.
std::optional<std::string> answer(const std::string& line, running::KeptWeights& kept) {
  const auto failed = [](const std::string& why) { return nlohmann::json{{"error", why}}.dump() + "\n"; };
  const nlohmann::json given = nlohmann::json::parse(line, nullptr, false);
  const auto is_text = [](const nlohmann::json& flag) { return flag.is_string(); };
  if (!given.is_array() || !std::all_of(given.begin(), given.end(), is_text))
    return failed("--runs: a line is '" + sluice::excerpt(line) +
                  R"('; expected flags, such as ["--system","VllmSwap"])");
  std::vector<std::string> flags{engines::program_name()};
  for (const nlohmann::json& flag : given) flags.push_back(flag);
  std::vector<char*> arguments;
  for (std::string& flag : flags) arguments.push_back(flag.data());
  arguments.push_back(nullptr);
  running::Options options;
  if (running::parse_options(static_cast<int>(flags.size()), arguments.data(), options))
    return failed("--runs: the flags of a line are wrong; standard error says why");
  if (options.list || options.runs) return failed("--runs: a line has --list or --runs; expected flags of a run");
  options.json = true;
  if (sluice::Status status = running::check_options(options); !status) return failed(status.error().line());
  const sluice::Expected<running::Served> served = serve_or_say(options, &kept);
  if (!served) return failed(served.error().line());
  if (served->interrupted) return std::nullopt;
  if (served->nothing) return failed(served->nothing->line());
  if (served->unwritten) return failed(served->unwritten->line());
  return json_text(options, served->model, served->workload, served->results);
}

int run_each() {
  running::KeptWeights kept;
  for (std::string line; std::getline(std::cin, line);) {
    const std::optional<std::string> said = answer(line, kept);
    if (!said) return sluice::interrupted_code();
    std::fputs(said->c_str(), stdout);
    std::fflush(stdout);
  }
  return 0;
}

} // namespace

int running::program(int argc, char** argv) {
  running::Options options;
  if (const std::optional<int> status = running::parse_options(argc, argv, options)) return *status;
  if (options.list) {
    list_names();
    return 0;
  }
  if (options.runs) {
    if (argc == 2) return run_each();
    return fail(running::flag_error("--runs", "other flags are given as well", "this flag alone"));
  }
  if (sluice::Status status = running::check_options(options); !status) return fail(status.error());
  const sluice::Expected<running::Served> served = serve_or_say(options);
  if (!served) return fail(served.error());
  std::string text;
  if (options.json)
    text = json_text(options, served->model, served->workload, served->results);
  else if (!served->nothing)
    text = (!options.from_trace()                ? "\n"
            : served->workload.taken_for.empty() ? std::string{}
                                                 : options.trace + " " + served->workload.taken_for + "\n") +
           table_text(options, served->model, served->results);
  std::fputs(text.c_str(), stdout);
  if (served->interrupted) {
    std::fflush(stdout);
    fmt::print(stderr,
               "{}: interrupted: {} of {} requests finished; the figures above cover the requests served "
               "until then; no file is written\n",
               engines::program_name(), served->results.done(), served->results.requests.size());
    return sluice::interrupted_code();
  }
  if (served->nothing) return fail(*served->nothing);
  if (served->unwritten) return fail(*served->unwritten);
  if (!options.out.empty() && !options.json)
    fmt::print("\n{0}/report.json  for programs\n{0}/*.csv        tables (docs/results.md)\n", options.out);
  return 0;
}
