// SPDX-License-Identifier: Apache-2.0
// Certificate: a certificate of 127.0.0.1, made by the openssl tool; the test is skipped by name without the tool.
#pragma once

#include "support/program.hpp"
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>

namespace sluice_test {

/// Whether the shell finds the tool.
inline bool has_tool(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

/// Decorates a test that runs these tools.
inline doctest::skip needs_tools(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (has_tool(name)) continue;
    std::fprintf(stderr, "skipped: a test needs the tool %s\n", name);
    return doctest::skip(true);
  }
  return doctest::skip(false);
}

/// A self-signed certificate and its key.
struct Certificate {
  TemporaryFolder folder;
  std::string file = (folder.path / "cert.pem").string(), key = (folder.path / "key.pem").string();

  Certificate() {
    REQUIRE(std::system(("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
                         "/CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -out '" +
                         file + "' -keyout '" + key + "' >/dev/null 2>&1")
                            .c_str()) == 0);
  }
};

} // namespace sluice_test
