"""What `dump` and `loaded` promise, in one process. The kinds of objects are in test_shipping_kinds.py."""

from __future__ import annotations

import importlib
import linecache
import pickle
import subprocess
import sys
import textwrap
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay import shipping, source
from replay.errors import BundleError, MissingError
from replay.shipping import modules


class NoTensors:
    """For values without tensors."""

    def add(self, tensor):
        raise AssertionError("no tensor was expected")

    add_storage = get = get_storage = add


def dump(root, **options):
    return shipping.dump(root, tensors=NoTensors(), **options)


def loaded(shipment, **options):
    return shipping.loaded(shipment.values, sources=shipment.sources, tensors=NoTensors(), **options)


@pytest.fixture
def user(tmp_path, monkeypatch):
    """Write and import modules of a user; all is gone after the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written = []

    def write(name, text):
        path = tmp_path.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        written.append(name)
        return importlib.import_module(name)

    write.path = tmp_path
    yield write
    forget(*written)
    for name in [name for name in linecache.cache if str(tmp_path) in name]:
        del linecache.cache[name]


def forget(*names):
    tops = {name.partition(".")[0] for name in names}
    for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
        del sys.modules[name]


def test_only_what_the_frame_needs_travels(user):
    module = user(
        "needs",
        """
        import json
        USED, UNUSED, PARSED = "used", "unused" * 1000, json.dumps
        def helper(): return USED
        def stranger(): return UNUSED
        def root(): return helper(), PARSED([1])
        """,
    )
    shipment = dump(module.root)
    assert b"unused" not in shipment.values
    assert b"stranger" not in shipment.values
    assert shipment.modules == ("needs",)
    assert list(shipment.sources) == [module.__file__]
    with loaded(shipment) as values:
        assert values.root() == ("used", "[1]")
        assert values.root is not module.root


def test_while_inside_the_recorded_modules_win_and_afterwards_all_is_as_it_was(user):
    module = user("pkg.sub.mod", "X = 1\ndef f(): return X\n")
    package = sys.modules["pkg.sub"]
    shipment = dump(module.f)
    before = dict(sys.modules)
    with loaded(shipment) as values:
        inside = importlib.import_module("pkg.sub.mod")
        assert inside is not module
        assert inside.__dict__ is values.root.__globals__
        assert sys.modules["pkg"].sub.mod is inside
        assert inside.__builtins__
        assert inside.__file__ == module.__file__
        assert inside.__spec__.name == "pkg.sub.mod"
        assert linecache.getline(module.__file__, 2) == "def f(): return X\n"
    assert {name: sys.modules.get(name) for name in before} == before
    assert package.mod is module


def test_an_exception_inside_leaves_no_trace(user):
    module = user("raising", "def f(): raise KeyError(1)\n")
    shipment = dump(module.f)
    forget("raising")
    with pytest.raises(KeyError), loaded(shipment) as values:
        values.root()
    assert "raising" not in sys.modules


def test_the_recorded_main_stands_in_for_main(user):
    name = "script_as_main"
    module = user(name, "LIMIT = 3\nclass Thing:\n    def get(self): return LIMIT\n")
    module.__name__ = module.Thing.__module__ = "__main__"
    main = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        shipment = dump(module.Thing())
    finally:
        sys.modules["__main__"] = main
    with loaded(shipment) as values:
        assert type(values.root).__module__ == "__main__"
        assert sys.modules["__main__"].Thing is type(values.root)
        assert values.root.get() == 3
    assert sys.modules["__main__"] is main
    with loaded(shipment, main="recorded_main") as values:
        assert sys.modules["__main__"] is main
        assert type(values.root).__module__ == "recorded_main"
    assert "recorded_main" not in sys.modules


def test_a_file_that_was_edited_after_import_does_not_give_wrong_code(user):
    module = user("edited", "def f(x):\n    return x + 1\n")
    user.path.joinpath("edited.py").write_text("def f(x):\n    return x + 1000\n")
    linecache.cache.pop(module.__file__, None)
    shipment = dump(module.f)
    with loaded(shipment) as values:
        assert values.root(1) == 2


def test_functions_of_a_test_module_travel_as_text():
    shipment = dump(asserting)
    assert __file__ in shipment.sources
    assert source.locate(asserting.__code__, shipment.sources[__file__]) is None  # pytest has rewritten it
    with loaded(shipment) as values:
        assert values.root(2) == 4
        assert "@py" not in "".join(values.root.__code__.co_names)
        with pytest.raises(AssertionError):
            values.root(0)


def asserting(x):
    assert x > 1, "too small"
    return x * 2


def test_a_notebook_cell_travels_as_text(monkeypatch):
    text = "def cell(x):\n    return x * SCALE\n"
    name = "<ipython-input-3-5d2a>"
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(True), name))
    namespace = {"SCALE": 5, "__name__": "cells"}
    exec(compile(text, name, "exec", dont_inherit=True), namespace)
    shipment = dump(namespace["cell"])
    assert shipment.sources == {name: text}
    with loaded(shipment) as values:
        assert values.root(2) == 10


def test_missing_things_have_readable_names(user):
    module = user(
        "lacking",
        """
        LOG = open(__file__)
        class Holder:
            def __init__(self):
                self.log = open(__file__)
                self.deep = [{"key": (i for i in ())}]
        def f(holder): return LOG
        """,
    )
    holder = module.Holder()
    shipment = dump({"function": module.f, "arguments": {"holder": holder}})
    assert {entry.name for entry in shipment.missing} == {
        "globals.LOG",
        "arguments.holder.log",
        "arguments.holder.deep[0].key",
    }
    assert all(entry.reason and entry.type for entry in shipment.missing)
    named = dump(holder, names={id(holder.log): "the log"})
    assert "the log" in {entry.name for entry in named.missing}
    for file in (module.LOG, holder.log):
        file.close()


def test_a_placeholder_is_noted_when_it_is_touched_and_not_before(user):
    module = user("touching", "def f(x, y): return y\n")
    with open(module.__file__) as file:
        shipment = dump({"function": module.f, "x": file})
    with loaded(shipment) as values:
        placeholder = values.root["x"]
        assert values.root["function"](placeholder, 1) == 1
        assert repr(placeholder) == "<missing x (_io.TextIOWrapper)>"
        assert placeholder == placeholder
        assert {placeholder: 1}[placeholder] == 1
        assert not hasattr(placeholder, "__torch_function__")
        assert values.touched == []
        with pytest.raises(MissingError, match=r"^x \(_io\.TextIOWrapper\) is missing: "):
            placeholder.read()
        assert values.touched == ["x"]
        again = dump(placeholder)
    with loaded(again) as values:
        assert repr(values.root) == "<missing x (_io.TextIOWrapper)>"
        assert [entry.name for entry in values.missing] == ["x"]


def test_an_attribute_that_was_not_recorded_is_an_attribute_error_and_noted(user):
    module = user("partial_module", "def f(): return 1\nother = 2\n")
    shipment = dump(module.f)
    with loaded(shipment) as values:
        inside = sys.modules["partial_module"]
        with pytest.raises(AttributeError, match="module 'partial_module' has no attribute 'other'"):
            _ = inside.other
        assert not hasattr(inside, "__wrapped__")
        assert values.touched == ["partial_module.other"]
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("partial_module.below")
    assert not any(isinstance(finder, modules.Watcher) for finder in sys.meta_path)


def test_an_import_from_a_recorded_package_that_was_not_recorded_is_noted(user):
    module = user("whole.part", "def f():\n    import whole.late\n")
    shipment = dump(module.f)
    forget("whole")
    user.path.joinpath("whole", "late.py").write_text("raise SystemExit\n")
    with loaded(shipment) as values:
        with pytest.raises(ModuleNotFoundError):
            values.root()
        assert values.touched == ["whole.late"]


def test_modules_in_defaults_and_closures_have_what_is_used(user):
    user("given", "def used(): return 4\n")
    module = user(
        "gives",
        """
        import given
        def f(module=given): return module.used()
        def outer():
            import given as inner
            return lambda: inner.used()
        g = outer()
        """,
    )
    shipment = dump([module.f, module.g])
    forget("given", "gives")
    with loaded(shipment) as values:
        assert [function() for function in values.root] == [4, 4]


def test_an_installed_package_that_is_absent_is_missing_and_a_frame_that_does_not_use_it_runs(
    user, monkeypatch
):
    module = user(
        "uses_package",
        """
        import sortedcontainers
        from sortedcontainers import SortedDict, SortedList
        class Mine(SortedDict):
            def own(self): return 7
        def f(x, items): return x + 1
        def g(items): return len(items)
        def h(): return SortedList([1])
        def k(): return sortedcontainers.SortedSet()
        """,
    )
    root = [module.f, module.g, module.h, module.k, module.SortedList([1]), module.Mine(a=1)]
    shipment = dump(root)
    assert list(shipment.packages) == ["sortedcontainers"]
    installed = [name for name in sys.modules if name.partition(".")[0] == "sortedcontainers"]
    for name in installed:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sortedcontainers", None)
    with loaded(shipment) as values:
        f, g, h, k, items, mine = values.root
        assert {entry.name for entry in values.missing} >= {"sortedcontainers"}
        assert f(1, items) == 2
        assert values.touched == []
        for use in (lambda: g(items), h, k, lambda: mine["a"]):
            with pytest.raises(MissingError, match="sortedcontainers"):
                use()
        assert values.touched


def test_ship_sends_an_installed_package_by_value():
    einops = pytest.importorskip("einops.parsing")

    def parse(text):
        return einops.ParsedExpression(text).composition

    by_reference, by_value = dump(parse), dump(parse, ship=["einops"])
    assert "einops" in by_reference.packages
    assert "einops.parsing" not in by_reference.modules
    assert "einops" not in by_value.packages
    assert "einops.parsing" in by_value.modules
    with loaded(by_value) as values:
        assert values.root("a (b c)") == parse("a (b c)")
        assert isinstance(sys.modules["einops.parsing"], modules.SyntheticModule)
    assert sys.modules["einops.parsing"] is einops


class Interrupts:
    def __reduce__(self):
        raise KeyboardInterrupt


def test_an_interrupt_passes_through():
    with pytest.raises(KeyboardInterrupt):
        dump(Interrupts())


@pytest.mark.parametrize("damage", [lambda data: data[:20], lambda data: b"", lambda data: data[:-3]])
def test_damaged_values_are_a_bundle_error(damage):
    shipment = dump([1, {"a": [2]}])
    with (
        pytest.raises(BundleError, match="record the failure again"),
        shipping.loaded(damage(shipment.values), sources={}, tensors=NoTensors()),
    ):
        pass


def test_code_that_this_python_cannot_read_is_missing(user, monkeypatch):
    namespace = {"__name__": "generated"}
    exec("def f(x): return x", namespace)
    shipment = dump([namespace["f"], 5])
    monkeypatch.setattr(sys, "version_info", (3, 99, 0, "final", 0))
    with loaded(shipment) as values:
        function, five = values.root
        assert five == 5
        with pytest.raises(MissingError, match=r"bytecode of Python 3\.\d+, and this is 3\.99"):
            function(1)


def test_importing_shipping_does_not_import_torch():
    code = "import sys, replay.shipping; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_module_getattr_travels_where_it_may_be_asked(user):
    user("lazy", "def __getattr__(name):\n    if name == 'late': return 9\n    raise AttributeError(name)\n")
    module = user("asks", "import lazy\ndef f(): return lazy.late\n")
    shipment = dump(module.f)
    forget("lazy", "asks")
    with loaded(shipment) as values:
        assert values.root() == 9


def test_subclasses_that_a_registry_looks_for_travel(user):
    module = user(
        "registry",
        """
        class Base: pass
        class One(Base): name = "one"
        class Two(One): name = "two"
        def names(): return sorted(c.name for c in Base.__subclasses__())
        """,
    )
    shipment = dump(module.names)
    forget("registry")
    with loaded(shipment) as values:
        assert values.root() == ["one"]


KEYS = st.one_of(st.text(max_size=5), st.integers(), st.booleans(), st.none(), st.binary(max_size=5))
PLAIN = st.recursive(
    st.one_of(KEYS, st.floats(allow_nan=False), st.complex_numbers(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        st.tuples(inner, inner),
        st.frozensets(KEYS, max_size=4),
        st.lists(inner, max_size=3).map(lambda items: types.SimpleNamespace(items=items)),
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_data_comes_back_equal(value):
    shipment = dump(value)
    assert shipment.missing == ()
    with loaded(shipment) as values:
        assert values.root == value
        assert type(values.root) is type(value)


def test_a_builder_may_move_to_another_room():
    shipment = dump(asserting)
    moved = shipment.values.replace(b"replay.shipping.codes", b"replay.shipping.other")
    assert moved != shipment.values
    with shipping.loaded(moved, sources=shipment.sources, tensors=NoTensors()) as values:
        assert values.root(2) == 4


def test_the_stream_is_a_pickle_of_protocol_four():
    assert dump(1).values.startswith(pickle.PROTO + b"\x04")
