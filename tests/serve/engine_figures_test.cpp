// SPDX-License-Identifier: Apache-2.0
#include "sluice/report/pages.hpp"
#include "sluice/serve/engine_figures.hpp"
#include "sluice/serve/live_json.hpp"

#include "serve/metrics_text.hpp"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace sluice;
using nlohmann::json;

namespace {

/// A view made by hand: eight layers, rows in order of their slots.
struct Scene {
  std::vector<RequestRow> rows;
  std::vector<Slot> running, preempted;
  Ledger ledger{LayerBlocks{400}, LayerBlocks{1000}};

  RequestRow& add(std::uint32_t id, const RequestSpec& spec) {
    RequestRow row;
    row.id = RequestId{id};
    row.spec = spec;
    rows.push_back(row);
    return rows.back();
  }
  [[nodiscard]] View view(double now, std::int64_t waiting = 0) const {
    View view;
    view.now = Seconds{now};
    view.step = 7;
    view.geometry.layers = 8;
    view.geometry.layer_block_bytes = Bytes{4096};
    view.rows = rows;
    view.running = running;
    view.preempted = preempted;
    view.waiting = waiting;
    view.ledger = &ledger;
    return view;
  }
};

RequestSpec spec_of(double arrival, double ttft, double tbt) {
  RequestSpec spec;
  spec.arrival = Seconds{arrival};
  spec.prompt = Tokens{20};
  spec.output = Tokens{100};
  spec.slo = {Seconds{ttft}, Seconds{tbt}};
  return spec;
}

json live(const EngineFigures& figures) { return json::parse(figures.live()); }

/// The value of one metric.
double metric(const EngineFigures& figures, const std::string& name) {
  const std::string text = sluice::testing::metrics_text(figures), line = "\n" + name + " ";
  const std::size_t at = text.find(line);
  REQUIRE_MESSAGE(at != std::string::npos, name);
  return std::stod(text.substr(at + line.size()));
}

} // namespace

TEST_CASE("EngineFigures before the first step are valid JSON") {
  const json state = live(EngineFigures{});
  CHECK(state["running"] == 0);
  CHECK(state["requests"].empty());
  CHECK(state["history"]["time_s"].empty());
  CHECK(state["failure"] == "");
}

TEST_CASE("EngineFigures count loaded tokens as hits, and found tokens of the host tier on their own") {
  EngineFigures figures;
  HostTierCounts tier;
  tier.asked = 1000;
  tier.found = 900;
  tier.from_disk = 200;
  tier.loaded = 300;
  tier.pinned = 3;
  tier.block_bytes = 100;
  tier.pins = 7;
  tier.lost_pins = 2;
  tier.refused = 5;
  tier.disk_reads.add(4096, std::chrono::milliseconds(250));
  figures.update(Scene{}.view(1), tier);
  CHECK(sluice::testing::metrics_text(figures).find("tier_capacity_bytes{tier=\"disk\"}") == std::string::npos);
  tier.disk = {1000, 400, 6, 8, 4, 1};
  figures.update(Scene{}.view(1), tier);
  CHECK(metric(figures, "sluice:tier_refused_blocks_total{tier=\"host\"}") == 5);
  CHECK(metric(figures, "sluice:tier_capacity_bytes{tier=\"disk\"}") == 1000);
  CHECK(metric(figures, "sluice:tier_used_bytes{tier=\"disk\"}") == 400);
  CHECK(metric(figures, "sluice:tier_waiting_blocks{tier=\"disk\"}") == 6);
  CHECK(metric(figures, "sluice:tier_stored_blocks_total{tier=\"disk\"}") == 8);
  CHECK(metric(figures, "sluice:tier_evicted_blocks_total{tier=\"disk\"}") == 4);
  CHECK(metric(figures, "sluice:tier_faults_total{tier=\"disk\"}") == 1);
  CHECK(metric(figures, "vllm:external_prefix_cache_queries_total") == 1000);
  CHECK(metric(figures, "vllm:external_prefix_cache_hits_total") == 300);
  CHECK(metric(figures, "sluice:tier_found_tokens_total{tier=\"host\"}") == 700);
  CHECK(metric(figures, "sluice:tier_found_tokens_total{tier=\"disk\"}") == 200);
  CHECK(metric(figures, "sluice:tier_pinned_bytes{tier=\"host\"}") == 300);
  CHECK(metric(figures, "sluice:tier_pins_total{tier=\"host\"}") == 7);
  CHECK(metric(figures, "sluice:tier_lost_pins_total{tier=\"host\"}") == 2);
  CHECK(metric(figures, "sluice:tier_read_bytes_total{tier=\"disk\"}") == 4096);
  CHECK(metric(figures, "sluice:tier_read_seconds_total{tier=\"disk\"}") == 0.25);
  CHECK(live(figures)["tier"]["found"] == 900);
  CHECK(live(figures)["tier"]["loaded"] == 300);
}

TEST_CASE("EngineFigures: the live state after a scripted sequence") {
  constexpr double never = std::numeric_limits<double>::infinity();
  EngineFigures figures;
  Scene scene;
  scene.ledger.grow({LayerBlocks{100}, LayerBlocks{50}});
  const RequestSpec paced = spec_of(1, 0.5, 0.1), free = spec_of(2, never, never);
  figures.entered(RequestId{3}, paced, {paced.slo});
  figures.entered(RequestId{4}, free, {free.slo});
  figures.update(scene.view(1.2, 2));
  json state = live(figures);
  CHECK(state["waiting"] == 2);
  REQUIRE(state["queue"].size() == 2);
  CHECK(state["queue"][0]["id"] == 3);
  CHECK(state["queue"][0]["slo"] == "met");
  CHECK(state["queue"][1]["slo"] == "none");
  CHECK(state["queue"][1]["slo_tbt_s"].is_null());
  figures.update(scene.view(1.6, 2)); // no first token, and it was due at 1.5
  CHECK(live(figures)["queue"][0]["slo"] == "missed");

  // Request 3 runs: layers 2 and 5 on the host, 7 nowhere. Its first token is late, its second in time, its third
  // comes after 0.35 s, in which three deadlines pass.
  scene.add(3, paced);
  scene.running = {Slot{0}};
  RequestRow& row = scene.rows[0];
  row.blocks = TokenBlocks{2};
  row.holding.host.insert(2).insert(5);
  row.holding.nowhere.insert(7);
  row.computed = Tokens{22};
  row.generated = Tokens{5};
  row.delivered = Tokens{3};
  for (const double when : {1.8, 1.9, 2.25}) figures.on(events::Delivered{row, Tokens{1}, Seconds{when}});
  row.computed = Tokens{24};

  Plan plan;
  plan.requests.push_back({Slot{0}, row.holding});
  plan.in_flight = LayerBlocks{6};
  plan.predicted_step = Seconds{0.02};
  plan.binding = Binding::link;
  plan.effort = 12;
  figures.on(events::Planned{scene.view(2.2, 1), plan, Seconds{0.0005}, Seconds{0.0005}});
  IterationRecord record;
  record.duration = Seconds{0.05};
  record.stall = Seconds{0.01};
  record.to_device = LayerBlocks{30};
  record.to_host = LayerBlocks{10};
  record.tokens = Tokens{1};
  figures.on(events::Iterated{record});
  figures.update(scene.view(2.25, 1));

  state = live(figures);
  REQUIRE(state["requests"].size() == 1);
  const json& shown = state["requests"][0];
  CHECK(shown["id"] == 3);
  CHECK(shown["phase"] == "decode");
  CHECK(shown["layers"] == "ddhddhdn");
  LiveRequest of;
  of.has_kv = true;
  of.nowhere.insert(1).insert(2);
  of.hidden.insert(2);
  CHECK(detail::places_of(of, 4) == "dnsd");
  of.states_on_device = true;
  CHECK(detail::places_of(of, 4) == "dnkd");
  CHECK(shown["head"].is_null());
  CHECK(shown["generated"] == 5);
  CHECK(shown["delivered"] == 3);
  CHECK(shown["held"] == 2);
  CHECK(shown["ttft_s"].get<double>() == doctest::Approx(0.8));
  CHECK(shown["on_time"] == 1);
  CHECK(shown["missed"] == 3);
  CHECK(shown["slo"] == "missed");
  REQUIRE(state["queue"].size() == 1);
  CHECK(state["queue"][0]["id"] == 4);
  REQUIRE(state["recent_plans"].size() == 1);
  const json& planned = state["recent_plans"][0];
  CHECK(planned["number"] == 1);
  CHECK(planned["step"] == 7);
  CHECK(planned["offload"] == 1);
  CHECK(planned["away"] == json::parse("[[3,3]]"));
  CHECK(planned["binding"] == "link");
  CHECK(planned["in_flight"] == 6);
  CHECK(state["host_capacity"] == 1000);
  CHECK(state["age_s"].get<double>() >= 0);

  // The page's figures equal those of /metrics.
  CHECK(metric(figures, "vllm:num_requests_running") == state["running"].get<double>());
  CHECK(metric(figures, "vllm:num_requests_waiting") == 1);
  CHECK(metric(figures, "vllm:kv_cache_usage_perc") == 0.25);
  CHECK(metric(figures, "sluice:blocks_to_device_total") == state["to_device"].get<double>());
  CHECK(metric(figures, "sluice:stall_seconds_total") == state["stall_s"].get<double>());
  CHECK(state["missed"] == 3);
  CHECK(metric(figures, "sluice:deposit_tokens") == 2);

  // Request 3 is preempted and resumed, while more deadlines pass; then it ends. The other request's client leaves.
  row.times_preempted = 1;
  row.preempted_since = Seconds{2.3};
  figures.on(events::Preempted{row, Kept::host, Seconds{2.3}});
  scene.running.clear();
  scene.preempted = {Slot{0}};
  figures.update(scene.view(2.5, 1));
  state = live(figures);
  CHECK(state["requests"][0]["phase"] == "preempted");
  row.holding = {};
  row.holding.nowhere = row.holding.hidden = LayerSet::all(8);
  row.holding.states_on_device = true;
  figures.update(scene.view(2.5, 1));
  CHECK(live(figures)["requests"][0]["layers"] == "kkkkkkkk");
  CHECK(state["requests"][0]["missed"] == 5); // at 2.35 and 2.45
  CHECK(state["missed"] == 3);                // counted when the next token comes, as in the metrics
  figures.on(events::Resumed{row, Seconds{2.55}});
  row.delivered = Tokens{5};
  figures.on(events::Delivered{row, Tokens{2}, Seconds{2.6}});
  figures.on(events::Ended{row, Seconds{2.6}});
  RequestRow left;
  left.id = RequestId{4};
  left.spec = free;
  figures.on(events::Cancelled{left, Seconds{2.65}});
  figures.refused("the queue is <full>");
  scene.preempted.clear();
  figures.update(scene.view(2.7));
  state = live(figures);
  CHECK(state["requests"].empty());
  CHECK(state["queue"].empty());
  REQUIRE(state["recent_moves"].size() == 2);
  CHECK(state["recent_moves"][0]["kept"] == "host");
  CHECK(state["recent_moves"][1]["away_s"].get<double>() == doctest::Approx(0.25));
  REQUIRE(state["recent_ends"].size() == 2);
  CHECK(state["recent_ends"][0]["kind"] == "end");
  CHECK(state["recent_ends"][0]["missed"] == 6);
  CHECK(state["recent_ends"][0]["slo"] == "missed");
  CHECK(state["recent_ends"][1]["kind"] == "cancel");
  CHECK(state["recent_ends"][1]["ttft_s"].is_null());
  CHECK(state["refusal"] == "the queue is <full>");
  CHECK(metric(figures, "sluice:ended_total") == 1);
  CHECK(metric(figures, "sluice:cancelled_total") == 1);
  CHECK(metric(figures, "vllm:num_preemptions_total") == 1);
  CHECK(metric(figures, "sluice:paused_seconds_total") == doctest::Approx(0.25));
  CHECK(state["history"]["time_s"] == json::parse("[1.6,2.7]")); // the last state of each two-second interval

  figures.failed("a plan that does not fit");
  CHECK(live(figures)["failure"] == "a plan that does not fit");
}

TEST_CASE("EngineFigures: the reasons for which requests wait add up, and a running one is none of them") {
  EngineFigures figures;
  Scene scene;
  for (const Phase phase : {Phase::waiting, Phase::waiting, Phase::running, Phase::preempted, Phase::ended}) {
    RequestRow& row = scene.add(static_cast<std::uint32_t>(scene.rows.size()), spec_of(0, 1, 1));
    row.phase = phase;
    row.waits = scene.rows.size() != 1;
  }
  scene.running = {Slot{2}};
  scene.preempted = {Slot{3}};
  figures.update(scene.view(1, 2));
  CHECK(metric(figures, "vllm:num_requests_waiting") == 3);
  CHECK(metric(figures, "vllm:num_requests_waiting_by_reason{reason=\"capacity\"}") == 1);
  CHECK(metric(figures, "vllm:num_requests_waiting_by_reason{reason=\"deferred\"}") == 2);
}

TEST_CASE("EngineFigures: the phases of requests, under vLLM's names") {
  EngineFigures figures;
  Scene scene;
  const RequestSpec spec = spec_of(1, 9, 9);
  for (const std::uint32_t id : {3U, 4U}) figures.entered(RequestId{id}, spec, {spec.slo});
  RequestRow& row = scene.add(3, spec);
  scene.running = {Slot{0}};
  IterationRecord record;
  record.duration = Seconds{0.5};
  figures.on(events::Iterated{record});
  figures.on(events::Delivered{row, Tokens{1}, Seconds{2.5}});
  figures.update(scene.view(2.5)); // its first iteration began at 2
  for (const double when : {2.75, 3.5}) figures.on(events::Delivered{row, Tokens{1}, Seconds{when}});
  row.delivered = Tokens{3};
  figures.on(events::Ended{row, Seconds{3.5}});
  RequestRow other;
  other.id = RequestId{4};
  figures.on(events::Cancelled{other, Seconds{4}}); // without a token
  for (const auto& [name, seconds] : {std::pair{"queue_time", 1.0},
                                      {"prefill_time", 0.5},
                                      {"decode_time", 1.0},
                                      {"inference_time", 1.5},
                                      {"time_per_output_token", 0.5}}) {
    const std::string counted = name; // clang 14 captures no structured binding
    INFO(counted);
    CHECK(metric(figures, std::string{"vllm:request_"} + name + "_seconds_sum") == doctest::Approx(seconds));
    CHECK(metric(figures, std::string{"vllm:request_"} + name + "_seconds_count") == 1);
  }
  CHECK(sluice::testing::metrics_text(figures).find(
            R"(vllm:cache_config_info{block_size="16",num_gpu_blocks="50",num_cpu_blocks="125",)") !=
        std::string::npos);
}

TEST_CASE("EngineFigures: the live state is bounded and keeps the newest entries") {
  EngineFigures figures;
  Scene scene;
  const RequestSpec spec = spec_of(0, 1, 1);
  for (std::uint32_t id = 0; id < 1000; ++id) figures.entered(RequestId{id}, spec, {spec.slo});
  RequestRow row;
  row.spec = spec;
  for (std::uint32_t id = 0; id < 500; ++id) {
    row.id = RequestId{id};
    figures.on(events::Preempted{row, Kept::nothing, Seconds{1.0 * id}});
    figures.on(events::Ended{row, Seconds{1.0 * id}});
    figures.on(events::Planned{scene.view(id), Plan{}, Seconds{0}, Seconds{0}});
    figures.update(scene.view(4.0 * id, 1000 - id));
  }
  const json state = live(figures);
  CHECK(state["queue"].size() == LiveState::most_waiting);
  CHECK(state["queue"][0]["id"] == 500);
  CHECK(state["recent_plans"].size() == 50);
  CHECK(state["recent_plans"][49]["number"] == 500);
  CHECK(state["recent_moves"].size() == 50);
  CHECK(state["recent_ends"][0]["id"] == 450);
  CHECK(state["recent_ends"][49]["id"] == 499);
  CHECK(state["history"]["time_s"].size() == LiveHistory::most);
  CHECK(state["history"]["time_s"].back() == 4.0 * 499);
}

TEST_CASE("EngineFigures: every metric has the writer's labels") {
  std::string text;
  PrometheusWriter to(text, {{"model_name", "tiny"}, {"engine", "0"}});
  EngineFigures{}.metrics(to);
  CHECK(text.find("\nvllm:num_requests_running{model_name=\"tiny\",engine=\"0\"} 0\n") != std::string::npos);
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
    if (text[begin] != '#')
      CHECK(text.substr(begin, text.find('\n', begin) - begin).find("{model_name=\"tiny\",engine=\"0\"") !=
            std::string::npos);
}

TEST_CASE("LiveHistory: after a gap, counters grow only from its end on") {
  LiveHistory history;
  LiveSample sample;
  sample.time_s = 3;
  sample.running = 2;
  history.add(sample);
  sample.time_s = 21;
  sample.released = 40;
  history.add(sample);
  REQUIRE(history.samples().size() == 3);
  CHECK(history.samples()[1].time_s == 20);
  CHECK(history.samples()[1].released == 0);
  CHECK(history.samples()[2].released == 40);
}

TEST_CASE("the live page loads nothing from other addresses") {
  const std::string page = live_page();
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.ends_with("</html>\n"));
  CHECK(page.size() < 64 * 1024);
  for (const char* other :
       {"https://", "@import", "url(", "innerHTML", "insertAdjacentHTML", "document.write", "eval("})
    CHECK_MESSAGE(page.find(other) == std::string::npos, other);
  // The only address is SVG's namespace, which is never loaded.
  CHECK(page.find("http://") == page.rfind("http://"));
}
