#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of docs/reproductions.md and docs/reproductions/*.md from what the programs print.

usage: reproductions.py [--bin FOLDER] [--check] [NAME...]

A NAME is a preset of sluice-compare, one with flags (`variants`) or a program of bench/. Without a NAME all of them
run, and the CPU seconds of each are printed. Each has a section in docs/reproductions/<paper>.md. In
docs/reproductions.md, `<!-- figures NAME -->` to `<!-- end -->` is the comparison with the paper's figures from that
section, `<!-- table NAME -->` its first table, and `<!-- table NAME: TITLE -->` the one behind the line that begins
with TITLE. The text of `<!-- lead PAPER -->` also opens the paper's page. --check writes nothing and fails if a page
would change.
Public traces are those in data of $SLUICE_SHARED, or of shared/ beside the checkout.
"""
import argparse
import os
import pathlib
import re
import resource
import subprocess
import sys
import textwrap

root = pathlib.Path(__file__).resolve().parent.parent
summary = root / "docs/reproductions.md"
papers = {"orbitflow": "OrbitFlow", "select-n": "Select-N", "ellm": "eLLM", "superinfer": "SuperInfer", "mirage": "MIRAGE",
          "agents": "Continuum"}
variants = ["mirage-c1 --bandwidth-fraction 0.45", "mirage-c2 --bandwidth-fraction 0.45"]


def presets(compare):
    """Name and title of every preset, in the order of --list."""
    listed = subprocess.run([compare, "--list"], capture_output=True, text=True, check=True).stdout
    return dict(line.split(None, 1) for line in listed.split("--preset:\n")[1].splitlines() if line)


def paper_of(name):
    plain = name.removeprefix("bench_").replace("_", "-").split()[0]
    return next((paper for paper in papers if plain == paper or plain.startswith(paper + "-")), None)


def printed(command):
    if not os.access(command[0], os.X_OK):
        sys.exit(f"{command[0]} is not there; expected: make reproductions, which builds it")
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {ran.stderr.strip()}")
    return "\n".join(line if line.startswith("|") else textwrap.fill(line, 120, break_on_hyphens=False)
                     for line in ran.stdout.strip().splitlines()) + "\n"


def section(name, title, bin_folder):
    if name.startswith("bench_"):
        return f"## {name}\n\n{printed([bin_folder / name])}"
    output = printed([bin_folder / "sluice-compare", "--quiet", "--preset", *name.split()])
    return f"## {name}\n\n{title}.\n\n{output.split(chr(10), 2)[2]}"  # without its first line, which is the title


def table(sections, marker):
    """The first table of a section, or with "NAME: TITLE" the one behind that title."""
    name, _, title = marker.partition(": ")
    text = sections.get(name, "")
    begin = text.find("\n" + title) if title else 0
    found = re.search(r"^\|.*?(?=^[^|]|^$|\Z)", text[begin:], flags=re.M | re.S) if begin >= 0 else None
    if not found:
        sys.exit(f"{summary.name}: there is no table {marker}")
    return found.group(0)


def leads(paper):
    """What holds of the paper and what does not, as the summary says it."""
    return re.findall(rf"(?s)<!-- lead {paper} -->\n\n(.*?\n)\n<!-- end -->", summary.read_text())


def cpu_seconds():
    """What the commands have taken so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def page_of(paper):
    return root / f"docs/reproductions/{paper}.md"


def sections_of(page):
    text = page.read_text() if page.exists() else ""
    return {part.split("\n", 1)[0]: "## " + part.rstrip() + "\n" for part in re.split(r"^## ", text, flags=re.M)[1:]}


def figures(sections, name):
    """The table of the paper's figures in a section."""
    table = re.search(r"^\| figure .*?(?=^[^|]|^$|\Z)", sections.get(name, ""), flags=re.M | re.S)
    if not table:
        sys.exit(f"{summary.name}: the section {name} has no table of figures")
    return table.group(0)


def main():
    os.environ.setdefault("SLUICE_SHARED", str(root.parent / "shared"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=root / "build/release/bin")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    titles = presets(given.bin / "sluice-compare")
    titles = {name: title for name, title in titles.items() if paper_of(name)}  # the others repeat no paper
    for name in variants:
        titles[name] = titles[name.split()[0]]
    known = [*titles, *(f"bench_{paper.replace('-', '_')}_paper" for paper in papers if paper != "agents"),
             "bench_orbitflow_feedback"]
    for name in given.names:
        if name not in known:
            sys.exit(f"there is no preset or program {name}")
    pages, everything = {}, {}
    for paper, full_name in papers.items():
        sections = sections_of(page_of(paper))
        for name in (name for name in known if paper_of(name) == paper and (not given.names or name in given.names)):
            before = cpu_seconds()
            sections[name] = section(name, titles.get(name), given.bin)
            print(f"{cpu_seconds() - before:7.1f} CPU s  {name}", file=sys.stderr, flush=True)
        order = [name for name in known if name in sections and paper_of(name) == paper]
        pages[page_of(paper)] = "\n".join([
            f"# {full_name}: every table\n", *leads(paper), "Made by `make reproductions`: do not edit. A section is what `sluice-compare"
            " --preset NAME` prints, or the program\nthat it names. "
            "[reproductions.md](../reproductions.md) says what differs from the paper and why.\n",
            *(sections[name] for name in order)])
        everything |= sections
    pages[summary] = re.sub(r"(?s)<!-- figures (.*?) -->\n.*?<!-- end -->",
                            lambda found: f"<!-- figures {found[1]} -->\n\n{figures(everything, found[1])}\n<!-- end -->",
                            summary.read_text())
    pages[summary] = re.sub(r"(?s)<!-- table (.*?) -->\n.*?<!-- end -->",
                            lambda found: f"<!-- table {found[1]} -->\n\n{table(everything, found[1])}\n<!-- end -->",
                            pages[summary])
    changed = [page for page, text in pages.items() if not page.exists() or page.read_text() != text]
    for page in changed:
        if given.check:
            print(f"{page.relative_to(root)} is not what the programs print: run `make reproductions`")
        else:
            page.parent.mkdir(exist_ok=True)
            page.write_text(pages[page])
    return int(given.check and bool(changed))


sys.exit(main())
