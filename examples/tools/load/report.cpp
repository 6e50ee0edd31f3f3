// SPDX-License-Identifier: Apache-2.0
// The table and the JSON of sluice-load.
#include "load/report.hpp"

#include "sluice/report/number_text.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/report/table.hpp"
#include "sluice/report/unfinished_file.hpp"

#include "load/statistics.hpp"
#include "shared/version.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace loading {

using namespace sluice;

namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : std::numeric_limits<double>::quiet_NaN();
}

/// What a promise was kept of; NaN where none was given.
struct Attainments {
  double ttft, tpot, tbt, both;
};
Attainments attainments(const SloTally& of) {
  return {share(of.met_ttft, of.owed_ttft), share(of.met_tpot, of.owed_tpot), share(of.on_time, of.on_time + of.missed),
          share(of.met, of.owed)};
}

double a_second(double count, const LoadReport& report) {
  return report.duration > 0 ? count / report.duration : std::numeric_limits<double>::quiet_NaN();
}
double processor_us(const LoadReport& report) {
  return report.pieces > 0 ? report.processor * 1e6 / static_cast<double>(report.pieces)
                           : std::numeric_limits<double>::quiet_NaN();
}

template <class Visit>
void visit_latencies(const LoadReport& report, Visit&& visit) {
  visit("ttft", "TTFT", Statistics(report.ttfts));
  visit("tpot", "TPOT", Statistics(report.tpots));
  visit("itl", "ITL", Statistics(report.gaps));
  visit("e2el", "E2EL", Statistics(report.latencies));
}

} // namespace

std::string report_text(const Options& options, const LoadReport& report) {
  std::string out = fmt::format("{}, {} requests to {} at {}: {} completed, {} failed", report.workload,
                                report.requests, report.model, options.url, report.completed, report.failed);
  if (!report.taken_for.empty()) out = fmt::format("{} {}\n", report.workload, report.taken_for) + out;
  if (const std::int64_t left = std::accumulate(report.left.begin(), report.left.end(), std::int64_t{0}); left > 0)
    out += fmt::format(", {} left ({} waiting, {} in prefill, {} in decode)", left, report.left[0], report.left[1],
                       report.left[2]);
  if (report.slow + report.slow_cut > 0)
    out += fmt::format(", {} read slowly ({} of them cut)", report.slow + report.slow_cut, report.slow_cut);
  out += fmt::format("\n{} tokens in, {} out in {}: {} requests/s, {} tokens/s; at most {} at once\n", report.input,
                     report.output, time_text(report.duration),
                     short_text(a_second(static_cast<double>(report.completed), report)),
                     short_text(a_second(static_cast<double>(report.output), report)), report.most_at_once);
  TextTable table({{"", "ms"}, {"", "mean"}, {"", "median"}, {"", "std"}, {"", "P99"}, {"", "max"}});
  visit_latencies(report, [&](const char*, const char* title, const auto& of) {
    table.row({title, short_text(1e3 * of.mean()), short_text(1e3 * of.median()), short_text(1e3 * of.deviation()),
               short_text(1e3 * of.percentile(99)), short_text(1e3 * of.largest())});
  });
  out += table.text();
  const auto attainment = [&](const std::string& whose, const SloTally& tally) {
    const Attainments met = attainments(tally);
    if (std::isnan(met.both)) return;
    out += fmt::format("attainment{}, %: SLO {}, TTFT {}, TPOT {}, TBT {}; goodput {} requests/s\n", whose,
                       percent_text(met.both), percent_text(met.ttft), percent_text(met.tpot), percent_text(met.tbt),
                       short_text(a_second(static_cast<double>(tally.met), report)));
  };
  if (report.all.owed > 0) out += '\n';
  attainment("", report.all);
  for (std::size_t i = 0; i < report.classes.size(); ++i)
    attainment(fmt::format(" of {} ({} requests)", options.slo_classes[i].name, report.classes[i].owed),
               report.classes[i]);
  if (report.latest_start > 0.1)
    out += fmt::format("\na request was sent {} after its arrival: {}\n", time_text(report.latest_start),
                       report.most_at_once >= options.concurrency ? "--concurrency held it back"
                                                                  : "this machine had no time for it");
  for (const auto& [what, error] : report.errors)
    out += fmt::format("\n{}: {} requests{}", what, error.count, error.example.empty() ? "" : ": " + error.example);
  for (std::size_t flaw = 0; flaw < report.flaws.size(); ++flaw)
    if (report.flaws[flaw] > 0)
      out += fmt::format("\nVIOLATION {}: {} answers {}", flaw_names[flaw], report.flaws[flaw], flaw_texts[flaw]);
  if (!report.errors.empty() || report.flawed > 0) out += '\n';
  return out + fmt::format("\n{} us of processor time here for each of {} pieces of text\n",
                           short_text(processor_us(report)), report.pieces);
}

std::string report_json(const Options& options, const LoadReport& report) {
  std::string out;
  JsonWriter json(out);
  json.begin_object()
      .key("made_by")
      .value(made_by().line())
      .key("backend")
      .value(options.chat() ? "openai-chat" : "openai");
  json.key("model_id")
      .value(report.model)
      .key("base_url")
      .value(options.url)
      .key("workload")
      .value(report.workload)
      .key("read_as")
      .value(report.taken_for);
  json.key("num_prompts").value(report.requests).key("max_concurrency").value(options.concurrency);
  json.key("duration").value(report.duration).key("completed").value(report.completed);
  json.key("failed").value(report.failed);
  json.key("total_input_tokens").value(report.input).key("total_output_tokens").value(report.output);
  json.key("request_throughput").value(a_second(static_cast<double>(report.completed), report));
  const Attainments met = attainments(report.all);
  const double goodput = std::isnan(met.both) ? met.both : a_second(static_cast<double>(report.all.met), report);
  json.key("request_goodput")
      .value(std::isnan(met.both) ? met.both : a_second(static_cast<double>(report.all.met_mean), report));
  json.key("output_throughput").value(a_second(static_cast<double>(report.output), report));
  json.key("total_token_throughput").value(a_second(static_cast<double>(report.input + report.output), report));
  std::int64_t most = 0;
  for (const std::int64_t pieces : report.pieces_by_second) most = std::max(most, pieces);
  json.key("max_output_tokens_per_s").value(most).key("max_concurrent_requests").value(report.most_at_once);
  visit_latencies(report, [&](const std::string& name, const char*, const auto& of) {
    json.key("mean_" + name + "_ms").value(1e3 * of.mean()).key("median_" + name + "_ms").value(1e3 * of.median());
    json.key("std_" + name + "_ms").value(1e3 * of.deviation());
    json.key("p99_" + name + "_ms").value(1e3 * of.percentile(99));
  });
  const auto promise = [&](const char* name, double seconds) { json.key(name).value(1e3 * seconds); };
  promise("slo_ttft_ms", options.slo_ttft);
  promise("slo_tbt_ms", options.slo_tbt);
  json.key("slo_attainment").value(met.both).key("ttft_attainment").value(met.ttft);
  json.key("tpot_attainment").value(met.tpot).key("tbt_attainment").value(met.tbt).key("goodput").value(goodput);
  if (!report.classes.empty()) {
    json.key("slo_classes").begin_array();
    for (std::size_t i = 0; i < report.classes.size(); ++i) {
      const SloClass& one = options.slo_classes[i];
      const Attainments own = attainments(report.classes[i]);
      json.begin_object().field("name", one.name).field("requests", report.classes[i].owed);
      json.field("slo_ttft_ms", 1e3 * one.slo.ttft.count()).field("slo_tbt_ms", 1e3 * one.slo.tbt.count());
      json.field("slo_attainment", own.both).field("ttft_attainment", own.ttft);
      json.field("tpot_attainment", own.tpot).field("tbt_attainment", own.tbt).end_object();
    }
    json.end_array();
  }
  json.key("left_waiting").value(report.left[0]).key("left_prefill").value(report.left[1]);
  json.key("left_decode").value(report.left[2]).key("slow").value(report.slow).key("slow_cut").value(report.slow_cut);
  json.key("latest_start_ms").value(1e3 * report.latest_start);
  json.key("client_us_per_token").value(processor_us(report));
  json.key("errors").begin_object();
  for (const auto& [what, error] : report.errors) json.key(what).value(error.count);
  json.end_object().key("violations").begin_object();
  for (std::size_t flaw = 0; flaw < report.flaws.size(); ++flaw) json.key(flaw_names[flaw]).value(report.flaws[flaw]);
  json.end_object().end_object();
  return out + "\n";
}

std::string report_trace(const LoadReport& report) {
  std::string out = "request_id,server_input_tokens,output_tokens,arrival_time_us,send_time_us,first_chunk_time_us,"
                    "last_chunk_time_us,status\n";
  std::vector<const LoadReport::Answer*> in_order;
  for (const LoadReport::Answer& answer : report.answers) in_order.push_back(&answer);
  std::sort(in_order.begin(), in_order.end(), [](const auto* a, const auto* b) { return a->due < b->due; });
  std::size_t number = 0;
  for (const LoadReport::Answer* answer : in_order)
    out += fmt::format("{},{},{},{:.0f},{:.0f},{:.0f},{:.0f},ok\n", number++, answer->prompt, answer->output,
                       1e6 * answer->due, 1e6 * answer->sent, 1e6 * (answer->sent + answer->ttft),
                       1e6 * (answer->sent + answer->latency));
  return out;
}

Status write_json(const std::string& path, const std::string& json) {
  Expected<UnfinishedFile> file = UnfinishedFile::create(path);
  if (!file) return file.error();
  if (Status written = file->write(0, std::as_bytes(std::span(json))); !written) return written;
  return file->finish();
}

} // namespace loading
