// SPDX-License-Identifier: Apache-2.0
// Channel: a client's connection, plain or over TLS.
#pragma once

#include <boost/asio.hpp>
#if defined(SLUICE_HAS_OPENSSL)
#include <boost/asio/ssl.hpp>
#endif

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace loading {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
inline constexpr auto as_tuple_awaitable = asio::as_tuple(asio::use_awaitable);

/// Whom a client trusts; null: connections are plain.
#if defined(SLUICE_HAS_OPENSSL)
using Trust = std::shared_ptr<asio::ssl::context>;
#else
using Trust = std::shared_ptr<void>;
#endif

class Channel {
 public:
  /// `socket` may still be closed.
  Channel(Tcp::socket socket, const Trust& trust) : plain_(std::make_unique<Tcp::socket>(std::move(socket))) {
#if defined(SLUICE_HAS_OPENSSL)
    if (trust) tls_ = std::make_unique<asio::ssl::stream<Tcp::socket&>>(*plain_, *trust);
#else
    (void)trust;
#endif
  }

  [[nodiscard]] Tcp::socket& socket() { return *plain_; }

  /// The handshake, if there is one, after the connection is there. `host`: whose certificate is expected.
  asio::awaitable<boost::system::error_code> greet([[maybe_unused]] const std::string& host) {
#if defined(SLUICE_HAS_OPENSSL)
    if (tls_) {
      boost::system::error_code error;
      (void)asio::ip::make_address(host, error);
      if (error) SSL_set_tlsext_host_name(tls_->native_handle(), host.c_str()); // an address is no name
      tls_->set_verify_callback(asio::ssl::host_name_verification(host), error);
      if (error) co_return error;
      auto [failed] = co_await tls_->async_handshake(asio::ssl::stream_base::client, as_tuple_awaitable);
      co_return failed;
    }
#endif
    co_return boost::system::error_code{};
  }
  asio::awaitable<bool> write(const std::string& bytes) {
#if defined(SLUICE_HAS_OPENSSL)
    if (tls_) {
      auto [error, count] = co_await asio::async_write(*tls_, asio::buffer(bytes), as_tuple_awaitable);
      co_return !error;
    }
#endif
    auto [error, count] = co_await asio::async_write(socket(), asio::buffer(bytes), as_tuple_awaitable);
    co_return !error;
  }
  struct Read {
    boost::system::error_code error;
    std::size_t bytes = 0;
  };
  asio::awaitable<Read> read(char* into, std::size_t most) {
#if defined(SLUICE_HAS_OPENSSL)
    if (tls_) {
      auto [error, bytes] = co_await tls_->async_read_some(asio::buffer(into, most), as_tuple_awaitable);
      co_return Read{error, bytes};
    }
#endif
    auto [error, bytes] = co_await socket().async_read_some(asio::buffer(into, most), as_tuple_awaitable);
    co_return Read{error, bytes};
  }
  void close() {
    boost::system::error_code ignored;
    socket().close(ignored);
  }

 private:
  std::unique_ptr<Tcp::socket> plain_; ///< at one address, which a TLS stream over it keeps
#if defined(SLUICE_HAS_OPENSSL)
  std::unique_ptr<asio::ssl::stream<Tcp::socket&>> tls_;
#endif
};

} // namespace loading
