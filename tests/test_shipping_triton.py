"""Triton's kernels, against a stand-in for triton: what matters is which of its names are used, and how."""

from __future__ import annotations

import importlib
import sys
import textwrap

import pytest
from test_shipping import dump, loaded

from replay.errors import MissingError

JIT = """
    class JITFunction:
        def __init__(self, fn, **settings):
            self.fn, self.settings, self.compiled = fn, settings, {}
            self.__name__, self.__module__, self.__qualname__ = fn.__name__, fn.__module__, fn.__qualname__
            self.debug = settings.get("debug")
            self.lock = (i for i in ())  # nothing that could be pickled
    def jit(fn=None, **settings):
        return JITFunction(fn, **settings) if fn else lambda fn: JITFunction(fn, **settings)
"""
AUTOTUNER = """
    class Autotuner:
        def __init__(self, fn, configs):
            self.fn, self.configs, self.cache = fn, configs, {"measured": 1}
"""
KERNELS = """
    import triton
    from triton.runtime.autotuner import Autotuner
    BLOCK = 16
    @triton.jit
    def device_function(x): return x * BLOCK
    @triton.jit(debug=True)
    def kernel(x): return device_function.fn(x)
    tuned = Autotuner(kernel, [BLOCK])
    def launches(x): return kernel.fn(x), tuned.fn is kernel, tuned.configs, tuned.cache, kernel.debug
"""


@pytest.fixture
def launches(tmp_path, monkeypatch):
    files = {
        "site-packages/triton/__init__.py": "from triton.runtime.jit import jit\n",
        "site-packages/triton/runtime/__init__.py": "",
        "site-packages/triton/runtime/jit.py": JIT,
        "site-packages/triton/runtime/autotuner.py": AUTOTUNER,
        "user/kernels.py": KERNELS,
    }
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    for folder in ("site-packages", "user"):
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    yield importlib.import_module("kernels").launches
    for name in [name for name in sys.modules if name.partition(".")[0] in ("triton", "kernels")]:
        del sys.modules[name]


def test_a_kernel_travels_as_its_function_and_an_autotuner_without_its_measurements(launches):
    shipment = dump(launches)
    assert shipment.missing == ()
    del sys.modules["kernels"]
    with loaded(shipment) as values:
        assert values.root(2) == (32, True, [16], {}, True)


def test_without_triton_a_kernel_is_missing(launches, monkeypatch):
    shipment = dump(launches)
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        del sys.modules[name]
    monkeypatch.setitem(sys.modules, "triton", None)
    with loaded(shipment) as values:
        assert "kernel" in {entry.name for entry in values.missing}
        with pytest.raises(MissingError, match="kernel"):
            values.root(2)
