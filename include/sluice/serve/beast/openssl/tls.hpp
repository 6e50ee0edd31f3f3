// SPDX-License-Identifier: Apache-2.0
// Tls: connections encrypted by OpenSSL.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/beast/http_core.hpp"

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace sluice {

/// TLS 1.2 or later with OpenSSL's default ciphers, without renegotiation. Does not request client certificates: the
/// API does authorization. Serves only HTTP/1.1; clients that also offer newer versions fall back to it.
///
/// Rejected: beast::ssl_stream, which joins small writes; a session writes one piece at a time.
class Tls {
 public:
  static constexpr const char* scheme = "https";
  using Stream = boost::asio::ssl::stream<boost::beast::tcp_stream>;

  /// Reads PEM files: the server's certificate followed by its chain, and its private key without a passphrase. Errors:
  /// a file cannot be read or contains something else, or the key belongs to another certificate.
  [[nodiscard]] static Expected<Tls> make(std::string certificate, std::string key) {
    Tls tls(std::move(certificate), std::move(key));
    if (Status read = tls.renew(); !read) return read.error();
    return tls;
  }
  /// Reads both files again, for all copies of this value. Open connections keep their certificate. Errors: those of
  /// `make`; new connections then keep the previous certificate, too.
  [[nodiscard]] Status renew() const {
    Expected<std::shared_ptr<Context>> context = read(files_->certificate, files_->key);
    if (!context) return context.error();
    files_->context = *std::move(context);
    return {};
  }

  [[nodiscard]] Stream wrap(boost::asio::ip::tcp::socket socket) const {
    return {boost::beast::tcp_stream(std::move(socket)), *files_->context}; // the stream keeps the data it needs
  }
  /// Does the handshake. A client that sends plain HTTP gets an error in plain HTTP.
  [[nodiscard]] boost::asio::awaitable<bool> greet(Stream& stream) const {
    auto [error] = co_await stream.async_handshake(boost::asio::ssl::stream_base::server, detail::as_tuple_awaitable);
    if (error.category() == boost::asio::error::get_ssl_category() &&
        ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST)
      co_await answer_plain_http(stream.next_layer());
    co_return !error;
  }
  /// Sends TLS's end of data, so that clients can tell a complete response from a truncated one.
  [[nodiscard]] boost::asio::awaitable<void> part(Stream& stream) const {
    co_await stream.async_shutdown(detail::as_tuple_awaitable);
  }

 private:
  using Context = boost::asio::ssl::context;
  struct Files {
    std::string certificate, key; ///< paths
    std::shared_ptr<Context> context{};
  };

  Tls(std::string certificate, std::string key)
      : files_(std::make_shared<Files>(Files{std::move(certificate), std::move(key)})) {}

  static Expected<std::shared_ptr<Context>> read(const std::string& certificate, const std::string& key) {
    auto made = std::make_shared<Context>(Context::tls_server);
    Context& context = *made;
    SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
    SSL_CTX_set_options(context.native_handle(), SSL_OP_NO_RENEGOTIATION);
    // Without this, OpenSSL would ask for a passphrase on the terminal.
    context.set_password_callback([](std::size_t, Context::password_purpose) { return std::string{}; });
    const char* const wanted = "the private key of that certificate in PEM, without a passphrase";
    const auto mismatch = [&] {
      return Error{ErrorCode::bad_input, "--tls-key",
                   "'" + key + "' is not the key of the certificate in '" + certificate + "'", wanted};
    };
    const auto use = [](const char* flag, const std::string& file, const char* expected, auto&& take) -> Status {
      const Expected<std::string> text = read(file);
      if (!text) return Error{ErrorCode::bad_input, flag, text.error().what, expected};
      boost::system::error_code error;
      take(boost::asio::buffer(*text), error);
      if (!error) return {};
      return Error{ErrorCode::bad_input, flag, "OpenSSL takes none from '" + file + "': " + error.message(), expected};
    };
    if (Status used = use("--tls-cert", certificate, "a certificate in PEM, those that vouch for it behind it",
                          [&](auto text, auto& error) { context.use_certificate_chain(text, error); });
        !used)
      return used.error();
    bool differ = false;
    if (Status used = use("--tls-key", key, wanted,
                          [&](auto text, auto& error) {
                            context.use_private_key(text, Context::pem, error);
                            differ =
                                error.category() == boost::asio::error::get_ssl_category() &&
                                ERR_GET_REASON(static_cast<unsigned long>(error.value())) == X509_R_KEY_VALUES_MISMATCH;
                          });
        !used)
      return differ ? mismatch() : used.error();
    // OpenSSL would accept a key of another type (EC, RSA) in addition to the certificate, and each handshake would
    // fail.
    const bool fits = SSL_CTX_check_private_key(context.native_handle()) == 1;
    ERR_clear_error(); // later calls on this thread would report these errors as theirs
    if (!fits) return mismatch();
    return made;
  }

  static boost::asio::awaitable<void> answer_plain_http(boost::beast::tcp_stream& stream) {
    static constexpr std::string_view answer =
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
        "this port speaks TLS; expected https://…\n";
    stream.expires_after(std::chrono::seconds(2));
    auto [error, bytes] =
        co_await boost::asio::async_write(stream, boost::asio::buffer(answer), detail::as_tuple_awaitable);
    boost::system::error_code ignored;
    stream.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    // Closing with unread bytes would reset the connection, and the client would lose the response.
    std::array<char, 4096> rest{};
    while (!error)
      std::tie(error, bytes) = co_await stream.async_read_some(boost::asio::buffer(rest), detail::as_tuple_awaitable);
  }

  /// Returns a file's bytes. (OpenSSL does not report why it cannot read a file.)
  static Expected<std::string> read(const std::string& file) {
    struct Close {
      void operator()(std::FILE* one) const { (void)std::fclose(one); }
    };
    std::string text;
    const std::unique_ptr<std::FILE, Close> opened(std::fopen(file.c_str(), "re"));
    if (opened != nullptr) {
      std::array<char, 4096> piece{};
      for (std::size_t n; (n = std::fread(piece.data(), 1, piece.size(), opened.get())) > 0;)
        text.append(piece.data(), n);
      if (std::ferror(opened.get()) == 0) return text;
    }
    return Error{ErrorCode::bad_input, "", "'" + file + "': " + std::generic_category().message(errno), ""};
  }

  std::shared_ptr<Files> files_; ///< shared by all copies
};

} // namespace sluice
