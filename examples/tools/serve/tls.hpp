// SPDX-License-Identifier: Apache-2.0
// The kind of a server's connections: plain HTTP, or TLS where --tls-cert is given.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/beast/http_server.hpp"

#include "serve/options.hpp"

namespace serving {

/// Errors: --tls-cert and --tls-key are not a certificate and its key; this program was built without OpenSSL.
[[nodiscard]] sluice::Expected<sluice::HttpConnection> connection(const Options& options);

} // namespace serving
