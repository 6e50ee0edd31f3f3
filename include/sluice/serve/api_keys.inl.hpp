// SPDX-License-Identifier: Apache-2.0
// ApiKeys: the definitions that a library may hold (core/compiled.hpp).
#pragma once

#include "sluice/core/fnv.hpp"
#include "sluice/core/text.hpp"
#include "sluice/serve/api_keys.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <utility>

namespace sluice {

SLUICE_SERVER_INLINE void MinuteBucket::limit(std::int64_t per_minute, double now, std::int64_t most) {
  fill(now);
  per_minute_ = per_minute;
  if (per_minute == 0) return;
  const double debt = std::max(0.0, used_ - most_);
  most_ = static_cast<double>(most > 0 ? most : per_minute);
  used_ = std::min(used_, most_ + debt);
  rate_ = static_cast<double>(per_minute) / 60;
}

SLUICE_SERVER_INLINE void MinuteBucket::take(double amount, double now) {
  fill(now);
  if (rate_ > 0) used_ = limited() ? used_ + amount : std::max(used_, std::min(used_ + amount, most_));
}

SLUICE_SERVER_INLINE std::int64_t MinuteBucket::left(double now) {
  fill(now);
  return static_cast<std::int64_t>(std::floor(std::max(most_ - used_, 0.0) + 1e-9));
}

SLUICE_SERVER_INLINE double MinuteBucket::wait(double amount, double now) {
  fill(now);
  return limited() ? std::max(0.0, (amount - (most_ - used_)) / rate_) : 0.0;
}

SLUICE_SERVER_INLINE void MinuteBucket::fill(double now) {
  used_ = std::max(0.0, used_ - std::max(0.0, now - at_) * rate_);
  at_ = now;
}

SLUICE_SERVER_INLINE void KeyAccount::change(const ApiKey& key, double now) {
  name_ = key.name;
  concurrent_ = key.concurrent;
  weight_ = static_cast<double>(key.weight);
  requests_.limit(key.requests_per_minute, now, key.burst);
  tokens_.limit(key.tokens_per_minute, now);
}

SLUICE_SERVER_INLINE std::optional<ApiError> KeyAccount::why_not(double now) {
  for (const bool tokens : {false, true}) {
    MinuteBucket& bucket = tokens ? tokens_ : requests_;
    if (bucket.wait(1, now) <= 0) continue;
    const char* const what = tokens ? "tokens" : "requests";
    ApiError error;
    error.status = 429;
    error.type = what;
    error.code = "rate_limit_exceeded";
    error.message = "the key '" + name_ + "' may use " + std::to_string(bucket.per_minute()) + " " + what +
                    " a minute; try again in " + duration(bucket.wait(1, now));
    return error;
  }
  return std::nullopt;
}

SLUICE_SERVER_INLINE void KeyAccount::tell(HttpHeaders& headers, double now, bool refused) {
  for (const bool tokens : {false, true}) {
    MinuteBucket& bucket = tokens ? tokens_ : requests_;
    if (!bucket.limited()) continue;
    const std::string what = tokens ? "tokens" : "requests";
    headers.add("x-ratelimit-limit-" + what, std::to_string(bucket.per_minute()));
    headers.add("x-ratelimit-remaining-" + what, std::to_string(bucket.left(now)));
    headers.add("x-ratelimit-reset-" + what, duration(bucket.wait(bucket.most(), now)));
  }
  if (!refused) return;
  add_retry_after(headers, std::max(requests_.wait(1, now), tokens_.wait(1, now)));
}

SLUICE_SERVER_INLINE std::string KeyAccount::duration(double seconds) {
  const std::int64_t all = milliseconds(seconds);
  if (all < 1000) return std::to_string(all) + "ms";
  std::string text;
  if (all >= 60'000) text = std::to_string(all / 60'000) + "m";
  const std::int64_t rest = all % 60'000;
  text += std::to_string(rest / 1000);
  if (const std::int64_t tenths = rest % 1000 / 100; tenths > 0 && all < 60'000)
    text.append(".").append(std::to_string(tenths));
  return text + "s";
}

SLUICE_SERVER_INLINE std::int64_t KeyAccount::milliseconds(double seconds) {
  return static_cast<std::int64_t>(std::ceil(seconds * 1e3 - 1e-6));
}

SLUICE_SERVER_INLINE std::uint64_t KeyAccount::salt_of(const std::string& secret) {
  Fnv digest;
  digest.add(reinterpret_cast<const std::byte*>(secret.data()), static_cast<std::int64_t>(secret.size()));
  return std::max<std::uint64_t>(1, digest.value());
}

SLUICE_SERVER_INLINE AccountedExchange::AccountedExchange(std::shared_ptr<KeyAccount> account,
                                                          std::function<double()> clock,
                                                          std::unique_ptr<Exchange> exchange)
    : account_(std::move(account)), clock_(std::move(clock)), exchange_(std::move(exchange)) {}

SLUICE_SERVER_INLINE void AccountedExchange::respond(HttpResponse response) {
  account_->tell(response.headers, clock_(), false);
  exchange_->respond(std::move(response));
}

SLUICE_SERVER_INLINE void AccountedExchange::begin(HttpResponse head) {
  account_->tell(head.headers, clock_(), false);
  exchange_->begin(std::move(head));
}

} // namespace sluice

namespace sluice::detail {

/// Compares two texts in a time that depends only on the length of the first.
[[nodiscard]] inline bool equal_in_constant_time(std::string_view given, std::string_view secret) {
  unsigned different = given.size() == secret.size() ? 0U : 1U;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = secret.empty() ? '\0' : secret[i % secret.size()];
    different |= static_cast<unsigned>(static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other));
  }
  return different == 0;
}

} // namespace sluice::detail

namespace sluice {

SLUICE_SERVER_INLINE void ApiKeys::replace(const std::vector<ApiKey>& keys, double now) {
  std::vector<Known> next;
  for (const ApiKey& key : keys) {
    const auto same =
        std::find_if(known_.begin(), known_.end(), [&](const Known& one) { return one.secret == key.secret; });
    std::shared_ptr<KeyAccount> account = same == known_.end() ? std::make_shared<KeyAccount>(key, now) : same->account;
    account->change(key, now);
    next.push_back({key.secret, std::move(account)});
  }
  known_ = std::move(next);
}

SLUICE_SERVER_INLINE std::shared_ptr<KeyAccount> ApiKeys::find(const HttpHeaders& headers) const {
  constexpr std::string_view scheme = "Bearer ";
  std::string_view given = headers.find("Authorization");
  if (!HttpHeaders::same_name(given.substr(0, scheme.size()), scheme)) return nullptr;
  given.remove_prefix(scheme.size());
  std::shared_ptr<KeyAccount> found;
  for (const Known& one : known_) // compares with every key: the time must not reveal which one matches
    if (detail::equal_in_constant_time(given, one.secret)) found = one.account;
  return found;
}

SLUICE_SERVER_INLINE Expected<std::vector<ApiKey>> read_api_keys(std::string_view text) {
  std::vector<ApiKey> keys;
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto word = [&] {
      constexpr std::string_view blanks = " \t\r";
      line.remove_prefix(std::min(line.size(), line.find_first_not_of(blanks)));
      const std::string_view one = line.substr(0, line.find_first_of(blanks));
      if (one.starts_with('#')) return std::string_view{};
      line.remove_prefix(one.size());
      return one;
    };
    const auto wrong = [&](std::string what) {
      return Error{
          ErrorCode::bad_input, "line " + std::to_string(number), std::move(what),
          "NAME: KEY requests/min=60 burst=10 tokens/min=20000 concurrent=8 weight=1, of which only KEY is needed"};
    };
    std::string_view first = word();
    if (first.empty()) continue;
    ApiKey key;
    key.name = "line " + std::to_string(number);
    if (first.ends_with(':')) {
      key.name = first.substr(0, first.size() - 1);
      if (key.name.empty()) return wrong("a colon without a name");
      first = word();
      if (first.empty()) return wrong("the name '" + excerpt(key.name) + "' has no key");
    }
    key.secret = first;
    for (std::string_view limit = word(); !limit.empty(); limit = word()) {
      const std::size_t equals = limit.find('=');
      const std::string_view what = limit.substr(0, equals);
      std::int64_t* const place = what == "requests/min" ? &key.requests_per_minute
                                  : what == "tokens/min" ? &key.tokens_per_minute
                                  : what == "burst"      ? &key.burst
                                  : what == "concurrent" ? &key.concurrent
                                  : what == "weight"     ? &key.weight
                                                         : nullptr;
      if (place == nullptr || equals == std::string_view::npos) return wrong("a word behind the key is no limit");
      const std::string_view value = limit.substr(equals + 1);
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *place);
      if (error != std::errc{} || end != value.data() + value.size() || *place < 1 || *place > 1'000'000'000)
        return wrong(std::string{what} + " is not a whole number from 1 to 1e9");
    }
    if (key.burst > key.requests_per_minute)
      return wrong("burst is " + std::to_string(key.burst) + ", and requests/min " +
                   std::to_string(key.requests_per_minute) + "; a burst is a part of them");
    for (const ApiKey& other : keys) {
      if (other.secret == key.secret) return wrong("it repeats the key of '" + excerpt(other.name) + "'");
      if (other.name == key.name) return wrong("it repeats the name '" + excerpt(key.name) + "'");
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

} // namespace sluice
