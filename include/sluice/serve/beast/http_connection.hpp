// SPDX-License-Identifier: Apache-2.0
// HttpConnection: the kind of connection that a server accepts, chosen at run time.
#pragma once

#include <concepts>
#include <memory>
#include <string_view>

namespace sluice {

namespace detail {
class AnyConnection;
class HttpCore;
} // namespace detail

/// Any `Connection` (serve/beast/connection.hpp); the default is PlainHttp. Costs one indirect call per connection.
class HttpConnection {
 public:
  HttpConnection();
  /// Defined in serve/beast/http_core.hpp, which the header of a Connection includes.
  template <class C>
    requires(!std::same_as<C, HttpConnection>)
  HttpConnection(C connection); // NOLINT(google-explicit-constructor): `config.connection = *Tls::make(…)`

  [[nodiscard]] std::string_view scheme() const { return scheme_; }

 private:
  friend class detail::HttpCore;

  std::string_view scheme_;
  std::shared_ptr<const detail::AnyConnection> any_;
};

} // namespace sluice
