// SPDX-License-Identifier: Apache-2.0
// Traces and generators of sluice-load.
#include "load/workload.hpp"

#include "sluice/core/random.hpp"
#include "sluice/core/text.hpp"
#include "sluice/workload/nlohmann/open_trace.hpp"

#include "shared/trace_flags.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace loading {

using namespace sluice;

namespace {

Expected<Trace> open(const Options& options) {
  const ReadOptions read{.limit = options.limit,
                         .rate_scale = options.rate_scale.value_or(1),
                         .slo = options.slo(),
                         .slo_classes = options.slo_classes,
                         .class_seed = static_cast<std::uint64_t>(options.seed),
                         .open_sessions = true}; // as recorded: this program has no closed loop
  if (!options.generate.empty())
    return open_generator(options.generate, static_cast<std::uint64_t>(options.seed), read);
  const Expected<TraceFile> file = find_trace(options);
  if (!file) return file.error();
  if (file->format == TraceFormat::orbitflow && !options.step_time)
    return flag_error("--step-time", "arrivals of '" + excerpt(options.trace, 200) + "' count an engine's steps",
                      "the seconds of one");
  const std::optional<Seconds> step = options.step_time ? std::optional{Seconds{*options.step_time}} : std::nullopt;
  return open_trace(*file, read, step);
}

} // namespace

Expected<Workload> read_workload(const Options& options) {
  Expected<Trace> trace = open(options);
  if (!trace) return trace.error();
  const Expected<std::vector<RequestSpec>> specs = read_all(*trace);
  if (!specs) return specs.error();
  Workload workload;
  workload.name = trace->workload().name;
  workload.taken_for = taken_for_text(trace->workload(), *specs);
  workload.requests.reserve(specs->size());
  for (const RequestSpec& spec : *specs) {
    Planned planned{.spec = spec};
    if (options.max_tokens) planned.spec.output = std::min(spec.output, Tokens{*options.max_tokens});
    workload.requests.push_back(planned);
  }
  draw_manners(workload.requests, options.leave, options.slow, static_cast<std::uint64_t>(options.seed));
  return workload;
}

void draw_manners(std::vector<Planned>& requests, double leave, double slow_share, std::uint64_t seed) {
  Random random(seed ^ 0x10adu); // apart from what a generator draws with the same seed
  for (Planned& planned : requests) {
    const double draw = random.uniform();
    const std::uint64_t which = random.below(6);
    const std::int64_t output = planned.spec.output.count();
    const auto after =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(std::max<std::int64_t>(1, output - 1))));
    if (draw < leave) {
      planned.manner = which % 3 == 0   ? Manner::leaves_waiting
                       : which % 3 == 1 ? Manner::leaves_prefill
                                        : Manner::leaves_decode;
      planned.leave_after = 1 + after;
    } else if (draw < leave + slow_share) {
      planned.manner = which % 2 == 0 ? Manner::reads_slowly : Manner::reads_never;
    }
  }
}

} // namespace loading
