// SPDX-License-Identifier: Apache-2.0
// OpenAiApp: the server's HTTP endpoints, in front of any GenerationEngine.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/model/tokenizer/chat.hpp"
#include "sluice/model/tokenizer/tokenizer.hpp"
#include "sluice/serve/answers.hpp"
#include "sluice/serve/api_keys.hpp"
#include "sluice/serve/completion_job.hpp"
#include "sluice/serve/fair_queue.hpp"
#include "sluice/serve/generation.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/openai_reply.hpp"
#include "sluice/serve/serve_metrics.hpp"
#include "sluice/serve/session_numbers.hpp"
#include "sluice/serve/slo_attainment.hpp"
#include "sluice/serve/wall_time.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {

/// The model that a server offers, and the settings that apply to clients.
struct OpenAiSetup {
  std::string model;                    ///< the name that clients use
  std::string fingerprint;              ///< system_fingerprint of answers: version and weights; empty: left out
  std::string about;                    ///< a line on the live page: the system and its device
  const Tokenizer* tokenizer = nullptr; ///< must outlive the app
  std::optional<ChatFormat> chat;       ///< none: /v1/chat/completions is refused
  std::string no_chat{"this model has no chat format"}; ///< the reason, if there is none
  int vocabulary = 0;                                   ///< the model's number of tokens
  std::int64_t context = 0;                             ///< most tokens of a prompt and its answer together
  Slo slo;                                              ///< for requests without their own SLO
  std::vector<std::string> api_keys;                    ///< keys without a name or limits
  int places = 0;                ///< the engine's batch, shared among several keys (FairQueue); 0: not
  std::int64_t most_held = 256;  ///< refuse a key's newcomers while so many are held back (FairQueue::full)
  std::shared_ptr<ApiKeys> keys; ///< instead of `api_keys`: keys that can change while the server runs
  std::string cors;              ///< the origin whose pages may use the server, or *; empty: none
  bool logprobs = true;          ///< whether tokens have log-probabilities; if not, requests for them fail
  bool rules = false;            ///< whether the decoder applies LogitRules and scores prompts: a DecoderRunner's does
  UnknownFields unknown_fields = UnknownFields::refused; ///< in requests' bodies
  std::int64_t created = 0;                              ///< when the model was created, seconds since 1970
  std::function<std::int64_t()> now_s;                   ///< wall clock, seconds since 1970
  std::function<std::int64_t()> now_ms;                  ///< the same in milliseconds, for the log; empty: computed
                                                         ///< from `now_s`
  std::function<double()> clock;                         ///< seconds, for latencies; called from any thread
  std::function<std::uint64_t()> random;                 ///< for ids, and for seeds of requests without their own seed
  std::function<void(std::string)> log;                  ///< called with one JSON object per event; may be empty
  std::function<void(PrometheusWriter&)> transport_metrics; ///< writes the connections' metrics; may be empty
  std::function<std::string()> what_if;                     ///< returns the JSON of /whatif at once; empty: no /whatif
  bool process_metrics = false;                   ///< whether /metrics has `process_*`, which differ from run to run
  std::function<void(PrometheusWriter&)> metrics; ///< adds the program's own metrics to /metrics; may be empty
};

/// Runs on the transport's thread, to which the engine's events are posted.
class OpenAiApp final : public HttpApp, public GenerationListener {
 public:
  OpenAiApp(OpenAiSetup setup, HttpTransport& transport, GenerationEngine& engine);

  void handle(HttpRequest request, std::unique_ptr<Exchange> exchange) override;

  [[nodiscard]] std::optional<HttpResponse> refuse_head(const HttpRequest& head) override;
  [[nodiscard]] bool watches(const HttpRequest& head) const override;
  [[nodiscard]] HttpResponse refuse(int status, std::string what, const HttpRequest* head) override;
  [[nodiscard]] HttpResponse adopt(HttpResponse response, const HttpRequest& request) override;

  /// Called on the engine's thread.
  void happened(std::vector<GenerationEvent> events) override;

  void stopped(const std::string& why) override;
  /// Returns why the engine stopped; empty while it runs.
  [[nodiscard]] const std::string& stopped_by() const { return stopped_; }

  /// Refuses later requests with status 503.
  void drain() { draining_ = true; }
  /// Ends every running request with an error: an event in a stream, otherwise status 503.
  void cut(const std::string& why);
  /// Returns whether new requests are served.
  [[nodiscard]] bool ready() const { return !draining_ && engine_->ready(); }
  /// Returns the number of running requests.
  [[nodiscard]] std::size_t under_way() const { return jobs_.size(); }
  [[nodiscard]] const ServeMetrics& metrics() const { return metrics_; }

 private:
  /// Most bytes of a text for /tokenize. Tokenizing that many takes 0.2 s, during which all streams wait.
  static constexpr std::size_t most_tokenized = std::size_t{1} << 20;

  /// After this many requests' tokens are written, the clock is read; all of them get that time.
  static constexpr std::size_t timed_together = 32;

  /// The tokens of one answer that were passed to the transport.
  struct Passed {
    GenerationId id{};
    std::int64_t tokens = 0;
    double due = 0; ///< on the clock
    bool ends = false;
  };
  using Answering = void (OpenAiApp::*)(const HttpRequest&, std::unique_ptr<Exchange>);
  struct Route {
    std::string_view method;
    std::string_view path; ///< a path that ends with a slash matches all paths that begin with it, except "/"
    Answering answer;

    [[nodiscard]] bool leads_to(std::string_view asked) const;
  };
  /// Returns every endpoint; docs/serving.md lists them.
  [[nodiscard]] static std::span<const Route> routes();

  struct Job {
    Job(CompletionJob job_, double begun_) : job(std::move(job_)), begun(begun_) {}
    CompletionJob job;
    std::vector<GenerationId> ids;
    std::vector<double> last;            ///< when each answer's last token arrived; below 0: none yet
    std::vector<SloAttainment> kept;     ///< of each answer, as its tokens were passed to the transport
    std::vector<AnsweredLength> lengths; ///< of each answer
    double begun;                        ///< when the request arrived
    Slo slo;                             ///< as the client requested it
    std::size_t accepted = 0;            ///< answers that the engine accepted
    std::string name;                    ///< the request's id, for the log
    std::shared_ptr<KeyAccount> account; ///< of the request's key; null: it needs none
    AskedOf asked;                       ///< for the log
    int status = 200;                    ///< HTTP status, for the log
    std::string reason;                  ///< why its answers ended; each reason appears once
    std::string error;                   ///< what the engine said of a failure, for the log
  };

  [[nodiscard]] std::string why_not_ready() const;

  [[nodiscard]] static ApiError unavailable(std::string why);
  /// Tells the client when to retry, unless the engine has stopped for good. A draining server closes its connections,
  /// so that a client's next connection reaches another server.
  [[nodiscard]] HttpResponse not_ready() const;
  /// The request's key holds too much.
  [[nodiscard]] HttpResponse held_back(const FairQueue::Full& full) const;

  // ---- endpoints

  void health(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange);
  void ready(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange);
  void index(const HttpRequest& request, std::unique_ptr<Exchange> exchange);
  void models(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange);
  void model(const HttpRequest& request, std::unique_ptr<Exchange> exchange);
  void write_model(JsonWriter& json) const;
  /// Decodes %XX in a path: some clients escape the slash in a model's name.
  [[nodiscard]] static std::string unescaped(std::string_view path);
  void prometheus(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange);
  void live(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange);
  /// Sends the data that the live page polls: the server's counters as in /metrics, and the engine's state.
  void live_state(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange);

  /// Sends the SLO attainment that other systems would have reached with the last requests.
  void what_if(const HttpRequest& /*request*/, std::unique_ptr<Exchange> exchange);

  void tokenize(const HttpRequest& request, std::unique_ptr<Exchange> exchange);
  void detokenize(const HttpRequest& request, std::unique_ptr<Exchange> exchange);

  [[nodiscard]] std::optional<ApiError> check_fields(const nlohmann::json& body, std::string_view path,
                                                     std::span<const std::string_view> known) const;

  void chat_completions(const HttpRequest& request, std::unique_ptr<Exchange> exchange);
  void responses(const HttpRequest& request, std::unique_ptr<Exchange> exchange);
  void completions(const HttpRequest& request, std::unique_ptr<Exchange> exchange);

  // ---- completions

  enum class Kind : std::uint8_t { chat, text, response };

  void complete(const HttpRequest& request, Kind kind, std::unique_ptr<Exchange> exchange);

  [[nodiscard]] std::optional<ApiError> check_model(const std::string& name) const;

  /// Completes the rules with the parts that need the tokenizer. Returns an error if a token is not in the vocabulary,
  /// or if the decoder applies no rules.
  [[nodiscard]] std::optional<ApiError> read_rules(Completion& wanted) const;

  /// Refuses a text that is too long for the context with any tokenization. Tokenizing ten megabytes would take a
  /// second, during which all streams wait.
  [[nodiscard]] std::optional<ApiError> check_length(const char* param, std::string_view text) const;

  /// Tokenizes the prompts. Returns an error if a prompt and its answer exceed the context.
  [[nodiscard]] std::optional<ApiError> encode(Completion& wanted, std::vector<std::vector<std::int32_t>>& into) const;
  /// Refuses a prompt whose tokens the model does not have, or that leaves too little of its context for the answer.
  [[nodiscard]] std::optional<ApiError> check_room(const char* param, std::span<const std::int32_t> tokens,
                                                   const Completion& wanted) const;

  // ---- events

  /// `told`: when the engine passed the events on.
  void take(const std::vector<GenerationEvent>& events, double told);
  /// Measures the delivery of the tokens that were passed to the transport since the last call. The transport writes
  /// them before it runs work that is posted later.
  void time_delivery(std::vector<Passed> passed);

  /// Counts tokens as the client sees them. `tokens`: the event's tokens that are part of the answer, excluding those
  /// after a stop string.
  void count(Job& job, std::size_t at, const GenerationEvent& event, std::int64_t tokens, double now);

  /// Returns whether no answer to the prompt of this answer has a token yet: its answers share one prompt, whose tokens
  /// count once.
  [[nodiscard]] static bool begins_prompt(const Job& job, std::size_t at);
  void count_end(Job& job, std::size_t at, FinishReason reason, double now);
  /// Stores the reasons for the log. A request with several answers may end for several reasons.
  static void note_end(Job& job, std::string_view reason, int status);

  using Jobs = std::unordered_map<std::uint64_t, Job>;

  /// Cancels generations that are no longer needed, and removes a request that has finished.
  void settle(Jobs::iterator at);

  void leave(std::uint64_t key);

  // ---- the rest

  /// Requests to the model need a key. Probes, metrics and the live page contain no text of clients, and the programs
  /// that use them have no key.
  [[nodiscard]] static bool needs_key(std::string_view path);
  /// Returns the account of the request's key; null if the request needs none.
  [[nodiscard]] std::shared_ptr<KeyAccount> account_of(const HttpRequest& request) const;
  /// Returns the refusal of a request without a valid key, or whose key has used up its limits. Subtracts nothing from
  /// the limits.
  [[nodiscard]] std::optional<HttpResponse> check_key(const HttpRequest& request);
  [[nodiscard]] static HttpResponse refusal(int status, std::string what);
  [[nodiscard]] std::string new_id(std::string id) const;
  /// Returns the wall clock's time for the log.
  [[nodiscard]] std::string stamp() const { return iso_time(setup_.now_ms ? setup_.now_ms() : setup_.now_s() * 1000); }
  /// Writes the request's fields in the log.
  /// Returns the request's own id, or a new one if it has none that is valid.
  [[nodiscard]] std::string id_of(const HttpRequest& request) const;
  [[nodiscard]] AskedOf asked_of(const HttpRequest& request, std::string id) const;
  void log_request(const HttpRequest& request, const std::string& id, const Completion& wanted,
                   const std::vector<std::vector<std::int32_t>>& prompts) const;
  void log_end(const Job& job) const;
  /// What a request got, for its client and the log.
  struct Outcome {
    double ttft_s = -1;                   ///< of the answer that began last; below 0: none began
    std::optional<std::int64_t> cached{}; ///< tokens of the prompt that a tier had
    std::optional<bool> kept_slo{};       ///< every answer kept its SLO; none: it has no SLO, or nothing is decided
    double late_s = 0;                    ///< the furthest that a first token, or a gap, was beyond its SLO

    [[nodiscard]] HttpHeaders headers() const;
    void write(JsonWriter& json) const;
  };
  [[nodiscard]] Outcome outcome_of(const Job& job, double now) const;

  OpenAiSetup setup_;
  Cors cors_;
  AnswerHeaders headers_;
  HttpTransport* transport_;
  GenerationEngine* engine_;
  FairQueue queue_;
  ServeMetrics metrics_;
  AnswerLog answers_;
  SessionNumbers sessions_;
  Jobs jobs_;
  std::unordered_map<GenerationId, std::pair<std::uint64_t, std::size_t>> where_; ///< each generation's job and answer
  std::string request_id_; ///< of the request that is being handled now
  std::uint64_t last_job_ = 0;
  std::uint64_t last_generation_ = 0;
  std::size_t longest_token_ = 1; ///< bytes
  bool draining_ = false;
  std::string stopped_; ///< why the engine stopped; empty while it runs
};

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/nlohmann/openai_app.inl.hpp"
#include "sluice/serve/nlohmann/openai_complete.inl.hpp"
#include "sluice/serve/nlohmann/openai_endpoints.inl.hpp"
#endif
