#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a result file of bench/gpu/run against its schema, with a line for each mistake. usage: check.py FILE..."""
import json
import math
import re
import sys
from collections import Counter

sys.dont_write_bytecode = True
from schema import AGAINST, HEADER, MOST_ERROR, NUMBER, REFCHECKED, ROW  # noqa: E402
from schema import STAGE, STAGE_STATUS, STAGES, WITH_CEILING  # noqa: E402

RATES = ("GB/s", "TFLOP/s", "us", "s", "MHz")


def refuse_constant(text):
    raise ValueError(f"it has {text}, which is no number; expected null with a status and a reason")


def unique(pairs):
    names = Counter(name for name, _ in pairs)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ValueError(f'it has "{twice[0]}" twice in one object; expected each name once')
    return dict(pairs)


def is_of(value, types):
    """Unlike in Python, bool is not a number."""
    if isinstance(value, bool):
        return False
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, types)


def named(types):
    names = {
        str: "text",
        int: "a whole number",
        float: "a number",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return " or ".join(names[one] for one in (types if isinstance(types, tuple) else (types,)))


def fields(where, of, wanted):
    if not isinstance(of, dict):
        return [f"{where}: it is no object; expected one with {', '.join(wanted)}"]
    wrong = [
        f'{where}: "{name}" is missing; expected {named(types)}' for name, types in wanted.items() if name not in of
    ]
    wrong += [
        f"{where}: \"{name}\" is not in the schema; expected none but {', '.join(wanted)}"
        for name in of
        if name not in wanted
    ]
    wrong += [
        f'{where}: "{name}" is {json.dumps(of[name])}; expected {named(types)}'
        for name, types in wanted.items()
        if name in of and not is_of(of[name], types)
    ]
    return wrong


def check_row(where, row):
    wrong = fields(where, row, {name: types for name, (types, _) in ROW.items()})
    if wrong:
        return wrong
    say = lambda what, right: wrong.append(f"{where}: {what}; expected {right}")
    if row["stage"] not in STAGES:
        say(f"its stage is \"{row['stage']}\"", "one of " + ", ".join(STAGES))
    if row["status"] not in ("passed", "failed", "skipped"):
        say(f"its status is \"{row['status']}\"", "passed, failed or skipped")
        return wrong
    if row["status"] == "passed":
        if row["n"] < 1:
            say("it passed with no case", "n of at least 1, or skipped with a reason")
        if row["reason"]:
            say("it passed and has a reason", "none")
        if any(row[name] is None for name in ("value", "min", "median", "max")):
            say("it passed without a value, min, median or max", "numbers")
        elif not row["min"] <= row["median"] <= row["max"]:
            say(
                f"min {row['min']}, median {row['median']} and max {row['max']} are not in order",
                "min <= median <= max",
            )
        elif row["value"] != row["median"]:
            say(f"its value {row['value']} is not its median {row['median']}", "the median")
        elif row["unit"] in RATES and row["min"] <= 0:
            say(f"its least value is {row['min']:g} {row['unit']}", "above 0")
        if row["stage"] in REFCHECKED and row["refcheck"] is None:
            say("it passed and was compared with nothing", "a refcheck, or skipped with a reason")
        if row["stage"] in WITH_CEILING and row["unit"] == "GB/s" and not row["against"]:
            say("it passed and stands beside nothing", "the row that is its ceiling in against")
        beside = AGAINST.get((row["stage"], row["name"]))
        if beside and row["against"] != beside:
            say(f"it passed and stands beside \"{row['against']}\"", f'"{beside}" in against')
        if row["reps"] < 1:
            say("it passed with no repetition", "reps of at least 1")
        if not row["repro"]:
            say("it passed and does not say how to repeat it", "a command in repro")
    else:
        if not row["reason"]:
            say(f"it is {row['status']} without a reason", "a reason")
    if row["status"] == "skipped" and (row["n"] != 0 or row["value"] is not None or row["refcheck"] is not None):
        say("it was skipped and has a case, a value or a refcheck", "n 0, value null, refcheck null")
    if row["refcheck"] is not None:
        inside = fields(f"{where}, refcheck", row["refcheck"], {"error": NUMBER, "limit": NUMBER, "cases": int})
        wrong += inside
        if not inside and row["status"] == "passed":
            check = row["refcheck"]
            if check["cases"] < 1:
                say("it passed a refcheck of no case", "cases of at least 1")
            elif check["cases"] != row["n"]:
                say(f"its n is {row['n']} and its refcheck has {check['cases']} cases", "the same")
            elif check["limit"] is not None and not 0 <= check["limit"] <= MOST_ERROR:
                say(f"its limit is {check['limit']:g}", f"at most {MOST_ERROR:g}")
            elif check["error"] is None or check["limit"] is None or check["error"] > check["limit"]:
                say(f"it passed with an error of {check['error']}, beyond {check['limit']}", "failed, with a reason")
    return wrong


def check(data):
    """The mistakes in a result file's data: a list of lines."""
    wrong = fields("the file", data, {"header": dict, "rows": list})
    if wrong:
        return wrong
    wrong += fields("header", data["header"], {name: types for name, (types, _) in HEADER.items()})
    if not wrong:
        wrong += [
            f'header: "{name}" is empty; expected {meaning}'
            for name, (types, meaning) in HEADER.items()
            if types is str and not data["header"][name]
        ]
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", data["header"]["began"]):
            wrong.append(f"header: \"began\" is {data['header']['began']}; expected {HEADER['began'][1]}")
        for i, stage in enumerate(data["header"]["stages"]):
            where = f"header, stage {i + 1}"
            inside = fields(where, stage, STAGE)
            wrong += inside
            if not inside and stage["status"] not in STAGE_STATUS:
                wrong.append(f"{where}: its status is \"{stage['status']}\"; expected one of {', '.join(STAGE_STATUS)}")
            if not inside and stage["status"] != "done" and not stage["reason"]:
                wrong.append(f"{where}: it is {stage['status']} without a reason; expected a reason")
        if not wrong:
            there = [stage["name"] for stage in data["header"]["stages"]]
            if there != list(STAGES):
                wrong.append(f"header: its stages are {', '.join(there)}; expected {', '.join(STAGES)}, in that order")
    rows = data["rows"]
    for i, row in enumerate(rows):
        name = f" ({row.get('stage')}/{row.get('name')})" if isinstance(row, dict) else ""
        wrong += check_row(f"row {i + 1}{name}", row)
    if wrong:
        return wrong

    count = Counter((row["stage"], row["name"]) for row in rows)
    for stage, names in STAGES.items():
        for name, wanted in names.items():
            if count[stage, name] < wanted:
                wrong.append(
                    f'stage {stage}: "{name}" has {count[stage, name]} rows; expected {wanted}, at least skipped'
                )
    for (stage, name, config), times in Counter((row["stage"], row["name"], row["config"]) for row in rows).items():
        if times > 1 and any(
            row["status"] != "skipped"
            for row in rows
            if (row["stage"], row["name"], row["config"]) == (stage, name, config)
        ):
            wrong.append(f'stage {stage}: "{name}" of "{config}" has {times} rows; expected one')
    of = {stage: {row["status"] for row in rows if row["stage"] == stage} for stage in STAGES}
    for stage in data["header"]["stages"]:
        if stage["status"] == "done" and of[stage["name"]] == {"skipped"}:
            wrong.append(
                f"stage {stage['name']}: it is done and all its rows are skipped; expected skipped, with a reason"
            )
    there = {f"{row['stage']}/{row['name']}" for row in rows}
    value = {f"{row['stage']}/{row['name']}": row["value"] for row in rows if row["status"] == "passed"}
    for i, row in enumerate(rows):
        where, ceiling = f"row {i + 1} ({row['stage']}/{row['name']})", value.get(row["against"])
        if row["against"] and row["against"] not in there:
            wrong.append(f"{where}: it stands beside \"{row['against']}\"; expected stage/name of a row")
        if row["ceiling"] != ceiling:
            wrong.append(
                f"{where}: its ceiling is {row['ceiling']}; expected {ceiling}, the value of \"{row['against']}\""
            )
        elif (
            ceiling
            and row["value"] is not None
            and (row["share"] is None or abs(row["share"] - row["value"] / ceiling) > 1e-6 * row["share"])
        ):
            wrong.append(
                f"{where}: its share is {row['share']}; expected {row['value'] / ceiling}, its value over its ceiling"
            )
        elif (not ceiling or row["value"] is None) and row["share"] is not None:
            wrong.append(f"{where}: it has a share of no ceiling; expected null")
    return wrong


class Unreadable(ValueError):
    """The file does not exist, or is not text."""


def load(path):
    """A result file's data. Raises a ValueError with the mistake."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file, parse_constant=refuse_constant, object_pairs_hook=unique)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise Unreadable(f"it cannot be read ({why}); expected a result file of bench/gpu/run") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}: {error.msg}; expected JSON") from error


def main(paths):
    if not paths:
        print("usage: check.py FILE...", file=sys.stderr)
        return 2
    status = 0
    for path in paths:
        try:
            wrong = check(load(path))
        except Unreadable as error:
            print(f"{path}: {error}", file=sys.stderr)
            status = 2
            continue
        except ValueError as error:
            wrong = [str(error)]
        for line in wrong:
            print(f"{path}: {line}", file=sys.stderr)
        status = max(status, 1 if wrong else 0)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
