// SPDX-License-Identifier: Apache-2.0
// Makes connections in plain HTTP, or with TLS if this build has OpenSSL.
#include "serve/tls.hpp"
#if defined(SLUICE_HAS_OPENSSL)
#include "sluice/serve/beast/openssl/tls.hpp"
#else
#include "run/options.hpp"
#endif

#include <utility>

namespace serving {

using namespace sluice;

Expected<ServedConnection> connection(const Options& options) {
  if (options.tls_cert.empty()) return ServedConnection{};
#if defined(SLUICE_HAS_OPENSSL)
  Expected<Tls> tls = Tls::make(options.tls_cert, options.tls_key);
  if (!tls) return tls.error();
  return ServedConnection{HttpConnection{*tls}, [tls = *tls] { return tls.renew(); }};
#else
  return running::flag_error("--tls-cert", "this build has no TLS", "a build where CMake finds OpenSSL (libssl-dev)");
#endif
}

} // namespace serving
