# SPDX-License-Identifier: Apache-2.0
"""The plots of docs/gpu.md from a result file: attention over contexts, copies over sizes, each with its ceiling.

Writes SVG directly: two line plots need no library, and equal rows give equal bytes, so that a test can check whether a
picture matches its file."""
import math
import re
from html import escape

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 250, 44, 52  # the legend is on the right
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
BYTES = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20}


def passed(rows, stage):
    return [row for row in rows if row["stage"] == stage and row["status"] == "passed"]


def ceiling(rows, name):
    return next((row["value"] for row in passed(rows, "ceilings") if row["name"] == name), None)


def attention(rows):
    """Decoding rows: bytes of K and V read per second, over each request's tokens."""
    series = {}
    for row in passed(rows, "rates"):
        size = re.match(r"(\d+) x 1 rows of (\d+) tokens", row["config"])
        if size and re.fullmatch(r"attention, \d+ decode at \d+k", row["name"]):
            series.setdefault(f"{size[1]} requests", []).append((int(size[2]), row["value"]))
    title = "Attention of decoding rows, bf16, heads of 128"
    return lines(title, "tokens of each request", series, ("a device copy", ceiling(rows, "device copy")), str)


def size_text(size):
    unit = next(unit for unit in ("MiB", "KiB", "bytes") if size >= BYTES[unit])
    return f"{size // BYTES[unit]} {unit}"


def copies(rows, where):
    """Each way of copying scattered blocks, over the blocks' size."""
    series = {}
    for row in passed(rows, "copies"):
        size = re.match(r"\d+ blocks of (\d+) (bytes|KiB|MiB)", row["config"])
        way, _, direction = row["name"].rpartition(", ")
        if size and direction == where:
            series.setdefault(way, []).append((int(size[1]) * BYTES[size[2]], row["value"]))
    large = ("one large pinned copy", ceiling(rows, where))
    return lines(f"Copies of scattered blocks {where}", "size of a block", series, large, size_text)


def lines(title, x_name, series, limit, x_text):
    """A plot in GB/s with a logarithmic x axis; None if no line has a point."""
    series = {name: sorted(points) for name, points in series.items() if points}
    xs = sorted({x for points in series.values() for x, _ in points})
    if not xs:
        return None
    most = max([y for points in series.values() for _, y in points] + [limit[1] or 0])
    steps = (digit * 10.0**power for power in range(-6, 9) for digit in (1, 2, 5))
    step = next(one for one in steps if most <= 6 * one)
    top = step * -(-most // step)
    ends = math.log2(xs[-1] / xs[0]) or 1
    place = {x: LEFT + 24 + (WIDTH - LEFT - RIGHT - 48) * math.log2(x / xs[0]) / ends for x in xs}
    up = lambda y: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / top
    right = WIDTH - RIGHT
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        '     font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{escape(title)}</text>',
    ]
    for i in range(round(top / step) + 1):
        y = up(i * step)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{i * step:g}</text>')
    below = HEIGHT - BOTTOM + 18
    for x in xs:
        out.append(f'<text x="{place[x]:.1f}" y="{below}" text-anchor="middle">{escape(x_text(x))}</text>')
    middle = (LEFT + right) / 2
    out.append(f'<text x="{middle:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_name)}</text>')
    out.append(f'<text x="{LEFT - 8}" y="{TOP - 14}" text-anchor="end">GB/s</text>')
    entries = []
    for colour, (name, points) in zip(COLOURS, series.items()):
        path = " ".join(f"{place[x]:.1f},{up(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{place[x]:.1f}" cy="{up(y):.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
        entries.append((name, colour, ""))
    if limit[1]:
        y, dashed = up(limit[1]), ' stroke-dasharray="6 4"'
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#555555"{dashed}/>')
        entries.append((f"{limit[0]}, {limit[1]:.4g} GB/s", "#555555", dashed))
    for i, (name, colour, dashes) in enumerate(entries):
        y = TOP + 16 + 22 * i
        drawn = f'stroke="{colour}" stroke-width="2"{dashes}'
        out.append(f'<line x1="{right + 16}" y1="{y}" x2="{right + 40}" y2="{y}" {drawn}/>')
        out.append(f'<text x="{right + 48}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def plots(rows):
    """Each picture's name, caption and text; no picture without measured rows."""
    every = [
        ("gpu-attention.svg", "Attention of decoding rows over the length of a context", attention(rows)),
        ("gpu-copies-in.svg", "Scattered copies to the device over the size of a block", copies(rows, "to the device")),
        ("gpu-copies-out.svg", "Scattered copies to the host over the size of a block", copies(rows, "to the host")),
    ]
    return [one for one in every if one[2]]
