#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the novels of Debian's package r-cran-janeaustenr as one plain text.

usage: austen.py FOLDER TEXT      FOLDER: the package's data folder, .../R/site-library/janeaustenr/data

R keeps a package's data as serialised values in one file, Rdata.rdb, each compressed by itself, and their places in
another, Rdata.rdx. Here they are read without R, and in Python and not in the trainer, because Python's standard
library has zlib and no program of this repository needs it.
"""
import struct
import sys
import zlib

TEXTS, TEXT, INTEGERS = 16, 9, 13  # R's type numbers


def read_texts(value):
    """The texts of a serialised vector of texts; None for a value of another kind."""
    if value[:2] != b"X\n":
        return None
    version = struct.unpack_from(">i", value, 2)[0]
    at = 14 if version < 3 else 18 + struct.unpack_from(">i", value, 14)[0]  # version 3 names an encoding
    kind, count = struct.unpack_from(">ii", value, at)
    if kind & 255 != TEXTS:
        return None
    at += 8
    texts = []
    for _ in range(count):
        kind, length = struct.unpack_from(">ii", value, at)
        if kind & 255 != TEXT:
            sys.exit(f"austen.py: type {kind & 255} is among the texts; expected {TEXT}")
        at += 8
        texts.append(value[at:at + max(length, 0)].decode("utf-8"))
        at += max(length, 0)
    return texts


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: austen.py FOLDER TEXT")
    folder, out = sys.argv[1:]
    with open(folder + "/Rdata.rdx", "rb") as index, open(folder + "/Rdata.rdb", "rb") as data:
        places, values = zlib.decompress(index.read(), wbits=47), data.read()  # 47: also accepts gzip
    novels = []
    pair = struct.pack(">ii", INTEGERS, 2)  # a value's offset and length
    at = places.find(pair)
    while at >= 0:
        offset, length = struct.unpack_from(">ii", places, at + 8)
        texts = read_texts(zlib.decompress(values[offset + 4:offset + length]))  # after the uncompressed size
        if texts:
            novels.append("\n".join(texts))
            print(f"{texts[0]}: {len(texts)} lines, {len(novels[-1])} characters")
        at = places.find(pair, at + 16)
    with open(out, "w", encoding="utf-8") as text:
        text.write("\n\n".join(novels))


main()
