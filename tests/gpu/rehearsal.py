# SPDX-License-Identifier: Apache-2.0
"""A run of bench/gpu/run with programs that a test writes."""
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
gpu = Path(__file__).resolve().parent.parent.parent / "bench/gpu"
sys.path.insert(0, str(gpu))
from check import check  # noqa: E402


def put(folder, programs, mode=0o755):
    """Writes programs, texts by name, into a folder."""
    for name, text in programs.items():
        (Path(folder) / name).write_text(text, encoding="utf-8")
        (Path(folder) / name).chmod(mode)


class Rehearsal(unittest.TestCase):
    def run_in(self, folder, plant, *arguments):
        """Runs the folder's programs; returns the run's file, its exit status and its printed lines."""
        done = subprocess.run(
            [sys.executable, gpu / "run", "--bin", folder, "--out", f"{folder}/out", *arguments],
            env={**os.environ, "PLANT": json.dumps(plant), "PATH": f"{folder}:{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        data = json.loads((Path(folder) / "out/results.json").read_text(encoding="utf-8"))
        self.assertEqual(check(data), [], done.stdout)
        return data, done.returncode, done.stdout
