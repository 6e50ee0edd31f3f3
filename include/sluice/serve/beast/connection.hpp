// SPDX-License-Identifier: Apache-2.0
// Connection: what a client's bytes pass through on their way to the server, and the plain one.
#pragma once

#include "sluice/serve/server_role.hpp"

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>

#include <concepts>
#include <string_view>
#include <utility>

namespace sluice {

/// What a client's bytes pass through, a value that an HttpServer keeps.
///
///  1. `P::role` is `roles::Connection`.
///  2. `P::scheme`: of its addresses, `http` or `https`.
///  3. `P::Stream`: a beast::tcp_stream, or a stream over one; `wrap(socket)` makes it.
///  4. `greet(stream)`: what comes before the first request; false where the connection ends there.
///  5. `part(stream)`: what comes behind the last answer.
///
/// Not checked, and owed: both end once the time that the tcp_stream is given has passed, which is the server's to say.
template <class P>
concept Connection = PlaysRole<P, roles::Connection> &&
    requires(const P& connection, boost::asio::ip::tcp::socket socket, typename P::Stream& stream) {
  { P::scheme } -> std::convertible_to<std::string_view>;
  { connection.wrap(std::move(socket)) } -> std::same_as<typename P::Stream>;
  { connection.greet(stream) } -> std::same_as<boost::asio::awaitable<bool>>;
  { connection.part(stream) } -> std::same_as<boost::asio::awaitable<void>>;
};

template <>
struct ServerContract<roles::Connection> {
  template <class P, class E>
  static constexpr bool met = Connection<P>;

  template <class P, class E>
  static consteval void explain() {
    static_assert(Connection<P>,
                  "sluice: this Connection needs a `scheme`, a nested `Stream`, `Stream wrap(tcp::socket) const`, "
                  "`boost::asio::awaitable<bool> greet(Stream&) const` and `awaitable<void> part(Stream&) const`");
  }
  template <bool Once>
  static consteval void explain_twice() {
    static_assert(Once, "sluice: two Connections in one server: keep one of them");
  }
};

/// A connection without encryption. `Tls` (serve/beast/openssl/tls.hpp) has it.
struct PlainHttp {
  using role = roles::Connection;
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
