# SPDX-License-Identifier: Apache-2.0
"""Calls of sluice-run, sluice-profile and sluice-compare by a run's stages: on the card, or rehearsed on the
processor."""
import array
import ast
import glob
import json
import os
import queue
import re
import site
import sys
from contextlib import contextmanager
from pathlib import Path

from programs import Asked, last_line
from rows import StageCut, StageFailed, StageSkipped
from schema import ON_THE_CPU
from workload import LLAMA3_8B, TINY, of_layers

here = Path(__file__).resolve().parent


PROGRAMS = ("sluice-run", "sluice-profile", "sluice-compare")


class Refused(StageFailed):
    """A program ended with a line. Only this call is lost."""


class Served:
    def __init__(self, run):
        self.run = run
        self.emulated = run.options.emulated
        self.help = {}
        self.listed = None
        self.keeper = None  # a sluice-run that keeps the weights
        self.call_s = 2 * run.options.row_limit  # limit of one call, which loads a model
        self.first_call_s = 1.5 * self.call_s  # reads programs and libraries from a cold disk

    def needs(self, *programs):
        for name in programs:
            if not self.place(name).exists():
                raise StageSkipped(f"there is no program {name} beside the others")
            if name in self.run.unfit:
                raise StageFailed(self.run.unfit[name])

    def place(self, program):
        """A program's path: next to the others, or, if those were built here, among the carried ones."""
        folders = [self.run.bin, *([here / "packed/bin"] if self.run.header["binaries"] == "built" else [])]
        return next((one / program for one in folders if (one / program).exists()), self.run.bin / program)

    def takes(self, program, flag):
        """Whether a program has this flag; not every build has it."""
        if program not in self.help:
            self.help[program] = self.answer(program, "--help")
        return re.search(rf"(?m)^\s*(-\w,)?{flag}\b", self.help[program]) is not None

    def answer(self, program, flag):
        """A program's --version. Raises StageFailed if it cannot start, for example without a library."""
        limit = self.run.options.row_limit
        code, said, complained, cut = self.run.command([self.place(program), flag], self.libraries(), limit=limit)
        if cut and self.run.left() > 0:
            raise StageFailed(f"{program} {flag} ran past {limit:g} s")
        if cut:
            raise StageCut()
        if code != 0:
            how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
            raise StageFailed(f"{program} {flag}: {last_line(complained, how)}")
        return said

    def systems(self):
        """The systems that sluice-run lists and runs on a GPU: a quick build has few."""
        if self.listed is None:
            lines = self.call("sluice-run", "--list").split("\n\n")[0].splitlines()
            listed = [line.split()[0] for line in lines if line.strip()]
            self.listed = [one for one in listed if one not in ON_THE_CPU]
        return self.listed

    def wants(self, system):
        if system not in self.systems():
            raise StageSkipped(f"sluice-run --list does not name {system}")

    def on_device(self, program):
        """The flags that make a program compute on the run's device."""
        if not self.emulated and not self.takes(program, "--backend"):
            raise StageSkipped(f"{program} has no --backend yet")
        return ["--backend", "cpu" if self.emulated else "cuda"] if self.takes(program, "--backend") else []

    def shape(self, layers=32, vocabulary=None):
        """The model that is measured: Llama-3-8B's shape with this many layers; tiny in a rehearsal."""
        return TINY if self.emulated else of_layers(LLAMA3_8B, layers, vocabulary)

    def model(self, program, folder, layers=32, vocabulary=None):
        """The flags of that model with random weights. Its config.json goes into the folder."""
        if not self.takes(program, "--random-weights"):
            if self.emulated:
                return ["--model", "tiny"]
            raise StageSkipped(f"{program} makes no random weights for a shape yet: it has no --random-weights")
        shape = self.shape(layers, vocabulary)
        place = Path(folder) / f"{shape['_name_or_path']}-{shape['num_hidden_layers']}-{shape['vocab_size']}"
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text(json.dumps(shape), encoding="utf-8")
        return ["--model", str(place), "--random-weights", "1"]

    def products(self, which, *others):
        """The flags for invariant products, or for the fastest: if the programs have the flag, and, for the fastest, if
        there is cuBLASLt."""
        if self.emulated or not all(self.takes(one, "--products") for one in ("sluice-run", *others)):
            return []
        return ["--products", which if cublas_folders() else "invariant"]

    def libraries(self):
        """Finds libraries that travelled with the programs first, then cuBLASLt, which does not travel."""
        folders = [str(here / "packed/lib"), *([] if self.emulated else cublas_folders())]
        folders.append(os.environ.get("LD_LIBRARY_PATH", ""))
        return {"LD_LIBRARY_PATH": ":".join(one for one in folders if one)}

    def call(self, program, *arguments, more_s=0):
        """A program's output. Raises Refused if it ended with a line, or ran past the limit of a call."""
        limit = (self.call_s if self.run.loaded else self.first_call_s) + more_s
        code, said, complained, cut = self.run.command([self.place(program), *arguments], self.libraries(), limit=limit)
        if cut and self.run.left() > 0:
            raise Refused(f"{program} ran past {limit:g} s, the limit of a call")
        if cut:
            raise StageCut()
        if code != 0:
            raise Refused(last_line(complained, f"{program}: exit status {code}"))
        self.run.loaded = self.run.loaded or "--list" not in arguments
        return said

    @contextmanager
    def weights_kept(self):
        """Within it, `told` asks one process, which keeps a model's weights: drawing them takes longer than most calls.
        A call that the process does not survive costs only that call. Not for a build without --runs."""
        if self.takes("sluice-run", "--runs"):
            self.keeper = Asked([self.place("sluice-run"), "--runs"], self.libraries())
        try:
            yield
        finally:
            if self.keeper:
                self.run.log.write(self.keeper.end())
            self.keeper = None

    def told(self, *arguments):
        """The object that sluice-run --json prints."""
        try:
            if self.keeper is None:
                return json.loads(self.call("sluice-run", *arguments, "--json"))
            told = json.loads(self.asked(*arguments))
        except json.JSONDecodeError as error:
            raise Refused(f"sluice-run --json: {error.msg}") from error
        if "error" in told:
            raise Refused(told["error"])
        self.run.loaded = True
        return told

    def asked(self, *arguments):
        limit = self.call_s if self.run.loaded else self.first_call_s
        self.run.announce([*self.keeper.arguments, *arguments])
        try:
            said = self.keeper.ask(json.dumps([str(one) for one in arguments]), min(limit, self.run.left()))
        except queue.Empty:
            self.run.log.write(self.keeper.end())
            if self.run.left() > 0:
                raise Refused(f"sluice-run ran past {limit:g} s, the limit of a call") from None
            raise StageCut() from None
        if said is None:
            complained = self.keeper.end()
            self.run.log.write(complained)
            raise Refused(last_line(complained, "sluice-run --runs ended without an answer"))
        self.run.log.write(said)
        return said


def cublas_folders():
    """Folders with cuBLASLt, of a toolkit or of Python's packages, in which programs find it when they start."""
    folders = ["/usr/local/cuda/lib64", *glob.glob("/usr/local/cuda/targets/*/lib")]
    for packages in [*site.getsitepackages(), *sys.path]:
        folders += glob.glob(os.path.join(packages, "nvidia/*/lib"))
    return [one for one in folders if glob.glob(os.path.join(one, "libcublasLt.so*"))]


def repro(arguments, folder=None, program="sluice-run"):
    """A command that repeats the call, without its long prompts, and with FOLDER for its temporary folder."""
    text, words = [program], [str(one) for one in arguments]
    for at, word in enumerate(words):
        if at > 0 and words[at - 1] == "--prompt-ids":
            continue
        if word == "--prompt-ids":
            if word not in words[:at]:
                text.append("--prompt-ids ...")
        else:
            text.append(word.replace(str(folder), "FOLDER") if folder else word)
    return " ".join(text)


def ids(prompts):
    return [flag for one in prompts for flag in ("--prompt-ids", ",".join(map(str, one)))]


def missing(told, requests, tokens):
    """By how many tokens a run's outputs differ from what was asked."""
    there = [len(one["tokens"]) for one in told["requests"]]
    return sum(abs(tokens - count) for count in there) + tokens * abs(requests - len(there))


def steps(timeline):
    """The iterations of a timeline, in order: (rows, decoding rows, seconds)."""
    events = json.loads(Path(timeline).read_text(encoding="utf-8"))["traceEvents"]
    of = [event for event in events if event["ph"] == "X" and "decodes" in event.get("args", {})]
    of.sort(key=lambda event: event["args"]["step"])
    return [(event["args"]["tokens"], event["args"]["decodes"], event["dur"] * 1e-6) for event in of]


def outside_layers(timeline, decodes):
    """For each iteration in which this many rows decode and whose layers the timeline has: the seconds outside of its
    layers, from the first one's begin to the last one's end."""
    events = json.loads(Path(timeline).read_text(encoding="utf-8"))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    layers = sorted((one["ts"], one["ts"] + one["dur"]) for one in slices if one["name"].startswith("layer "))
    outside = []
    for step in slices:
        if step.get("args", {}).get("decodes") != decodes:
            continue
        end = step["ts"] + step["dur"]
        of = [(begun, ended) for begun, ended in layers if step["ts"] <= begun and ended <= end]
        if of:
            outside.append(1e-6 * (step["dur"] - (max(ended for _, ended in of) - of[0][0])))
    return outside


def logits(path):
    """The rows of a file that sluice-run --logits wrote: NumPy's format with float32, read without NumPy."""
    data = Path(path).read_bytes()
    if data[:6] != b"\x93NUMPY":
        raise StageFailed(f"{path}: it is no .npy; expected what sluice-run --logits writes")
    wide = data[6] >= 2
    begin = 12 if wide else 10
    end = begin + int.from_bytes(data[8:begin], "little")
    head = ast.literal_eval(data[begin:end].decode("latin-1").strip())
    if head["descr"] != "<f4" or head["fortran_order"] or len(head["shape"]) != 2:
        raise StageFailed(f"{path}: it is {head}; expected rows of <f4")
    count, width = head["shape"]
    numbers = array.array("f")
    numbers.frombytes(data[end : end + 4 * count * width])
    if sys.byteorder == "big":
        numbers.byteswap()
    if len(numbers) != count * width:
        raise StageFailed(f"{path}: it has {len(numbers)} numbers; expected {count} rows of {width}")
    return [numbers[i * width : (i + 1) * width] for i in range(count)]
