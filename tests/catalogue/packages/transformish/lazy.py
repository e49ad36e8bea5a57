"""A module that imports its parts late."""

import importlib
from types import ModuleType


class LazyModule(ModuleType):
    """Stands in sys.modules for the package."""

    def __init__(self, name, file, structure, spec):
        super().__init__(name)
        self._places = {name: module for module, names in structure.items() for name in names}
        self.__file__, self.__spec__ = file, spec
        self.__path__ = [file.rpartition("/")[0]]
        self._name = name

    def __getattr__(self, name):
        if name not in self._places:
            raise AttributeError(name)
        value = getattr(importlib.import_module(f".{self._places[name]}", self._name), name)
        setattr(self, name, value)
        return value
