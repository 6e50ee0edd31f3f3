// SPDX-License-Identifier: Apache-2.0
// Session: one request on a connection, from its first byte to the last of its answer.
#pragma once

#include "load/channel.hpp"
#include "load/reply_parser.hpp"
#include "load/stream_check.hpp"
#include <boost/asio.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loading {

using Clock = std::chrono::steady_clock;

[[nodiscard]] inline double seconds_since(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

/// Reads an answer: a stream of events goes to the check, anything else is kept.
class Session {
 public:
  Session(Channel channel, const Asked& asked)
      : check(asked, &gaps), parser([this](std::string_view body) { take(body); }), channel_(std::move(channel)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Connects, with the handshake of TLS if there is one. `host`: whose certificate is expected. `slow`: the kernel
  /// would take a whole answer for a client that does not read it, so it gets a small buffer.
  asio::awaitable<boost::system::error_code> open(const Tcp::endpoint& endpoint, const std::string& host, bool slow) {
    last_ = Clock::now();
    boost::system::error_code ignored;
    Tcp::socket& socket = channel_.socket();
    socket.open(endpoint.protocol(), ignored);
    if (slow) socket.set_option(asio::socket_base::receive_buffer_size(2048), ignored);
    auto [error] = co_await socket.async_connect(endpoint, as_tuple_awaitable);
    socket.set_option(Tcp::no_delay(true), ignored);
    if (!error) error = co_await channel_.greet(host);
    co_return error;
  }
  asio::awaitable<bool> send(const std::string& message) {
    sent_ = last_ = Clock::now();
    co_return co_await channel_.write(message);
  }
  /// Waits for bytes, and reads at most so many. False at the end: of the answer, or of the connection.
  asio::awaitable<bool> receive(std::size_t most = buffer_size) {
    const auto [error, bytes] = co_await channel_.read(buffer_.data(), std::min(most, buffer_.size()));
    last_ = Clock::now();
    if (bytes > 0) {
      any_ = true;
      if (unread_.empty()) // mostly: nothing was left of the last call's
        unread_.assign(buffer_.data(), bytes);
      else
        unread_.append(buffer_.data(), bytes);
      if (!parser.feed(unread_)) {
        malformed_ = true;
        co_return false;
      }
      if (unread_.size() > (std::size_t{1} << 20)) malformed_ = true;
    }
    if (error) ended_ = true;
    if (error) parser.finish();
    co_return !error && !parser.is_done() && !malformed_;
  }
  void close() { channel_.close(); }

  /// The answer is whole by HTTP's rules.
  [[nodiscard]] bool whole() { return parser.finish(); }
  [[nodiscard]] bool streams() const {
    return parser.is_header_done() && parser.status() == 200 && parser.type().starts_with("text/event-stream");
  }
  /// Not a byte has come of an answer.
  [[nodiscard]] bool silent() const { return !any_; }
  [[nodiscard]] bool malformed() const { return malformed_; }
  /// Whether the connection takes another request.
  [[nodiscard]] bool reusable() { return parser.is_done() && parser.keep_alive() && !ended_ && unread_.empty(); }
  [[nodiscard]] Channel& channel() { return channel_; }
  [[nodiscard]] const std::string& body() const { return body_; }
  [[nodiscard]] Clock::time_point sent() const { return sent_; }
  [[nodiscard]] double silence() const { return seconds_since(last_); }
  void touch() { last_ = Clock::now(); }

  std::vector<float> gaps;
  StreamCheck check;
  ReplyParser parser;
  bool given_up = false; ///< by the time limit

 private:
  static constexpr std::size_t buffer_size = 4096;
  static constexpr std::size_t most_kept = std::size_t{16} << 20;

  void take(std::string_view bytes) {
    if (streams())
      check.feed(bytes, std::chrono::duration<double>(last_ - sent_).count());
    else if (body_.size() + bytes.size() <= most_kept)
      body_.append(bytes);
  }

  Channel channel_;
  std::array<char, buffer_size> buffer_;
  std::string unread_, body_;
  Clock::time_point sent_, last_ = Clock::now();
  bool any_ = false, ended_ = false, malformed_ = false;
};

} // namespace loading
