# SPDX-License-Identifier: Apache-2.0
"""Programs that a run starts, each in a process group of its own, which is killed whole and then waited for: what still
holds the device would slow what comes next."""
import os
import queue
import re
import signal
import subprocess
import threading

from rows import StageFailed

KILLED_S = 5  # one that is stuck in the driver does not die: it is left behind


def started(arguments, stderr, environment=None, cwd=None, stdout=subprocess.PIPE):
    arguments = [str(one) for one in arguments]
    try:
        return subprocess.Popen(
            arguments,
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


def kill(process):
    """Ends a program and what it has started, and waits for that."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has just ended
    try:
        process.wait(timeout=KILLED_S)
    except subprocess.TimeoutExpired:
        pass


def communicate(process, timeout):
    """What a program said on both its streams, and whether it was killed, for it ran past the time."""
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
    """A queue of the lines that a program prints, with None behind the last."""
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def last_line(text, other):
    return (text.strip().splitlines() or [other])[-1]


def other_commit(version, commit):
    """What is wrong with a program of that --version beside sources of that commit; nothing where they are the same.
    That either was changed beyond its commit is no difference: what a copy has lost of its files looks the same."""
    of = re.search(r"\(commit ([0-9a-f]{7,40})(-dirty)?,", version)
    if not of:
        return f"it says no commit ({version.strip() or 'nothing'}), and the sources are of {commit}"
    return "" if commit.startswith(of.group(1)) else f"it is of commit {of.group(1)}, and the sources of {commit}"
