// SPDX-License-Identifier: Apache-2.0
// Notify: what a service tells systemd, by the protocol of sd_notify(3).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace serving {

/// Says nothing where $NOTIFY_SOCKET is not set. (Rejected: libsystemd, for one datagram.)
class Notify {
 public:
  Notify();
  Notify(const Notify&) = delete;
  Notify& operator=(const Notify&) = delete;
  ~Notify();

  /// "READY=1", "STOPPING=1", "WATCHDOG=1", "STATUS=…". Never waits: what the supervisor does not take is lost.
  void say(std::string_view state) const;
  /// How often "WATCHDOG=1" is due, in seconds: half of what the unit's WatchdogSec allows. Empty: never.
  [[nodiscard]] std::optional<double> watchdog() const { return watchdog_; }

 private:
  int socket_ = -1;
  std::string path_; ///< of the supervisor's socket; '\0' first: an abstract one
  std::optional<double> watchdog_;
};

} // namespace serving
