// SPDX-License-Identifier: Apache-2.0
#include "run/recorded.hpp"

#include <cstddef>

namespace running {

using namespace sluice;

void Recorded::hear(const AnyEvent& event) {
  if (keeps_summary) tell(Summary{}, summary, event);
  if (keeps_timeline) tell(trace, timeline, event);
  if (keeps_decisions) {
    const std::size_t lines = decisions.lines.size();
    tell(DecisionLog{}, decisions, event);
    if (decisions.lines.size() > lines) decided();
  }
  if (const auto* of_refusal = event.get<events::Refused>()) refused(of_refusal->id, of_refusal->reason);
  if (const auto* of_end = event.get<events::Ended>()) ended(of_end->row.id);
  if (const auto* of_cancellation = event.get<events::Cancelled>()) cancelled(of_cancellation->row.id);
  if (const auto* of_delivery = event.get<events::Delivered>())
    released(of_delivery->row.id, of_delivery->row.delivered - of_delivery->count, of_delivery->count);
  if (feed != nullptr) feed->hear(event);
}

} // namespace running
