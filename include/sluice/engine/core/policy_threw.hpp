// SPDX-License-Identifier: Apache-2.0
// PolicyThrew: an exception that left a policy, or an answer that its engine cannot follow, with the policy's name.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/core/interrupt.hpp"
#include "sluice/core/units.hpp"
#include "sluice/state/plan/window.hpp"

#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace sluice {

/// A policy's mistake. An engine ends its run with it (`BasicEngine::status`), so that a program names the policy
/// instead of aborting.
class PolicyThrew : public std::runtime_error {
 public:
  /// `expected`: what the policy should have done.
  PolicyThrew(std::string policy, const std::string& what, std::string expected)
      : std::runtime_error(what), policy_(std::move(policy)), expected_(std::move(expected)) {}
  [[nodiscard]] const std::string& policy() const { return policy_; }
  [[nodiscard]] const std::string& expected() const { return expected_; }

 private:
  std::string policy_, expected_;
};

/// Ends the run because of an answer of `policy()` that its engine cannot follow.
[[noreturn, gnu::cold, gnu::noinline]] inline void reject_answer(std::string (*policy)(), const std::string& what,
                                                                 std::string expected) {
  throw PolicyThrew(policy(), what, std::move(expected));
}

/// Ends the run unless a plan can hold for such a window.
inline void check_window(std::string (*policy)(), const Window& window) {
  if (window.min >= 1 && window.max >= window.min && window.max <= Window::longest) return;
  reject_answer(policy, "its window is " + std::to_string(window.min) + " to " + std::to_string(window.max) + " steps",
                "1 <= min <= max <= " + std::to_string(Window::longest));
}
/// Ends the run unless planning can take so long.
inline void check_planning_time(std::string (*policy)(), Seconds time) {
  if (time.count() >= 0 && time.count() < std::numeric_limits<double>::infinity()) return;
  reject_answer(policy, "planning_time is " + std::to_string(time.count()) + " s", "a finite time of at least 0");
}

/// Call it in a `catch (...)`: throws the exception on as `PolicyThrew` of `policy()`. A policy that asked another one
/// keeps the inner name. Lack of memory and an interrupt are no policy's mistakes and pass as they are.
[[noreturn, gnu::cold, gnu::noinline]] inline void rethrow_of(std::string (*policy)()) {
  try {
    throw;
  } catch (const PolicyThrew&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Dropped&) {
    throw;
  } catch (const std::exception& thrown) {
    throw PolicyThrew(policy(), std::string{"it threw an exception: "} + thrown.what(), "an answer");
  } catch (...) {
    throw PolicyThrew(policy(), "it threw an object that is no std::exception", "an answer");
  }
}

/// Asks a policy. What it throws gets its name.
template <class Ask>
decltype(auto) asked(std::string (*policy)(), Ask&& ask) {
  try {
    return ask();
  } catch (...) {
    rethrow_of(policy);
  }
}

/// Call it in a `catch (...)`: the exception as the status that ends an engine's run. What `rethrow_of` passes on as it
/// is leaves this function, too. `policy`: who threw, unless the exception says so.
[[nodiscard, gnu::cold, gnu::noinline]] inline Status thrown_by(std::string (*policy)(), Seconds now) {
  try {
    rethrow_of(policy);
  } catch (const PolicyThrew& thrown) {
    return Error{ErrorCode::infeasible, thrown.policy() + " at " + std::to_string(now.count()) + " s", thrown.what(),
                 thrown.expected()};
  }
}

} // namespace sluice
