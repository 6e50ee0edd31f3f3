// SPDX-License-Identifier: Apache-2.0
// TestApp: an application whose behaviour depends on the path.
#pragma once

#include "sluice/serve/http.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice_test {

/// Echoes bodies; `/stream/N` sends N pieces, one per millisecond; `/never` keeps the exchange; `/flood` sends until it
/// is dropped; `/burst` sends a megabyte in one piece; `/stuck` sends sixteen and keeps the exchange; `/nothing` has no
/// content.
class TestApp final : public sluice::HttpApp {
 public:
  void handle(sluice::HttpRequest request, std::unique_ptr<sluice::Exchange> exchange) override {
    ++requests;
    if (request.path() == "/smuggled") ++smuggled;
    if (request.headers.find("X-Seen") != request.target) ++unseen;
    if (request.path() == "/never") {
      kept.push_back(std::move(exchange));
      kept.back()->on_gone([this] { ++gone; });
      return;
    }
    if (request.path() == "/dropped") return; // destroys the exchange without a response
    if (request.path() == "/broken") {        // and in the middle of one
      exchange->begin({});
      exchange->send("hello");
      return;
    }
    if (request.path().starts_with("/stream/")) {
      const int count = std::stoi(std::string{request.path().substr(8)});
      sluice::HttpResponse head;
      head.type = "text/event-stream";
      exchange->begin(std::move(head));
      exchange->on_gone([this] { ++gone; });
      stream(std::shared_ptr<sluice::Exchange>(std::move(exchange)), 0, count);
      return;
    }
    if (request.path() == "/nothing") {
      sluice::HttpResponse response;
      response.status = 204;
      response.type = "";
      response.body = "which is not sent";
      exchange->respond(std::move(response));
      return;
    }
    if (request.path() == "/burst") {
      exchange->begin({});
      exchange->send(std::string(1 << 20, 'x'));
      exchange->finish();
      return;
    }
    if (request.path() == "/stuck") {
      exchange->begin({});
      exchange->on_gone([this] { ++gone; });
      exchange->send(std::string(16 << 20, 'x'));
      kept.push_back(std::move(exchange));
      return;
    }
    if (request.path() == "/flood") {
      exchange->begin({});
      exchange->on_gone([this] { ++gone; });
      flood(std::shared_ptr<sluice::Exchange>(std::move(exchange)));
      return;
    }
    sluice::HttpResponse response;
    response.type = "text/plain";
    response.body = request.method + " " + request.target + " " + request.body;
    exchange->respond(std::move(response));
  }
  /// `/locked` needs a key that nobody has; `/health` watches.
  std::optional<sluice::HttpResponse> refuse_head(const sluice::HttpRequest& head) override {
    if (head.path() != "/locked") return std::nullopt;
    return refuse(401, "no key", &head);
  }
  [[nodiscard]] bool watches(const sluice::HttpRequest& head) const override { return head.path() == "/health"; }
  sluice::HttpResponse refuse(int status, std::string what, const sluice::HttpRequest* head) override {
    sluice::HttpResponse response;
    response.status = status;
    response.body =
        "{\"error\":\"" + what + "\"}" + (head == nullptr ? "" : " to " + head->method + " " + head->target);
    return response;
  }

  sluice::HttpTransport* transport = nullptr;
  std::atomic<int> requests{0}, gone{0};
  std::atomic<int> smuggled{0}; ///< requests for /smuggled
  std::atomic<int> unseen{0};   ///< requests without a header `X-Seen` that repeats their target
  std::vector<std::unique_ptr<sluice::Exchange>> kept;

 private:
  void stream(std::shared_ptr<sluice::Exchange> exchange, int at, int count) {
    if (at == count) return exchange->finish();
    exchange->send("data: " + std::to_string(at) + "\n\n");
    transport->after(0.001, [this, exchange, at, count] { stream(exchange, at + 1, count); });
  }
  void flood(std::shared_ptr<sluice::Exchange> exchange) {
    if (gone > 0) return;
    exchange->send(std::string(16 << 10, 'x'));
    transport->post([this, exchange] { flood(exchange); });
  }
};

/// Whether the condition holds within five minutes, which only a failure takes: a busy machine is slow, and a thread of
/// the lowest priority may wait long.
bool soon(auto&& holds) {
  for (int i = 0; i < 60000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return holds();
}

} // namespace sluice_test
