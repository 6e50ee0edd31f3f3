// SPDX-License-Identifier: Apache-2.0
// Checks the flags of resampling against each other and against the trace, and draws from it.
#include "compare/resampling.hpp"

#include "sluice/core/text.hpp"
#include "sluice/policy/cost/work.hpp"
#include "sluice/workload/reader.hpp"
#include "sluice/workload/workload.hpp"

#include "compare/comparison.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace compared {

using namespace sluice;

namespace {

/// Returns the number of units of a trace that are drawn whole: sessions, and requests of no session.
std::int64_t units_of(std::span<const RequestSpec> requests) {
  return std::count_if(requests.begin(), requests.end(), [](const RequestSpec& one) { return !one.follows; });
}

} // namespace

Expected<std::optional<Resampling>> resampling_of(const WorkloadOptions& workload) {
  const std::int64_t requests = workload.limit.value_or(0);
  if (workload.trace.empty() && (workload.windows > 0 || workload.offset > 0))
    return flag_error(workload.windows > 0 ? "--windows" : "--offset", "no trace is given",
                      "--trace as well: a generated workload is drawn by its seed");
  if (workload.windows > 0 && workload.resample)
    return flag_error("--resample", "windows are served as recorded", "--seeds instead of --windows, or no --resample");
  const bool by_seed = !workload.seeds.empty() || workload.seed_stated || workload.resample;
  if (workload.windows > 0 || (workload.offset > 0 && !by_seed))
    return std::optional{Resampling{.kind = Resampling::Kind::windows,
                                    .requests = requests,
                                    .windows = std::max<std::int64_t>(1, workload.windows),
                                    .offset = workload.offset}};
  if (workload.offset > 0)
    return flag_error("--offset", "a seed resamples the whole trace",
                      "--windows, or no --seed, --seeds and --resample");
  if (!workload.resample) {
    if (workload.trace.empty() || (workload.seeds.empty() && !workload.seed_stated)) return std::optional<Resampling>{};
    return std::optional{Resampling{.requests = requests}};
  }
  if (workload.trace.empty())
    return flag_error("--resample", "no trace is given", "--trace as well: a generated workload is drawn by its seed");
  const std::string_view text = *workload.resample;
  if (text == "arrivals") return std::optional{Resampling{.kind = Resampling::Kind::arrivals, .requests = requests}};
  if (text == "blocks") return std::optional{Resampling{.requests = requests}};
  Resampling how{.requests = requests};
  const std::string_view number = text.substr(std::min(text.find(':'), text.size() - 1) + 1);
  const auto [end, wrong] = std::from_chars(number.data(), number.data() + number.size(), how.block);
  if (!text.starts_with("blocks:") || wrong != std::errc{} || end != text.data() + text.size() || how.block < 1)
    return flag_error("--resample", fmt::format("it is '{}'", excerpt(text)),
                      "blocks, blocks:N with N requests each, or arrivals");
  return std::optional{how};
}

void resample(const WorkloadOptions& workload, const Resampling& how, Openers& open) {
  open.requests = [recorded = open.recorded, how, seed = workload.seed,
                   open_sessions = workload.sessions == "open"](Slo slo) -> Expected<Requests> {
    Expected<Requests> reader = recorded(slo);
    if (!reader) return reader.error();
    std::vector<RequestSpec> all;
    std::vector<std::vector<ContentPiece>> contents;
    if (Status status = read_all_with_content(*reader, all, contents); !status) return status.error();
    const auto again = std::make_shared<Resampled>(std::move(all), how, seed, std::move(contents));
    Requests resampled{[again] { return again->next(); }, [again] { return again->content(); }};
    return open_sessions ? opened_sessions(std::move(resampled)) : resampled;
  };
}

double busy_period(const World& world, std::span<const RequestSpec> requests, const Budget& budget,
                   const Limits& limits) {
  const WorkloadTotals sum = totals(requests);
  const double mean = static_cast<double>((sum.prompt + sum.output).count()) / static_cast<double>(sum.requests);
  double held = static_cast<double>((budget.blocks * limits.block_tokens.count()).count()) / mean;
  if (world.groups != nullptr) {
    const TokenBlocks blocks = blocks_for(Tokens{static_cast<std::int64_t>(mean)}, limits.block_tokens);
    held = static_cast<double>(budget.room.count()) /
           std::max(1.0, static_cast<double>(world.geometry(limits.block_tokens).kv_of(blocks).count()));
  }
  const int batch = static_cast<int>(std::clamp(held, 1.0, static_cast<double>(limits.batch)));
  const Seconds token = full_batch_step(world, sum, batch) / static_cast<double>(batch);
  std::vector<Seconds> arrivals, service;
  for (const RequestSpec& one : requests) {
    const ChunkWork prompt{.fresh = one.prompt};
    Work work;
    work.chunks = {&prompt, 1};
    work.samples = 1;
    arrivals.push_back(one.follows && !arrivals.empty() ? arrivals.back() : one.arrival);
    service.push_back(world.cost.step(work).total(world.shape.layers) +
                      token * static_cast<double>(one.output.count()));
  }
  return busy_period_requests(arrivals, service);
}

Status set_resampling(const WorkloadOptions& workload, std::span<const RequestSpec> recorded, double busy,
                      Resampling& how, WorkloadReport& w) {
  const std::int64_t units = units_of(recorded);
  const bool sessions = units < static_cast<std::int64_t>(recorded.size());
  if (how.kind == Resampling::Kind::windows) {
    const char* const flag = workload.windows > 0 ? "--windows" : "--offset";
    const std::int64_t left = units - how.offset, each = left / how.windows;
    if (left < how.windows || (how.requests > each && !sessions))
      return flag_error(flag,
                        how.windows == 1 ? fmt::format("the trace has {} {}", units, sessions ? "sessions" : "requests")
                                         : fmt::format("{} windows{} are more than the trace's {} {}", how.windows,
                                                       how.requests > 0 ? fmt::format(" of {} requests", how.requests)
                                                                        : std::string{},
                                                       left, sessions ? "sessions" : "requests"),
                        "fewer, or a smaller --limit");
    w.windows = true;
    if (how.windows == 1)
      w.redrawn = fmt::format("from number {}", how.offset + 1);
    else
      w.redrawn = fmt::format("in {} windows{}", how.windows,
                              how.requests > 0 ? fmt::format(" of {}", how.requests) : std::string{});
    return {};
  }
  if (how.block > units)
    return flag_error("--resample", fmt::format("a block has {} requests, and the trace {}", how.block, units),
                      "blocks with fewer requests than the trace: every seed would serve the same");
  if (how.kind == Resampling::Kind::arrivals) {
    w.redrawn = "resampled with new arrivals";
    return {};
  }
  if (how.block == 0) {
    const double a_unit = static_cast<double>(recorded.size()) / static_cast<double>(units); // requests
    const auto in_units = [a_unit](double requests) {
      return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(requests / a_unit)));
    };
    const std::int64_t served = how.requests > 0 ? std::min(in_units(static_cast<double>(how.requests)), units) : units;
    const std::int64_t least = Resampled::block_of(how, static_cast<std::size_t>(served)), most = (served + 7) / 8;
    how.block = std::max(least, std::min(in_units(busy), most));
    if (in_units(busy) > how.block)
      w.notes.emplace_back("Blocks", fmt::format("a busy period has {:.0f} requests, which blocks of {} cut: intervals "
                                                 "are too narrow; --windows compares parts of the trace as recorded",
                                                 busy, how.block));
    if (workload.arrivals == "steps")
      w.notes.emplace_back("Blocks", "arrivals count steps, so busy periods are unknown: blocks may cut them");
  }
  w.redrawn = fmt::format("resampled in blocks of {}", how.block);
  return {};
}

} // namespace compared
