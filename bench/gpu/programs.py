# SPDX-License-Identifier: Apache-2.0
"""Programs that a run starts, each in a process group of its own. The group is killed and waited for, since a process
that still holds the device would slow the next one."""
import os
import queue
import re
import signal
import subprocess
import tarfile
import tempfile
import threading

from rows import StageFailed

ARCHIVE = "programs.tar.xz"  # of bench/gpu/packed: its folders bin and lib, compressed to travel
KILLED_S = 5  # a process that is stuck in the driver does not die and is abandoned


def started(arguments, stderr, environment=None, cwd=None, stdout=subprocess.PIPE, stdin=None):
    arguments = [str(one) for one in arguments]
    try:
        return subprocess.Popen(
            arguments,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise StageFailed(f"{arguments[0]}: {error.strerror}") from error


def unpack(packed):
    """Unpacks the programs that bench/gpu/pack has compressed, unless an earlier run has."""
    archive = packed / ARCHIVE
    folder = packed / "bin"
    if not archive.is_file() or (folder.is_dir() and folder.stat().st_mtime >= archive.stat().st_mtime):
        return
    with tarfile.open(archive) as opened:
        opened.extractall(packed)
    os.utime(folder)


def kill(process):
    """Kills a program and its children, and waits for them."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it ended meanwhile
    try:
        process.wait(timeout=KILLED_S)
    except subprocess.TimeoutExpired:
        pass


def communicate(process, timeout):
    """A program's output on both streams, and whether it was killed because it ran past its time."""
    try:
        return *process.communicate(timeout=timeout), False
    except subprocess.TimeoutExpired:
        kill(process)
    try:
        return *process.communicate(timeout=KILLED_S), True
    except subprocess.TimeoutExpired as still:
        parts = (still.output, still.stderr)
        return *(part.decode(errors="replace") if isinstance(part, bytes) else part or "" for part in parts), True


def lines_of(process):
    """A queue of the lines that a program prints, followed by None."""
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


class Asked:
    """A program that answers each line with a line, started at the first question and again after it has died."""

    def __init__(self, arguments, environment=None):
        self.arguments, self.environment = arguments, environment
        self.process = None

    def ask(self, line, timeout):
        """The answer. None if the program has died; raises queue.Empty if it is late."""
        if self.process is None:
            self.complaints = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
            self.process = started(self.arguments, self.complaints, self.environment, stdin=subprocess.PIPE)
            self.lines = lines_of(self.process)
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:
            return None
        return self.lines.get(timeout=max(timeout, 0))

    def end(self):
        """Ends the program, if it runs. Returns what it has written to standard error."""
        if self.process is None:
            return ""
        kill(self.process)
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except OSError:
                pass  # what was left to write had no reader
        self.process = None
        with self.complaints as complaints:
            complaints.seek(0)
            return complaints.read()


def last_line(text, other):
    return (text.strip().splitlines() or [other])[-1]


def other_commit(version, commit):
    """Why a program with this --version is not of the sources' commit; empty if it is. Uncommitted changes do not
    count: an incomplete copy of the sources looks changed, too."""
    of = re.search(r"\(commit ([0-9a-f]{7,40})(-dirty)?,", version)
    if not of:
        return f"it says no commit ({version.strip() or 'nothing'}), and the sources are of {commit}"
    return "" if commit.startswith(of.group(1)) else f"it is of commit {of.group(1)}, and the sources of {commit}"
