// SPDX-License-Identifier: Apache-2.0
// A Relief cannot read `spec.output`. One that declares knows_lengths reads the row's, and makes its engine an oracle.
// sentences: 1
// says: no server knows how long an answer will be
#include "sluice/engine/engine.hpp"
#include "sluice/engine/systems/vllm.hpp"
#include "sluice/engine/with.hpp"

using namespace sluice;

struct PreemptLongest {
  using role = roles::Relief;
  struct State {};
  static constexpr Parting parting = Parting::preempt;
#ifdef GOOD
  static constexpr bool knows_lengths = true;
  static Tokens output(const RequestRow& row) { return row.output(LengthPermit<PreemptLongest>{}); }
#else
  static Tokens output(const RequestRow& row) { return row.spec.output; }
#endif

  std::size_t choose(const View& view, State&, std::span<const Claim> candidates) const {
    std::size_t longest = 0;
    for (std::size_t i = 1; i < candidates.size(); ++i)
      if (output(view.row(candidates[i].slot)) > output(view.row(candidates[longest].slot))) longest = i;
    return longest;
  }
  bool may_return(const View&, const RequestRow&) const { return true; }
};
static_assert(explain<PreemptLongest>());
#ifdef GOOD
static_assert(foresees<With<VllmRecompute, PreemptLongest>> && !foresees<VllmRecompute>);
#endif
