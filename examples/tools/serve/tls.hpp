// SPDX-License-Identifier: Apache-2.0
// The kind of a server's connections: plain HTTP, or TLS if --tls-cert is given.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/beast/http_server.hpp"

#include "serve/options.hpp"

#include <functional>

namespace serving {

struct ServedConnection {
  sluice::HttpConnection connection;
  std::function<sluice::Status()> renew; ///< reads the certificate and its key again; empty: there is no certificate
};

/// Makes the connections' configuration. Errors: --tls-cert and --tls-key are not a certificate and its key, or this
/// program was built without OpenSSL.
[[nodiscard]] sluice::Expected<ServedConnection> connection(const Options& options);

} // namespace serving
