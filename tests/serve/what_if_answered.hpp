// SPDX-License-Identifier: Apache-2.0
// The answer to a question that a thread of WhatIfThread computes.
#pragma once

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <thread>

namespace sluice::testing {

/// The answer that the next question's replay gives. `what_if` computes on a SpareThread, which a machine that does
/// much else leaves without a processor for long: the wait is minutes, which only a failure takes.
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
