// SPDX-License-Identifier: Apache-2.0
// sluice-explore: ranks every engine that some policies per role can compose, on one workload.
//
// The problem: each paper compares its system with a few others, so it is unclear which part of a system made it
// better, and whether parts of two papers together would be better still. Goals of this program: enumerate the
// compositions at compile time (include/sluice/engine/product.hpp), run them all, and measure the effect of each choice
// on the given workload.
#include "engines/program.hpp"

#include "compare/command_line.hpp"
#include "compare/comparison.hpp"
#include "explore/exploration.hpp"
#include "explore/numbers_search.hpp"
#include "shared/crew.hpp"
#include "shared/interrupt.hpp"
#include "shared/kv_dtype.hpp"
#include "shared/out_folder.hpp"
#include "shared/set_flag.hpp"
#include "shared/slo_classes_flag.hpp"
#include "shared/trace_flags.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using namespace sluice;
using compared::Comparison;
using compared::flag_error;
using explored::Exploration;

struct Options : compared::Options {
  std::int64_t top = 15;
  bool list = false;
  std::string numbers; ///< a file; empty: compositions are explored
};

int fail(const Error& error) {
  std::fprintf(stderr, "%s: %s\n", engines::program_name(), error.line().c_str());
  return 2;
}

/// Prints every composition that can be explored, one engine per line, as C++ source.
void list_space() {
  const explored::Space space = explored::space();
  for (const explored::Candidate& engine : space.engines) fmt::print("{}\n", engine.name);
}

Status check(const Options& options) {
  if (options.deposit != "on" && options.deposit != "off")
    return flag_error("--deposit", fmt::format("it is '{}'", excerpt(options.deposit)), "on or off");
  if (options.slo_scales.size() > 1) return flag_error("--slo-scale", "there are several", "one scale");
  return {};
}

/// --numbers: what to run is in its file, so the flags that say so for compositions would be ignored.
Status check_alone(const CLI::App& app, const std::string& file) {
  const std::vector<std::string> also{"--numbers", "--out", "--threads", "--quiet", "--mpi"};
  for (const CLI::Option* option : app.get_options())
    if (const std::string name = option->get_name();
        option->count() > 0 && std::find(also.begin(), also.end(), name) == also.end())
      return flag_error(name, "not with --numbers",
                        "only --out, --threads, --quiet and --mpi, and all else in " + excerpt(file, 160));
  return {};
}

Status publish(const Options& options, const Exploration& found) {
  if (!found.rows.empty()) std::fputs(exploration_text(found, static_cast<std::size_t>(options.top)).c_str(), stdout);
  if (options.out.empty() || !found.runs.whole()) return {};
  std::vector<NamedText> files = exploration_tables(found);
  files.emplace_back("explore.json", exploration_json(found));
  files.emplace_back("explore.html", exploration_html(found));
  if (Status written = write_all(options.out, files); !written) return written;
  fmt::print("\n{0}/explore.html  for reading\n{0}/explore.json  for programs\n{0}/*.csv         tables "
             "(docs/results.md)\n",
             options.out);
  return {};
}

/// --numbers: searches the numbers of one system instead of compositions.
int run_numbers(const Options& options, Crew& crew) {
  crew.threads(options.threads);
  Expected<explored::NumbersPlan> plan = explored::read_numbers_plan(options.numbers);
  Status made = plan ? Status{} : Status{plan.error()};
  if (made && !options.out.empty() && crew.leads()) made = compared::make_folder(options.out);
  if (Status agreed = crew.agree(made, options.numbers); !agreed) return fail(agreed.error());
  heed_interrupts();
  const Expected<explored::NumbersFound> found = explored::search_numbers(*plan, options.out, options.quiet, crew);
  if (!found) return fail(found.error());
  if (!crew.leads()) return 0;
  if (!found->whole) {
    fmt::print(stderr, "{}: interrupted after {} runs; {}\n", engines::program_name(), found->ran,
               options.out.empty() ? "with --out, a search can be continued"
                                   : "the same command continues from those in " + options.out);
    return interrupted_code();
  }
  std::fputs(explored::numbers_text(*plan, *found).c_str(), stdout);
  if (found->kept > 0) fmt::print(stderr, "{}: {} runs were there already\n", engines::program_name(), found->kept);
  if (options.out.empty()) return 0;
  const std::vector<NamedText> files{{"numbers.csv", explored::numbers_csv(*plan, *found)}};
  if (Status written = write_all(options.out, files); !written) return fail(written.error());
  fmt::print("\n{0}/numbers.csv  the settings of the last round\n{0}/runs.jsonl   every run\n", options.out);
  return 0;
}

int run(const Options& options, const std::string& command, Crew& crew) {
  if (!options.numbers.empty()) return run_numbers(options, crew);
  crew.threads(options.threads);
  if (Status checked = check(options); !checked) return fail(checked.error());
  const Expected<Comparison> comparison = prepare_seeds(options, command);
  const Status prepared = comparison ? Status{} : Status{comparison.error()};
  if (Status agreed = crew.agree(prepared, comparison ? compared::told(options, *comparison) : ""); !agreed)
    return fail(agreed.error());
  if (!options.out.empty() && crew.leads()) {
    std::error_code failed;
    std::filesystem::create_directories(options.out, failed);
    if (failed)
      return fail(
          flag_error("--out", "the folder " + options.out + " cannot be made", "a path that can be written to"));
  }
  heed_interrupts();
  const Expected<Exploration> found = explored::explore(options, *comparison, crew);
  if (!found) return fail(found.error());
  if (!crew.leads()) return 0;
  if (Status published = publish(options, *found); !published) return fail(published.error());
  if (found->runs.whole()) return 0;
  std::fflush(stdout);
  fmt::print(stderr, "{}: interrupted: {} of {} runs finished; {}{}\n", engines::program_name(), found->runs.finished,
             found->runs.of,
             found->rows.empty() ? "no row is complete, so none is shown"
                                 : "only complete rows are shown above, and only they count in the effects of choices",
             options.out.empty() ? "" : "; no file is written: the folder of --out is unchanged");
  return interrupted_code();
}

} // namespace

int explored::program(int argc, char** argv) {
  const Expected<std::unique_ptr<Crew>> crew = compared::crew_of({argv + 1, argv + argc});
  if (!crew) return fail(crew.error());
  ::Options options;
  options.deposit = "off";
  options.composes = true;
  Flags flags{engines::program_name(),
              "Serves one workload with every engine that some policies per role compose, simulated, "
              "ranks them together with published systems, and shows the effect of each choice."};
  CLI::App& app = flags.app();
  constexpr std::int64_t many = 1'000'000'000;
  add_trace_flags(flags, options.workload, "a trace file (default: a generated workload, \"demo\")");
  app.add_option("--generate", options.workload.generate,
                 "a generated workload instead, e.g. sharegpt:rate=2,requests=200; see docs/workloads.md");
  flags.whole("--limit", options.workload.limit, 0, std::numeric_limits<std::int64_t>::max(),
              "serve the first N requests only");
  add_arrival_flags(flags, options.workload.rate_scale, options.workload.sessions);
  app.add_option("--model", options.machine.model,
                 "a model by name, or a folder or file of a Hugging Face config (default: the profile's, or " +
                     std::string{default_model} + ")");
  flags.name("--kv-dtype", options.machine.kv_dtype, kv_dtype_help)->default_str(options.machine.kv_dtype);
  app.add_option("--device", options.machine.device, "a device by name, or a JSON file")->capture_default_str();
  app.add_option("--profile", options.machine.profile,
                 "measured times: an OrbitFlow profile (.json) or a folder of kernel times (default: a roofline)");
  flags.whole("--kv-blocks", options.machine.kv_blocks, 1, many,
              "device memory for KV, in token blocks of 16 tokens (all layers; default: as in sluice-compare)");
  flags.whole("--batch", options.machine.batch, 1, 1'000'000,
              "most requests in a batch (default: the trace's, 4 for the demo, or 256)");
  flags.whole("--max-batch-tokens", options.machine.batch_tokens, 1, many,
              "most tokens computed in one iteration (default: the trace's, 32768 for the demo, or 2048)");
  flags.numbers("--slo-scale", options.slo_scales, 0, false, "a multiple of the base SLO (default: 1.5)");
  flags.number("--slo-tbt", options.slo_tbt, 0, false,
               "the base SLO, seconds per token (default: a step that fills the budget)");
  flags.number("--slo-ttft", options.slo_ttft, 0, false, "seconds to the first token (default: 5)");
  add_slo_classes(flags, options.slo_classes);
  app.add_option("--systems", options.systems, "published systems to rank as well: names with commas, or all")
      ->capture_default_str();
  app.add_option("--deposit", options.deposit, "on or off: token deposit for every engine and system")
      ->capture_default_str();
  flags.number("--alpha", options.tuning.alpha, 0, true,
               "misses per step that DistancePlacement's plans may accept (default: 1, OrbitFlow's)");
  flags.number("--max-pause", options.tuning.max_pause, 0, true,
               "seconds after which paused requests may return (default: never bounded)");
  flags.whole("--rotation-blocks", options.tuning.rotation_blocks, 0, many,
              "token blocks that one decision of LargestVirtualLagFirst may move beyond the free memory (default: by "
              "link, memory "
              "and SLO, at most 2400)");
  add_set_flag(app, options.tuning.set);
  flags.other("--numbers",
              "search the numbers of one system's policies instead: a JSON file of the numbers, and of the workloads "
              "and seeds to choose and to test on (docs/explore.md)",
              [&options](const std::string& text) -> std::string {
                options.numbers = text;
                return text.empty() ? "a JSON file" : "";
              });
  flags.whole("--top", options.top, 1, many, "compositions to print (default: 15)");
  flags.whole("--threads", options.threads, 1, 1024, "runs at once (default: one per processor)");
  flags.folder("--out", options.out, "folder for explore.html, explore.json and tables as CSV");
  compared::add_seed_flags(flags, options);
  app.add_flag("--list", options.list, "print every composition as C++ source, and stop");
  app.add_flag("--quiet", options.quiet, "show no progress");
  app.add_flag("--mpi", options.mpi, compared::mpi_help);
  if (const std::optional<int> status = flags.parse(argc, argv)) return *status;
  if (Status alone = options.numbers.empty() ? Status{} : check_alone(app, options.numbers); !alone)
    return fail(alone.error());
  if (options.list) {
    list_space();
    return 0;
  }
  return run(options, compared::shell_line({argv + 1, argv + argc}), **crew);
}
