// SPDX-License-Identifier: Apache-2.0
#include "sluice/core/random.hpp"
#include "sluice/model/checkpoint/nlohmann/hf_folder.hpp"

#include "support/checkpoint_writer.hpp"
#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

using namespace sluice;
using sluice::testing::safetensors_text;

namespace {

Expected<std::vector<StoredTensor>> read(const std::string& text) {
  return read_safetensors_header(std::as_bytes(std::span<const char>(text)), "m.safetensors");
}

std::string error_of(const std::string& header, std::size_t data_bytes) {
  const auto tensors = read(safetensors_text(header, std::string(data_bytes, 'x')));
  return tensors ? "none" : tensors.error().line();
}

} // namespace

TEST_CASE("a header lists tensors and their places") {
  const std::string text = safetensors_text({{"b", "BF16", {2, 3}, std::string(12, 'b')},
                                             {"a", "F32", {2}, std::string(8, 'a')},
                                             {"none", "F32", {0, 7}, ""},
                                             {"scalar", "I64", {}, std::string(8, 's')}});
  const auto tensors = read(text);
  if (!tensors) FAIL(tensors.error().line());
  REQUIRE(tensors->size() == 4);
  const std::int64_t data = static_cast<std::int64_t>(text.size()) - 28;
  CHECK((*tensors)[0].name == "b");
  CHECK((*tensors)[0].dtype == "BF16");
  CHECK((*tensors)[0].shape == std::vector<std::int64_t>{2, 3});
  CHECK((*tensors)[0].begin == data);
  CHECK((*tensors)[0].bytes == 12);
  CHECK((*tensors)[1].name == "a");
  CHECK((*tensors)[1].begin == data + 12);
  CHECK((*tensors)[1].end() == data + 20);
  CHECK((*tensors)[2].name == "none");
  CHECK((*tensors)[2].bytes == 0);
  CHECK((*tensors)[3].bytes == 8);
}

TEST_CASE("a malformed file is reported in one line") {
  CHECK(
      read("1234567").error().line() ==
      "m.safetensors: the file has 7 bytes; expected a safetensors file, which begins with the 8 bytes of its header's "
      "length");
  CHECK(
      read(std::string(8, '\xff') + "{}").error().line() ==
      "m.safetensors: the header is said to have 18446744073709551615 bytes, the file has 10; expected a header within "
      "the file and of at most 100 MB");
  const struct {
    const char* header;
    std::size_t data;
    const char* error;
  } wrong[] = {
      {"{", 0, "m.safetensors (header):1: the JSON ends too early; expected a JSON object"},
      {"[]", 0, "m.safetensors (header): this is a JSON array; expected a JSON object"},
      {R"({"a":3})", 0,
       "m.safetensors: tensor 'a' is no JSON object; expected an object with dtype, shape and data_offsets"},
      {R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4,
       "m.safetensors: tensor 'a' has no dtype; expected F32, F16 or BF16"},
      {R"({"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,4]}})", 4,
       "m.safetensors: tensor 'a' has the unknown dtype 'Q4'; expected F32, F16 or BF16"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
       "m.safetensors: tensor 'a' has no shape; expected an array of whole numbers of at least 0"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4,
       "m.safetensors: tensor 'a' has no data_offsets; expected two whole numbers, begin and end"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4,
       "m.safetensors: tensor 'a' lies from byte 4 to 0; expected a begin that is not behind the end"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4,
       "m.safetensors: tensor 'a' ends at byte 8 of the data, of which the file has 4; expected a file that was not "
       "cut "
       "short"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})", 4,
       "m.safetensors: tensor 'a' has no data_offsets; expected two whole numbers, begin and end"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
       "m.safetensors: tensor 'a' lies from byte 0 to 4, 4 bytes; expected 8, by its shape [2] of F32"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "m.safetensors: tensor 'a' has the shape [4294967296, 4294967296]; expected one whose bytes can be counted"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}})",
       5, "m.safetensors: tensor 'b' overlaps tensor 'a'; expected tensors behind one another"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
       5,
       "m.safetensors: the bytes from 115 on belong to no tensor; the file has 118; expected tensors that fill the "
       "file"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
       4, "m.safetensors (header): the field 'a' is there twice; expected once"},
  };
  for (const auto& row : wrong) CHECK(error_of(row.header, row.data) == row.error);
}

TEST_CASE("a header of more than 100 MB is refused before it is read") {
  std::string text(8, '\0');
  const std::uint64_t length = 100'000'001;
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>((length >> (8 * i)) & 0xff);
  text.resize(8 + length + 8, ' ');
  CHECK_FALSE(read(text));
  CHECK(read(text).error().what.find("100000001 bytes") != std::string::npos);
}

TEST_CASE("all tensors that were read are within the file, one after another") {
  const std::string whole = safetensors_text({{"first", "BF16", {2, 3}, std::string(12, '\x01')},
                                              {"second", "F32", {2, 2}, std::string(16, '\x02')},
                                              {"third", "U8", {5}, std::string(5, '\x03')}});
  Random random(11);
  int good = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string text = whole;
    for (std::uint64_t change = random.below(4); change > 0; --change)
      text[random.below(text.size())] =
          static_cast<char>(random.below(3) == 0 ? random.below(256) : '0' + random.below(10));
    if (random.below(4) == 0) text.resize(random.below(text.size()));
    const auto tensors = read(text);
    if (!tensors) {
      CHECK(tensors.error().line().find('\n') == std::string::npos);
      continue;
    }
    ++good;
    std::int64_t end = 0;
    for (const StoredTensor& tensor : *tensors) {
      CHECK(tensor.begin >= end);
      CHECK(tensor.bytes >= 0);
      end = tensor.end();
    }
    CHECK(end <= static_cast<std::int64_t>(text.size()));
  }
  CHECK(good > 200);
  CHECK(good < 1300);
}
