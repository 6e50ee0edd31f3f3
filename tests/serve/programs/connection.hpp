// SPDX-License-Identifier: Apache-2.0
// Connection: a client's TCP connection to this machine, which sends any bytes and reads responses.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace sluice_test {

/// One response, as far as it arrived.
struct Response {
  int status = 0; ///< 0: none came
  std::string head, body;
};

/// Open until the end of the scope.
class Connection {
 public:
  /// `receives`: size of the kernel's receive buffer; 0: the default.
  explicit Connection(int port, std::uint32_t host = INADDR_LOOPBACK, int receives = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receives > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receives, sizeof receives);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(host);
    open_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  Connection(Connection&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), open_(other.open_), text_(std::move(other.text_)) {}
  Connection& operator=(Connection&&) = delete;
  ~Connection() { close(); }

  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  [[nodiscard]] bool open() const { return open_; }

  /// Sends everything, or as much as the server accepts.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// Reads until the text contains `mark`; false if before that the connection ends or is silent for a minute.
  bool read_until(std::string_view mark) {
    while (text_.find(mark) == std::string::npos)
      if (!read()) return false;
    return true;
  }
  /// The next response: by its length or, without one, up to the end of the connection.
  Response response() {
    Response response;
    if (!read_until("\r\n\r\n")) return response;
    const std::size_t head = text_.find("\r\n\r\n") + 4;
    response.head = text_.substr(0, head);
    text_.erase(0, head);
    response.status = std::atoi(response.head.c_str() + std::string_view{"HTTP/1.1 "}.size());
    const std::size_t at = response.head.find("Content-Length: ");
    const std::size_t length = at == std::string::npos
                                   ? std::string::npos
                                   : static_cast<std::size_t>(std::atoll(response.head.c_str() + at + 16));
    while (text_.size() < length && read()) {
    }
    response.body = text_.substr(0, length);
    text_.erase(0, response.body.size());
    return response;
  }
  /// Whether the server closes the connection within a minute.
  bool ended() {
    while (read()) text_.clear();
    return !silent_;
  }
  /// All that comes until the server closes the connection.
  std::string rest() {
    while (read()) {
    }
    return std::exchange(text_, {});
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  bool read() {
    pollfd wait{socket_, POLLIN, 0};
    silent_ = ::poll(&wait, 1, 60'000) == 0;
    if (silent_) return false;
    char buffer[1 << 14];
    const ssize_t bytes = ::recv(socket_, buffer, sizeof buffer, 0);
    if (bytes > 0) text_.append(buffer, static_cast<std::size_t>(bytes));
    return bytes > 0;
  }

  int socket_;
  bool open_ = false, silent_ = false;
  std::string text_; ///< read but not returned yet
};

inline std::string post(std::string_view path, std::string_view body, std::string_view headers = "") {
  std::string text = "POST ";
  text.append(path).append(" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n").append(headers);
  text.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n\r\n").append(body);
  return text;
}
/// A connection on which one request has been sent, so that several requests can be under way.
inline Connection asked(int port, std::string_view path, std::string_view body, std::string_view headers = "") {
  Connection connection(port);
  connection.send(post(path, body, "Connection: close\r\n" + std::string{headers}));
  return connection;
}
/// The body of http://127.0.0.1:port/path; empty if there is no response.
inline std::string get(int port, std::string_view path) {
  Connection connection(port);
  std::string request = "GET ";
  request.append(path).append(" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  return connection.open() && connection.send(request) ? connection.response().body : std::string{};
}

} // namespace sluice_test
