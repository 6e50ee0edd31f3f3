// SPDX-License-Identifier: Apache-2.0
// ApiKeys: the API keys that a server accepts; read_api_keys: reads them from a file.
#pragma once

#include "sluice/core/compiled.hpp"
#include "sluice/core/expected.hpp"
#include "sluice/serve/http.hpp"
#include "sluice/serve/key_account.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Used on the application's thread. A server without keys accepts every request.
class ApiKeys {
 public:
  /// `now`: seconds on the clock that all calls use.
  ApiKeys(const std::vector<ApiKey>& keys, double now) { replace(keys, now); }

  /// Replaces the keys. A key that stays keeps its usage; running requests continue.
  void replace(const std::vector<ApiKey>& keys, double now);

  [[nodiscard]] bool empty() const { return known_.empty(); }
  /// Returns the account of the key in `Authorization: Bearer KEY`, or null if that key is unknown.
  [[nodiscard]] std::shared_ptr<KeyAccount> find(const HttpHeaders& headers) const;

 private:
  struct Known {
    std::string secret;
    std::shared_ptr<KeyAccount> account;
  };
  std::vector<Known> known_;
};

/// Reads a file of keys. Each line has `KEY` or `NAME: KEY`, then limits such as `requests/min=60 tokens/min=20000`. A
/// word that begins with # starts a comment. A key without a name is named by its line number. Error messages contain
/// the line number, never a key.
[[nodiscard]] Expected<std::vector<ApiKey>> read_api_keys(std::string_view text);

} // namespace sluice

#ifndef SLUICE_SERVER_COMPILED
#include "sluice/serve/api_keys.inl.hpp"
#endif
