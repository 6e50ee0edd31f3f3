// SPDX-License-Identifier: Apache-2.0
// Waits for the answer of a WhatIfThread.
#pragma once

#include <nlohmann/json.hpp>

namespace sluice::testing {

/// Asks until the answer is complete. `what_if` computes on a thread of the lowest priority, which may wait long for a
/// processor: only that thread ends the wait.
nlohmann::json answered(auto& what_if, const auto&... now) {
  while (true) {
    nlohmann::json answer = nlohmann::json::parse(what_if.json(now...));
    if (!answer["computing"].template get<bool>()) return answer;
    what_if.wait();
  }
}

} // namespace sluice::testing
