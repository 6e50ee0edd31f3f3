// SPDX-License-Identifier: Apache-2.0
#include "architecture/include_graph.hpp"
#include <doctest/doctest.h>

#include <algorithm>

using namespace architecture;

namespace {

Layers three_layers() {
  std::istringstream text("# a comment\ncore\nmodel device\nengine\nmodel -> device\nlibraries: nlohmann cudart\n"
                          "system: core/mapped.hpp engine/real/\n");
  return read_layers(text);
}

Header header(const std::string& path, const std::string& includes) { return {path, "#pragma once\n" + includes}; }

std::size_t faults(const std::string& path, const std::string& includes) {
  return include_faults(header(path, includes), three_layers()).size();
}

Layers project_layers() {
  std::ifstream in("cmake/layers.txt");
  REQUIRE_MESSAGE(in.good(), "run this from the repository's root");
  return read_layers(in);
}

} // namespace

TEST_CASE("the layer check accepts includes that point left and reports all others") {
  CHECK(faults("sluice/engine/a.hpp", "#include \"sluice/core/b.hpp\"\n#include <vector>\n") == 0);
  CHECK(faults("sluice/core/a.hpp", "#include \"sluice/core/b.hpp\"\n") == 0);
  CHECK(faults("sluice/core/a.hpp", "  # include \"sluice/engine/b.hpp\"\n") == 1);
  CHECK(faults("sluice/model/a.hpp", "#include \"sluice/device/b.hpp\"\n") == 0); // the line that allows it
  CHECK(faults("sluice/device/a.hpp", "#include \"sluice/model/b.hpp\"\n") == 1); // one way only
  CHECK(faults("sluice/core/a.hpp", "#include \"sluice/unheard/b.hpp\"\n") == 1);
  CHECK(faults("sluice/unheard/a.hpp", "") == 1);
  CHECK(faults("sluice/core/a.hpp", "#include \"sluice/sluice.hpp\"\n") == 1);
  CHECK(faults("sluice/core/a.hpp", "#include \"b.hpp\"\n") == 1);
  CHECK(faults("sluice/sluice.hpp", "#include \"sluice/engine/a.hpp\"\n#include \"sluice/core/a.hpp\"\n") == 0);
  CHECK(faults("sluice/simulation.hpp", "#include \"sluice/sluice.hpp\"\n") == 0);
}

TEST_CASE("a path belongs to the longest listed folder that contains it") {
  std::istringstream text("core\npolicy/cost\npolicy/admission\nreport/observer\nreport\n");
  const Layers layers = read_layers(text);
  CHECK(folder_of("sluice/policy/cost/work.hpp", layers) == "policy/cost");
  CHECK(folder_of("sluice/policy/cost/nlohmann/profile.hpp", layers) == "policy/cost");
  CHECK(folder_of("sluice/report/json.hpp", layers) == "report");
  CHECK(folder_of("sluice/report/observer/why.hpp", layers) == "report/observer");
  CHECK(folder_of("sluice/unheard/of/a.hpp", layers) == "unheard");
  CHECK(folder_of("sluice/sluice.hpp", layers).empty());
  const auto faults = [&](const std::string& path, const std::string& includes) {
    return include_faults(header(path, includes), layers).size();
  };
  CHECK(faults("sluice/policy/admission/a.hpp", "#include \"sluice/policy/cost/work.hpp\"\n") == 0);
  CHECK(faults("sluice/policy/cost/a.hpp", "#include \"sluice/policy/admission/fcfs.hpp\"\n") == 1);
  CHECK(faults("sluice/report/observer/a.hpp", "#include \"sluice/report/json.hpp\"\n") == 1);
}

TEST_CASE("the framework includes no header of its libraries") {
  std::istringstream text("core\nworkload\nserve\nengine\nlibraries: nlohmann\nlibrary: serve/ workload/csv.hpp\n"
                          "framework: serve/gate.hpp\n");
  const Layers layers = read_layers(text);
  const auto faults = [&](const std::string& path, const std::string& included) {
    return include_faults(header(path, "#include \"" + included + "\"\n"), layers).size();
  };
  CHECK(faults("sluice/engine/a.hpp", "sluice/workload/b.hpp") == 0);
  CHECK(faults("sluice/engine/a.hpp", "sluice/workload/csv.hpp") == 1);
  CHECK(faults("sluice/engine/a.hpp", "sluice/serve/gate.hpp") == 0);
  CHECK(faults("sluice/engine/a.hpp", "sluice/serve/http.hpp") == 1);
  CHECK(faults("sluice/serve/gate.hpp", "sluice/serve/http.hpp") == 1);
  CHECK(faults("sluice/serve/gate.inl.hpp", "sluice/serve/http.hpp") == 1);
  CHECK(faults("sluice/serve/http.hpp", "sluice/serve/gate.hpp") == 0);
  CHECK(faults("sluice/serve/http.hpp", "sluice/workload/csv.hpp") == 0);
  CHECK(faults("sluice/workload/a.hpp", "sluice/workload/csv.inl.hpp") == 1);
  CHECK(faults("sluice/workload/csv.hpp", "sluice/workload/csv.inl.hpp") == 0);
  CHECK(of_a_library("sluice/core/nlohmann/a.hpp", layers));
  CHECK(faults("sluice/sluice.hpp", "sluice/workload/csv.hpp") == 0); // an umbrella names what it will
}

TEST_CASE("the layer check keeps libraries in the folders that name them") {
  CHECK(faults("sluice/model/a.hpp", "#include <nlohmann/json.hpp>\n") == 1);
  CHECK(faults("sluice/model/nlohmann/a.hpp", "#include <nlohmann/json.hpp>\n") == 0);
  CHECK(faults("sluice/engine/a.hpp", "#include \"sluice/model/nlohmann/a.hpp\"\n") == 1);
  CHECK(faults("sluice/engine/nlohmann/b.hpp", "#include \"sluice/model/nlohmann/a.hpp\"\n") == 0);
  CHECK(faults("sluice/engine/a.hpp", "#include <cuda_runtime.h>\n") == 1);
  CHECK(faults("sluice/engine/cudart/a.hpp", "#include <cuda_runtime.h>\n") == 0);
  CHECK(faults("sluice/engine/a.hpp", "#include <Eigen/Dense>\n") == 1);
  CHECK(faults("sluice/engine/a.hpp", "#include <iostream>\n") == 1);
  CHECK(faults("sluice/sluice.hpp", "#include \"sluice/model/nlohmann/a.hpp\"\n") == 1);
}

TEST_CASE("the layer check permits the operating system only in the listed headers") {
  CHECK(faults("sluice/core/mapped.hpp", "#include <sys/mman.h>\n#include <unistd.h>\n") == 0);
  CHECK(faults("sluice/core/a.hpp", "#include <sys/mman.h>\n#include <unistd.h>\n") == 2);
  CHECK(faults("sluice/engine/real/a.hpp", "#include <fcntl.h>\n") == 0);
  CHECK(faults("sluice/engine/a.hpp", "#include <fcntl.h>\n") == 1);
  CHECK(faults("sluice/core/mapped.hpp", "#include <zlib.h>\n") == 1);
}

TEST_CASE("the form check reports each departure") {
  const std::string good = "// SPDX-License-Identifier: Apache-2.0\n// What it is.\n#pragma once\n";
  CHECK(form_faults({"sluice/a.hpp", good}).empty());
  CHECK(form_faults({"sluice/a.hpp", good + "namespace {\n}\n"}).size() == 1);
  CHECK(form_faults({"sluice/a.hpp", good + "using namespace std;\n"}).size() == 1);
  CHECK(form_faults({"sluice/a.hpp", good + std::string(700, '\n')}).size() == 1);
  CHECK(form_faults({"sluice/a.hpp", "\n"}).size() == 3);
}

TEST_CASE("the word check reads code, not comments or strings") {
  CHECK(word_faults({"sluice/a.hpp", "int f() { throw 1; }"}).size() == 1);
  CHECK(word_faults({"sluice/a.hpp", "struct A { virtual ~A(); };"}).size() == 1);
  CHECK(word_faults({"sluice/a.hpp", "std::function<void()> f;"}).size() == 1);
  CHECK(word_faults({"sluice/a.hpp", "int f() { std::printf(\"\"); std::exit(2); }"}).size() == 2);
  CHECK(word_faults({"sluice/a.hpp", "// never throw\nconst char* s = \"a \\\" virtual\"; // std::cout"}).empty());
  CHECK(word_faults({"sluice/a.hpp", "int f(int /*virtual*/) { return 0; } /* throw */"}).empty());
  CHECK(word_faults({"sluice/a.hpp", "const char* s = \"\\\"\"; int f() { throw 1; } // \""}).size() == 1);
  CHECK(
      word_faults({"sluice/a.hpp", "const char* s = R\"x(\" throw )x\"; char c = '\"'; int f() { throw 1; }"}).size() ==
      1);
  CHECK(word_faults({"sluice/a.hpp", "char c = '\"'; // throw \""}).empty());
  CHECK(word_faults({"sluice/core/assert.hpp", "std::abort();"}).empty());
  CHECK(word_faults({"sluice/model/decoder/decoder.hpp", "struct A { virtual ~A(); };"}).empty());
  CHECK(word_faults({"sluice/model/decoder/decoder.hpp", "struct A { std::function<void()> f; };"}).size() == 1);
}

TEST_CASE("every include points left") {
  const Layers layers = project_layers();
  const std::vector<Header> headers = read_headers("include");
  REQUIRE(headers.size() > 1);
  for (const Header& each : headers)
    for (const std::string& fault : include_faults(each, layers)) FAIL_CHECK(fault);
}

TEST_CASE("sluice::compiled holds the framework's definitions, and the other libraries hold their own") {
  const Layers layers = project_layers();
  int twins = 0;
  for (const Header& each : read_headers("include")) {
    if (each.path.rfind(".inl.hpp") == std::string::npos) continue;
    ++twins;
    const bool ours = each.text.find("\nSLUICE_INLINE ") != std::string::npos;
    const bool theirs = std::regex_search(each.text, std::regex(R"(\nSLUICE_[A-Z]+_INLINE )"));
    CHECK_MESSAGE((!ours || !of_a_library(each.path, layers)), each.path, ": is a library's, and SLUICE_INLINE");
    CHECK_MESSAGE((!theirs || of_a_library(each.path, layers)), each.path,
                  ": is the framework's; expected SLUICE_INLINE");
  }
  CHECK(twins > 0);
}

TEST_CASE("cmake/layers.txt names headers and folders that exist") {
  const Layers layers = project_layers();
  for (const auto& places : {layers.system, layers.library, layers.framework})
    for (const std::string& place : places) CHECK_MESSAGE(std::filesystem::exists("include/" + place), place);
}

TEST_CASE("every header has the project's form") {
  for (const Header& each : read_headers("include"))
    for (const std::string& fault : form_faults(each)) FAIL_CHECK(fault);
}

TEST_CASE("a policy has at most 120 lines, or is listed with its reason") {
  const auto faults = [](const std::string& path, long lines, const std::string& role) {
    return policy_faults({path, role + std::string(static_cast<std::size_t>(lines), '\n')}).size();
  };
  const std::string role = "using role = roles::Placement;";
  CHECK(faults("sluice/policy/placement/a.hpp", 120, role) == 0);
  CHECK(faults("sluice/policy/placement/a.hpp", 121, role) == 1);
  CHECK(faults("sluice/policy/placement/a.hpp", 121, "") == 0);                             // a part
  CHECK(faults("sluice/policy/placement/a.hpp", 121, "static_assert(explain<A>());") == 1); // of an inherited role
  CHECK(faults("sluice/world/a.hpp", 121, role) == 0);
  CHECK(faults(long_policies().front().path, 121, role) == 0);
  CHECK(faults(long_policies().front().path, 120, role) == 1);
  const std::vector<Header> headers = read_headers("include");
  for (const Header& each : headers)
    for (const std::string& fault : policy_faults(each)) FAIL_CHECK(fault);
  for (const LongPolicy& policy : long_policies())
    CHECK_MESSAGE(
        std::any_of(headers.begin(), headers.end(), [&](const Header& each) { return each.path == policy.path; }),
        policy.path);
}

TEST_CASE("kernel headers have the project's form, and CUDA is only in .cuh files or behind __CUDACC__") {
  std::vector<Header> headers = read_headers("kernels");
  const std::vector<Header> device = read_headers("kernels", ".cuh");
  REQUIRE(headers.size() > 10);
  REQUIRE(device.size() > 2);
  for (const Header& each : headers)
    for (const std::string& fault : cuda_faults(each)) FAIL_CHECK(fault);
  headers.insert(headers.end(), device.begin(), device.end());
  for (const Header& each : headers) {
    for (const std::string& fault : form_faults(each)) FAIL_CHECK(fault);
    for (const std::string& fault : device_faults(each)) FAIL_CHECK(fault);
  }
}

TEST_CASE("device code calls no function that nvcc compiles wrongly") {
  const std::string call = "int a(unsigned b) { return std::countr_zero(b); }";
  CHECK(device_faults({"a.hpp", "SLUICE_DEVICE " + call}).size() == 1);
  CHECK(device_faults({"a.hpp", call}).empty()); // the host's
  CHECK(device_faults({"a.hpp", "SLUICE_DEVICE void a(); // not std::countr_zero"}).empty());
}

TEST_CASE("the check of kernel headers reports CUDA in code for any compiler and permits it in code for nvcc") {
  CHECK(cuda_faults({"a.hpp", "#include <cuda_fp16.h>\n"}).size() == 1);
  CHECK(cuda_faults({"a.hpp", "#include <cub/block/block_scan.cuh>\n"}).size() == 1);
  CHECK(cuda_faults({"a.hpp", "#include \"kernels/launch.cuh\"\n"}).size() == 1);
  CHECK(cuda_faults({"a.hpp", "#include <vector>\n#include \"kernels/cta.hpp\"\n"}).empty());
  CHECK(cuda_faults({"a.hpp", "#if defined(__CUDACC__)\n#include <cuda_fp16.h>\n#endif\n"}).empty());
  CHECK(cuda_faults({"a.hpp", "#if defined(__CUDACC__)\n#endif\n#include <cuda_fp16.h>\n"}).size() == 1);
}

TEST_CASE("no header throws, prints, dispatches virtually or ends the process") {
  for (const Header& each : read_headers("include"))
    for (const std::string& fault : word_faults(each)) FAIL_CHECK(fault);
}
