// SPDX-License-Identifier: Apache-2.0
// EngineFigures: what an engine thread counts, as Prometheus reads it and as the live page shows it.
#pragma once

#include "sluice/observer/json_writer.hpp"
#include "sluice/observer/observer.hpp"
#include "sluice/serve/prometheus.hpp"
#include "sluice/view/view.hpp"

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Written by the engine's thread, read by any.
class EngineFigures {
 public:
  void iterated(const IterationRecord& record) {
    const std::lock_guard lock{mutex_};
    ++steps_;
    busy_s_ += record.duration.count();
    stall_s_ += record.stall.count();
    to_device_ += record.to_device.count();
    to_host_ += record.to_host.count();
    weights_ += record.weights.count();
    running_ = record.running;
    waiting_ = record.waiting;
    preempted_ = record.preempted;
    device_used_ = record.device_used.count();
    device_capacity_ = record.device_capacity.count();
    host_used_ = record.host_used.count();
  }
  void preempted(const RequestRow& /*row*/, Seconds /*now*/) {
    const std::lock_guard lock{mutex_};
    ++preemptions_;
  }
  void resumed(const RequestRow& /*row*/, Seconds /*now*/) {}
  void planned(const Plan& /*plan*/, Seconds wall_time) {
    const std::lock_guard lock{mutex_};
    ++plans_;
    planning_s_ += wall_time.count();
  }
  void ended() {
    const std::lock_guard lock{mutex_};
    ++ended_;
  }
  void cancelled() {
    const std::lock_guard lock{mutex_};
    ++cancelled_;
  }

  /// After each step: the requests as they are now.
  void update(const View& view, const Plan& /*plan*/) {
    const std::lock_guard lock{mutex_};
    now_ = view.now;
    running_ = static_cast<std::int64_t>(view.running.size());
    waiting_ = view.waiting;
    preempted_ = static_cast<std::int64_t>(view.preempted.size());
    device_used_ = view.ledger->device().used().count();
    device_capacity_ = view.ledger->device().capacity().count();
    host_used_ = view.ledger->host().used().count();
    rows_.clear();
    for (const auto* list : {&view.running, &view.preempted}) {
      for (const Slot slot : *list) {
        const RequestRow& row = view.row(slot);
        rows_.push_back({index(row.id), list == &view.preempted, row.spec.prompt.count(), row.computed.count(),
                         row.generated.count(), row.delivered.count(), row.holding.host.count(),
                         row.holding.nowhere.count(), row.resident_layers, row.spec.slo.tbt.count(),
                         row.times_preempted});
      }
    }
  }

  /// Lines of Prometheus' text format, without labels: the engine has one of each.
  [[nodiscard]] std::string metrics() const {
    const std::lock_guard lock{mutex_};
    std::string text;
    PrometheusWriter to(text, {});
    const auto whole = [](std::int64_t count) { return static_cast<double>(count); };
    to.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", whole(running_));
    to.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", whole(waiting_ + preempted_));
    to.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
             device_capacity_ > 0 ? whole(device_used_) / whole(device_capacity_) : 0);
    to.counter("vllm:num_preemptions_total", "Cumulative number of preemptions from the engine.", whole(preemptions_));
    to.gauge("sluice:num_requests_preempted", "Requests that are paused.", whole(preempted_));
    to.counter("sluice:steps_total", "Iterations of the engine.", whole(steps_));
    to.counter("sluice:busy_seconds_total", "Time in iterations.", busy_s_);
    to.counter("sluice:stall_seconds_total", "Time that computing waited for transfers.", stall_s_);
    to.counter("sluice:blocks_to_device_total", "Layer blocks of KV fetched from the host.", whole(to_device_));
    to.counter("sluice:blocks_to_host_total", "Layer blocks of KV moved to the host.", whole(to_host_));
    to.counter("sluice:weight_bytes_total", "Bytes of weights streamed to the device.", whole(weights_));
    to.counter("sluice:plans_total", "Plans made.", whole(plans_));
    to.counter("sluice:planning_seconds_total", "Wall time of planning.", planning_s_);
    to.counter("sluice:ended_total", "Requests that ended by themselves.", whole(ended_));
    to.counter("sluice:cancelled_total", "Requests whose client left.", whole(cancelled_));
    return text;
  }

  /// What the live page shows.
  [[nodiscard]] std::string live() const {
    const std::lock_guard lock{mutex_};
    std::string text;
    JsonWriter json(text);
    json.begin_object().key("now").value(now_.count()).key("steps").value(steps_).key("busy_s").value(busy_s_);
    json.key("stall_s").value(stall_s_).key("running").value(running_).key("waiting").value(waiting_);
    json.key("preempted").value(preempted_).key("preemptions").value(preemptions_).key("plans").value(plans_);
    json.key("device_used").value(device_used_).key("device_capacity").value(device_capacity_);
    json.key("host_used").value(host_used_).key("to_device").value(to_device_).key("to_host").value(to_host_);
    json.key("ended").value(ended_).key("cancelled").value(cancelled_);
    json.key("requests").begin_array();
    for (const Row& row : rows_) {
      json.begin_object().key("id").value(row.id).key("preempted").value(row.preempted);
      json.key("prompt").value(row.prompt).key("computed").value(row.computed).key("generated").value(row.generated);
      json.key("delivered").value(row.delivered).key("host_layers").value(row.host_layers);
      json.key("nowhere_layers").value(row.nowhere_layers).key("resident_layers").value(row.resident_layers);
      json.key("tbt_s").value(row.tbt_s).key("times_preempted").value(row.times_preempted).end_object();
    }
    json.end_array().end_object();
    return text;
  }

 private:
  struct Row {
    std::uint32_t id;
    bool preempted;
    std::int64_t prompt, computed, generated, delivered;
    int host_layers, nowhere_layers, resident_layers;
    double tbt_s;
    int times_preempted;
  };

  mutable std::mutex mutex_;
  Seconds now_{0};
  std::int64_t steps_ = 0, plans_ = 0, preemptions_ = 0, ended_ = 0, cancelled_ = 0;
  std::int64_t running_ = 0, waiting_ = 0, preempted_ = 0;
  std::int64_t device_used_ = 0, device_capacity_ = 0, host_used_ = 0;
  std::int64_t to_device_ = 0, to_host_ = 0, weights_ = 0;
  double busy_s_ = 0, stall_s_ = 0, planning_s_ = 0;
  std::vector<Row> rows_;
};

} // namespace sluice
