"""The house: who may import whom. An import inside a function, or for a type checker alone, counts like any other."""

import ast
from graphlib import TopologicalSorter

import pytest

import coursekit
from coursekit.paths import ROOT

PACKAGE = ROOT / "coursekit"
STOREYS = [
    {"ground"},
    {"framework"},
    {"given"},
    {"author", "machine", "sandbox"},
    {"grading", "room", "capstone"},
    {"exercises"},
    {"cli"},
]
STOREY = {room: number for number, rooms in enumerate(STOREYS) for room in rooms}
FLAT = {"paths": "ground", "course": "ground", "cli": "cli"}  # every other module beside the rooms is the framework
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def room(module: str) -> str:
    name = module.split(".")[1] if "." in module else ""
    return name if name and (PACKAGE / name).is_dir() else FLAT.get(name, "framework")


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


def graph() -> dict[str, set[str]]:
    found = {module: imports(path.read_text(encoding="utf-8")) for module, path in MODULES.items()}
    return found | {"coursekit": set()}  # it names functions of every room, and loads them when they are first used


def test_every_module_imports_from_its_own_room_and_from_those_below():
    wrong = [
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in others
        if room(module) != room(other) and STOREY[room(module)] <= STOREY[room(other)]
    ]
    assert wrong == []


def test_no_circle_of_imports():
    TopologicalSorter(graph()).prepare()


def test_no_module_has_the_name_of_a_public_function():
    assert not set(coursekit.__all__) & {path.stem for path in PACKAGE.iterdir()}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f():\n    from coursekit.given import warehouse", "coursekit.given.warehouse"),
        ("from coursekit.given.warehouse import PRICES", "coursekit.given.warehouse"),
        ("if TYPE_CHECKING:\n    import coursekit.records", "coursekit.records"),
        ("importlib.import_module('coursekit.records')", "coursekit.records"),
        ("from coursekit import check", "coursekit"),
    ],
)
def test_an_import_is_seen_wherever_it_stands(source, found):
    assert imports(source) == {found}
