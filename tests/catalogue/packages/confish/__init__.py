"""Configuration nodes that know their parents and interpolate."""

import re
from collections.abc import MutableMapping, Sequence

REFERENCE = re.compile(r"\$\{([\w.]+)\}")
RESOLVERS = {"upper": str.upper}


class Node:
    """What both kinds share; every node knows its parent."""

    def __init__(self, parent=None, key=None):
        self.__dict__["_metadata"] = {"key": key, "flags": {"readonly": False}}
        self.__dict__["_parent"] = parent

    def _root(self):
        node = self
        while node.__dict__["_parent"] is not None:
            node = node.__dict__["_parent"]
        return node

    def _resolve(self, value):
        if not isinstance(value, str):
            return value
        whole = REFERENCE.fullmatch(value)
        if whole:
            return self._select(whole[1])
        return REFERENCE.sub(lambda match: str(self._select(match[1])), value)

    def _select(self, path):
        node = self._root()
        for part in path.split("."):
            node = node[part]
        return node


class DictNode(Node, MutableMapping):
    """Keys are attributes."""

    def __init__(self, content, parent=None, key=None):
        super().__init__(parent, key)
        self.__dict__["_content"] = {name: wrap(value, self, name) for name, value in content.items()}

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(f"no key {name!r} at {self._metadata['key']!r}") from error

    def __setattr__(self, name, value):
        self[name] = value

    def __getitem__(self, name):
        return self._resolve(self.__dict__["_content"][name])

    def __setitem__(self, name, value):
        self.__dict__["_content"][name] = wrap(value, self, name)

    def __delitem__(self, name):
        del self.__dict__["_content"][name]

    def __iter__(self):
        return iter(self.__dict__["_content"])

    def __len__(self):
        return len(self.__dict__["_content"])

    def __eq__(self, other):
        return dict(self) == dict(other)

    __hash__ = None


class ListNode(Node, Sequence):
    """A list of nodes."""

    def __init__(self, content, parent=None, key=None):
        super().__init__(parent, key)
        self.__dict__["_content"] = [wrap(value, self, number) for number, value in enumerate(content)]

    def __getitem__(self, number):
        return self._resolve(self.__dict__["_content"][number])

    def __len__(self):
        return len(self.__dict__["_content"])


def wrap(value, parent, key):
    """Make nodes of dictionaries and lists."""
    if isinstance(value, dict):
        return DictNode(value, parent, key)
    return ListNode(value, parent, key) if isinstance(value, list) else value


def create(content):
    """The root."""
    return DictNode(content)
