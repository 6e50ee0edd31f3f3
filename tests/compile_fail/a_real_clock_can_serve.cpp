// SPDX-License-Identifier: Apache-2.0
// A real-time backend can be woken while it idles, and loads before it serves; a backend with a virtual clock need not.
// sentences: 1
// says: this Backend says real_time = true and needs .void idle_until\(Seconds when, Doorbell& bell\)
#include "sluice/world/simulated.hpp"

using namespace sluice;

struct Machine : Simulated {
#ifndef GOOD
  static constexpr bool real_time = true;
#endif
};
static_assert(explain<Machine>());

struct Server : Simulated {
  static constexpr bool real_time = true;
  void idle_until(Seconds) {}
  void idle_until(Seconds, Doorbell&) {}
  Status load() { return {}; }
};
static_assert(explain<Server>());
