# SPDX-License-Identifier: Apache-2.0
"""A row of a result file, as Python's stages write one, and how a stage says that there is none."""
import statistics
import time


class StageFailed(Exception):
    """A stage that could not do its work; its rows say so."""


class StageSkipped(Exception):
    """A stage of which nothing can be measured here: all its rows say why."""


class StageCut(Exception):
    """A stage that ran past its limit."""


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
    """Of one value, or of samples, whose median is the value."""
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


def skipped(stage, name, reason):
    return row(stage, name, "", "skipped", reason=reason)


def generation(stage, name, config, *, owed, tokens, rates, begin, repro, against=""):
    """Tokens a second; of `tokens` that were asked for `owed` are missing. `begin`: of time.monotonic()."""
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
    """A refcheck: what is off, what may be, and of how many."""
    return {"error": float(error), "limit": float(limit), "cases": cases}
