// SPDX-License-Identifier: Apache-2.0
// SloClass: requests that share an SLO and a priority, such as chats and batch jobs on one server. SloDraws: draws each
// request's class.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/core/random.hpp"
#include "sluice/workload/request.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Longer than any reader waits for a token: a longer TBT SLO was most likely given in another unit.
inline constexpr Seconds slowest_tbt{10};

/// One class of requests.
struct SloClass {
  std::string name; ///< "2s/50ms", or a name that the user gave
  double share = 1; ///< share of the requests
  Slo slo;
  std::int32_t priority = 0; ///< as `RequestSpec::priority`

  /// Whether requests of this SLO and this priority are in this class.
  [[nodiscard]] bool has(const Slo& its_slo, std::int32_t its_priority) const {
    return slo == its_slo && priority == its_priority;
  }
  friend bool operator==(const SloClass&, const SloClass&) = default;
};

/// The largest number of classes in a report; each has its own table.
inline constexpr std::size_t most_slo_classes = 8;

/// "50ms", "2s", "none".
[[nodiscard]] std::string short_time(Seconds time);
/// "2s/50ms": TTFT and TBT.
[[nodiscard]] inline std::string slo_name(const Slo& slo) { return short_time(slo.ttft) + "/" + short_time(slo.tbt); }

/// "2s/50ms priority -1": what distinguishes a class. Without the priority if that is 0, and without the SLO if there
/// is none.
[[nodiscard]] inline std::string label_of(const SloClass& one) {
  if (one.priority == 0) return slo_name(one.slo);
  return (one.slo == Slo{} ? "" : slo_name(one.slo) + " ") + "priority " + std::to_string(one.priority);
}

/// Parses classes such as "0.5:2s/50ms,0.5:30s/200ms:1": each one's share of the requests, its TTFT SLO and its TBT
/// SLO, and its priority, if that is not 0; a name may precede them ("chat=0.5:2s/50ms"). Error messages begin with
/// `--slo-classes`. Two classes with one SLO and one priority are an error: a report distinguishes classes by these.
[[nodiscard]] Expected<std::vector<SloClass>> parse_slo_classes(std::string_view text);

/// Draws each request's class according to the shares. The draws depend only on the seed, so that a request has the
/// same class for every system, at every rate.
class SloDraws {
 public:
  /// `classes`: their shares must sum to 1.
  SloDraws(std::vector<SloClass> classes, std::uint64_t seed); // differs from the draws of a generator with this
                                                               // seed

  [[nodiscard]] bool none() const { return classes_.empty(); }

  const SloClass& next();

 private:
  std::vector<SloClass> classes_;
  Random random_;
};

/// Returns the classes of requests, the most urgent first: by TTFT SLO, then by TBT SLO, then by priority. Returns none
/// if there are more than `most_slo_classes`.
[[nodiscard]] std::optional<std::vector<SloClass>> slo_classes_of(std::span<const RequestSpec> requests);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/slo_classes.inl.hpp"
#endif
