// SPDX-License-Identifier: Apache-2.0
// SloClass: requests that share an SLO, such as chats and batch jobs on one server. SloDraws: draws each request's
// class.
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

  friend bool operator==(const SloClass&, const SloClass&) = default;
};

/// The largest number of classes in a report; each has its own table.
inline constexpr std::size_t most_slo_classes = 8;

/// "50ms", "2s", "none".
[[nodiscard]] std::string short_time(Seconds time);
/// "2s/50ms": TTFT and TBT.
[[nodiscard]] inline std::string slo_name(const Slo& slo) { return short_time(slo.ttft) + "/" + short_time(slo.tbt); }

/// Parses classes such as "0.5:2s/50ms,0.5:30s/200ms": each one's share of the requests, its TTFT SLO and its TBT SLO;
/// a name may precede them ("chat=0.5:2s/50ms"). Error messages begin with `--slo-classes`. Two classes with one SLO
/// are an error: a report distinguishes classes by their SLO.
[[nodiscard]] Expected<std::vector<SloClass>> parse_slo_classes(std::string_view text);

/// Draws each request's class according to the shares. The draws depend only on the seed, so that a request has the
/// same class for every system, at every rate.
class SloDraws {
 public:
  /// `classes`: their shares must sum to 1.
  SloDraws(std::vector<SloClass> classes, std::uint64_t seed); // differs from the draws of a generator with this
                                                               // seed

  [[nodiscard]] bool none() const { return classes_.empty(); }

  const Slo& next();

 private:
  std::vector<SloClass> classes_;
  Random random_;
};

/// Returns the classes of requests that have their own SLOs, the most urgent first: by TTFT, then by TBT. Returns none
/// if there are more than `most_slo_classes`.
[[nodiscard]] std::optional<std::vector<SloClass>> slo_classes_of(std::span<const RequestSpec> requests);

} // namespace sluice

#ifndef SLUICE_COMPILED
#include "sluice/workload/slo_classes.inl.hpp"
#endif
