// SPDX-License-Identifier: Apache-2.0
// Connections over TLS, where OpenSSL was found.
#include "serve/front.hpp"
#if defined(SLUICE_HAS_OPENSSL)
#include "sluice/serve/beast/openssl/tls.hpp"

#include "serve/front_of.hpp"
#else
#include "run/options.hpp"
#endif

#include <memory>
#include <utility>

namespace serving {

using namespace sluice;

Expected<std::unique_ptr<Front>> tls_front([[maybe_unused]] const Options& options) {
#if defined(SLUICE_HAS_OPENSSL)
  Expected<Tls> tls = Tls::make(options.tls_cert, options.tls_key);
  if (!tls) return tls.error();
  return std::unique_ptr<Front>(std::make_unique<FrontOf<Tls>>(options, *std::move(tls)));
#else
  return running::flag_error("--tls-cert", "this build has no TLS", "a build where CMake finds OpenSSL (libssl-dev)");
#endif
}

} // namespace serving
