// SPDX-License-Identifier: Apache-2.0
// Notify: reports a service's state to systemd, by the protocol of sd_notify(3).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace serving {

/// Sends nothing if $NOTIFY_SOCKET is not set. (Rejected: libsystemd, for one datagram.)
class Notify {
 public:
  Notify();
  Notify(const Notify&) = delete;
  Notify& operator=(const Notify&) = delete;
  ~Notify();

  /// Sends "READY=1", "STOPPING=1", "WATCHDOG=1" or "STATUS=…". Never waits: a message that the supervisor does not
  /// accept is lost.
  void say(std::string_view state) const;
  /// Returns how often "WATCHDOG=1" is due, in seconds: half of the unit's WatchdogSec. Empty: never.
  [[nodiscard]] std::optional<double> watchdog() const { return watchdog_; }

 private:
  int socket_ = -1;
  std::string path_; ///< the supervisor's socket; '\0' first: an abstract socket
  std::optional<double> watchdog_;
};

} // namespace serving
