"""Which edition of its checks a class is judged by: the commit and a hash of each check, kept beside the gradebook.

A check's hash covers its own source and all that it uses of coursekit.exercises and coursekit.given, without docstrings, hints and
minutes. What judges nothing may change during a semester; where a check has changed, no class is judged by both.
"""

import ast
import copy
import hashlib
import json
import shlex
import subprocess
from collections.abc import Collection
from pathlib import Path

from coursekit.basics.errors import CommandError
from coursekit.basics.files import write_whole
from coursekit.basics.paths import ROOT
from coursekit.basics.versions import DISTRIBUTION, installed
from coursekit.judging.exercise import load
from coursekit.judging.reached_code import reached

FILE = "edition.json"
CHANGED = """These checks have changed since {folder} was released or first graded:
{checks}
Nothing was graded, because a class is judged by one edition of each check.
To grade with the edition that you handed out: {old}; then run the same command.
To grade the whole class with the checks as they are now: run the same command with --again, and without --only."""


def checks(chapter: str) -> dict[str, str]:
    """Return the hash of each check of a chapter, by its name."""
    module = f"coursekit.exercises.{chapter}"
    return {name: _hash(module, name) for name in load(chapter)}


def record(folder: Path, chapters: Collection[str]) -> None:
    """Keep these chapters' checks as those by which a course is judged."""
    known = _known(folder)
    now = {"version": installed(DISTRIBUTION), "commit": commit()}
    known |= {chapter: now | {"checks": checks(chapter)} for chapter in sorted(chapters)}
    write_whole(folder / FILE, json.dumps(known, indent=1) + "\n")


def expect_the_same(folder: Path, chapters: Collection[str], everybody_again: bool) -> None:
    """Keep the checks of chapters that are new to a course; raises CommandError where one has changed, unless the whole class is graded again."""
    known = _known(folder)
    changed: dict[str, list[str]] = {}
    for chapter in sorted(set(chapters) & known.keys()):
        now, then = checks(chapter), known[chapter]["checks"]
        changed[chapter] = [name for name in now | then if now.get(name) != then.get(name)]
    changed = {chapter: names for chapter, names in changed.items() if names}
    if changed and not everybody_again:
        listed = "\n".join(f"  {chapter}: {', '.join(names)}" for chapter, names in changed.items())
        raise CommandError(CHANGED.format(folder=folder, checks=listed, old=_way_back(known[next(iter(changed))])))
    if new := (set(chapters) - known.keys()) | changed.keys():
        record(folder, new)


def commit() -> str:
    """Return the commit that is checked out, "" where there is none or its checks have been changed since."""
    try:
        judging = ["coursekit/exercises", "coursekit/given"]
        changed = subprocess.run(["git", "status", "--porcelain", *judging], cwd=ROOT, capture_output=True, text=True)
        found = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return "" if changed.stdout or changed.returncode else found.stdout.strip()


def _way_back(then: dict) -> str:
    """Return how to come by the checks of an earlier day."""
    if then["commit"]:
        return f"`git -C {shlex.quote(str(ROOT))} checkout {then['commit']}`"
    return f"unpack the learners.zip of that day, version {then['version']}, and use the coursekit in it"


def _known(folder: Path) -> dict[str, dict]:
    path = folder / FILE
    known: dict[str, dict] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return known


def _hash(module: str, name: str) -> str:
    """Return the hash of a definition with all that it reaches."""
    sources = {place: _text(statements) for place, statements in reached(module, name).items()}
    return hashlib.sha256("\n".join(sources[key] for key in sorted(sources)).encode()).hexdigest()[:12]


def _text(statements: list[ast.stmt]) -> str:
    """Return what judges in some statements: no docstrings, no comments, no hints and minutes."""
    kept = [copy.deepcopy(statement) for statement in statements]
    for node in (node for statement in kept for node in ast.walk(statement)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "exercise":
            node.keywords = [each for each in node.keywords if each.arg not in ("hints", "minutes")]
    return "\n".join(map(ast.unparse, kept))
