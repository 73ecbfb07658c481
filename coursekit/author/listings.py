"""What pages list of chapters, checks and old names, and pyproject.toml of tested versions: `make build` writes it.

It stands between two lines, `<!-- begin NAME: … -->` and `<!-- end NAME -->`, in pyproject.toml `# begin NAME: …` and `# end NAME`,
where NAME is one of LISTINGS.
"""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from coursekit.basics.errors import chapter_names
from coursekit.basics.paths import ROOT
from coursekit.given import old_names
from coursekit.judging import message_ids
from coursekit.judging.exercise import AuthorError
from coursekit.learner.learning_paths import PATHS
from coursekit.learner.workshop.ten_questions import all_ten

MARKED = re.compile(
    r"^( *(?:<!--|#) begin (\w+):[^\n]*\n).*?^( *(?:<!--|#) end \2(?: -->)?)$", re.DOTALL | re.MULTILINE
)
# What constraints.txt has for authors alone, and what PyTorch's build for GPUs brings along in versions of its own choice.
NOT_FOR_LEARNERS = (
    *(
        "ast-serialize",
        "execnet",
        "greenlet",
        "iniconfig",
        "librt",
        "mypy",
        "mypy-extensions",
        "pathspec",
        "playwright",
    ),
    *("pluggy", "pytest", "pytest-xdist", "ruff"),
)
FOR_GPUS = ("cuda-", "nvidia-", "triton")
# Exercises whose checks call the answer, and take from its own process that it did what is asked: tests/test_forged.py tries.
CLAIMED = {
    "ch01_tasks": ["parallel_map", "batched", "bounded_map"],
    "ch02_objects": ["share_once"],
    "ch03_actors": ["count_up", "bank", "async_sgd"],
}
SENTENCE = re.compile(r"(?<=[.?]) (?=[A-Z])")  # where one ends and another begins
OPENING = re.compile(
    r'# %% \[markdown\] you_learn_to="(?P<learn>.+)"\nr"""\n# Chapter (?P<number>\d+) · (?P<title>.+)\n\n'
    r".+\n\n\*About (?P<minutes>\d+) minutes · builds on (?P<needs>.+?)[;*]"
)


@dataclass(frozen=True)
class Chapter:
    """What the first cell of a chapter says."""

    name: str
    number: int
    title: str
    learn: str
    minutes: int
    needs: frozenset[int]


def pages(root: Path = ROOT) -> dict[Path, str]:
    """Return each page that lists something, and the text that it must have."""
    paths = [path for pattern in ("*.md", "docs/*.md", "img/*.svg", "pyproject.toml") for path in root.glob(pattern)]
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    return {path: _filled(text, root) for path, text in texts.items() if MARKED.search(text)}


def _filled(text: str, root: Path) -> str:
    by_hand = MARKED.sub("", text)
    return MARKED.sub(lambda marked: marked[1] + LISTINGS[marked[2]](root, by_hand) + marked[3], text)


def openings(root: Path = ROOT) -> list[Chapter]:
    """Return what all chapters say of themselves, in order; raises AuthorError with file and line."""
    found, problems, names = list[Chapter](), [], chapter_names(root)
    for index, name in enumerate(names):
        try:
            found.append(_opening(root / f"chapters/{name}.py", names[:index]))
        except AuthorError as error:
            problems.append(str(error))
    if problems:
        raise AuthorError("\n".join(problems))
    return found


def _opening(path: Path, earlier: list[str]) -> Chapter:
    number, said = int(path.name[2:4]), OPENING.match(path.read_text(encoding="utf-8"))
    if not said or int(said["number"]) != number:
        raise AuthorError(
            f'chapters/{path.name}:1: the first cell begins with `# %% [markdown] you_learn_to="…"`, `# Chapter {number} · …`, '
            "a line that says what the chapter claims, and `*About 90 minutes · builds on …*`, as in chapters/_template.py."
        )
    links = re.findall(r"\((\w+)\.ipynb\)", said["needs"])
    for link in links:
        if link not in earlier:
            raise AuthorError(
                f"chapters/{path.name}:7: a chapter builds on earlier ones, and {link} is not one of them."
            )
    needs = frozenset(int(link[2:4]) for link in links)
    return Chapter(path.stem, number, said["title"], said["learn"], int(said["minutes"]), needs)


def all_before(chapters: list[Chapter]) -> dict[int, set[int]]:
    """Return what comes before each chapter: what it builds on, and what that builds on."""
    before: dict[int, set[int]] = {}
    for chapter in chapters:
        before[chapter.number] = set(chapter.needs).union(*(before[need] for need in chapter.needs))
    return before


def nearest_needs(chapters: list[Chapter]) -> dict[int, list[int]]:
    """Return what each chapter builds on, without what that builds on."""
    before = all_before(chapters)
    return {each.number: sorted(each.needs.difference(*(before[need] for need in each.needs))) for each in chapters}


def table_of_chapters(root: Path, _: str) -> str:
    """Return the README's table."""
    chapters = openings(root)
    needs = {number: ", ".join(map(str, direct)) or "–" for number, direct in nearest_needs(chapters).items()}
    rows = [
        f"[{each.number} · {each.title}](notebooks/{each.name}.ipynb) | {each.learn} | {needs[each.number]} | {each.minutes}"
        for each in chapters
    ]
    return _table(["chapter | you learn to | needs | minutes", "---|---|---|---", *rows])


def table_of_paths(root: Path, _: str) -> str:
    """Return the ways through the course, each with its hours, and the chapters that belong to none but as electives."""
    minutes = {each.number: each.minutes for each in openings(root)}
    rows = [
        f"**{name}** | {whom} | {_spans(numbers)} | {_hours(minutes[number] for number in numbers)}"
        for name, (whom, numbers) in PATHS.items()
    ]
    whole = f"All {len(minutes)} chapters take about {_hours(minutes.values())} hours, an hour or two each."
    return _table(["path | for you if | chapters | hours", "---|---|---|---", *rows]) + f"{whole}\n\n"


def _spans(numbers: list[int]) -> str:
    """Return numbers in order as text: `0–3, 7, 20`."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(str(group[0]) if len(group) == 1 else f"{group[0]}–{group[-1]}" for group in groups)


def _hours(minutes: Iterable[int]) -> int:
    return round(sum(minutes) / 60)


def seen_by_a_probe_only(root: Path, _: str) -> str:
    """Return the table of exercises for which there is no other evidence than what the learner's process reports."""
    found = {
        name: CLAIMED.get(name, []) + probed(root / f"coursekit/exercises/{name}.py") for name in chapter_names(root)
    }
    rows = [f"{int(name[2:4])} | `{'`, `'.join(exercises)}`" for name, exercises in found.items() if exercises]
    return _table(["chapter | exercises", "---|---", *rows])


def tables_of_old_names(root: Path, _: str) -> str:
    """Return a table for each part of Ray: the lines of older tutorials, today's, and what the old ones do now."""
    head = ["older tutorials | today | the old line on today's Ray", "---|---|---"]
    parts = ((part, [_old_name(name) for name in names]) for part, names in old_names.PARTS.items())
    return "\n" + "".join(f"## {part}\n{_table([*head, *rows])}" for part, rows in parts)


def old_dictionary(root: Path, _: str) -> str:
    """Return a whole dictionary of settings, today's program, and what each of its lines does now."""
    head = ["in the dictionary | today | the old line on today's Ray", "---|---|---"]
    programs = [f"```python\n{code}\n```\n" for code in (old_names.OLD_DICTIONARY, old_names.NEW_DICTIONARY)]
    return f"\n{programs[0]}\nToday:\n\n{programs[1]}{_table([*head, *map(_old_name, old_names.DICTIONARY)])}"


def _old_name(name: old_names.Name) -> str:
    accepted = name.why if name.why.startswith("works") else f"accepted: {name.why}"
    ends = f"`{name.fails.partition(':')[0]}`" if name.fails else accepted
    today = name.new.removeprefix("# ") if name.new.startswith("# ") else _code(name.new)
    return f"{_code(name.old)} | {today} | {ends}"


def _code(lines: str) -> str:
    return "<br>".join(f"`{line.replace('|', chr(92) + '|')}`" for line in lines.splitlines())


def _table(rows: list[str]) -> str:
    return "\n" + "".join(f"|{row}|\n" if row.startswith("---") else f"| {row} |\n" for row in rows) + "\n"


def probed(exercises: Path) -> list[str]:
    """Return the exercises whose checks, and the functions that these use, never call the answer nor ask for its value.

    A table of cases has a message at its decorator, and calls the answer with each case.
    """
    tree = ast.parse(exercises.read_text(encoding="utf-8"))
    nodes = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    functions = {node.name: list(ast.walk(node)) for node in nodes}
    decorators = [(node.name, each) for node in nodes for each in node.decorator_list if isinstance(each, ast.Call)]
    checks = [
        name for name, call in decorators if ast.unparse(call.func) == "exercise" and not message_ids.messages_of(call)
    ]

    def asks(name: str, seen: set[str]) -> bool:
        seen.add(name)
        called = {ast.unparse(node.func) for node in functions[name] if isinstance(node, ast.Call)}
        used = {node.id for node in functions[name] if isinstance(node, ast.Name)} & set(functions) - seen
        return bool({"answer", "answer.value"} & called) or any(asks(other, seen) for other in used)

    return [name for name in checks if not asks(name, set())]


# The map: what no person has drawn yet, in grey. A box stands right of what it builds on, where there is space.

WIDTH, HEIGHT, RIGHT = 96, 47, 119
PLACES = [(x, y) for x in range(6, 959, RIGHT) for y in range(4, 346, 2)]
Places = dict[int, tuple[int, int]]


def rest_of_the_map(root: Path, by_hand: str) -> str:
    """Return the boxes and arrows that are missing from the map."""
    boxes: Places = {
        int(number): (int(x), int(y))
        for number, x, y in re.findall(r'id="ch(\d\d)"[^>]*>\s*<rect x="(-?\d+)" y="(-?\d+)"', by_hand)
    }
    chapters, drawn = openings(root), re.findall(r'id="(ch\d\d-ch\d\d)"', by_hand)
    needs, lines = nearest_needs(chapters), list[str]()
    for chapter in chapters:
        if chapter.number not in boxes:
            boxes[chapter.number] = _place(needs[chapter.number], boxes)
            lines.append(_box(chapter, *boxes[chapter.number]))
        arrows = {f"ch{need:02}-ch{chapter.number:02}": need for need in needs[chapter.number]}
        lines += [
            _arrow(name, boxes[need], boxes[chapter.number]) for name, need in arrows.items() if name not in drawn
        ]
    return "".join(f"  {line}\n" for line in lines)


def _place(needs: list[int], boxes: Places) -> tuple[int, int]:
    right = max((boxes[need][0] + RIGHT for need in needs), default=0)
    level = max((boxes[need][1] for need in needs), default=0)
    free = [place for place in PLACES if not any(_touch(place, box) for box in boxes.values())]
    return min(free, key=lambda place: (abs(place[0] - right), abs(place[1] - level)))


def _touch(place: tuple[int, int], box: tuple[int, int]) -> bool:
    return abs(place[0] - box[0]) < RIGHT and abs(place[1] - box[1]) < HEIGHT + 16


def _box(chapter: Chapter, x: int, y: int) -> str:
    return (
        f'<g id="ch{chapter.number:02}" text-anchor="middle" fill="#7687a0">'
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#94a3b826" stroke="#94a3b8" stroke-width="2"/>'
        f'<text x="{x + WIDTH // 2}" y="{y + 19}" font-size="15" font-weight="600">{chapter.number}</text>'
        f'<text x="{x + WIDTH // 2}" y="{y + 37}" font-size="13">{chapter.name[5:].replace("_", " ")}</text></g>'
    )


def _arrow(name: str, start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return a straight line between two boxes, without what lies inside them."""
    across, down = end[0] - start[0], end[1] - start[1]
    inside = 0.5 / max(abs(across) / WIDTH, abs(down) / HEIGHT)
    x, y = (
        [f"{corner + size / 2 + part * way:.0f}" for part in (inside, 1 - inside)]
        for corner, size, way in ((start[0], WIDTH, across), (start[1], HEIGHT, down))
    )
    line = f"M{x[0]} {y[0]}L{x[1]} {y[1]}"
    return f'<path id="{name}" stroke="#64748b" stroke-width="1.6" marker-end="url(#tip)" d="{line}"/>'


def run_sheets(root: Path, by_hand: str) -> str:
    """Return a link to the run sheet of each chapter, with the chapter's minutes."""
    lines = [f"- [{c.number} · {c.title}](run_sheets/{c.name}.md), {c.minutes} minutes" for c in openings(root)]
    return "\n" + "\n".join(lines) + "\n\n"


def tested(root: Path, _: str) -> str:
    """Return the extra that installs the versions of constraints.txt, a line of it each."""
    lines = [line for line in (root / "constraints.txt").read_text(encoding="utf-8").splitlines() if "==" in line]
    names = {line: line.partition("==")[0] for line in lines}
    kept = [line for line in lines if names[line] not in NOT_FOR_LEARNERS and not names[line].startswith(FOR_GPUS)]
    return "tested = [\n" + "".join(f'    "{line}",\n' for line in kept) + "]\n"


def the_ten_questions(root: Path, _: str) -> str:
    """Return the questions for the beginning and the end of a workshop, with their options, a sentence a line."""
    lines = list[str]()
    for number, (question, options, _) in enumerate(all_ten(), 1):
        lines += ["", f"{number}. {SENTENCE.sub(chr(10) + 4 * ' ', question)}"]
        lines += [f"    - {letter}) {option}" for letter, (option, _) in options.items()]
    return "\n".join(lines) + "\n\n"


def hints_for_mistakes(root: Path, _: str) -> str:
    """Return the table of the messages that have a hint of their own, each with what the hint says above its example."""
    rows = [
        f"{int(path.stem[2:4])} | `{entry['exercise']}` | {_in_a_cell(entry['begins'])} | {_in_a_cell(entry['text'])}"
        for path in sorted(root.glob("coursekit/exercises/hints/ch*.md"))
        for entry in message_ids.MISTAKE_HINT.finditer(path.read_text(encoding="utf-8"))
    ]
    return _table(["chapter | exercise | how the message begins | the hint", "---|---|---|---", *rows])


def _in_a_cell(text: str) -> str:
    """Return a text on one line of a table, with dots for the values of a message."""
    return re.sub(r"\{[^{}]*\}", "…", " ".join(text.split())).replace("|", "\\|")


LISTINGS = {
    "hints": hints_for_mistakes,
    "tested": tested,
    "chapters": table_of_chapters,
    "paths": table_of_paths,
    "run_sheets": run_sheets,
    "ten_questions": the_ten_questions,
    "probes": seen_by_a_probe_only,
    "map": rest_of_the_map,
    "old_names": tables_of_old_names,
    "old_dictionary": old_dictionary,
}
