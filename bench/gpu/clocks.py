# SPDX-License-Identifier: Apache-2.0
"""The card's clocks while a stage loads it, read during the stage: after the work they would be an idle card's."""
import os
import re
import subprocess
import tempfile
import time

from programs import kill
from rows import row, skipped

ASKED = "clocks.sm,utilization.gpu,clocks.mem,power.draw,temperature.gpu"
# A driver that lacks a field reports none: the throttle reasons have had two names.
FIELDS = (f"{ASKED},clocks_event_reasons.active", f"{ASKED},clocks_throttle_reasons.active", ASKED)
EVERY_MS = 500
FIRST_S = 2
END_S = 2


def command(fields, *more):
    return ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "--id=0", *more]


def values_of(line, fields):
    """A line of nvidia-smi by field, or None if it is malformed."""
    values = [one.strip() for one in line.split(",")]
    if len(values) != len(fields) or not re.fullmatch(r"\d+(\.\d+)?", values[0]):
        return None
    return dict(zip(fields, values))


def summary(name, lines, fields):
    """A row of the samples in which the card had work; of all samples if none says so."""
    fields = fields.split(",")
    seen = [one for one in (values_of(line, fields) for line in lines) if one is not None]
    if not seen:
        return skipped("environment", name, "nvidia-smi did not say the clock in time")
    busy = [one for one in seen if one["utilization.gpu"] not in ("0", "[N/A]")] or seen
    said = [f"{len(busy)} of {len(seen)} samples in which it had work"]
    for field in fields[2:]:
        of = [one[field] for one in busy]
        if all(re.fullmatch(r"\d+(\.\d+)?", one) for one in of):
            numbers = sorted(map(float, of))
            said.append(f"{field} {numbers[0]:g} to {numbers[-1]:g}")
        else:
            said.append(f"{field} {' '.join(sorted(set(of)))}")
    clocks = [float(one["clocks.sm"]) for one in busy]
    config = ", ".join(said)
    return row("environment", name, config, samples=clocks, unit="MHz", n=len(clocks), repro="nvidia-smi")


class Clocks:
    """Reads the clocks twice a second from `start` to `stop`."""

    def __init__(self):
        self.process = None
        self.fields = None
        self.said = None

    def start(self):
        if self.fields is None:
            self.fields = next((fields for fields in FIELDS if self.answers(fields)), "")
        if not self.fields:
            return
        self.said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        arguments = command(self.fields, f"--loop-ms={EVERY_MS}")
        self.process = subprocess.Popen(arguments, stdout=self.said, stderr=subprocess.DEVNULL, start_new_session=True)

    def answers(self, fields):
        try:
            done = subprocess.run(command(fields), capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0 and values_of(done.stdout.strip(), fields.split(",")) is not None

    def stop(self, name):
        """The row of the samples since `start`."""
        if self.process is None:
            return skipped("environment", name, "nvidia-smi does not say the clock")
        until = time.monotonic() + FIRST_S  # a stage may end before nvidia-smi starts
        while os.fstat(self.said.fileno()).st_size == 0 and time.monotonic() < until:
            time.sleep(0.01)
        self.process.terminate()  # kill would lose output that is not written yet
        try:
            self.process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            kill(self.process)
        self.process = None
        with self.said as said:
            said.seek(0)
            return summary(name, said.read().splitlines(), self.fields)
