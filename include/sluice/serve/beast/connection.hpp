// SPDX-License-Identifier: Apache-2.0
// Connection: the concept of a plain or encrypted connection, and PlainHttp.
#pragma once

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>

#include <concepts>
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

} // namespace sluice
