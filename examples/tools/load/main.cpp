// SPDX-License-Identifier: Apache-2.0
// sluice-load: sends a workload to a server with the OpenAI API; measures and checks the answers.
//
// The problem: load generators measure how fast tokens come, and assume that they are the right ones. Goals of this
// program: thousands of streams on one thread, at a fraction of what a server spends on them; arrivals of any trace;
// clients that leave and clients that do not read; every answer checked to its last byte.
#include "load/load.hpp"
#include "load/options.hpp"
#include "load/report.hpp"
#include "load/workload.hpp"
#include "shared/whole_output.hpp"
#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace {

using namespace sluice;

int fail(const Error& error) {
  std::fflush(stdout);
  std::fprintf(stderr, "sluice-load: %s\n", error.line().c_str());
  return 2;
}

/// A connection is a file: as many as the system allows.
void allow_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

int run(loading::Options& options) {
  if (Status checked = loading::check_options(options); !checked) return fail(checked.error());
  const Expected<loading::Workload> workload = loading::read_workload(options);
  if (!workload) return fail(workload.error());
  allow_files();
  const Expected<loading::LoadReport> report = loading::load(options, *workload);
  if (!report) return fail(report.error());
  std::fputs(loading::report_text(options, *report).c_str(), stdout);
  std::fflush(stdout);
  if (!options.json.empty())
    if (Status written = loading::write_json(options.json, loading::report_json(options, *report)); !written)
      return fail(written.error());
  if (!options.out.empty())
    if (Status written = loading::write_json(options.out, loading::report_trace(*report)); !written)
      return fail(written.error());
  const bool nothing = report->completed == 0 && report->left == std::array<std::int64_t, 3>{};
  return report->flawed > 0 || nothing ? 1 : 0;
}

int program(int argc, char** argv) {
  loading::Options options;
  if (const std::optional<int> status = loading::parse_options(argc, argv, options)) return *status;
  try {
    return run(options);
  } catch (const std::bad_alloc&) {
    return fail({ErrorCode::out_of_memory, "memory", "the system refuses what so many requests need",
                 "fewer requests, or a larger limit (ulimit -v)"});
  }
}

} // namespace

int main(int argc, char** argv) {
  return with_whole_output("sluice-load", [&] { return program(argc, argv); });
}
