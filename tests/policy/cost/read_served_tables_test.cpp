// SPDX-License-Identifier: Apache-2.0
// read_served_tables: what the tables of a bundle mean, and one line for each mistake in them.
#include "sluice/policy/cost/read_served_tables.hpp"

#include "policy/cost/small_bundle.hpp"
#include <doctest/doctest.h>

#include <string>

using namespace sluice;
using testing::text_file;

TEST_CASE("skew.csv: columns by name, rows without a share left out") {
  const Expected<SkewTable> table = read_skew_table(text_file("regime,n,pc,kv_big,kv_mean,alpha\n"
                                                              "pure,4,0,400,200,0.25\n"
                                                              "pure,8,0,400,200,\n"
                                                              "mixed,4,16,400,100,-0.5\n"));
  REQUIRE(table);
  CHECK(table->at(0, 4, 0.5) == 0.25);
  CHECK(table->at(0, 100, 0.9) == 0.25); // the nearest
  CHECK(table->at(16, 4, 0.5) == -0.5);
}

TEST_CASE("moe.csv: rows by tokens and experts") {
  const Expected<ExpertTable> table =
      read_expert_table(text_file("tokens,activated_experts,time_us\n1,2,10\n2,2,20\n2,4,40\n"), {8, 8, 2});
  REQUIRE(table);
  CHECK(table->at(2, 3) == doctest::Approx(30e-6));
  CHECK(table->at(1.5, 2) == doctest::Approx(15e-6));
}

TEST_CASE("step.csv: what a graph saves, by its tokens") {
  const Expected<CudaGraphs::Saving> saving = read_graph_saving(text_file("branch,num_tokens,step_us,saved_us\n"
                                                                          "full,8,9000,500\n"
                                                                          "full,8,20000,700\n"
                                                                          "piecewise,16,9000,-20\n"
                                                                          "none,1024,9000,3\n"));
  REQUIRE(saving);
  CHECK(saving->full->at(8) == doctest::Approx(600e-6));
  CHECK(saving->pieces->at(16) == doctest::Approx(-20e-6));
}

TEST_CASE("a wrong table is reported in one line") {
  const auto skew = [](const char* text) { return read_skew_table(text_file(text)).error().line(); };
  const auto moe = [](const char* text) { return read_expert_table(text_file(text), {8, 8, 2}).error().line(); };
  const auto step = [](const char* text) { return read_graph_saving(text_file(text)).error().line(); };
  const std::string header = "n,pc,kv_big,kv_mean,alpha\n";
  CHECK(skew("") == "test.csv: the file is empty; expected a header and rows");
  CHECK(skew("n,pc,kv_big,kv_mean\n1,2,3,4\n") == "test.csv:1: the header has no column 'alpha'; expected that column");
  CHECK(skew(header.c_str()) == "test.csv: there is no row after the header; expected measured times");
  CHECK(skew((header + "1,0,400,200,0.1\n").c_str()) ==
        "test.csv:2: n is '1'; expected a whole number from 2 to 10000000");
  CHECK(skew((header + "2,0,100,200,0.1\n").c_str()) ==
        "test.csv:2: the mean context is not between 0 and the longest; expected 0 < kv_mean <= kv_big");
  CHECK(skew((header + "2,0,200,200\n").c_str()) == "test.csv:2: the row has 4 fields; expected 5");
  CHECK(skew((header + "2,0,200,200,nan\n").c_str()) == "test.csv:2: alpha is 'nan'; expected a number");
  CHECK(skew((header + "2,0,200,200,\n").c_str()) == "test.csv:2: no row has an alpha; expected measured shares");
  CHECK(moe("tokens,activated_experts,time_us\n1,4,10\n1,4,10\n") ==
        "test.csv:3: 4 experts follow 4; expected ascending experts of as many tokens");
  CHECK(moe("tokens,activated_experts,time_us\n1,4,0\n") ==
        "test.csv:2: time_us is not above 0; expected microseconds above 0 and at most 1e9");
  CHECK(step("branch,num_tokens,saved_us\nhalf,1,2\n") ==
        "test.csv:2: branch is 'half'; expected full, piecewise or none");
}
