// SPDX-License-Identifier: Apache-2.0
// FrontOf: a Front of an HttpServer, whatever its connections are.
#pragma once

#include "sluice/serve/beast/drain.hpp"
#include "sluice/serve/beast/http_server.hpp"

#include "serve/front.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace serving {

template <class Connection>
class FrontOf final : public Front {
 public:
  FrontOf(const Options& options, Connection connection) : server_(limits(options), std::move(connection)) {}

  sluice::HttpTransport& transport() override { return server_; }
  sluice::Status listen(const Options& options) override { return server_.listen({options.host, options.port}); }
  [[nodiscard]] std::uint16_t port() const override { return server_.port(); }
  [[nodiscard]] const char* scheme() const override { return Connection::scheme; }
  void drain_on_signal(sluice::OpenAiApp& app, double drain_s, std::function<void(std::size_t)> said) override {
    sluice::drain_on_signal(server_, app, drain_s, std::move(said));
  }
  void run(sluice::OpenAiApp& app) override { server_.run(app); }

 private:
  static sluice::HttpLimits limits(const Options& options) {
    sluice::HttpLimits limits;
    limits.max_body = static_cast<std::size_t>(options.max_body);
    return limits;
  }

  sluice::HttpServer<Connection> server_;
};

} // namespace serving
