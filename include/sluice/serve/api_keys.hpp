// SPDX-License-Identifier: Apache-2.0
// ApiKeys: the API keys that a server accepts, and how much of its limits each may still use.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/openai_reply.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// KeyAccount: how much of its limits per minute one API key may still use.

/// A key that clients send, and its limits.
struct ApiKey {
  std::string name;                     ///< for operators; clients never send it
  std::string secret;                   ///< the key itself, which clients send
  std::int64_t requests_per_minute = 0; ///< 0: any number
  std::int64_t tokens_per_minute = 0;   ///< tokens of prompts and answers together; 0: any number
  std::int64_t burst = 0;               ///< requests at once, at most requests_per_minute; 0: those of a minute
  std::int64_t concurrent = 0;          ///< answers in the engine at once; others are held back; 0: any number
  std::int64_t weight = 1;              ///< its share of the tokens where keys compete (FairQueue)
};

/// A bucket that fills evenly, up to the amount of one minute or less. It may be overdrawn; later requests then wait
/// until the debt is paid.
class MinuteBucket {
 public:
  /// Sets the limit, and how much the bucket holds; 0: a minute's. `now`: seconds. What was used stays used, but a
  /// smaller bucket makes no debt. Without a limit, what was used returns at the last one's rate, and what is used
  /// counts up to an empty bucket of that limit: a limit that comes back forgives nothing, and is owed nothing.
  void limit(std::int64_t per_minute, double now, std::int64_t most = 0);
  void take(double amount, double now);
  [[nodiscard]] bool limited() const { return per_minute_ > 0; }
  [[nodiscard]] std::int64_t per_minute() const { return per_minute_; }
  [[nodiscard]] double most() const { return most_; }
  /// Returns the remaining amount, rounded down to whole units.
  [[nodiscard]] std::int64_t left(double now);
  /// Returns the seconds until at least `amount` is available.
  [[nodiscard]] double wait(double amount, double now);

 private:
  void fill(double now);

  std::int64_t per_minute_ = 0;
  double rate_ = 0; ///< per second, of this limit or the last one; 0: there was none
  double most_ = 0, used_ = 0, at_ = 0;
};

/// A request needs one of the requests per minute, and at least one token. Its tokens are subtracted as they are
/// counted for `usage`, so the length of an answer need not be guessed. After a long answer the next request waits.
class KeyAccount {
 public:
  KeyAccount(const ApiKey& key, double now) : salt_(salt_of(key.secret)) { change(key, now); }
  void change(const ApiKey& key, double now);
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::int64_t concurrent() const { return concurrent_; }
  [[nodiscard]] double weight() const { return weight_; }
  /// Returns the salt of the KV of its prompts (`Generation::salt`), the same after a restart: no other key's owner can
  /// find out by the time of an answer what its owner has asked.
  [[nodiscard]] std::uint64_t salt() const { return salt_; }

  /// Returns the refusal of a request that arrives at `now`, if its key has reached a limit. Subtracts nothing.
  [[nodiscard]] std::optional<ApiError> why_not(double now);
  void take_request(double now) { requests_.take(1, now); }
  void take_tokens(std::int64_t tokens, double now) { tokens_.take(static_cast<double>(tokens), now); }

  /// Adds OpenAI's headers with the remaining limits; with `refused`, also the time to retry.
  void tell(HttpHeaders& headers, double now, bool refused);

  /// Formats seconds as OpenAI does: 20ms, 1.5s, 6m0s.
  [[nodiscard]] static std::string duration(double seconds);

 private:
  /// Rounds up, but ignores rounding errors of a double.
  [[nodiscard]] static std::int64_t milliseconds(double seconds);

  /// Never 0, which is the salt of requests without a key.
  [[nodiscard]] static std::uint64_t salt_of(const std::string& secret);

  std::string name_;
  std::uint64_t salt_;
  std::int64_t concurrent_ = 0;
  double weight_ = 1;
  MinuteBucket requests_, tokens_;
};

/// An exchange whose response contains the remaining limits of a key, as they are when its head is sent.
class AccountedExchange final : public Exchange {
 public:
  AccountedExchange(std::shared_ptr<KeyAccount> account, std::function<double()> clock,
                    std::unique_ptr<Exchange> exchange);
  void respond(HttpResponse response) override;
  void begin(HttpResponse head) override;
  void send(std::string_view piece) override { exchange_->send(piece); }
  void finish(const HttpHeaders& trailers) override { exchange_->finish(trailers); }
  void on_gone(std::function<void()> gone) override { exchange_->on_gone(std::move(gone)); }

 private:
  std::shared_ptr<KeyAccount> account_;
  std::function<double()> clock_;
  std::unique_ptr<Exchange> exchange_;
};

// ApiKeys: the API keys that a server accepts; read_api_keys: reads them from a file.

/// Used on the application's thread. A server without keys accepts every request.
class ApiKeys {
 public:
  /// `now`: seconds on the clock that all calls use.
  ApiKeys(const std::vector<ApiKey>& keys, double now) { replace(keys, now); }

  /// Replaces the keys. A key that stays keeps its usage; running requests continue.
  void replace(const std::vector<ApiKey>& keys, double now);

  [[nodiscard]] bool empty() const { return known_.empty(); }
  [[nodiscard]] std::size_t size() const { return known_.size(); }
  /// Returns the account of the key in `Authorization: Bearer KEY`, or null if that key is unknown.
  [[nodiscard]] std::shared_ptr<KeyAccount> find(const HttpHeaders& headers) const;

 private:
  struct Known {
    std::string secret;
    std::shared_ptr<KeyAccount> account;
  };
  std::vector<Known> known_;
};

/// Reads a file of keys. Each line has `KEY` or `NAME: KEY`, then limits such as `requests/min=60 burst=10
/// tokens/min=20000 concurrent=8`, and `weight=2` for twice the share of another key. A word that begins with # starts
/// a comment. A key without a name is named by its line number. Error messages contain the line number, never a key.
[[nodiscard]] Expected<std::vector<ApiKey>> read_api_keys(std::string_view text);

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/api_keys.inl.hpp"
#endif
