// SPDX-License-Identifier: Apache-2.0
// InProcessEngine: a simulated engine of any type behind an InProcess transport, on the transport's clock.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/engine_loop.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/pacer.hpp"
#include "sluice/serve/token_source.hpp"

#include "serve/in_process.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace sluice::testing {

/// The counterpart of EngineThread for an InProcess transport: steps the engine behind the gates, with a Pacer for
/// tokens that are not due yet. An iteration takes its time on the virtual clock. Requests that arrive during an
/// iteration are considered after it.
///
/// The engine's time must be virtual: a `Simulated` backend, or `Cpu` with `world_of(Simulated{…})`.
///
///     InProcess transport;
///     InProcessEngine<E, QueueLimit> engine(transport, tokens, QueueLimit{8});
///     if (Status made = engine.make(configure); !made) …
///     OpenAiApp app(std::move(setup), transport, engine);
///     engine.serve(app);
///     const auto reply = transport.send(0.5, {"POST", "/v1/completions", {}, body});
///     engine.run_until(60);
template <class E, class... Gates>
class InProcessEngine final : public GenerationEngine {
  using Loop = EngineLoop<E, Gates...>;

 public:
  /// `transport` and `tokens` must outlive the engine.
  InProcessEngine(InProcess& transport, TokenSource& tokens, Gates... gates)
      : transport_(&transport),
        pacer_(transport, [&transport] { return transport.now(); }),
        loop_(tokens, pacer_, std::move(gates)...) {}

  [[nodiscard]] Status make(typename Loop::Configure configure) { return loop_.make(std::move(configure)); }
  /// Sends requests to `app`, an HttpApp that submits to this engine, and also sends the engine's events to it.
  template <class App>
  void serve(App& app) {
    transport_->serve(app);
    pacer_.tell(app);
  }

  /// Serves until the clock reaches `end`. An iteration that is then under way has been computed, but its tokens arrive
  /// later.
  void run_until(double end) {
    drive(end);
    transport_->run_until(end);
  }
  /// Serves until neither the transport nor the engine has any work left.
  void run() { drive(InProcess::never); }

  [[nodiscard]] E& engine() { return loop_.engine(); }
  [[nodiscard]] const E& engine() const { return loop_.engine(); }
  /// Returns the error that ended the run, if any: a policy's impossible answer.
  [[nodiscard]] const Status& status() const { return status_; }

  void submit(GenerationId id, Generation generation) override {
    if (!status_.ok()) return loop_.refuse_failed(id);
    loop_.engine().idle_until(Seconds{transport_->now()});
    loop_.enter(id, std::move(generation), Seconds{transport_->now()});
  }
  void cancel(GenerationId id) override { loop_.leave(id); }
  [[nodiscard]] bool ready() const override { return status_.ok(); }
  void metrics(PrometheusWriter& to) override { loop_.figures().metrics(to); }
  [[nodiscard]] std::string live() override { return loop_.figures().live(); }

 private:
  void drive(double end) {
    bool idle = false;
    for (;;) {
      // An idle engine waits for the next event; after an iteration, the transport catches up with the engine's clock.
      const double next = idle ? std::min(transport_->next_due(), held_until()) : loop_.engine().now().count();
      if (next > end || next == InProcess::never) return;
      transport_->run_until(std::max(next, transport_->now()));
      idle = !step();
    }
  }
  [[nodiscard]] double held_until() const {
    return status_.ok() ? loop_.engine().next_due().count() : InProcess::never;
  }
  /// Runs an iteration if there is work; returns whether it did.
  bool step() {
    if (!status_.ok()) return loop_.tell(Seconds{transport_->now()}), false;
    loop_.engine().idle_until(Seconds{transport_->now()});
    const Stepped stepped = loop_.step();
    if (stepped == Stepped::failed) {
      status_ = loop_.engine().status();
      loop_.fail(status_);
    }
    loop_.tell(Seconds{transport_->now()});
    return stepped == Stepped::ran;
  }

  InProcess* transport_;
  Pacer pacer_;
  Loop loop_;
  Status status_;
};

} // namespace sluice::testing
