// SPDX-License-Identifier: Apache-2.0
// Front: where a server's clients connect, in plain HTTP or over TLS.
#pragma once

#include "sluice/core/expected.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/nlohmann/openai_app.hpp"

#include "serve/options.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace serving {

/// The API's side of the connections. What carries bytes is chosen when the program starts, and compiled for each
/// choice on its own.
class Front {
 public:
  Front() = default;
  virtual ~Front() = default;
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  [[nodiscard]] virtual sluice::HttpTransport& transport() = 0;
  /// At --host and --port.
  virtual sluice::Status listen(const Options& options) = 0;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual const char* scheme() const = 0; ///< of its address: http or https
  /// Requests under way may take `drain_s` after TERM; `said` is told how many there are.
  virtual void drain_on_signal(sluice::OpenAiApp& app, double drain_s,
                               std::function<void(std::size_t under_way)> said) = 0;
  /// Serves until it is drained.
  virtual void run(sluice::OpenAiApp& app) = 0;
};

[[nodiscard]] std::unique_ptr<Front> plain_front(const Options& options);
/// Errors: --tls-cert and --tls-key are no certificate and its key; this program was built without OpenSSL.
[[nodiscard]] sluice::Expected<std::unique_ptr<Front>> tls_front(const Options& options);

} // namespace serving
