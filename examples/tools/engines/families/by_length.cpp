// SPDX-License-Identifier: Apache-2.0
#include "sluice/engine/systems/other_admissions.hpp"

#include "engines/entry.hpp"
#include "engines/published.hpp"

namespace engines {

System sjf_oracle() { return entry<sluice::SjfOracle>("SjfOracle", "the shortest first, by known lengths"); }
System length_ranked() {
  return entry<sluice::LengthRanked>("LengthRanked", "LTR: the shortest first, by predicted lengths");
}

} // namespace engines
