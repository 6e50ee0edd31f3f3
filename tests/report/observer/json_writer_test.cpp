// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/report/observer/json_writer.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <string>

using nlohmann::json;
using sluice::JsonWriter;

TEST_CASE("written JSON is read back unchanged") {
  std::string text;
  JsonWriter writer(text);
  writer.begin_object().field("name", "OrbitFlow").field("deposit", false).field("bytes", std::int64_t{-1} << 62);
  writer.key("empty").begin_array().end_array().key("none").begin_object().end_object();
  writer.line(2).key("numbers").begin_array().value(0.1).value(1e-300).value(52).rounded(1.0 / 3, 3).null();
  writer.value(std::numeric_limits<double>::infinity()).value(std::numeric_limits<double>::quiet_NaN());
  writer.end_array().line().end_object();
  CHECK(json::parse(text) ==
        json::parse(R"({"name":"OrbitFlow","deposit":false,"bytes":-4611686018427387904,"empty":[],"none":{},
                        "numbers":[0.1,1e-300,52,0.333,null,null,null]})"));
}

TEST_CASE("every double is read back unchanged") {
  sluice::Random random(11);
  for (int i = 0; i < 2000; ++i) {
    const double value = (random.uniform() - 0.5) * std::pow(10.0, static_cast<double>(random.below(60)) - 30);
    std::string text;
    JsonWriter(text).value(value);
    CHECK(json::parse(text).get<double>() == value);
  }
}

TEST_CASE("any bytes give valid JSON, and valid text is kept") {
  const std::string kept = "caf\xC3\xA9 \xE2\x86\x92 \xF0\x9F\x8C\x8A \"quoted\" \\ \t\n\x01";
  std::string text;
  JsonWriter(text).value(kept);
  CHECK(json::parse(text).get<std::string>() == kept);

  sluice::Random random(5);
  for (int round = 0; round < 500; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) bytes += static_cast<char>(random.below(256));
    for (const bool safe : {false, true}) {
      std::string out;
      JsonWriter(out, safe).value(bytes);
      CHECK(json::accept(out)); // nlohmann's parser rejects invalid UTF-8
    }
  }
}

TEST_CASE("script-safe text cannot end the script element that holds it") {
  std::string text;
  JsonWriter(text, true).value("Engine<OneAtATime> </script><b> & <!--");
  CHECK(text.find('<') == std::string::npos);
  CHECK(text.find('>') == std::string::npos);
  CHECK(json::parse(text).get<std::string>() == "Engine<OneAtATime> </script><b> & <!--");
}
