// SPDX-License-Identifier: Apache-2.0
// A real-time engine that decides ahead while an iteration runs needs the backend's second thread.
// sentences: 1
// says: OneStepAhead in real time needs a Backend that says plans_async = true
#include "sluice/engine/engine.hpp"
#include "sluice/policy/lookahead/one_step_ahead.hpp"
#include "sluice/world/real/async_thread.hpp"

struct Machine {
  using role = sluice::roles::Backend;
  static constexpr bool real_time = true;
  static constexpr bool ends_requests = false;
  static constexpr bool keeps_requests = false;
  static constexpr bool plans_async = false;
  static constexpr bool predicts = false;
  sluice::Seconds now() const { return sluice::Seconds{0}; }
  void idle_until(sluice::Seconds) {}
  void idle_until(sluice::Seconds, sluice::Doorbell&) {}
  sluice::Status load() { return {}; }
  template <class Transfer>
  void launch(const sluice::Iteration&) {}
  template <class Transfer>
  sluice::IterationCost wait(const sluice::Iteration&, typename Transfer::State&) {
    return {};
  }
  template <class Transfer, class Sink>
  void replay(const sluice::Iteration&, typename Transfer::State&, Sink&&) {}
};

#ifdef GOOD
using When = sluice::InStep;
#else
using When = sluice::OneStepAhead;
#endif

using E = sluice::Engine<Machine, When>;
std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }
