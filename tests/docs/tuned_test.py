# SPDX-License-Identifier: Apache-2.0
"""tuned.py runs a workload again if its flags, its trace, the systems or the numbers have changed, and only then. A
program that counts its calls stands for sluice-compare."""
import argparse
import stat
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
root = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(root / "bench"))
import tuned  # noqa: E402

program = """#!/bin/sh
echo ran >>"$(dirname "$0")/calls"
for out; do :; done
mkdir -p "$out"
echo '{}' >"$out/report.json"
"""


class Kept(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        at = Path(self.folder.name)
        self.options = argparse.Namespace(bin=at, data=at / "data", kept=at / "kept")
        self.options.data.mkdir()
        self.trace = self.options.data / "trace.csv"
        self.trace.write_text("arrival,prompt,output\n0,1,1\n")
        compare = at / "sluice-compare"
        compare.write_text(program)
        compare.chmod(compare.stat().st_mode | stat.S_IXUSR)

    def calls(self, systems="A,B", flags="--trace {data}/trace.csv --windows 8", name="Code, A100"):
        """Calls of the program until the workload's report is there."""
        tuned.report_of(self.options, name, systems, flags)
        self.assertTrue(tuned.is_done(self.options, name, systems, flags))
        return len((self.options.bin / "calls").read_text().split())

    def test_a_report_is_reused_as_long_as_its_workload_is_the_same(self):
        self.assertEqual(self.calls(), 1)
        self.assertEqual(self.calls(), 1)
        self.trace.write_text("arrival,prompt,output\n0,2,1\n")
        self.assertFalse(tuned.is_done(self.options, "Code, A100", "A,B", "--trace {data}/trace.csv --windows 8"))
        self.assertEqual(self.calls(), 2)
        self.assertEqual(self.calls(flags="--trace {data}/trace.csv --windows 4"), 3)
        self.assertEqual(self.calls(flags="--trace {data}/trace.csv --windows 4"), 3)
        self.assertEqual(self.calls("A", "--trace {data}/trace.csv --windows 4"), 4)
        with mock.patch.object(tuned, "numbers", "max-batch-tokens=64"):
            self.assertEqual(self.calls("A", "--trace {data}/trace.csv --windows 4"), 5)
        self.assertEqual(self.calls(name="demo", flags="--seeds 1..8"), 6)

    def test_a_report_without_a_digest_is_run_again(self):
        report = tuned.folder_of(self.options, "Code, A100")
        report.mkdir(parents=True)
        (report / "report.json").write_text("{}")
        self.assertEqual(self.calls(), 1)


if __name__ == "__main__":
    unittest.main()
