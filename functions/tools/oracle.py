"""Decides whether an answer is right: the rules of `expect`, then the workload's own program."""

import base64
import hashlib
import json
import re
import subprocess
import sys

RULES = {"equals", "one_of", "min", "max", "length", "matches", "sha256", "encoding", "absent"}
MISSING = object()


def complaints(workload, size, params, answer, env=None):
    """What is wrong with `answer`, as sentences; none when it is right. `env`: where a program finds the back ends."""
    wrong = []
    for pointer, rule in workload.said["sizes"][size].get("expect", {}).items():
        wrong += [f"{pointer or 'the answer'}: {what}" for what in broken(rule, at(answer, pointer))]
    program = workload.said.get("oracle", {}).get("program")
    if program and not wrong:
        wrong += refused_by(workload, program, {"size": size, "params": params, "answer": answer}, env)
    return wrong


def read(workload, size, body):
    """What a response's body is to the oracle: JSON, or, where the rule for the whole answer has an encoding, its bytes in base64."""
    if "encoding" in workload.said["sizes"][size].get("expect", {}).get("", {}):
        return base64.b64encode(body).decode()
    return json.loads(body)


def at(answer, pointer):
    """What a JSON pointer (RFC 6901) leads to, or MISSING."""
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(answer, list) and token.isdigit() and int(token) < len(answer):
            answer = answer[int(token)]
        elif isinstance(answer, dict) and token in answer:
            answer = answer[token]
        else:
            return MISSING
    return answer


def broken(rule, value):
    if set(rule) - RULES or not rule:
        return [f"the rule {rule} is not one"]
    if value is MISSING:
        return [] if rule.get("absent") else ["is not there"]
    if rule.get("absent"):
        return ["is there"]
    wrong = []
    shown = json.dumps(value)[:120]
    if "equals" in rule and not same(value, rule["equals"]):
        wrong.append(f"{shown} is not {json.dumps(rule['equals'])[:120]}")
    if "one_of" in rule and not any(same(value, choice) for choice in rule["one_of"]):
        wrong.append(f"{shown} is none of {len(rule['one_of'])} choices")
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if "min" in rule and not (number and value >= rule["min"]):
        wrong.append(f"{shown} is not at least {rule['min']}")
    if "max" in rule and not (number and value <= rule["max"]):
        wrong.append(f"{shown} is not at most {rule['max']}")
    if "length" in rule and not (isinstance(value, (str, list)) and len(value) == rule["length"]):
        wrong.append(f"{shown} has not length {rule['length']}")
    if "matches" in rule and not (isinstance(value, str) and re.fullmatch(rule["matches"], value)):
        wrong.append(f"{shown} does not match {rule['matches']}")
    if "sha256" in rule:
        digest = digest_of(value, rule.get("encoding"))
        if digest != rule["sha256"]:
            wrong.append(f"its digest {digest} is not {rule['sha256']}")
    return wrong


def same(one, other):
    """Equal as JSON: 1 and 1.0 are, true and 1 are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


def digest_of(value, encoding):
    if not isinstance(value, str):
        return None
    try:
        data = base64.b64decode(value, validate=True) if encoding == "base64" else value.encode()
    except ValueError:
        return None
    return hashlib.sha256(data).hexdigest()


def refused_by(workload, program, document, env=None):
    argv = [sys.executable if part == "python3" else part for part in program]
    done = subprocess.run(argv, cwd=workload.folder, input=json.dumps(document), capture_output=True, text=True,
                          timeout=120, env=env)
    if done.returncode == 0:
        return []
    return [done.stderr.strip() or f"{program} ended with {done.returncode}"]
