// SPDX-License-Identifier: Apache-2.0
#include "serve/in_process.hpp"
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// `/stream/N` sends N pieces, one every tenth of a second; `/keep` keeps the exchange, `/half` drops it in the middle
/// of its response, `/drop` before; everything else is echoed.
class TestApp final : public HttpApp {
 public:
  explicit TestApp(InProcess& transport) : transport_(&transport) {}

  void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) override {
    order.push_back(request.target);
    exchange->on_gone([this, target = request.target] { gone.push_back(target); });
    if (request.target == "/drop") return;
    if (request.target == "/half") return exchange->begin({});
    if (request.target == "/keep") return kept.push_back(std::move(exchange));
    if (request.target.starts_with("/stream/")) {
      HttpResponse head;
      head.body = "head ";
      exchange->begin(std::move(head));
      return stream(std::shared_ptr<Exchange>(std::move(exchange)), std::stoi(request.target.substr(8)));
    }
    HttpResponse response;
    response.body = request.method + " " + request.target + " " + request.body;
    exchange->respond(std::move(response));
  }
  HttpResponse refuse(int status, std::string what, const HttpRequest* /*head*/) override {
    HttpResponse response;
    response.status = status;
    response.body = std::move(what);
    return response;
  }

  std::vector<std::string> order, gone;
  std::vector<std::unique_ptr<Exchange>> kept;

 private:
  void stream(const std::shared_ptr<Exchange>& exchange, int left) {
    if (left == 0) return exchange->finish();
    transport_->after(0.1, [this, exchange, left] {
      exchange->send(std::to_string(left));
      stream(exchange, left - 1);
    });
  }

  InProcess* transport_;
};

HttpRequest get(std::string target) { return {"GET", std::move(target), {}, {}}; }

struct World {
  World() { transport.serve(app); }
  InProcess transport;
  TestApp app{transport};
};

} // namespace

TEST_CASE("InProcess runs work in order of time, and at the same time in order of submission") {
  InProcess transport;
  std::vector<int> done;
  transport.after(2, [&] { done.push_back(4); });
  transport.after(1, [&] {
    done.push_back(1);
    transport.post([&] { done.push_back(3); });
    transport.at(0.5, [&] { done.push_back(5); }); // in the past: runs now, after posted work
    transport.after(5, [&] { done.push_back(6); });
  });
  transport.after(1, [&] { done.push_back(2); });
  transport.run_until(0.9);
  CHECK(done.empty());
  CHECK(transport.now() == 0.9);
  CHECK(transport.next_due() == 1);
  transport.run_until(2);
  CHECK(done == std::vector<int>{1, 2, 3, 5, 4});
  CHECK(transport.now() == 2);
  transport.run_until(1); // time never goes back
  CHECK(transport.now() == 2);
  transport.run_until(100);
  CHECK(done.back() == 6);
  CHECK(transport.next_due() == InProcess::never);
}

TEST_CASE("InProcess delivers requests and pieces of responses at the time they are sent") {
  World world;
  const auto late = world.transport.send(2, get("/late"));
  const auto stream = world.transport.send(1, get("/stream/3"));
  world.transport.run_until(1.25);
  CHECK(world.app.order == std::vector<std::string>{"/stream/3"});
  CHECK(!late->begun);
  CHECK(stream->sent == 1);
  CHECK(stream->head_at == 1);
  CHECK(stream->body() == "head 32");
  CHECK(!stream->over());
  world.transport.run_until(3);
  REQUIRE(stream->pieces.size() == 4);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(stream->pieces[i].at == doctest::Approx(1 + 0.1 * static_cast<double>(i)).epsilon(1e-12));
  CHECK(stream->finished);
  CHECK(stream->ended_at == stream->pieces.back().at);
  CHECK(late->finished);
  CHECK(late->ended_at == 2);
  CHECK(late->body() == "GET /late ");
  CHECK(late->head.body.empty());
  CHECK(world.app.gone.empty());
}

TEST_CASE("InProcess reports a client that leaves once, and sends it nothing more") {
  World world;
  const auto stream = world.transport.send(0, get("/stream/100"));
  const auto keep = world.transport.send(0, get("/keep"));
  const auto whole = world.transport.send(0, get("/whole"));
  for (const auto& reply : {stream, keep, whole}) {
    world.transport.leave(0.25, reply);
    world.transport.leave(0.25, reply);
  }
  world.transport.run_until(1);
  CHECK(world.app.gone == std::vector<std::string>{"/stream/100", "/keep"});
  CHECK(stream->body() == "head 10099");
  CHECK(stream->left);
  CHECK(stream->ended_at == 0.25);
  CHECK(keep->left);
  CHECK(whole->finished);
  CHECK(!whole->left);
  int told = 0;
  world.app.kept.front()->on_gone([&] { ++told; }); // set late: called at once
  CHECK(told == 1);
  world.app.kept.clear();
  CHECK(!keep->begun);
}

TEST_CASE("InProcess answers a dropped request with 500, and cuts a response that is dropped in the middle") {
  World world;
  const auto dropped = world.transport.send(0, get("/drop"));
  const auto half = world.transport.send(0, get("/half"));
  const auto head = world.transport.send(0, {"HEAD", "/echo", {}, {}});
  world.transport.run_until(1);
  CHECK(dropped->finished);
  CHECK(dropped->head.status == 500);
  CHECK(half->begun);
  CHECK(half->cut);
  CHECK(!half->finished);
  CHECK(head->finished);
  CHECK(head->body().empty());
  CHECK(world.app.gone.empty());
}
