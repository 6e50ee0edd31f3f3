// SPDX-License-Identifier: Apache-2.0
#include "compare/range_count.hpp"

#include "sluice/policy/cost/measured_grid.hpp"

namespace compared {

using namespace sluice;

void RangeCount::hear(const IterationRecord& record, const engines::CostChoice& times) {
  Work work;
  chunks_.clear();
  for (const Claim& claim : record.batch) {
    const RequestRow& row = record.rows[index(claim.slot)];
    if (claim.tokens == Tokens{1}) {
      ++work.decodes;
      work.decode_context += row.computed + Tokens{1};
    } else if (claim.tokens > Tokens{1}) {
      chunks_.push_back({claim.tokens, row.computed});
    }
  }
  work.chunks = chunks_;
  ++report.iterations;
  const BeyondGrid beyond = times.beyond(work);
  if (beyond.axis.empty()) return;
  report.add({.beyond = 1, .axis = std::string{beyond.axis}, .size = beyond.size, .last = beyond.last});
}

} // namespace compared
