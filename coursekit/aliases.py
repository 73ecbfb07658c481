"""What notebooks of version 0.2 import by names that are others today. It goes with version 0.4."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

NAMES = {"handin": "hand_in"}  # of coursekit itself
MODULES = {
    "coursekit.envs": "coursekit.given.environments",
    "coursekit.meeting": "coursekit.ray_bridge.rendezvous",
    "coursekit.pictures": "coursekit.given.pictures",
    "coursekit.records": "coursekit.ray_bridge.records",
}
_FUNCTIONS = {"new_room": "new_point"}  # of these modules


class _Alias(ModuleType):
    """A module that has what another one has."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(import_module(MODULES[self.__name__]), _FUNCTIONS.get(name, name))


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MODULES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Alias(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def install() -> None:
    """Have Python find the modules by their old names, too; twice does no harm."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
