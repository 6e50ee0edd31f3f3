// SPDX-License-Identifier: Apache-2.0
// Ask: one request to a server on this machine; its client may wait for the answer, or leave.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

namespace sluice_test {

/// Sends at once; several may be under way. Leaves at the end of the scope.
class Ask {
 public:
  Ask(int port, const std::string& path, const nlohmann::json& body) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    const std::string content = body.dump();
    const std::string message = "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
                                "Content-Type: application/json\r\nContent-Length: " + std::to_string(content.size()) +
                                "\r\n\r\n" + content;
    REQUIRE(::send(socket_, message.data(), message.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(message.size()));
  }
  ~Ask() { leave(); }
  Ask(const Ask&) = delete;
  Ask& operator=(const Ask&) = delete;

  /// Waits until `part` has come of the answer; false where it ended without.
  bool read_until(const std::string& part) {
    while (text_.find(part) == std::string::npos)
      if (!receive()) return false;
    return true;
  }
  /// Waits for the whole answer: its status.
  int status() {
    while (receive()) {
    }
    return text_.size() > 12 ? std::atoi(text_.c_str() + 9) : 0;
  }
  /// The answer's body. After `status`.
  [[nodiscard]] nlohmann::json body() const { return nlohmann::json::parse(text_.substr(text_.find("\r\n\r\n") + 4)); }
  void leave() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

 private:
  bool receive() {
    char buffer[4096];
    const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
    if (count > 0) text_.append(buffer, static_cast<std::size_t>(count));
    return count > 0;
  }

  int socket_;
  std::string text_;
};

} // namespace sluice_test
