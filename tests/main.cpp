// SPDX-License-Identifier: Apache-2.0
// The main of every test program: doctest's, plus a listener that names the skipped cases.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdio>

namespace {

/// doctest counts skipped cases without naming them. A case whose data or device is missing is skipped by a decorator,
/// `TEST_CASE("…" * doctest::skip(!there))`; `make test` collects these lines.
struct NamesSkipped : doctest::IReporter {
  explicit NamesSkipped(const doctest::ContextOptions& context) : options(context) {}

  void test_case_skipped(const doctest::TestCaseData& data) override {
    if (data.m_skip && !options.no_skip) std::printf("SKIPPED: %s\n", data.m_name);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}

  const doctest::ContextOptions& options;
};

REGISTER_LISTENER("names_skipped", 1, NamesSkipped);

} // namespace
