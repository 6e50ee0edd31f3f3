// SPDX-License-Identifier: Apache-2.0
// Mechanisms: which of a server's mechanisms a replay has.
#pragma once

#include <array>
#include <string_view>

namespace recorded {

struct Mechanisms {
  bool ahead = false;  ///< scheduling one step ahead, if the server does
  bool padded = false; ///< batches padded to the sizes of CUDA graphs
  bool saving = false; ///< launches that graphs save
  bool tail = false;   ///< decodes of unequal length, by dealing out thread blocks
  bool skew = false;   ///< the same, looked up among measured batches of two lengths; not together with `tail`
  bool closed = false; ///< clients that have a limited number of requests in flight

  friend bool operator==(const Mechanisms&, const Mechanisms&) = default;
  static constexpr Mechanisms all() { return {true, true, true, true, false, true}; }
};

struct MechanismName {
  std::string_view name;
  bool Mechanisms::*member;
  std::string_view what;
};
inline constexpr std::array<MechanismName, 6> mechanism_names{
    {{"ahead", &Mechanisms::ahead, "one-step-ahead scheduling"},
     {"padding", &Mechanisms::padded, "padding to graph sizes"},
     {"saving", &Mechanisms::saving, "launches saved by graphs"},
     {"tail", &Mechanisms::tail, "tail of the longest sequence"},
     {"skew", &Mechanisms::skew, "skew.csv looked up instead of the tail"},
     {"clients", &Mechanisms::closed, "closed-loop clients"}}};

} // namespace recorded
