// SPDX-License-Identifier: Apache-2.0
// JSON and table of sluice-run.
#include "run/results.hpp"

#include "sluice/core/utf8.hpp"
#include "sluice/report/number_text.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/observer/measure.hpp"

#include "run/shown.hpp"
#include "shared/sizes.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace running {

using namespace sluice;

std::size_t Results::done() const {
  return static_cast<std::size_t>(
      std::count_if(requests.begin(), requests.end(), [](const Result& one) { return one.done; }));
}

std::size_t Results::unfinished() const {
  return static_cast<std::size_t>(
      std::count_if(requests.begin(), requests.end(), [](const Result& one) { return one.unfinished; }));
}

namespace {

/// The text of `tokens` after `prompt`: the prompt's text followed by it is the text of both.
std::string text_of(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                    std::span<const std::int32_t> tokens) {
  TokenStream stream = continuation(tokenizer, prompt);
  std::string text;
  for (const std::int32_t token : tokens) text += stream.push(token);
  return replace_broken_utf8(text + stream.finish());
}

} // namespace

std::string json_text(const Options& options, const LocalModel& model, const Workload& workload,
                      const Results& results) {
  const Metrics metrics = measure(results.summary, results.end);
  std::string text;
  JsonWriter json{text};
  json.begin_object().field("made_by", made_by().line()).field("system", options.system);
  if (!workload.taken_for.empty()) json.field("read_as", workload.taken_for);
  json.key("requests").begin_array();
  for (std::size_t i = 0; i < results.requests.size(); ++i) {
    const Result& one = results.requests[i];
    json.begin_object().field("id", i).key("tokens").begin_array();
    for (const std::int32_t token : one.tokens) json.value(token);
    json.end_array();
    const bool known = i < results.summary.requests.size();
    const RequestRecord record = known ? results.summary.requests[i] : RequestRecord{};
    json.field("ttft_s", record.started() ? record.ttft().count() : Metrics::absent);
    json.field("status", one.done ? "done" : one.unfinished ? "unfinished" : "refused").field("reason", one.reason);
    json.field("prompt_tokens", workload.requests[i].prompt.count());
    json.field("e2e_s", one.done ? record.e2e().count() : Metrics::absent);
    json.field("longest_gap_s", record.started() ? record.longest_gap.count() : Metrics::absent);
    json.field("preemptions", record.times_preempted);
    if (model.tokenizer != nullptr && !options.prompts.empty())
      json.field("text", text_of(*model.tokenizer, workload.prompt(i), one.tokens));
    json.end_object();
  }
  json.end_array();
  const std::int64_t in = results.moved.to_device.bytes.count();
  const std::int64_t out = results.moved.to_host.bytes.count();
  json.field("bytes_moved", in + out).field("preemptions", metrics.times_preempted).field("plans", metrics.plans);
  json.field("stall_s", metrics.stall_s).field("peak_device_bytes", results.device_peak.count());
  json.field("model", options.model).field("threads", options.threads);
  json.field("device_memory_bytes", results.device_memory.count()).field("weight_bytes", results.weights.count());
  json.field("peak_host_bytes", results.host_peak.count());
  if (results.peak_resident) json.field("peak_resident_bytes", results.peak_resident->count());
  json.field("bytes_to_device", in).field("bytes_to_host", out);
  if (const std::optional<GraphCounts>& graphs = results.graphs) { // how a GPU launched small iterations
    json.key("graphs").begin_object().field("made", graphs->made).field("replayed", graphs->replayed);
    json.field("launched", graphs->launched).field("refused", graphs->refused).end_object();
  }
  json.field("mean_step_s",
             metrics.iterations > 0 ? metrics.busy_s / static_cast<double>(metrics.iterations) : Metrics::absent);
  // As in sluice-compare's report, from the engine's ledger: it counts blocks, the link counts bytes.
  json.key("metrics").begin_object();
  for_each_metric(metrics, [&json](const char* name, auto number) {
    if (in_json(name, static_cast<double>(number))) json.field(name, number);
  });
  json.end_object().end_object();
  return text + "\n";
}

std::string table_text(const Options& options, const LocalModel& model, const Results& results) {
  const Metrics m = measure(results.summary, results.end);
  const LatencyDistributions of = latencies(results.summary);
  const auto ms = [](double seconds) {
    return std::isnan(seconds) ? std::string{"-"} : milliseconds_text(seconds) + " ms";
  };
  std::string text;
  const auto row = [&text](const char* name, const std::string& content) {
    text += fmt::format("{:<14}{}\n", name, content);
  };
  const std::size_t done = results.done(), unfinished = results.unfinished();
  row("system", fmt::format("{} on {}, {} thread{}", options.system, without_controls(model.weights.config.shape.name),
                            options.threads, options.threads == 1 ? "" : "s"));
  row("requests", fmt::format("{} done, {} refused{}; {} tokens in {}, {} per second", done,
                              results.requests.size() - done - unfinished,
                              unfinished > 0 ? fmt::format(", {} not finished", unfinished) : "", m.tokens_delivered,
                              time_text(results.end.count()), short_text(m.throughput_tokens_per_s)));
  row("TTFT",
      fmt::format("mean {:>9}   P95 {:>9}   max {:>9}", ms(m.mean_ttft_s), ms(m.p95_ttft_s), ms(of.ttft.quantile(1))));
  row("TBT", fmt::format("mean {:>9}   P95 {:>9}   max {:>9}", ms(m.mean_tbt_s), ms(m.p95_tbt_s), ms(m.longest_gap_s)));
  if (!std::isnan(m.tbt_attainment))
    row("attainment",
        fmt::format("{} % of tokens in time (TBT), {} % of requests within all SLOs; goodput {} per second",
                    percent_text(m.tbt_attainment), percent_text(m.slo_attainment),
                    short_text(m.goodput_requests_per_s)));
  row("stalls", fmt::format("{} of {} in {} iterations", time_text(m.stall_s), time_text(m.busy_s), m.iterations));
  const double in = static_cast<double>(results.moved.to_device.bytes.count());
  const double out = static_cast<double>(results.moved.to_host.bytes.count());
  row("moved", fmt::format("{} to the device, {} to the host", bytes_text(in), bytes_text(out)));
  row("plans", fmt::format("{}, in {}", m.plans, time_text(m.planning_wall_s)));
  row("preemptions", fmt::format("{}", m.times_preempted));
  row("device peak",
      fmt::format("{} of {}", exact_bytes(results.device_peak.count()), exact_bytes(results.device_memory.count())));
  std::size_t shown = 0;
  for (std::size_t i = 0; i < results.requests.size(); ++i) {
    if (results.requests[i].done || results.requests[i].unfinished) continue;
    if (++shown > 10) continue;
    row("refused", fmt::format("request {}: {}", i, without_controls(results.requests[i].reason)));
  }
  if (shown > 10) row("", fmt::format("... and {} more", shown - 10));
  return text;
}

} // namespace running
