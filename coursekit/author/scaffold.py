"""What an author begins with.

A new chapter comes from the templates: six files, with its name where they say CHAPTER and its number where they say NN. A new exercise
goes into three files of a chapter, as a small one that works.
"""

import keyword
import re
from pathlib import Path

from coursekit.basics.errors import NAME, CommandError, chapter_names, existing_chapter
from coursekit.basics.paths import ROOT

FOLDERS = {
    "chapters": ".py",
    "coursekit/exercises": ".py",
    "coursekit/given": ".py",
    "tests/answers": ".py",
    "img": ".svg",
    "docs/run_sheets": ".md",
}

CELLS = '''# %% [markdown]
r"""
### Exercise: `NAME`

Write `NAME(x)`, which returns twice `x`.
"""

# %%
def NAME(x):
    """Return twice `x`."""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %%
check("NAME", NAME)

'''
CHECK = '''@exercise(
    points=1,
    minutes=5,
    hints=["Which operator repeats a number?", "Twice x is x times two."],
    returns=int,
    message="That is not twice the argument.",
)
def NAME(rng: Generator) -> list[tuple]:
    """Multiply by two; nothing else is needed."""
    return [((x,), 2 * x) for x in rng.integers(3, 100, size=3).tolist()]


'''
ANSWERS = """

@accepts("NAME")
def adds_it_to_itself(x):
    return x + x


@rejects("NAME")
def returns_it_as_it_came(x):
    return x


@rejects("NAME")
def squares_it(x):
    return x * x


@rejects("NAME")
def returns_a_text(x):
    return f"{x}{x}"
"""
END_OF_CHAPTER = '# %% [markdown]\nr"""\n## What you can do now'


def new_exercise(chapter: str, name: str, root: Path = ROOT) -> list[Path]:
    """Add a small exercise that works to a chapter, its checks and their answers, and return the three files; raises CommandError."""
    existing_chapter(chapter, root)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise CommandError(f"{name!r} cannot be the name of a function. Choose one like slow_node.")
    folders = ("chapters", "coursekit/exercises", "tests/answers")
    text, checks, answers = (root / folder / f"{chapter}.py" for folder in folders)
    texts = {path: path.read_text(encoding="utf-8") for path in (text, checks, answers)}
    if re.search(rf"\b{name}\b", texts[checks]):
        raise CommandError(f"{checks.relative_to(root)} already uses the name {name}. Choose another one.")
    parts = ((text, CELLS, END_OF_CHAPTER), (checks, CHECK, "question("))
    for path, _, place in parts:
        if f"\n{place}" not in texts[path]:
            last = place.splitlines()[-1]
            raise CommandError(f"{path.relative_to(root)} has no {last!r}, before which the exercise would go.")
    for path, addition, place in parts:
        before, after = texts[path].split(f"\n{place}", 1)
        path.write_text(f"{before}\n{addition.replace('NAME', name)}{place}{after}", encoding="utf-8")
    answers.write_text(texts[answers].rstrip("\n") + "\n" + ANSWERS.replace("NAME", name), encoding="utf-8")
    return [text, checks, answers]


def new_chapter(name: str, root: Path = ROOT) -> list[Path]:
    """Write the files of a new chapter and return their paths; raises CommandError before it writes any."""
    _must_be_new(name, root)
    texts = {}
    for folder, ending in FOLDERS.items():
        template = root / folder / f"_template{ending}"
        text = template.read_text(encoding="utf-8").replace("CHAPTER", name).replace("NN", str(int(name[2:4])))
        texts[root / folder / f"{name}{ending}"] = text
    if taken := [path for path in texts if path.exists()]:
        raise CommandError(f"{taken[0].relative_to(root)} already exists. Delete it, or choose another name.")
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return list(texts)


def _must_be_new(name: str, root: Path) -> None:
    names = chapter_names(root)
    numbers = {int(match[1]) for other in names if (match := re.match(r"ch(\d\d)_", other))}
    free = max(numbers, default=-1) + 1
    if not NAME.fullmatch(name):
        form = "a chapter's name, which is ch, two digits, and a topic in lower case"
        raise CommandError(f"{name!r} is not {form}. Try ch{free:02}_topic")
    for other in names:
        if other[:4] == name[:4]:
            raise CommandError(f"The number {name[:4]} is taken by {other}. The next free name: ch{free:02}{name[4:]}")
