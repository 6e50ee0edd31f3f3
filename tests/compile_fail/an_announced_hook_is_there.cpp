// SPDX-License-Identifier: Apache-2.0
// A declared hook that is misspelt or missing is an error message.
// sentences: 7
// says: this Retention policy says keeps_hidden = true and needs .template <class Cost> LayerSet hidden_layers
// says: this Retention policy says copies_ahead = true and needs .LayerBlocks copy_ahead
// says: this Weights policy says promises = true and needs .template <class Request> Status promise
// says: this Weights policy says lends = true and needs .int most_lent
// says: this Backend says ends_requests = true and needs .std::span<const RequestOutcome> outcomes\(\) const.
// says: this Backend says plans_async = true and needs .void async\(void \(\*work\)\(void\*\), void\* what\).
// says: this Backend says predicts = true and needs .template <class Transfer, class Sink> IterationCost predict
#include "sluice/policy/retention/drop.hpp"
#include "sluice/policy/weights/resident_weights.hpp"
#include "sluice/world/simulated.hpp"

using namespace sluice;

struct Keep : Drop {
  static constexpr bool keeps_hidden = true;
  static constexpr bool copies_ahead = true;
#ifdef GOOD
  LayerSet hidden_layers(const View&, const RequestRow&, const auto&) const { return {}; }
  LayerBlocks copy_ahead(const View&, LayerBlocks idle) const { return idle; }
#else
  LayerSet hiden_layers(const View&, const RequestRow&, const auto&) const { return {}; }
  LayerBlocks copy_ahed(const View&, LayerBlocks idle) const { return idle; }
#endif
};
static_assert(explain<Keep>());

struct Stay : ResidentWeights {
  static constexpr bool promises = true;
  static constexpr bool lends = true;
#ifdef GOOD
  Status promise(const auto&) const { return {}; }
  int most_lent(int, double, double) const { return 0; }
#else
  Status promised(const auto&) const { return {}; }
  int most_lend(int, double, double) const { return 0; }
#endif
};
static_assert(explain<Stay>());

struct Clock : Simulated {
  static constexpr bool ends_requests = true;
  static constexpr bool plans_async = true;
#ifdef GOOD
  std::span<const RequestOutcome> outcomes() const { return {}; }
  void async(void (*)(void*), void*) {}
#else
  std::span<const RequestOutcome> outcome() const { return {}; }
#endif
  bool async_done() { return true; }
  void join_async() {}
};
static_assert(explain<Clock>());

struct Oracle {
  using role = roles::Backend;
  static constexpr bool real_time = false;
  static constexpr bool ends_requests = false;
  static constexpr bool keeps_requests = false;
  static constexpr bool plans_async = false;
  static constexpr bool predicts = true;
  Seconds now() const { return Seconds{0}; }
  void idle_until(Seconds) {}
  template <class Transfer>
  void launch(const Iteration&) {}
  template <class Transfer>
  IterationCost wait(const Iteration&, typename Transfer::State&) {
    return {};
  }
  template <class Transfer, class Sink>
  void replay(const Iteration&, typename Transfer::State&, Sink&&) {}
#ifdef GOOD
  template <class Transfer, class Sink>
  IterationCost predict(const Iteration&, typename Transfer::State&, Sink&&) {
    return {};
  }
#else
  template <class Transfer, class Sink>
  IterationCost predicted(const Iteration&, typename Transfer::State&, Sink&&) {
    return {};
  }
#endif
};
static_assert(explain<Oracle>());
