// SPDX-License-Identifier: Apache-2.0
// Options: the values of sluice-fleet's flags.
#pragma once

#include "sluice/fleet/failures.hpp"
#include "sluice/fleet/handoff.hpp"

#include "compare/options.hpp"
#include "fleet/clients.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fleets {

struct Options : compared::Options {
  std::string system = "VllmPrefixCaching",
              decoder; ///< of the first pool, and of the one that decodes; empty: the same
  std::string routers = "round-robin,least-loaded,precise";
  std::int64_t engines = 4;
  std::optional<std::int64_t> prefill, decode; ///< two pools, instead of `engines`
  double every = 0.1;
  sluice::Handoff handoff{};
  std::vector<sluice::Failure> failures{};
  bool restarted = false; ///< clients of a dead engine's requests lose what they had
  std::optional<std::int64_t> scale_from;
  double scale_delay = 60, scale_waiting = 10;
  double host_step = 0;      ///< seconds that an iteration waits for the host
  double kv_copy = 0;        ///< seconds per layer in which a connector copies a request's KV, on both sides
  std::string replay;        ///< a folder with a recorded fleet
  std::string recording;     ///< a CSV with the measured stages of a ladder
  Ladder ladder{};           ///< a preset's, or the user's own
  std::string shared_prefix; ///< its prompts; replaces parts of a preset's
  bool json = false, list_names = false;

  std::vector<std::string> given{}; ///< flags that the user gave
  [[nodiscard]] bool gave(std::string_view flag) const {
    return std::find(given.begin(), given.end(), flag) != given.end();
  }
  /// Whether a ladder of rates is served, and no trace.
  [[nodiscard]] bool has_ladder() const { return !preset.empty() || gave("--stages"); }
};

/// Whether all of `text` is a finite number; it is written into `value`.
[[nodiscard]] bool read_double(std::string_view text, double& value);
/// The parts of `text` between commas.
[[nodiscard]] std::vector<std::string_view> parts_of(std::string_view text);

/// Reads "rate=25GB/s,latency=0.001,by=layer" into `handoff`. Returns what was expected if the text is wrong.
[[nodiscard]] std::string read_handoff(std::string_view text, sluice::Handoff& handoff);
/// Reads "2@30,0@45.5": engines and the seconds at which they die.
[[nodiscard]] std::string read_failures(std::string_view text, std::vector<sluice::Failure>& failures);
/// Reads "15:50,3:20": rates and the seconds of each stage, the first of which warms.
[[nodiscard]] std::string read_stages(std::string_view text, std::vector<Stage>& stages);
/// Reads "poisson", "scaled" or "even".
[[nodiscard]] std::string read_arrivals(std::string_view text, Arrivals& arrivals);
/// Reads "groups=150,users=5,shared=6000,own=1200,output=1000".
[[nodiscard]] std::string read_prompts(std::string_view text, Ladder& ladder);

} // namespace fleets
