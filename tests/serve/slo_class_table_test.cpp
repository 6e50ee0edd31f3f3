// SPDX-License-Identifier: Apache-2.0
#include "sluice/serve/slo_class_table.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace sluice;

TEST_CASE("SloClassTable: a class for each SLO, the first ones by name and the others together") {
  SloClassTable<int> table(7);
  const Slo chat{Seconds{0.5}, Seconds{0.05}}, first{Seconds{2}, Slo{}.tbt};
  CHECK(table.of(chat) == 7);
  table.of(chat) = 1;
  table.of(first) = 2;
  CHECK(table.of(chat) == 1);
  for (int i = 0; i < 1000; ++i) ++table.of({Seconds{10.0 + i}, Seconds{1}});
  std::vector<std::string> names;
  int sum = 0;
  table.each([&](const SloClassName& name, int value) {
    names.push_back(name.ttft + "/" + name.tbt);
    sum += value;
  });
  REQUIRE(names.size() == SloClassTable<int>::most + 1);
  CHECK(names[0] == "0.5/0.05");
  CHECK(names[1] == "2/none");
  CHECK(names.back() == "other/other");
  CHECK(sum == 1 + 2 + 15 * 7 + 1000); // 14 more classes of their own, and that of all others
}

TEST_CASE("SloClassTable: SLOs that metrics cannot tell apart are one class") {
  SloClassTable<int> table;
  ++table.of({Seconds{0.1}, Slo{}.tbt});
  ++table.of({Seconds{0.10000001}, Slo{}.tbt});
  std::vector<int> values;
  table.each([&](const SloClassName& name, int value) {
    CHECK(name.ttft == "0.1");
    values.push_back(value);
  });
  CHECK(values == std::vector{2});
}

TEST_CASE("SloClassTable: looking for a class makes none") {
  SloClassTable<int> table;
  const Slo chat{Seconds{0.5}, Seconds{0.05}};
  CHECK(table.find(chat) == nullptr);
  CHECK(table.find(chat) == nullptr);
  table.of(chat) = 3;
  REQUIRE(table.find(chat) != nullptr);
  CHECK(*table.find(chat) == 3);
  for (int i = 0; i < 15; ++i) table.of({Seconds{10.0 + i}, Seconds{1}}) = 4;
  CHECK(table.find(Slo{}) == nullptr); // no SLO shares the last class yet
  table.of({Seconds{99}, Seconds{1}}) = 5;
  REQUIRE(table.find(Slo{}) != nullptr);
  CHECK(*table.find(Slo{}) == 5);
}
