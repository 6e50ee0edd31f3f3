// SPDX-License-Identifier: Apache-2.0
// Only the writers that engine/core/writers.hpp declares, and TokenAccounts, write an engine's core.
#include "architecture/include_graph.hpp"
#include <doctest/doctest.h>

using namespace architecture;

namespace {

/// The compiler keeps code with a `const Core&` from writing, so the check limits which code has a `Core&`; the shell,
/// which owns its `core_`, must not assign through it either.
std::vector<std::string> core_writes(const Header& header) {
  static const std::string core = "sluice/engine/core/";
  static const std::vector<std::string> writers{
      core + "writers.hpp",          core + "commit_steps.hpp",         core + "commit.inl.hpp",
      core + "copies_ahead.inl.hpp", core + "lending.inl.hpp",          core + "move_claim.inl.hpp",
      core + "preemption.inl.hpp",   core + "requests.inl.hpp",         core + "saved_states.inl.hpp",
      core + "tiers.inl.hpp",        "sluice/engine/token_accounts.hpp"};
  static const std::vector<std::string> callers{core + "lending.hpp", core + "policy_table.hpp",
                                                "sluice/engine/decider.hpp"}; // callers of writers
  static const std::regex reference(R"((\bconst\s+)?\bCore&)");
  static const std::regex written(
      R"(\bcore_?(\.\w+(\([^()]*\)|\[[^\]]*\])?)+\s*([-+|&]?=(?!=)|\+\+|--)|(\+\+|--)\s*core_?\.|)"
      R"(\bcore_?\.(ledger|prefix)\.(replace|grow|resize_device|enter|look_up|attach|extend|seal|release)\()");
  std::vector<std::string> faults;
  if (header.path.rfind("sluice/engine/", 0) != 0 || among(header.path, writers)) return faults;
  const std::string code = code_of(header.text);
  if (std::regex_search(code, written))
    faults.push_back(header.path + ": writes a core; call a function of engine/core/writers.hpp");
  if (among(header.path, callers)) return faults;
  for (std::sregex_iterator at(code.begin(), code.end(), reference), end; at != end; ++at)
    if (!(*at)[1].matched) faults.push_back(header.path + ": has a Core& that is not const");
  return faults;
}

} // namespace

TEST_CASE("the check of a core's writers reports assignments and references that are not const") {
  const auto faults = [](const std::string& path, const std::string& code) {
    return core_writes({"sluice/engine/" + path, code}).size();
  };
  CHECK(faults("step.hpp", "core_.step = 3;") == 1);
  CHECK(faults("step.hpp", "++core_.step;") == 1);
  CHECK(faults("step.hpp", "core_.requests.next_id++;") == 1);
  CHECK(faults("step.hpp", "core_.row(slot).phase = Phase::ended;") == 1);
  CHECK(faults("step.hpp", "core.requests.rows[2].slack -= more;") == 1);
  CHECK(faults("step.hpp", "core_.ledger.resize_device(all);") == 1);
  CHECK(faults("core/plan_fit.hpp", "bool fits(Core& core);") == 1);
  CHECK(faults("core/plan_fit.hpp", "bool fits(const Core& core);") == 0);
  CHECK(faults("step.hpp", "if (core_.step == 3 && core_.ledger.device().free() >= room) copy.core_ = core_;") == 0);
  CHECK(faults("decider.hpp", "Core& core_; let_return(core_, slot, true);") == 0);
  CHECK(faults("decider.hpp", "core_.row(slot).may_return = true;") == 1);
  CHECK(faults("core/commit.inl.hpp", "void adopt(Core& core) { core.plan_serial = 2; }") == 0);
}

TEST_CASE("only the writers write an engine's core") {
  int of_the_core = 0;
  for (const Header& each : read_headers("include")) {
    of_the_core += each.path.rfind("sluice/engine/core/", 0) == 0 ? 1 : 0;
    for (const std::string& fault : core_writes(each)) FAIL_CHECK(fault);
  }
  CHECK(of_the_core > 10);
}
