// SPDX-License-Identifier: Apache-2.0
// Sends datagrams to systemd.
#include "serve/notify.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace serving {

Notify::Notify() {
  const char* const path = std::getenv("NOTIFY_SOCKET"); // NOLINT(concurrency-mt-unsafe): before any other thread
  if (path == nullptr || (*path != '/' && *path != '@') || std::strlen(path) >= sizeof(sockaddr_un::sun_path)) return;
  path_ = path;
  if (path_.front() == '@') path_.front() = '\0';
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const char* const limit = std::getenv("WATCHDOG_USEC"); // NOLINT(concurrency-mt-unsafe)
  const char* const whose = std::getenv("WATCHDOG_PID");  // NOLINT(concurrency-mt-unsafe)
  if (limit == nullptr || (whose != nullptr && std::atol(whose) != static_cast<long>(::getpid()))) return;
  if (const double seconds = std::atof(limit) * 1e-6; seconds > 0) watchdog_ = seconds / 2;
}

Notify::~Notify() {
  if (socket_ >= 0) ::close(socket_);
}

void Notify::say(std::string_view state) const {
  if (socket_ < 0) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, path_.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size());
  (void)::sendto(socket_, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&address), length);
}

} // namespace serving
