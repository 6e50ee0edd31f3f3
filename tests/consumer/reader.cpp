// SPDX-License-Identifier: Apache-2.0
#include <sluice/core/units.hpp>

#include <nlohmann/json.hpp>

int main() { return sluice::Seconds{nlohmann::json::parse("1.5").get<double>()} == sluice::Seconds{1.5} ? 0 : 1; }
