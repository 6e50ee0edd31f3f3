// SPDX-License-Identifier: Apache-2.0
// A program on sluice::server, which brings the other libraries: this unit includes their declarations alone.
#include <sluice/model/tokenizer/byte_pair_model.hpp>
#include <sluice/report/csv_tables.hpp>
#include <sluice/serve/beast/http_server.hpp>
#include <sluice/workload/nlohmann/open_trace.hpp>

#if !defined(SLUICE_COMPILED) || !defined(SLUICE_READERS_COMPILED) || !defined(SLUICE_MODEL_COMPILED) ||               \
    !defined(SLUICE_REPORT_COMPILED) || !defined(SLUICE_SERVER_COMPILED)
#error "a library does not say that it holds its definitions"
#endif

int main() {
  const auto format = sluice::find_format("azure"); // readers
  if (!format || *format != sluice::TraceFormat::azure || sluice::find_format("azur")) return 1;
  if (sluice::bytes_of_byte_level("a").value_or("") != "a") return 2; // model
  if (sluice::csv_figure_columns().empty()) return 3;                 // report
  sluice::HttpServer server;                                          // server
  return server.listen({.host = "127.0.0.1", .port = 0}) && server.port() != 0 ? 0 : 4;
}
