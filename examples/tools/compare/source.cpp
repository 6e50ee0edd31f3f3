// SPDX-License-Identifier: Apache-2.0
// Opens the workload, and checks that it can be drawn.
#include "compare/source.hpp"

#include "sluice/workload/generator.hpp"
#include "sluice/workload/nlohmann/orbitflow_json.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/session_generator.hpp"
#include "sluice/workload/session_queue.hpp"

#include "compare/comparison.hpp"
#include "shared/trace_flags.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

namespace compared {

using namespace sluice;

namespace {

/// Returns the mean of a distribution of lengths. For a lognormal one it may be slightly too high, since too long draws
/// are repeated.
double mean_of(const LengthDistribution& lengths) {
  const auto middle = [](const UniformLength& range) {
    return 0.5 * static_cast<double>(range.least.count() + range.most.count());
  };
  if (const auto* fixed = std::get_if<FixedLength>(&lengths)) return static_cast<double>(fixed->tokens.count());
  if (const auto* uniform = std::get_if<UniformLength>(&lengths)) return middle(*uniform);
  if (const auto* lognormal = std::get_if<LognormalLength>(&lengths)) return lognormal->mean;
  double sum = 0, weights = 0;
  for (const BinnedLength::Bin& bin : std::get<BinnedLength>(lengths).bins) {
    sum += bin.weight * middle(bin.lengths);
    weights += bin.weight;
  }
  return sum / weights;
}

} // namespace

Expected<Source> source_of(const WorkloadOptions& workload) {
  Source source{.demo = workload.trace.empty() && !workload.generate};
  if (workload.trace.empty()) return source;
  Expected<TraceFile> found = find_trace(workload);
  if (!found) return found.error();
  source.file = *std::move(found);
  if (source.file->format != TraceFormat::orbitflow) return source;
  const Expected<OrbitFlowHeader> header = read_orbitflow_header(workload.trace);
  if (!header) return header.error();
  source.header = *header;
  return source;
}

Expected<Requests> opened_sessions(Expected<Requests> of) {
  if (!of) return of;
  const auto source = std::make_shared<Requests>(*std::move(of));
  const auto merge = std::make_shared<OpenSessions>();
  return Requests{[source, merge] { return merge->next(*source); }, [merge] { return merge->content(); }};
}

Expected<Openers> openers_of(const Options& options, const Source& source, bool whole, Seconds full_step) {
  std::optional<GeneratorSpec> lengths;
  if (!options.workload.lengths.empty()) {
    Expected<GeneratorSpec> spec = parse_generator(options.workload.lengths);
    if (!spec) return flag_error("--lengths", spec.error().what, spec.error().expected);
    lengths = *std::move(spec);
    lengths->requests = 1'000'000'000; // as many as the trace has
  }
  const std::uint64_t seed = options.workload.seed;
  const ReadOptions read{.limit = whole ? std::optional<std::int64_t>{} : options.workload.limit,
                         .rate_scale = options.workload.rate_scale,
                         .slo_classes = options.slo_classes,
                         .class_seed = seed,
                         .opened_later = options.workload.sessions == "open",
                         .arrivals_in_steps = by_steps(options.workload)};
  const std::string generator = options.workload.generate.value_or("demo");
  const auto open = [=, file = source.file](Slo slo) -> Expected<Trace> {
    ReadOptions with_slo = read;
    with_slo.slo = slo;
    if (!file) return open_generator(generator, seed, with_slo);
    const bool steps = file->format == TraceFormat::orbitflow;
    return open_trace(*file, with_slo, steps ? std::optional<Seconds>{full_step} : std::nullopt);
  };
  const auto as_recorded = [open, lengths, seed](Slo slo) -> Expected<Requests> {
    Expected<Trace> opened = open(slo);
    if (!opened) return opened.error();
    std::shared_ptr<Generator> drawn;
    if (lengths) drawn = std::make_shared<Generator>(*lengths, seed);
    const auto trace = std::make_shared<Trace>(*std::move(opened));
    if (!lengths) return Requests{[trace] { return trace->next(); }, [trace] { return trace->content(); }};
    // With other lengths, the known content does not belong to these requests.
    return Requests{[trace, drawn]() -> Expected<std::optional<RequestSpec>> {
      Expected<std::optional<RequestSpec>> request = trace->next();
      if (!request || !*request) return request;
      const Expected<std::optional<RequestSpec>> other = drawn->next();
      if (!other) return other.error();
      (*request)->prompt = (*other)->prompt;
      (*request)->output = (*other)->output;
      return request;
    }};
  };
  return Openers{open, as_recorded,
                 [as_recorded, open_sessions = options.workload.sessions == "open"](Slo slo) -> Expected<Requests> {
                   return open_sessions ? opened_sessions(as_recorded(slo)) : as_recorded(slo);
                 }};
}

Expected<std::vector<RequestSpec>> requests_of(const OpenRequests& open) {
  Expected<Requests> reader = open(Slo{});
  if (!reader) return reader.error();
  return read_all(*reader);
}

Status check_count(const WorkloadOptions& workload) {
  constexpr std::int64_t most = 20'000'000; // 2 GB of records for each run
  if (!workload.generate) return {};
  std::int64_t asked = 0;
  if (describes_sessions(*workload.generate)) {
    const Expected<SessionSpec> spec = parse_sessions(*workload.generate);
    if (!spec) return spec.error();
    // The turns are random, but the mean over that many sessions is close to the distribution's.
    asked = std::llround(static_cast<double>(spec->sessions) * mean_of(spec->turns));
  } else {
    const Expected<GeneratorSpec> spec = parse_generator(*workload.generate);
    if (!spec) return spec.error();
    asked = spec->requests;
  }
  asked = std::min(asked, workload.limit.value_or(asked));
  if (asked <= most) return {};
  return flag_error("--generate",
                    fmt::format("it has {} requests, and each takes about 100 bytes of every run's records", asked),
                    fmt::format("at most {}, or --limit", most));
}

} // namespace compared
