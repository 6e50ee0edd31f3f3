// SPDX-License-Identifier: Apache-2.0
// The clients of sluice-load: a coroutine each, all on one thread.
#include "load/load.hpp"

#include "sluice/core/text.hpp"
#include "sluice/report/observer/json_writer.hpp"
#include "sluice/workload/request.hpp"

#include "load/prompts.hpp"
#include "load/session.hpp"
#include "shared/progress.hpp"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace loading {

using namespace sluice;

namespace {

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// A message of a server, fit for a line.
std::string line_of(std::string_view body) {
  const std::optional<Chunk> chunk = read_chunk(body);
  return excerpt(chunk && chunk->error ? std::string_view{*chunk->error} : body, 160);
}

/// Whom the options trust; null for plain HTTP.
Expected<Trust> trust_of(const Options& options) {
  if (!options.address.tls) return Trust{};
#if defined(SLUICE_HAS_OPENSSL)
  auto trust = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  boost::system::error_code error;
  if (options.insecure) {
    trust->set_verify_mode(asio::ssl::verify_none, error);
    return trust;
  }
  trust->set_verify_mode(asio::ssl::verify_peer, error);
  if (options.cacert.empty())
    trust->set_default_verify_paths(error);
  else
    trust->load_verify_file(options.cacert, error);
  if (error)
    return flag_error("--cacert", "'" + excerpt(options.cacert, 200) + "' cannot be read: " + error.message(),
                      "a file with certificates in PEM");
  return trust;
#else
  return flag_error("--url", "this build has no TLS", "a build where CMake finds OpenSSL (libssl-dev)");
#endif
}

class Load {
 public:
  Load(const Options& options, const Workload& workload) : options_(options), workload_(workload) {
    report_.workload = workload.name;
    report_.taken_for = workload.taken_for;
    report_.requests = static_cast<std::int64_t>(workload.requests.size());
    for (const Planned& planned : workload.requests) quick_left_ += slow(planned.manner) ? 0 : 1;
  }

  Status connect() {
    Expected<Trust> trust = trust_of(options_);
    if (!trust) return trust.error();
    trust_ = *std::move(trust);
    boost::system::error_code error;
    const auto found = Tcp::resolver(context_).resolve(options_.address.host, options_.address.port, error);
    if (error)
      return flag_error("--url", "'" + excerpt(options_.address.host) + "': " + error.message(),
                        "a host that is known, or a numeric address");
    for (const auto& entry : found) endpoints_.push_back(entry.endpoint());
    Expected<std::string> text = prompt_text(options_);
    if (!text) return text.error();
    Status asked;
    asio::co_spawn(
        context_, [&]() -> asio::awaitable<void> { asked = co_await ask_server(*text); }, asio::detached);
    context_.run();
    context_.restart();
    if (!asked) return asked;
    prompts_.emplace(options_, report_.model, *std::move(text), std::move(tokens_));
    return {};
  }

  LoadReport run() {
    Progress progress(static_cast<double>(report_.requests), stderr,
                      options_.quiet ? Progress::Style::silent : Progress::Style::detect);
    progress_ = &progress;
    const double processor = processor_seconds();
    begun_ = Clock::now();
    asio::co_spawn(context_, arrive(), asio::detached);
    asio::co_spawn(context_, watch(), asio::detached);
    context_.run();
    report_.processor = processor_seconds() - processor;
    return std::move(report_);
  }

 private:
  // ---- before the load

  /// What the server serves, and how it divides the prompts' text into tokens.
  asio::awaitable<Status> ask_server(const std::string& text) {
    const std::string where = "--url " + options_.url;
    std::string said;
    int status = 0; // a name may have an address at which nobody listens, as localhost has ::1
    for (std::size_t at = 0; at < endpoints_.size() && status == 0; ++at) {
      endpoint_ = endpoints_[at];
      status = co_await ask("GET", "/v1/models", "", said);
    }
    if (status == 0)
      co_return Error{ErrorCode::not_found, where, "there is no server: " + said, "one that listens, as sluice-serve"};
    if (status != 200 && (options_.model.empty() || status == 401 || status == 403))
      co_return Error{ErrorCode::bad_input, where,
                      fmt::format("/v1/models answers {}: {}", status, excerpt(line_of(said), 160)),
                      status == 401 || status == 403 ? "--api-key with a key of it" : "--model as well"};
    report_.model = options_.model;
    if (report_.model.empty()) {
      const nlohmann::json models = nlohmann::json::parse(said, nullptr, false);
      const nlohmann::json::json_pointer place("/data/0/id");
      if (models.is_discarded() || !models.contains(place) || !models[place].is_string())
        co_return Error{ErrorCode::bad_input, where, "/v1/models lists no model", "--model as well"};
      report_.model = models[place].get<std::string>();
    }
    std::string body;
    JsonWriter(body)
        .begin_object()
        .key("model")
        .value(report_.model)
        .key("prompt")
        .value(tokenized_part(text))
        .end_object();
    if (co_await ask("POST", "/tokenize", body, said) == 200) {
      const nlohmann::json answer = nlohmann::json::parse(said, nullptr, false);
      if (answer.is_object() && answer.contains("tokens") && answer["tokens"].is_array())
        for (const nlohmann::json& token : answer["tokens"])
          if (token.is_number_unsigned()) tokens_.push_back(token.get<std::int32_t>());
    }
    co_return Status{};
  }

  /// One request and its whole answer: its status, or 0 where there is none, and the body, or what went wrong.
  asio::awaitable<int> ask(std::string method, std::string path, std::string body, std::string& said) {
    Session session(Channel(Tcp::socket(context_), trust_), {});
    const auto waits = std::make_shared<bool>(true); // the timer's end may be queued when the answer is here
    asio::steady_timer limit(context_, std::chrono::seconds(30));
    limit.async_wait([&session, waits](const boost::system::error_code& cancelled) {
      if (cancelled || !*waits) return;
      session.given_up = true;
      session.close();
    });
    const boost::system::error_code error = co_await session.open(endpoint_, options_.address.host, false);
    bool more = !error && co_await session.send(message(method, path, body));
    while (more) more = co_await session.receive();
    *waits = false;
    said = session.whole()    ? session.body()
           : session.given_up ? "no whole answer in 30 s"
           : error            ? error.message()
                              : "no answer that is whole";
    co_return session.whole() ? session.parser.status() : 0;
  }

  [[nodiscard]] std::string message(std::string_view method, std::string_view path, std::string_view body,
                                    const Slo& slo = {}) const {
    std::string text = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: sluice-load\r\n", method,
                                   options_.address.prefix, path, options_.address.authority());
    if (!options_.api_key.empty()) text += "Authorization: Bearer " + options_.api_key + "\r\n";
    if (!body.empty()) {
      text += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
      if (!std::isinf(slo.ttft.count())) text += fmt::format("x-slo-ttft-ms: {}\r\n", 1e3 * slo.ttft.count());
      if (!std::isinf(slo.tbt.count())) text += fmt::format("x-slo-tbt-ms: {}\r\n", 1e3 * slo.tbt.count());
    }
    return text.append("\r\n").append(body);
  }

  // ---- the load

  asio::awaitable<void> arrive() {
    for (std::size_t index = 0; index < workload_.requests.size(); ++index) {
      const auto after = std::chrono::duration<double>(workload_.requests[index].spec.arrival.count());
      const auto when = options_.closed_loop ? Clock::now() // whenever there is a place
                                             : begun_ + std::chrono::duration_cast<Clock::duration>(after);
      if (when > Clock::now()) {
        asio::steady_timer timer(context_, when);
        co_await timer.async_wait(as_tuple_awaitable);
      }
      while (quick_ >= options_.concurrency) { // slow readers take no place: they may wait for the others
        place_.expires_at(Clock::time_point::max());
        co_await place_.async_wait(as_tuple_awaitable);
      }
      report_.latest_start = std::max(report_.latest_start, std::chrono::duration<double>(Clock::now() - when).count());
      asio::co_spawn(context_, serve(index), asio::detached);
      // What has come meanwhile is read before the next is sent, however many arrive at once.
      co_await asio::post(asio::use_awaitable);
    }
  }

  /// Shows how far all is, and gives up what has been silent for too long.
  asio::awaitable<void> watch() {
    while (ended_ < report_.requests) {
      asio::steady_timer timer(context_, std::chrono::milliseconds(200));
      co_await timer.async_wait(as_tuple_awaitable);
      progress_->update(static_cast<double>(ended_),
                        fmt::format("{} open, {} failed", sessions_.size(), report_.failed));
      for (Session* session : sessions_)
        if (session->silence() > options_.timeout) {
          session->given_up = true;
          session->close();
        }
    }
  }

  asio::awaitable<void> serve(std::size_t index) {
    const Planned& planned = workload_.requests[index];
    const bool quick = !slow(planned.manner);
    if (quick) ++quick_;
    ++open_;
    report_.most_at_once = std::max(report_.most_at_once, open_);
    co_await one(index, planned);
    --open_;
    ++ended_;
    if (!quick) co_return;
    --quick_;
    --quick_left_;
    report_.duration = seconds_since(begun_);
    place_.cancel();
  }

  asio::awaitable<void> one(std::size_t index, const Planned& planned) {
    const Prompts::Request request = prompts_->request(index, planned);
    const std::string text =
        message("POST", options_.chat() ? "/v1/chat/completions" : "/v1/completions", request.body, planned.spec.slo);
    const Asked asked{.max_tokens = planned.spec.output.count(),
                      .prompt_tokens = request.prompt_tokens,
                      .logprobs = options_.count_tokens,
                      .slo = planned.spec.slo};
    bool kept = !idle_.empty() && planned.manner == Manner::reads;
    for (;;) {
      Session session(kept ? std::move(idle_.back()) : Channel(Tcp::socket(context_), trust_), asked);
      if (kept) idle_.pop_back();
      const Listed listed{sessions_, session}; // from here on `watch` gives it up
      if (!kept) {
        const auto error = co_await session.open(endpoint_, options_.address.host, slow(planned.manner));
        if (error && session.given_up) co_return give_up();
        if (error) co_return fail("connect", error.message());
      }
      if (co_await session.send(text)) {
        if (planned.manner == Manner::leaves_waiting) {
          co_await pause(static_cast<double>(index % 16) * 1e-3);
          ++report_.left[0];
          co_return;
        }
        if (co_await read(session, planned)) co_return; // the client has left
      }
      // The server may close a connection between two requests: that is no failure.
      if (kept && session.silent() && !session.given_up) {
        kept = false;
        continue;
      }
      settle(session, planned, request);
      co_return;
    }
  }

  asio::awaitable<void> pause(double seconds) {
    asio::steady_timer timer(context_,
                             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
    co_await timer.async_wait(as_tuple_awaitable);
  }

  /// Reads the answer in the client's manner; true where the client has left.
  asio::awaitable<bool> read(Session& session, const Planned& planned) {
    constexpr std::size_t all = 4096, a_little = 64;
    const Clock::time_point since = Clock::now();
    const auto stalls = [&] { return quick_left_ > 0 || seconds_since(since) < 1; };
    while (planned.manner == Manner::reads_never && stalls()) {
      session.touch(); // it is this client that is silent
      co_await pause(0.05);
    }
    std::int64_t pieces = 0;
    for (bool more = true; more;) {
      const bool trickles = planned.manner == Manner::reads_slowly && stalls();
      more = co_await session.receive(trickles ? a_little : all);
      count_pieces(session.check.pieces() - pieces);
      pieces = session.check.pieces();
      if (!more) break;
      if (planned.manner == Manner::leaves_prefill && session.streams()) {
        ++report_.left[1];
        co_return true;
      }
      if (planned.manner == Manner::leaves_decode && pieces >= planned.leave_after) {
        ++report_.left[2];
        co_return true;
      }
      if (trickles) co_await pause(0.02);
    }
    co_return false;
  }

  void count_pieces(std::int64_t pieces) {
    if (pieces == 0) return;
    report_.pieces += pieces;
    const auto second = static_cast<std::size_t>(seconds_since(begun_));
    if (report_.pieces_by_second.size() <= second) report_.pieces_by_second.resize(second + 1);
    report_.pieces_by_second[second] += pieces;
  }

  // ---- after an answer

  void settle(Session& session, const Planned& planned, const Prompts::Request& request) {
    const bool whole = session.whole();
    if (session.given_up) return give_up();
    if (session.silent() && slow(planned.manner)) return cut(planned);
    if (session.silent()) {
      session.check.flaw(Flaw::end);
      return flawed(session);
    }
    if (session.malformed()) return fail("HTTP", "the answer cannot be read");
    if (session.parser.is_header_done() && session.parser.status() != 200) {
      if (session.reusable()) idle_.push_back(std::move(session.channel()));
      return fail(std::to_string(session.parser.status()), line_of(session.body()));
    }
    if (!session.streams()) {
      session.check.flaw(session.parser.is_header_done() ? Flaw::type : Flaw::end);
      return flawed(session);
    }
    if (!session.check.done() && !session.check.error() && slow(planned.manner)) return cut(planned);
    session.check.end();
    if (!whole && session.check.done()) session.check.flaw(Flaw::end); // the last chunk of HTTP is missing
    if (!session.check.flawless()) return flawed(session);
    if (session.check.error()) return fail("in the stream", excerpt(*session.check.error(), 160));
    complete(session, planned, request);
    if (session.reusable()) idle_.push_back(std::move(session.channel()));
  }

  void complete(const Session& session, const Planned& planned, const Prompts::Request& request) {
    const StreamCheck& check = session.check;
    ++report_.completed;
    report_.input += check.usage() ? check.usage()->prompt : request.prompt_tokens.value_or(0);
    report_.output += check.tokens();
    if (slow(planned.manner)) {
      ++report_.slow;
      return; // its times are its own doing
    }
    const double ttft = check.ttft(), latency = check.latency();
    report_.ttfts.push_back(ttft);
    report_.latencies.push_back(latency);
    if (!options_.out.empty()) {
      const double sent = std::chrono::duration<double>(session.sent() - begun_).count();
      const std::int64_t prompt = check.usage() ? check.usage()->prompt : request.prompt_tokens.value_or(0);
      // With a closed loop a request is due when it is sent.
      const double due = options_.closed_loop ? sent : planned.spec.arrival.count();
      report_.answers.push_back({due, sent, ttft, latency, prompt, check.tokens()});
    }
    double tpot = 0; // of one token, as vLLM has it: no promise broken
    if (check.tokens() > 1) {
      tpot = (latency - ttft) / static_cast<double>(check.tokens() - 1);
      report_.tpots.push_back(tpot);
    }
    report_.gaps.insert(report_.gaps.end(), session.gaps.begin(), session.gaps.end());
    const Slo& slo = planned.spec.slo;
    report_.all.add(slo, Seconds{ttft}, Seconds{tpot}, Seconds{latency}, check);
    for (std::size_t i = 0; i < options_.slo_classes.size(); ++i)
      if (options_.slo_classes[i].has(slo, planned.spec.priority)) {
        report_.classes.resize(options_.slo_classes.size());
        report_.classes[i].add(slo, Seconds{ttft}, Seconds{tpot}, Seconds{latency}, check);
      }
  }
  /// The server has ended a slow reader's connection, which it may.
  void cut(const Planned& /*planned*/) { ++report_.slow_cut; }
  void flawed(const Session& session) {
    ++report_.failed;
    ++report_.flawed;
    for (std::size_t which = 0; which < report_.flaws.size(); ++which)
      report_.flaws[which] += session.check.has(static_cast<Flaw>(which)) ? 1 : 0;
  }
  void fail(const std::string& what, const std::string& example) {
    ++report_.failed;
    LoadReport::Error& error = report_.errors[what];
    if (error.count++ == 0) error.example = example;
  }
  /// The time limit has ended the session.
  void give_up() { fail("timeout", fmt::format("no byte for {} s", options_.timeout)); }

  /// Keeps the session in the list while it lives.
  struct Listed {
    Listed(std::unordered_set<Session*>& list_, Session& session_) : list(list_), session(session_) {
      list.insert(&session);
    }
    ~Listed() { list.erase(&session); }
    Listed(const Listed&) = delete;
    Listed& operator=(const Listed&) = delete;
    std::unordered_set<Session*>& list;
    Session& session;
  };

  const Options& options_;
  const Workload& workload_;
  Trust trust_;
  asio::io_context context_{1};
  std::vector<Tcp::endpoint> endpoints_; ///< all that the address resolves to
  Tcp::endpoint endpoint_;               ///< the first of them that answers
  std::vector<std::int32_t> tokens_;
  std::optional<Prompts> prompts_;
  Progress* progress_ = nullptr;
  Clock::time_point begun_;
  asio::steady_timer place_{context_};
  std::vector<Channel> idle_;
  std::unordered_set<Session*> sessions_;
  std::int64_t open_ = 0, ended_ = 0; ///< requests
  std::int64_t quick_ = 0;            ///< open, not read slowly
  std::int64_t quick_left_ = 0;       ///< not ended, not read slowly
  LoadReport report_;
};

} // namespace

Expected<LoadReport> load(const Options& options, const Workload& workload) {
  Load all(options, workload);
  if (Status connected = all.connect(); !connected) return connected.error();
  return all.run();
}

} // namespace loading
