// SPDX-License-Identifier: Apache-2.0
#include "compare/unpaid_count.hpp"

#include "sluice/core/stopwatch.hpp"
#include "sluice/serve/process.hpp"

namespace compared {

using namespace sluice;

void UnpaidCount::hear(const AnyEvent& event) {
  static const Stopwatch wall; // of the program
  if (const auto* planned = event.get<events::Planned>()) charged_s_ += planned->virtual_time.count();
  const auto* iterated = event.get<events::Iterated>();
  if (iterated == nullptr) return;
  const double spent_s = clock_.lap(wall.elapsed().count(), thread_seconds);
  if (is_unpaid(spent_s, charged_s_, iterated->record.duration.count())) report.add({1, spent_s});
  charged_s_ = 0;
}

} // namespace compared
