// SPDX-License-Identifier: Apache-2.0
// Waits for the answer of a WhatIfThread.
#pragma once

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <thread>

namespace sluice::testing {

/// Asks until the answer is complete. `what_if` computes on a thread of the lowest priority, which may wait long for a
/// processor on a busy machine: the limit is minutes, which only a failure reaches.
nlohmann::json answered(auto& what_if, const auto&... now) {
  using namespace std::chrono_literals;
  const auto begun = std::chrono::steady_clock::now();
  while (true) {
    nlohmann::json answer = nlohmann::json::parse(what_if.json(now...));
    if (!answer["computing"].template get<bool>()) return answer;
    REQUIRE(std::chrono::steady_clock::now() - begun < 10min);
    std::this_thread::sleep_for(5ms);
  }
}

} // namespace sluice::testing
