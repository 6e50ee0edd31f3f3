// SPDX-License-Identifier: Apache-2.0
// HttpServer: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/serve/beast/http_core.hpp"
#include "sluice/serve/beast/http_server.hpp"

#include <utility>

namespace sluice {

SLUICE_SERVER_INLINE HttpConnection::HttpConnection() : HttpConnection(PlainHttp{}) {}

SLUICE_SERVER_INLINE HttpServer::HttpServer(HttpLimits limits, HttpConnection connection)
    : core_(std::make_unique<detail::HttpCore>(limits, std::move(connection))) {}
SLUICE_SERVER_INLINE HttpServer::~HttpServer() = default;

SLUICE_SERVER_INLINE Status HttpServer::listen(const HttpAddress& address) { return core_->listen(address); }
SLUICE_SERVER_INLINE Status HttpServer::listen_admin(const HttpAddress& address) {
  return core_->listen_admin(address);
}
SLUICE_SERVER_INLINE std::uint16_t HttpServer::admin_port() const { return core_->admin_port(); }
SLUICE_SERVER_INLINE std::uint16_t HttpServer::port() const { return core_->port(); }
SLUICE_SERVER_INLINE std::string_view HttpServer::scheme() const { return core_->scheme(); }
SLUICE_SERVER_INLINE void HttpServer::run(HttpApp& app, HttpApp* admin) { core_->run(app, admin); }
SLUICE_SERVER_INLINE void HttpServer::post(std::function<void()> work) { core_->post(std::move(work)); }
SLUICE_SERVER_INLINE void HttpServer::after(double seconds, std::function<void()> work) {
  core_->after(seconds, std::move(work));
}
SLUICE_SERVER_INLINE void HttpServer::on_signal(std::initializer_list<int> numbers, std::function<void(int)> then) {
  core_->on_signal(numbers, std::move(then));
}
SLUICE_SERVER_INLINE void HttpServer::on_each_signal(int number, std::function<void()> then) {
  core_->on_each_signal(number, std::move(then));
}
SLUICE_SERVER_INLINE void HttpServer::drain(std::chrono::milliseconds bound) { core_->drain(bound); }
SLUICE_SERVER_INLINE void HttpServer::stop() { core_->stop(); }
SLUICE_SERVER_INLINE bool HttpServer::draining() const { return core_->draining(); }
SLUICE_SERVER_INLINE std::size_t HttpServer::connections() const { return core_->connections(); }
SLUICE_SERVER_INLINE HttpFigures HttpServer::figures() const { return core_->figures(); }

} // namespace sluice
