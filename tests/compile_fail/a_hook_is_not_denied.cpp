// SPDX-License-Identifier: Apache-2.0
// A hook beside a declaration that denies it would never be called: an error message.
// sentences: 7
// says: this Retention policy has .hidden_layers., but says keeps_hidden = false
// says: this Retention policy has .copy_ahead., but says copies_ahead = false
// says: this Weights policy has .promise., but says promises = false
// says: this Weights policy has .most_lent., but says lends = false
// says: this Backend has .outcomes., but says ends_requests = false
// says: this Backend has .async., but says plans_async = false
// says: this Backend has .predict., but says predicts = false
#include "sluice/policy/retention/drop.hpp"
#include "sluice/policy/weights/resident_weights.hpp"
#include "sluice/world/simulated.hpp"

using namespace sluice;

struct Keep : Drop {
#ifdef GOOD
  static constexpr bool keeps_hidden = true;
  static constexpr bool copies_ahead = true;
#endif
  LayerSet hidden_layers(const View&, const RequestRow&, const auto&) const { return {}; }
  LayerBlocks copy_ahead(const View&, LayerBlocks idle) const { return idle; }
};
static_assert(explain<Keep>());

struct Stay : ResidentWeights {
#ifdef GOOD
  static constexpr bool promises = true;
  static constexpr bool lends = true;
#endif
  Status promise(const auto&) const { return {}; }
  int most_lent(int, double, double) const { return 0; }
};
static_assert(explain<Stay>());

struct Clock : Simulated {
#ifdef GOOD
  static constexpr bool ends_requests = true;
  static constexpr bool plans_async = true;
#endif
  std::span<const RequestOutcome> outcomes() const { return {}; }
  void async(void (*)(void*), void*) {}
  bool async_done() { return true; }
  void join_async() {}
};
static_assert(explain<Clock>());

struct Oracle : Simulated {
#ifndef GOOD
  static constexpr bool predicts = false;
#endif
};
static_assert(explain<Oracle>());
