// SPDX-License-Identifier: Apache-2.0
// LargestVirtualLagFirst by the user's clock, in an engine: without a deposit it is SuperInfer, and with one it waits
// until users do.
#include "sluice/engine/serve.hpp"
#include "sluice/engine/systems/superinfer.hpp"
#include "sluice/model/device/named.hpp"
#include "sluice/model/named.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

using namespace sluice;

namespace {

static_assert(std::is_same_v<SuperInferUserLag::delivery_type, TokenDeposit> &&
              std::is_same_v<SuperInferUserLag::retention_type, SuperInfer::retention_type>);

struct ListReader {
  std::vector<RequestSpec> requests;
  std::size_t at = 0;
  Expected<std::optional<RequestSpec>> next() {
    if (at == requests.size()) return std::optional<RequestSpec>{};
    return std::optional{requests[at++]};
  }
};

/// More requests than fit the device, of which some have no SLO per token.
ListReader crowd(int users, int kind) {
  ListReader reader;
  for (int i = 0; i < users; ++i)
    reader.requests.push_back({.arrival = Seconds{0.05 * i},
                               .prompt = Tokens{500 + ((i + kind) * 7919) % 3000},
                               .output = Tokens{50 + ((i + kind) * 37) % 200},
                               .slo = {Seconds{2}, i % 5 == 0 ? Slo{}.tbt : Seconds{0.05 + 0.02 * kind}}});
  return reader;
}

const Server machine{llama3_8b(), a5000(), TokenBlocks{400}, {.batch = 8}};

template <class E>
std::vector<std::pair<std::string_view, double>> served(int kind) {
  const auto metrics = serve<E>(machine, crowd(30, kind));
  REQUIRE(metrics);
  CHECK(metrics->served == 30);
  std::vector<std::pair<std::string_view, double>> all;
  for_each_metric(*metrics, [&](std::string_view name, const auto& number) {
    if (name.find("wall") == std::string_view::npos) all.emplace_back(name, static_cast<double>(number));
  });
  return all;
}

bool same(const std::pair<std::string_view, double>& a, const std::pair<std::string_view, double>& b) {
  return a.first == b.first && (a.second == b.second || (std::isnan(a.second) && std::isnan(b.second)));
}

double of(const std::vector<std::pair<std::string_view, double>>& all, std::string_view name) {
  const auto found = std::find_if(all.begin(), all.end(), [name](const auto& each) { return each.first == name; });
  REQUIRE(found != all.end());
  return found->second;
}

} // namespace

TEST_CASE("without a deposit an engine by the user's clock runs as SuperInfer does, to the last bit") {
  for (int kind = 0; kind < 6; ++kind) {
    CAPTURE(kind);
    const auto published = served<SuperInfer>(kind);
    const auto by_user = served<With<SuperInfer, LargestUserLagFirst>>(kind);
    CHECK(std::equal(published.begin(), published.end(), by_user.begin(), by_user.end(), same));
    CHECK(of(published, "times_preempted") > 0);
  }
}

TEST_CASE("with a deposit an engine by the user's clock rotates less") {
  double by_engine = 0, by_user = 0;
  for (int kind = 0; kind < 6; ++kind) {
    by_engine += of(served<With<SuperInfer, TokenDeposit>>(kind), "times_preempted");
    by_user += of(served<SuperInferUserLag>(kind), "times_preempted");
  }
  CHECK(by_user > 0);
  CHECK(by_user < by_engine);
}
