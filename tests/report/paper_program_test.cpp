// SPDX-License-Identifier: Apache-2.0
// Tables for papers, verdicts in every cell of a grid, and axes of names.
#include "report/compare_program.hpp"
#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <string>

namespace sluice_test::comparing::paper {

const std::string small = " --generate demo:requests=8 --systems VllmSwap,OrbitFlow --deposit off ";

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("latex: a whole tabular, every special character escaped, and nothing else but comments" * needs_program()) {
  const Ran ran = run(small + "--seeds 1..3 --table latex --columns system,tbt,ttft,refused,tbt-of-slo");
  REQUIRE(ran.code == 0);
  bool inside = false;
  int rows = 0;
  for (const std::string& line : lines(ran.out)) {
    if (line.empty()) continue;
    if (!inside && line[0] == '%') continue;
    CAPTURE(line);
    if (line == "\\begin{tabular}{lrrrr}") {
      inside = true;
    } else if (line == "\\end{tabular}") {
      inside = false;
    } else {
      REQUIRE(inside);
      if (line.find("rule") != std::string::npos) continue;
      ++rows;
      CHECK(line.ends_with(" \\\\"));
      CHECK(count_of(line, " & ") == 4);
      for (const char special : {'%', '#', '_'})
        for (std::size_t at = line.find(special); at != std::string::npos; at = line.find(special, at + 1))
          CHECK(line[at - 1] == '\\');
      CHECK(line.find("±") == std::string::npos);
    }
  }
  CHECK_FALSE(inside);
  CHECK(rows == 3); // heads and two systems
  CHECK(ran.out.find("% demo, 8 requests, seeds 1..3; llama3-8b on a5000, link 7.6 GB/s") != std::string::npos);
  CHECK(run("--table latexx").out.find("--table: it is 'latexx'; expected full, md, latex or csv") !=
        std::string::npos);
}

TEST_CASE("grid: every cell judges its rows against its own best, in text and on the page" * needs_program()) {
  const Results grid("sluice-compare", "--quiet" + small + "--kv-blocks 300,500 --seeds 1..4");
  CHECK(count_of(grid.printed, "reference") == 4); // a row of each cell, by two figures
  CHECK(grid.printed.find("judged: against the best of the same comparison, seed by seed") != std::string::npos);
  const std::string page = grid.text("report.html");
  CHECK(count_of(page, "<td class=\"l\">reference</td>") == 6); // three figures
  CHECK(count_of(page, ">judged</th>") == 3);

  // A cell's verdict is that of the same comparison alone.
  const Compared alone(small + "--kv-blocks 300 --seeds 1..4");
  for (const auto& row : alone.report.at("systems")) {
    if (!row.contains("pairs")) continue;
    const auto& pair = row.at("pairs").at("tbt_attainment");
    const std::string verdict = pair.at("tie").get<bool>() ? " tie" : pair.at("difference") > 0 ? " better" : " worse";
    CHECK(grid.printed.find(verdict) != std::string::npos);
  }
  const Ran baseline = run(small + "--kv-blocks 300,500 --seeds 1..4 --baseline VllmSwap");
  CHECK(baseline.out.find("judged: against VllmSwap of the same comparison") != std::string::npos);
  for (const std::string& line : lines(baseline.out))
    if (line.find(" VllmSwap ") != std::string::npos && line.find("judged:") == std::string::npos)
      CHECK(line.find("reference") != std::string::npos);
  CHECK(run(small + "--kv-blocks 300,500").out.find("judged") == std::string::npos); // one seed judges nothing
  const Ran classes = run(small + "--seeds 1..4 --slo-classes 0.5:2s/50ms,0.5:30s/200ms --table md --columns "
                                  "system,class,judged-slo");
  CHECK(count_of(classes.out, "reference") == 3); // all requests, and each class
}

TEST_CASE("grid: names of devices and models, links and a policy's numbers are axes" * needs_program()) {
  const Results grid("sluice-compare", "--quiet" + small + "--device a5000,a10 --model llama3-8b,llama2-7b");
  const nlohmann::json report = grid.parsed("report.json");
  CHECK(report.at("cells").size() == 4);
  const auto& axes = report.at("grid").at("axes");
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].at("name") == "device");
  CHECK(axes[0].at("values") == nlohmann::json{"a5000", "a10"});
  CHECK_FALSE(axes[0].at("numbers").get<bool>());
  for (const auto& cell : report.at("cells")) CHECK(cell.at("workload").at("device") == cell.at("at").at("device"));
  CHECK(grid.table("systems").front().at("device") == "a5000");
  CHECK(run(small + "--plan-nodes 5,200 --link 5GB/s,25GB/s --dry-run").out.find("link 25GB/s") != std::string::npos);
  CHECK(run("--device a5000,,a10").out.find("--device: it is 'a5000,,a10'; expected names with one comma") !=
        std::string::npos);
  CHECK(run("--device a10,a10").out.find("expected each name once") != std::string::npos);
  CHECK(run("--device a10,nowhere --dry-run").out.find("there is no device 'nowhere'") != std::string::npos);
}

TEST_CASE("a workload whose records would fill the memory is refused before it is drawn" * needs_program()) {
  const std::string many = "--dry-run --generate sharegpt:requests=1000000000";
  CHECK(run(many).out.find("--generate: it has 1000000000 requests") != std::string::npos);
  CHECK(run(many + " --limit 5").out.find("sharegpt, 5 requests") != std::string::npos);
}

TEST_CASE("a recorded trace has no seed in its caption" * needs_program()) {
  const TemporaryFolder folder;
  const std::string trace = (folder.path / "log.csv").string();
  std::ofstream(trace) << "arrival,prompt,output\n0,50,9\n1,50,9\n2,60,5\n3,9,9\n";
  const std::string asked = "--systems VllmSwap --deposit off --trace '" + trace + "'";
  CHECK(run(asked).out.find("log.csv, 4 requests, as recorded;") != std::string::npos);
  CHECK(run(asked + " --seed 3").out.find("resampled in blocks of 2, 4 requests, seed 3;") != std::string::npos);
  const Results of("sluice-compare", "--quiet " + asked);
  CHECK(of.text("report.html").find("last row is a control") == std::string::npos);
  const Results with("sluice-compare", "--quiet --systems VllmSwap,OneAtATime --deposit off --trace '" + trace + "'");
  CHECK(with.text("report.html").find("The last row is a control") != std::string::npos);
}

TEST_CASE("plot: a figure of a column's width for a comparison and for one swept flag" * needs_program()) {
  const TemporaryFolder folder;
  const auto plot = [&](const std::string& name, const std::string& more) {
    const std::string path = (folder.path / name).string();
    const Ran ran = run(small + more + " --plot '" + path + "'");
    CAPTURE(ran.out);
    if (ran.out.find("this build cannot draw") != std::string::npos) return std::string{"absent"};
    CHECK(ran.code == 0);
    return content(path);
  };
  const std::string rows = plot("rows.svg", "--seeds 1..3");
  if (rows == "absent") return;
  CHECK(rows.find("width=\"240pt\"") != std::string::npos);
  CHECK(rows.find("<image") == std::string::npos); // nothing in it is of pixels
  CHECK(plot("lines.pdf", "--seeds 1..2 --kv-blocks 300,500").starts_with("%PDF-"));
  CHECK(plot("names.svg", "--device a5000,a10") != plot("links.svg", "--link 8GB/s,24GB/s"));
  CHECK(plot("one.svg", "") != rows); // other figures, another picture

  const auto refused = [&](const std::string& more) { return run(small + more).out; };
  CHECK(refused("--plot figure.png").find("'figure.png' ends neither in .svg nor in .pdf") != std::string::npos);
  CHECK(refused("--plot ''").find("--plot: it is ''; expected a file") != std::string::npos);
  CHECK(refused("--plot /nowhere/figure.svg").find("--plot: /nowhere/figure.svg cannot be written") !=
        std::string::npos);
  CHECK(refused("--plot a.svg --kv-blocks 300,500 --batch 2,4").find("a figure has one axis") != std::string::npos);
  CHECK(refused("--plot a.svg --slo-scale 1,2").find("one SLO scale") != std::string::npos);
  CHECK(refused("--plot a.svg --capacity 0.5").find("a search for capacities has no figure") != std::string::npos);
  CHECK(run("--plot a.svg --kv-blocks 300,500 --deposit off --dry-run").out.find("at most 8") != std::string::npos);
}

} // namespace sluice_test::comparing::paper
