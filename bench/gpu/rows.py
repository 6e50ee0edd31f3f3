# SPDX-License-Identifier: Apache-2.0
"""A row of a result file, as Python's stages write it, and the exceptions of a stage without rows."""
import re
import statistics
import time


class StageFailed(Exception):
    """The stage could not do its work; its rows fail."""


class StageSkipped(Exception):
    """Nothing can be measured here: all rows of the stage are skipped with the reason."""


class StageCut(Exception):
    """The stage ran past its limit."""


def row(
    stage,
    name,
    config,
    status="passed",
    value=None,
    unit="",
    n=1,
    reason="",
    repro="bench/gpu/run",
    seconds=0.0,
    refcheck=None,
    samples=None,
    against="",
):
    """A row of one value, or of samples, whose median is the value."""
    if samples is None:
        samples = [] if value is None else [value]
    if status == "skipped":
        samples = []
    middle = statistics.median_high(samples) if samples else None
    return {
        "stage": stage,
        "name": name,
        "config": config,
        "n": n if status != "skipped" else 0,
        "value": middle,
        "unit": unit,
        "against": against,
        "min": min(samples, default=None),
        "median": middle,
        "max": max(samples, default=None),
        "reps": len(samples),
        "refcheck": refcheck if status != "skipped" else None,
        "status": status,
        "seconds": seconds,
        "repro": repro,
        "reason": "" if status == "passed" else reason,
    }


def within_sources(reason):
    """A message with the paths of sources as the repository has them: a failed assertion names its file where the
    program was compiled."""
    return re.sub(r"(?<![\w./-])/[\w./+-]*?/(?=(bench|include|kernels|tests)/[\w./-]+:\d)", "", reason)


def skipped(stage, name, reason):
    return row(stage, name, "", "skipped", reason=reason)


def generation(stage, name, config, *, owed, tokens, rates, begin, repro, against=""):
    """Tokens per second; `owed` of the `tokens` are missing. `begin`: time.monotonic() at the start."""
    return row(
        stage,
        name,
        config,
        "failed" if owed else "passed",
        samples=rates,
        unit="tokens/s",
        n=tokens,
        reason=f"{owed} tokens are missing",
        refcheck=compared(owed, 0, tokens),
        repro=repro,
        seconds=round(time.monotonic() - begin, 3),
        against=against,
    )


def compared(error, limit, cases):
    """A refcheck: the error, its limit, and the number of cases."""
    return {"error": float(error), "limit": float(limit), "cases": cases}
