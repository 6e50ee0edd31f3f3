// SPDX-License-Identifier: Apache-2.0
// A Weights policy cannot read `spec.output`, of a claim or of a submission. A client's bound it can, and with
// knows_lengths = true the row's output.
// sentences: 1
// says: no server knows how long an answer will be
#include "sluice/policy/weights/weights.hpp"

#include <algorithm>

using namespace sluice;

struct OneLayerForLongAnswers {
  using role = roles::Weights;
  static constexpr bool promises = true;
  static constexpr bool lends = false;
  struct State {};
#ifdef GOOD
  static constexpr bool knows_lengths = true;
  static Tokens output(const RequestRow& row) { return row.output(LengthPermit<OneLayerForLongAnswers>{}); }
#else
  static Tokens output(const RequestRow& row) { return row.spec.output; }
#endif

  template <class Task>
  void offer(const Task& task, State&, std::vector<WeightsLevel>& levels) const {
    Tokens longest{0};
    for (const Claim& claim : task.claims) longest = std::max(longest, output(task.view.row(claim.slot)));
    if (longest > Tokens{1000}) levels.push_back(WeightsLevel::of(task.view.geometry, LayerSet::all(3), 2));
  }
  LayerBlocks most_freed(const Geometry&) const { return LayerBlocks{0}; }
  template <class Request>
  Status promise(const Request& request) const {
    const Tokens longest = request.spec.prompt + request.spec.output_bound().value_or(Tokens{1});
    if (longest > Tokens{1000}) return Error{ErrorCode::infeasible, "", "it may be too long", "a shorter one"};
    return {};
  }
};
static_assert(explain<OneLayerForLongAnswers>());
