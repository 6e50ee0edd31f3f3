// SPDX-License-Identifier: Apache-2.0
// write_live: writes a LiveState as the JSON that the live page reads.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/serve/live_state.hpp"

#include <string>
#include <string_view>

namespace sluice {
namespace detail {

[[nodiscard]] constexpr std::string_view name_of(LiveRequest::Phase phase) {
  switch (phase) {
  case LiveRequest::Phase::prefill:
    return "prefill";
  case LiveRequest::Phase::decode:
    return "decode";
  case LiveRequest::Phase::preempted:
    return "preempted";
  }
  return "";
}
[[nodiscard]] constexpr std::string_view name_of(LiveEvent::Kind kind) {
  switch (kind) {
  case LiveEvent::Kind::preempt:
    return "preempt";
  case LiveEvent::Kind::resume:
    return "resume";
  case LiveEvent::Kind::end:
    return "end";
  case LiveEvent::Kind::cancel:
    return "cancel";
  }
  return "";
}
[[nodiscard]] constexpr std::string_view name_of(SloAttainment::Verdict verdict) {
  switch (verdict) {
  case SloAttainment::Verdict::none:
    return "none";
  case SloAttainment::Verdict::met:
    return "met";
  case SloAttainment::Verdict::missed:
    return "missed";
  }
  return "";
}
[[nodiscard]] constexpr std::string_view name_of(Kept kept) {
  switch (kept) {
  case Kept::nothing:
    return "nothing";
  case Kept::host:
    return "host";
  case Kept::device:
    return "device";
  case Kept::hidden:
    return "hidden";
  }
  return "";
}

/// Writes one letter per layer: d on the device, h on the host, s hidden states on the host, k hidden states kept on
/// the device, n nowhere. Empty if the request has no KV.
[[nodiscard]] std::string places_of(const LiveRequest& request, int layers);

void write_live(JsonWriter& json, const LiveRequest& row, const LiveState& state);

void write_live(JsonWriter& json, const LivePlan& plan);

void write_live(JsonWriter& json, const LiveEvent& event);

} // namespace detail

/// Writes the state as a JSON object. `age_s`: the age of the state.
void write_live(std::string& to, const LiveState& state, double age_s);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/serve/live_json.inl.hpp"
#endif
