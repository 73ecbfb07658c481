"""The house: who may import whom. An import inside a function, or for a type checker alone, counts like any other."""

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter

import pytest

import coursekit
from coursekit import aliases
from coursekit.basics.paths import ROOT
from tests.prose import files

PACKAGE = ROOT / "coursekit"
STOREYS = [
    {"basics"},
    {"judging"},
    {"ray_bridge"},
    {"learner", "learner.workshop"},
    {"given"},
    {"author", "machine", "sandbox"},
    {"grading"},
    {"grading.desk", "room", "capstone"},
    {"exercises"},
    {"cli"},
]
STOREY = {room: number for number, rooms in enumerate(STOREYS) for room in rooms}
APART = {"aliases"}  # looks modules up by names in a table, when they are used
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in files("coursekit", ".py")
}


def room(module: str) -> str:
    """Return the folder of a module within coursekit, or the module's own name where it lies beside the folders."""
    parts = module.split(".")[1:]
    if MODULES[module].name != "__init__.py" and len(parts) > 1:
        parts.pop()
    return ".".join(parts)


def imports(source: str) -> set[str]:
    """Return the modules of coursekit that a source names in an import, or in an `import_module` of a literal."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports name their module in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(name if name in MODULES else str(node.module) for name in names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found.update(part.value for part in node.args if isinstance(part, ast.Constant))
    return found & MODULES.keys()


@functools.cache
def graph() -> dict[str, set[str]]:
    found = {module: imports(path.read_text(encoding="utf-8")) for module, path in MODULES.items()}
    found["coursekit"] = set()  # it names functions of every room, and loads them when they are first used
    return {
        module: others - {"coursekit", "coursekit.aliases"}
        for module, others in found.items()
        if room(module) not in APART
    }


def test_every_module_imports_from_its_own_room_and_from_those_below():
    wrong = [
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in others
        if room(module) != room(other) and STOREY[room(module)] <= STOREY[room(other)]
        if STOREY[room(module)] != STOREY[room(other)] or not room(module).startswith(room(other).partition(".")[0])
    ]
    assert wrong == []


def test_no_circle_of_imports():
    TopologicalSorter(graph()).prepare()


def test_at_most_twenty_rooms_and_every_module_in_one():
    assert len({room(module) for module in MODULES if "." in module}) <= 20
    flat = {path.stem for path in PACKAGE.glob("*.py")}
    assert flat == {"__init__", "cli", "aliases"}


def test_what_modules_of_tests_share_is_in_none_of_them():
    tests = [path for folder in ("tests", "deploy", "benchmarks") for path in files(folder, ".py")]
    shares = re.compile(r"^\s*(from|import) tests(\.| import )test_", re.MULTILINE)
    assert [path.name for path in tests if shares.search(path.read_text(encoding="utf-8"))] == []


def test_python_source_is_parsed_in_one_place():
    """Two threads that parse at once made CPython 3.11 fail, and an honest hand-in was not gradable."""
    rooms = [path for path in files("coursekit", ".py") if "author" not in path.parts]
    parsing = [path.name for path in rooms if "ast.parse(" in path.read_text(encoding="utf-8")]
    assert parsing == ["syntax.py"]


def test_no_two_modules_share_a_name_unless_they_belong_to_different_chapters():
    names = Counter(path.stem for path in MODULES.values() if not path.stem.startswith(("ch", "_")))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(
    ("start", "absent"),
    [
        (
            "from coursekit.sandbox import learner_process; learner_process.prepare('plain')",
            ["ray", "torch", "gymnasium"],
        ),
        (
            "import coursekit.given.ch01_tasks, coursekit.given.ch03_actors",
            ["ray.rllib", "torch", "matplotlib", "IPython"],
        ),
        ("from coursekit import check, quiz, begin", ["ray", "torch", "matplotlib"]),
        ("import coursekit.cli", ["ray", "torch", "matplotlib", "nbformat", "jupytext", "nbconvert", "jsonschema"]),
    ],
    ids=["a plain sandbox", "a worker", "a notebook's first cell", "the help of the command"],
)
def test_what_is_not_used_is_not_imported(start, absent):
    code = f"{start}; import sys; print([name for name in {absent} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).splitlines()[-1] == "[]"


@pytest.mark.parametrize("old", aliases.MODULES)
def test_what_a_notebook_of_version_02_imports_is_found(old):
    code = f"import {old} as old, {aliases.MODULES[old]} as new; assert old.__dir__; names = [n for n in vars(new) if n[0] != '_']; assert all(getattr(old, n) is getattr(new, n) for n in names)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_old_names_of_functions_are_found():
    assert coursekit.handin is coursekit.hand_in
    assert aliases._FUNCTIONS == {"new_room": "new_point"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f():\n    from coursekit.given import warehouse", "coursekit.given.warehouse"),
        ("from coursekit.given.warehouse import PRICES", "coursekit.given.warehouse"),
        ("if TYPE_CHECKING:\n    import coursekit.ray_bridge.records", "coursekit.ray_bridge.records"),
        ("importlib.import_module('coursekit.ray_bridge.records')", "coursekit.ray_bridge.records"),
        ("from coursekit import check", "coursekit"),
    ],
)
def test_an_import_is_seen_wherever_it_stands(source, found):
    assert imports(source) == {found}
