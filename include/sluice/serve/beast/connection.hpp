// SPDX-License-Identifier: Apache-2.0
// Connection: the concept of a plain or encrypted connection. HeldBody: a body within a limit that all requests share.
#pragma once

#include <boost/asio.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>
#include <boost/system/error_code.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// How a server exchanges bytes with its clients: plain HTTP or TLS. The server keeps a copy of this value.
///
///  1. `C::scheme`: the scheme of its URLs, `http` or `https`.
///  2. `C::Stream`: a beast::tcp_stream or a stream over one; `wrap(socket)` makes it.
///  3. `greet(stream)`: what precedes the first request, as a handshake; false ends the connection.
///  4. `part(stream)`: what follows the last answer.
///
/// Not checked, but required: `greet` and `part` end when the timeout of the tcp_stream expires, which the server sets.
template <class C>
concept Connection = requires(const C& connection, boost::asio::ip::tcp::socket socket, typename C::Stream& stream) {
  { C::scheme } -> std::convertible_to<std::string_view>;
  { connection.wrap(std::move(socket)) } -> std::same_as<typename C::Stream>;
  { connection.greet(stream) } -> std::same_as<boost::asio::awaitable<bool>>;
  { connection.part(stream) } -> std::same_as<boost::asio::awaitable<void>>;
};

/// A connection without encryption; the encrypted one is `Tls` (serve/beast/openssl/tls.hpp).
struct PlainHttp {
  static constexpr const char* scheme = "http";
  using Stream = boost::beast::tcp_stream;
  [[nodiscard]] Stream wrap(boost::asio::ip::tcp::socket socket) const { return Stream(std::move(socket)); }
  static boost::asio::awaitable<bool> greet(Stream& /*stream*/) { co_return true; }
  static boost::asio::awaitable<void> part(Stream& /*stream*/) { co_return; }
};

namespace detail {

inline constexpr auto as_tuple_awaitable = boost::asio::as_tuple(boost::asio::use_awaitable);

} // namespace detail

// BodyBudget: a memory limit shared by all requests' bodies; HeldBody: a Beast body that counts its memory against it.

/// Counts the bytes of bodies that have arrived and that no application has taken yet. Used on one thread.
class BodyBudget {
 public:
  /// `most`: the limit in bytes.
  explicit BodyBudget(std::size_t most) : most_(most) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  [[nodiscard]] bool take(std::size_t bytes) {
    if (bytes > left()) return false;
    held_ += bytes;
    return true;
  }
  /// Records that a request was refused because `take` failed, or would have failed.
  void refused_one() { refused_ += 1; }
  void give_back(std::size_t bytes) { held_ -= bytes; }

  [[nodiscard]] std::size_t most() const { return most_; }
  [[nodiscard]] std::size_t held() const { return held_; }
  [[nodiscard]] std::size_t left() const { return most_ - held_; }
  [[nodiscard]] std::int64_t refused() const { return refused_; }

 private:
  std::size_t most_;
  std::size_t held_ = 0;
  std::int64_t refused_ = 0;
};

/// Rejected: Beast's string_body, which reserves a body's whole Content-Length when its first byte arrives.
struct HeldBody {
  /// A body whose memory is counted until it is destroyed.
  class value_type {
   public:
    value_type() = default;
    value_type(value_type&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          taken_(std::exchange(other.taken_, 0)),
          text_(std::move(other.text_)) {}
    value_type& operator=(value_type&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(taken_, other.taken_);
      std::swap(text_, other.text_);
      return *this;
    }
    ~value_type() {
      if (budget_ != nullptr) budget_->give_back(taken_);
    }

    void count_in(BodyBudget& budget) { budget_ = &budget; }
    /// Returns the text; its bytes stay counted.
    [[nodiscard]] std::string take_text() { return std::move(text_); }
    /// `whole`: bytes of the whole body if known, else 0. Returns false if the budget has too little left.
    [[nodiscard]] bool append(const char* data, std::size_t size, std::size_t whole) {
      const std::size_t needed = text_.size() + size;
      if (needed > text_.capacity()) {
        std::size_t room = std::max(needed, 2 * text_.capacity());
        if (whole >= needed) room = std::min(room, whole);
        if (room > taken_ && budget_ != nullptr) {
          if (!budget_->take(room - taken_)) return false;
          taken_ = room;
        }
        text_.reserve(room);
      }
      text_.append(data, size);
      return true;
    }

   private:
    BodyBudget* budget_ = nullptr;
    std::size_t taken_ = 0; ///< bytes
    std::string text_;
  };

  /// How Beast's parser fills a body.
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(boost::beast::http::header<is_request, Fields>& /*head*/, value_type& body) : body_(&body) {}
    void init(const boost::optional<std::uint64_t>& length, boost::system::error_code& error) {
      whole_ = length ? static_cast<std::size_t>(*length) : 0;
      error = {};
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      std::size_t bytes = 0;
      error = {};
      for (const auto piece : boost::beast::buffers_range_ref(buffers)) {
        if (!body_->append(static_cast<const char*>(piece.data()), piece.size(), whole_)) {
          error = make_error_code(boost::system::errc::not_enough_memory);
          break;
        }
        bytes += piece.size();
      }
      return bytes;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type* body_;
    std::size_t whole_ = 0;
  };
};

} // namespace sluice
