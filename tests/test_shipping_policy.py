"""What travels by value, and which names code uses."""

from __future__ import annotations

import importlib
import sys
import sysconfig
import types

import pytest

from replay.shipping.names import Import, names_of
from replay.shipping.policy import Policy


@pytest.mark.parametrize(
    "name",
    ["json", "builtins", "_thread", "torch", "torch.nn", "replay", "numpy", "pytest", "triton.language"],
)
def test_what_is_installed_travels_by_reference(name):
    if name not in ("torch", "torch.nn", "triton.language"):
        importlib.import_module(name)
    assert not Policy().by_value(name)


def test_main_and_what_no_file_backs_is_the_users():
    policy = Policy()
    assert policy.by_value("__main__")
    assert policy.by_value(None)
    assert policy.by_value("no.such.module")


def test_a_module_on_the_path_is_the_users_and_one_in_site_packages_is_not(tmp_path, monkeypatch):
    for folder, expected in ((tmp_path / "project", True), (tmp_path / "lib" / "site-packages", False)):
        name = f"placed_{expected}".lower()
        folder.mkdir(parents=True)
        folder.joinpath(f"{name}.py").write_text("")
        monkeypatch.syspath_prepend(str(folder))
        importlib.import_module(name)
        try:
            assert Policy().by_value(name) is expected
        finally:
            del sys.modules[name]


def test_an_extension_module_of_the_users_has_no_source_to_send(monkeypatch):
    module = types.ModuleType("compiled_thing")
    module.__file__ = f"/home/someone/project/compiled_thing{sysconfig.get_config_var('EXT_SUFFIX')}"
    monkeypatch.setitem(sys.modules, "compiled_thing", module)
    assert not Policy().by_value("compiled_thing")


def test_a_namespace_package_is_where_its_parts_are(tmp_path, monkeypatch):
    tmp_path.joinpath("spread", "inner").mkdir(parents=True)
    tmp_path.joinpath("spread", "inner", "mod.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("spread.inner.mod")
    try:
        policy = Policy()
        assert [policy.by_value(name) for name in ("spread", "spread.inner", "spread.inner.mod")] == [
            True
        ] * 3
    finally:
        for name in ("spread", "spread.inner", "spread.inner.mod"):
            del sys.modules[name]


@pytest.mark.parametrize("ship", ["msgpack", "msgpack.ext"])
def test_ship_sends_a_package_or_a_module(ship):
    importlib.import_module("msgpack")
    policy = Policy([ship])
    assert policy.by_value("msgpack.ext")
    assert policy.by_value("msgpack") is (ship == "msgpack")


def test_ship_takes_the_name_of_a_distribution():
    pytest.importorskip("pytest_timeout")
    assert Policy(["pytest-timeout"]).by_value("pytest_timeout")


def test_packages_are_distributions_with_their_versions():
    import msgpack

    policy = Policy()
    for name in ("msgpack.ext", "json", "replay.errors"):
        policy.refer(name)
    assert list(policy.packages()) == ["msgpack"]
    assert policy.packages()["msgpack"] == ".".join(map(str, msgpack.version))


def uses_names(a):
    import os.path as somewhere
    from collections import abc

    from ..above import thing
    from . import near

    def inner():
        return outer_global, a.attribute, [listed for x in a]  # noqa: F821

    class Local:
        value = class_level  # noqa: F821

    return getattr(a, "by_text"), inner, Local, somewhere, abc, near, thing  # noqa: B009


def test_names_are_globals_attributes_and_imports_of_nested_code_too():
    names = names_of(uses_names.__code__)
    assert {"outer_global", "listed", "class_level", "getattr"} <= names.globals
    assert not names.globals & {"attribute", "a", "inner", "by_text"}
    assert {"attribute", "by_text", "outer_global"} <= names.all
    assert set(names.imports) == {
        Import("os.path", 0),
        Import("collections", 0),
        Import("above", 2),
        Import("", 1),
    }


def test_names_behind_many_others_are_read_with_their_extended_arguments():
    text = "def f():\n" + "".join(f"    g{i}.a{i}\n" for i in range(700))
    namespace: dict = {}
    exec(text, namespace)
    assert names_of(namespace["f"].__code__).globals == {f"g{i}" for i in range(700)}
