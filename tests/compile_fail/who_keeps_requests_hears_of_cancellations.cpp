// SPDX-License-Identifier: Apache-2.0
// A backend that keeps requests' bytes or a record of them is notified of cancelled requests, and declares that.
// sentences: 3
// says: this Backend needs .static constexpr bool keeps_requests = false;.
// says: this Backend says keeps_requests = true and needs .void cancelled\(Slot slot, std::int64_t submitted\).
// says: this Backend has .cancelled., but says keeps_requests = false
#include "sluice/world/simulated.hpp"

using namespace sluice;

struct Silent {
  using role = roles::Backend;
#ifdef GOOD
  static constexpr bool keeps_requests = false;
#endif
  static constexpr bool real_time = false;
  static constexpr bool ends_requests = false;
  static constexpr bool plans_async = false;
  static constexpr bool predicts = false;
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
};
static_assert(explain<Silent>());

struct Keeps : Simulated {
  static constexpr bool keeps_requests = true;
#ifdef GOOD
  void cancelled(Slot, std::int64_t) {}
  void released(Seconds) {}
#else
  void canceled(Slot, std::int64_t) {}
#endif
};
static_assert(explain<Keeps>());

struct Denies : Simulated {
#ifdef GOOD
  static constexpr bool keeps_requests = true;
#endif
  void cancelled(Slot, std::int64_t) {}
  void released(Seconds) {}
};
static_assert(explain<Denies>());
