# What transcripts use to check properties of numbers (docs/contributing.md): runs programs, and reads their tables,
# reports and pages. A failed check names the line of the command.
import csv
import io
import json
import math
import os
import re
import subprocess
import tempfile

T = os.environ["T"]


def run(command, code=0, errors=subprocess.STDOUT):
    """What the command prints, with its errors; it must exit with this code."""
    ran = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=errors, encoding="utf-8")
    assert ran.returncode == code, f"{command}\nexits with {ran.returncode}:\n{ran.stdout}"
    return ran.stdout


def text(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def parsed(path):
    return json.loads(text(path))


def table(path):
    return list(csv.DictReader(io.StringIO(text(path))))


def number(cell):
    return float(cell or 0)


class Results:
    """What a command prints, and the files that it leaves in a new folder of --out."""

    def __init__(self, command):
        self.folder = tempfile.mkdtemp(dir=T)
        self.printed = run(f"{command} --out {self.folder}")

    def text(self, name):
        return text(f"{self.folder}/{name}")

    def parsed(self, name="report.json"):
        return parsed(f"{self.folder}/{name}")

    def table(self, name):
        return table(f"{self.folder}/{name}.csv")


def compare(flags):
    """A comparison, with its report."""
    results = Results(f"sluice-compare --quiet {flags}")
    results.report = results.parsed()
    results.row = {row["name"]: row for row in results.report.get("systems", [])}
    return results


def refused(command, *parts):
    """The command must exit with 2 after one line, which has the parts."""
    line = run(command, 2)
    assert line.count("\n") == 1, line
    for part in (f"{command.split()[0]}: ", *parts):
        has(line, part)


def same(value, wanted):
    assert value == wanted, f"{value!r}, expected {wanted!r}"


def has(whole, part):
    assert part in whole, f"{part!r} is not in {whole!r}"


def near(value, wanted, epsilon=1e-5):
    assert abs(value - wanted) < epsilon * (1 + max(abs(value), abs(wanted))), f"{value!r}, expected {wanted!r}"


def page_data(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def page_tables(page):
    """The captions and rows of the tables that have a caption: each cell is the number that a script reads, or the text."""

    def cells(row, name):
        for tag, shown in re.findall(r"<t[dh]([^>]*)>(.*?)</t", row, re.S):
            found = re.search(rf'{name}="(.*?)"', tag) or re.search('data-text="(.*?)"', tag)
            yield found[1] if found else shown.split("<")[0]

    for drawn in re.findall(r"<table.*?</table>", page, re.S):
        caption = re.search("<caption><b>(.*?)</b>", drawn, re.S)
        if caption:
            head, body = drawn.split("</thead>")
            keys = list(cells(head[head.rindex("<tr>"):], "data-key"))  # the last row of heads
            yield caption[1], [dict(zip(keys, cells(row, "data-v"))) for row in re.findall("<tr.*?</tr>", body, re.S)]


def tells(cell, value):
    """A page's cell must have the report's number, or neither must have one."""
    assert cell == "" if value is None else cell != "" and abs(float(cell) - value) <= 1e-9, f"{cell!r}, expected {value!r}"


def mean_error(values):
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))


def interval(values):
    """The mean and its limits by Student's t, with 95 % confidence, of two to six values."""
    quantile = [12.706204736175, 4.302652729750, 3.182446305284, 2.776445105198, 2.570581835636][len(values) - 2]
    mean, error = mean_error(values)
    return mean, mean - quantile * error, mean + quantile * error
