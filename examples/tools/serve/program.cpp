// SPDX-License-Identifier: Apache-2.0
// sluice-serve: serves a model on this machine with the policies of a system, through the OpenAI API.
//
// The problem: each system for serving under memory pressure is a fork of some large server, so its policies cannot
// serve the clients of another server. Goals of this program: any system of sluice-run behind the API that clients use;
// real tokens from this machine, or the pace of a simulated device; bad requests answered with a one-sentence error.
#include "engines/program.hpp"

#include "sluice/serve/api_keys.hpp"
#include "sluice/serve/beast/nlohmann/openai_server.hpp"
#include "sluice/serve/log_writer.hpp"
#include "sluice/serve/nlohmann/simulated_config.hpp"
#include "sluice/serve/tee.hpp"
#include "sluice/serve/wall_time.hpp"

#include "run/job.hpp"
#include "serve/decisions.hpp"
#include "serve/notify.hpp"
#include "serve/options.hpp"
#include "serve/record.hpp"
#include "serve/replay.hpp"
#include "serve/system.hpp"
#include "serve/tls.hpp"
#include "serve/what_if.hpp"
#include "shared/version.hpp"
#include <boost/system/system_error.hpp>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

int fail(const Error& error) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", engines::program_name(), error.line().c_str());
  return 2;
}

ForecastSlo forecast_of(const std::string& gate) {
  ForecastSlo forecast;
  forecast.mode = gate == "none" ? ForecastMode::none : gate == "soft" ? ForecastMode::soft : ForecastMode::hard;
  return forecast;
}

/// Returns the same error, with another flag's name.
Error of_flag(const char* flag, Error error) {
  error.where = flag;
  return error;
}

/// Replays the run that a server recorded.
int replay(const serving::Options& options, const engines::System& system, const serving::Served& served, Slo slo) {
  running::Recorded recorded;
  serving::DecisionsFile decisions;
  if (!options.run.decisions.empty())
    if (Status opened = decisions.open(options.run.decisions, recorded); !opened) return fail(opened.error());
  const Expected<std::int64_t> replayed = serving::replay(options, system, served, slo, recorded);
  if (!replayed) return fail(replayed.error());
  if (Status written = decisions.close(); !written) return fail(written.error());
  fmt::print("{} requests replayed: the engine asked what it had asked\n", *replayed);
  return 0;
}

/// Reads the keys and the certificate again. If one of them is invalid, nothing changes: the server continues with the
/// previous ones.
void reload(const serving::Options& options, const serving::ServedConnection& connection, ApiKeys& known, double now,
            LogWriter& log) {
  const auto tell = [&log](const Error& error) {
    log.add(fmt::format("{}: HUP: {}; what was read before stays", engines::program_name(), error.line()));
  };
  const Expected<std::vector<ApiKey>> keys = serving::read_keys(options);
  if (keys)
    known.replace(*keys, now);
  else
    tell(keys.error());
  const Status renewed = connection.renew ? connection.renew() : Status{};
  if (!renewed) tell(renewed.error());
  if (keys && renewed)
    log.add(fmt::format("{}: HUP: {} keys{}", engines::program_name(), keys->size(),
                        connection.renew ? ", and the certificate" : ""));
}

int serve(serving::Options& options) {
  const Expected<const engines::System*> system = running::find_system(options.run.system);
  if (!system) return fail(system.error());
  const Expected<const engines::System*> second =
      running::find_system(options.tee.empty() ? options.run.system : options.tee);
  if (!second) return fail(of_flag("--tee", second.error()));
  Expected<serving::ServedConnection> connection = serving::connection(options);
  if (!connection) return fail(connection.error());
  const Expected<std::vector<ApiKey>> keys = serving::read_keys(options);
  if (!keys) return fail(keys.error());
  const Expected<std::optional<HttpAddress>> admin = serving::admin_address(options);
  if (!admin) return fail(admin.error());
  const Expected<int> connections = serving::allow_connections(options, HttpLimits{}.reserved);
  if (!connections) return fail(connections.error());
  Expected<serving::Served> served = serving::set_up(options, **system);
  if (!served) return fail(served.error());
  std::optional<Expected<serving::Served>> tee_served;
  if (!options.tee.empty()) {
    tee_served.emplace(serving::set_up(options, **second));
    if (!*tee_served) return fail(tee_served->error());
  }

  const Slo slo{Seconds{options.run.slo_ttft}, Seconds{options.run.slo_tbt}};
  if (!options.replay.empty()) return replay(options, **system, *served, slo);
  Expected<std::vector<WhatIfSystem>> systems = serving::what_if_systems(**system, options.what_if, *served, slo);
  if (!systems) return fail(systems.error());

  OpenAiServerConfig config;
  config.what_if = *std::move(systems);
  config.address = {options.host, options.port};
  config.admin = *admin;
  config.connection = std::move(connection->connection);
  config.limits.max_body = static_cast<std::size_t>(options.max_body);
  config.limits.max_bodies = static_cast<std::size_t>(options.max_bodies);
  config.limits.max_connections = *connections;
  config.limits.max_per_address = options.max_per_address;
  config.drain_s = options.drain;
  config.drain_delay_s = options.drain_delay;
  // Writes messages while the server runs; never waits for the reader of standard error.
  const auto log = std::make_shared<LogWriter>(STDERR_FILENO);
  const serving::Notify supervisor;
  config.beat = [&supervisor, said = false](const OpenAiApp& app) mutable {
    if (!said && app.ready()) {
      supervisor.say("READY=1\nSTATUS=Serving.");
      said = true;
    }
    // Once its engine has stopped, a server serves no requests: the watchdog ends it.
    if (app.stopped_by().empty()) supervisor.say("WATCHDOG=1");
    constexpr double often = 0.1; // seconds, until the weights are loaded
    return said ? supervisor.watchdog().value_or(3600) : std::min(often, supervisor.watchdog().value_or(often));
  };
  config.draining = [log, &supervisor, drain = options.drain](std::size_t under_way) {
    supervisor.say("STOPPING=1\nSTATUS=Draining.");
    log->add(fmt::format("{}: draining: {} requests under way, at most {} s; again to end now", engines::program_name(),
                         under_way, drain));
  };
  config.api = openai_setup(served->name, *served->tokenizer, served->context);
  const std::string who =
      options.tee.empty() ? options.run.system : fmt::format("{} (tee: {})", options.run.system, options.tee);
  config.api.about = fmt::format("{}: {}", who, served->what);
  config.api.fingerprint = fmt::format("sluice-{}-{}", made_by().version, served->digest);
  config.api.vocabulary = served->vocabulary;
  config.api.slo = slo;
  config.api.places = options.run.batch;
  config.api.most_held = options.queue;
  config.api.keys = std::make_shared<ApiKeys>(*keys, config.api.clock());
  config.reload = [&options, &connection, log, known = config.api.keys, now = config.api.clock] {
    reload(options, *connection, *known, now(), *log);
  };
  config.api.cors = options.cors;
  config.api.logprobs = options.simulate.empty();
  config.api.rules = options.simulate.empty() && options.run.backend == "cpu";
  if (options.chat_format) config.api.chat = options.chat_format;
  config.api.unknown_fields = options.lenient ? UnknownFields::ignored : UnknownFields::refused;
  if (!options.quiet) config.api.log = [log](const std::string& line) { log->add(line); };
  config.api.metrics = [log](PrometheusWriter& to) {
    to.counter("sluice:log_lines_dropped_total", "Lines of the log that its reader did not take in time.",
               static_cast<double>(log->dropped()));
    const MadeBy& made = made_by();
    to.gauge("sluice:build_info", "1, with what the server was built of.", 1,
             {{"version", made.version}, {"commit", made.commit}, {"build", made.build}});
  };
  const std::function<double()> clock = config.api.clock;

  OpenAiServer server(std::move(config));
  if (const Status listening = server.listen(); !listening) return fail(listening.error());
  serving::Records records(log); // opened only now: another server on this port may be writing these files
  if (const Status opened = records.open(options); !opened) return fail(opened.error());
  if (ServedListener* const ended = server.served()) records.tell(*ended);

  running::Recorded recorded, tee_recorded;
  recorded.keeps_summary = tee_recorded.keeps_summary = false; // the summary would grow with every request
  serving::DecisionsFile decisions;
  if (!options.run.decisions.empty())
    if (Status opened = decisions.open(options.run.decisions, recorded); !opened) return fail(opened.error());
  // Attached before its thread starts: an engine may stop at once, and its clients must receive the reason.
  const auto start = [&](const engines::System& of, serving::Served& runs, GenerationListener& listener,
                         running::Recorded& into, const std::string& gate, ServedListener* over,
                         std::function<void(GenerationEngine&)> made) {
    return running::serve(of, {runs.setup, slo, runs.world, *runs.tokens, listener, into, QueueLimit{options.queue},
                               forecast_of(gate), runs.ahead, over, std::move(made)});
  };
  served->world = records.recorded(served->world);
  std::unique_ptr<Tee> tee;
  if (tee_served)
    tee = std::make_unique<Tee>(server.listener(), [log](const TeeDifference& difference) {
      log->add(log_line(difference, iso_time(wall_ms())));
    });
  if (tee) server.attach(*tee);
  Expected<std::unique_ptr<GenerationEngine>> engine =
      start(**system, *served, tee ? tee->first() : server.listener(), recorded, options.gate, &records,
            [&](GenerationEngine& made) {
              if (!tee) server.attach(made);
            });
  if (!engine) return fail(engine.error());
  if (tee) {
    auto follower = start(**second, **tee_served, tee->second(), tee_recorded, "none", nullptr, {});
    if (!follower) return fail(of_flag("--tee", follower.error()));
    tee->attach(*std::move(engine), *std::move(follower));
    *engine = std::move(tee);
  }

  fmt::print("{} under {}: {}\n", served->name, who, served->what);
  if (!served->kept.empty()) fmt::print("{}\n", served->kept);
  if (*admin) fmt::print("admin: {}  (/live to look, /metrics for Prometheus, POST /drain)\n", server.admin_url());
  fmt::print("{}/v1{}\n", server.url(), *admin ? "" : "  (/live to look, /metrics for Prometheus)");
  std::fflush(stdout);
  std::signal(SIGPIPE, SIG_IGN); // a pipe without a reader (--record, --decisions) fails one write, not the server
  server.run();
  engine->reset(); // joins the engine's thread before the objects that it notifies are destroyed
  if (Status written = decisions.close(); !written) return fail(written.error());
  if (server.stopped_by().empty()) return 0;
  log->add(fmt::format("{}: the engine had stopped: {}", engines::program_name(), server.stopped_by()));
  return 1;
}

} // namespace

int serving::program(int argc, char** argv) {
  serving::Options options;
  if (const std::optional<int> status = serving::parse_options(argc, argv, options)) return *status;
  if (options.list) {
    for (const engines::System& system : engines::real_systems())
      fmt::print("{:<22} {}{}\n", system.name, system.what,
                 system.knows_lengths ? " (cannot serve: it looks at how long answers will be)" : "");
    return 0;
  }
  if (Status status = serving::check_options(options); !status) return fail(status.error());
  std::signal(SIGHUP, SIG_IGN); // until the server handles it: a reload while the weights load must not end the program
  try {
    return serve(options);
  } catch (const std::bad_alloc&) {
    return fail({ErrorCode::out_of_memory, "memory", "the system refuses what this server needs",
                 "smaller memories, or a larger limit (ulimit -v)"});
  } catch (const boost::system::system_error& error) { // the transport's: no file descriptors are left
    return fail({ErrorCode::out_of_memory, "files", error.code().message(), "a larger limit (ulimit -n)"});
  } catch (const std::system_error& error) {
    return fail({ErrorCode::out_of_memory, "threads", error.what(), "a larger limit (ulimit -u)"});
  }
}
