"""Cases that need no torch."""

import abc
import collections
import contextlib
import contextvars
import dataclasses
import decimal
import enum
import functools
import io
import itertools
import linecache
import logging
import operator
import re
import socket
import sys
import threading
import types
import typing
import weakref

import cargo.inner.deep
import cargo.inner.deep as deep
from cargo.cases import case, raises
from cargo.inner.deep import Base, twice

FACTOR = 3
LOG = open(__file__)  # noqa: SIM115
VARIABLE = contextvars.ContextVar("v", default=5)
VARIABLE.set(6)
ARGUMENTS = [(1, 2), ("ab",), ("x", "ab"), (2,)]
T = typing.TypeVar("T", bound="Shape")
P = typing.ParamSpec("P")
Identity = typing.NewType("Identity", int)


def scale(value, by=2, *, plus=0):
    """Scale it."""
    return value * by * FACTOR + plus


@case(lambda: scale)
def function_with_globals_and_defaults(value):
    assert value(1) == 6 and value(1, 1, plus=1) == 4
    assert value.__doc__ == "Scale it." and value.__module__ == "cargo.plain" and value is scale
    assert "".join(("LO", "G")) not in value.__globals__  # not used, not sent


def make_counter(start):
    count = start

    def add(step=1):
        nonlocal count
        count += step
        return count

    def read():
        return count

    return add, read


@case(lambda: make_counter(5))
def closures_that_share_a_cell(value):
    add, read = value
    assert add(2) == 7 and read() == 7 and add.__qualname__ == "make_counter.<locals>.add"


def make_recursive():
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    return factorial


@case(make_recursive)
def function_that_calls_itself(value):
    assert value(5) == 120 and value.__closure__[0].cell_contents is value


lambdas = [lambda: 1, lambda: 2, lambda: 1], lambda x: [(lambda y: y + x)(i) for i in range(3)]


@case(lambda: lambdas)
def lambdas_on_one_line(value):
    assert [one() for one in value[0]] == [1, 2, 1] and value[1](1) == [1, 2, 3]


def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        wrapper.calls += 1
        return function(*args)

    wrapper.calls = 0
    return wrapper


@logged
def decorated_twice(x):
    return twice(x)


@case(lambda: decorated_twice)
def decorated_function(value):
    assert value(4) == 8 and value.calls == 1 and value.__name__ == "decorated_twice"
    assert value.__wrapped__(1) == 2


@functools.lru_cache(maxsize=7)
def cached(x):
    return twice(x)


@case(lambda: cached)
def lru_cached_function(value):
    assert value(2) == 4 and value.cache_info().maxsize == 7 and value.__wrapped__(1) == 2


@case(lambda: functools.partial(scale, by=1, plus=5))
def partial(value):
    assert value(1) == 8 and value.func is scale


@contextlib.contextmanager
def opened(name):
    yield name * 2


@case(lambda: opened)
def contextmanager_function(value):
    with value("ab") as name:
        assert name == "abab"


@functools.singledispatch
def kind_of(value):
    return "object"


@kind_of.register
def _(value: int):
    return "int"


@case(lambda: kind_of)
def singledispatch_function(value):
    assert value(1) == "int" and value("x") == "object"


class Shape(Base):
    """A shape."""

    sides = 4
    __private = 9

    def __init__(self, size):
        self.size = size

    @property
    def area(self):
        return self.size * self.size

    @staticmethod
    def unit():
        return Shape(1)

    @classmethod
    def of(cls, size):
        return cls(size)

    @functools.cached_property
    def slow(self):
        return self.size + 1

    def describe(self):
        return super().describe() + "!" + str(self.__private)

    half = functools.partialmethod(lambda self, by: self.size / by, 2)

    class Nested:
        pass


@case(lambda: Shape(3))
def class_with_everything(value):
    assert value.area == 9 and value.unit().size == 1 and value.of(2).size == 2 and value.slow == 4
    assert value.describe() == "base Shape!9" and value.half() == 1.5 and type(value) is Shape
    assert Shape.__doc__ == "A shape." and Shape.Nested.__qualname__ == "Shape.Nested"
    assert isinstance(value, Base) and Shape.__module__ == "cargo.plain"


@case(lambda: (lambda shape: (shape, shape.describe, shape.of))(Shape(2)))
def bound_methods(value):
    shape, describe, of = value
    assert describe.__self__ is shape and of.__self__ is Shape and of(4).size == 4


class Slotted:
    __slots__ = ("__weakref__", "_hidden", "a", "b")

    def __init__(self):
        self.a = 1
        self._hidden = [self]


@case(Slotted)
def slots(value):
    assert value.a == 1 and value._hidden[0] is value
    raises("AttributeError", getattr, value, "b")
    raises("AttributeError", setattr, value, "c", 1)


@dataclasses.dataclass
class Options:
    name: str
    sizes: list = dataclasses.field(default_factory=list)
    count: typing.ClassVar[int] = 3
    scale: dataclasses.InitVar[int] = 2
    tag: str = dataclasses.field(default="t", repr=False, kw_only=True, metadata={"m": 1})

    def __post_init__(self, scale):
        self.sizes.append(scale)


@dataclasses.dataclass(order=True)
class MoreOptions(Options):
    depth: int = 1

    def __repr__(self):
        return "mine"


@case(lambda: (Options("a"), MoreOptions("b")))
def dataclasses_and_inheritance(value):
    options, more = value
    assert options == Options("a") and options.sizes == [2] and Options("z", [1], 4).sizes == [1, 4]
    assert repr(options) == "Options(name='a', sizes=[2])" and repr(more) == "mine"
    assert (
        more < MoreOptions("c")
        and Options.count == 3
        and dataclasses.replace(more, depth=2, scale=1).depth == 2
    )
    assert [field.name for field in dataclasses.fields(MoreOptions)] == ["name", "sizes", "tag", "depth"]
    assert dataclasses.fields(Options)[2].metadata["m"] == 1
    raises("TypeError", Options)


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 5

    def length(self):
        return self.x + self.y


@case(lambda: {Point(1): "one", Point(2, 3): "two"})
def frozen_slotted_dataclass_as_key(value):
    assert value[Point(1)] == "one" and Point(2, 3).length() == 5 and Point(7).y == 5
    raises("FrozenInstanceError", setattr, Point(1), "x", 3)
    assert not hasattr(Point(1), "__dict__") and hash(Point(1)) == hash(Point(1))


class Color(enum.Enum):
    RED = 1
    CRIMSON = 1  # noqa: PIE796 - an alias
    GREEN = "g"

    def lower(self):
        return self.name.lower()

    @classmethod
    def first(cls):
        return cls.RED


class Planet(enum.Enum):
    EARTH = (5.9, 6.3)
    MARS = (0.6, 3.3)

    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius

    @property
    def ratio(self):
        return self.mass / self.radius


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mode(str, enum.Enum):
    TRAIN = "train"

    def __str__(self):
        return "mode " + self.value


class Access(enum.Flag):
    R = 1
    W = 2
    RW = 3


class Bits(enum.IntFlag):
    A = 1
    B = 4


@case(
    lambda: [
        Color.GREEN,
        Planet.MARS,
        Level.HIGH,
        Mode.TRAIN,
        Access.R | Access.W,
        Bits.A | Bits.B,
        Access(0),
    ]
)
def enums_of_all_sorts(value):
    color, planet, level, mode, access, bits, none = value
    assert color is Color.GREEN and color.lower() == "green" and Color.CRIMSON is Color.RED is Color.first()
    assert planet is Planet.MARS and planet.mass == 0.6 and planet.value == (0.6, 3.3) and planet.ratio
    assert level is Level.HIGH and level == 2 and Level(1) is Level.LOW and sorted(Level) == [1, 2]
    assert mode is Mode("train") and mode == "train" and str(mode) == "mode train"
    assert access == Access.RW and Access.R in access and bits == 5 and Bits.B in bits and none == Access(0)
    assert list(Color) == [Color.RED, Color.GREEN] and Color["CRIMSON"] is Color.RED and Color("g") is color


Pair = collections.namedtuple("Pair", "a b", defaults=[2])


class Named(typing.NamedTuple):
    left: int
    right: str = "r"

    def both(self):
        return f"{self.left}{self.right}"


class Triple(Pair):
    def total(self):
        return self.a + self.b


@case(lambda: (Pair(1), Named(3), Triple(1, 4)))
def named_tuples(value):
    pair, named, triple = value
    assert pair == (1, 2) and pair.b == 2 and pair._replace(a=9) == Pair(9) and type(pair) is Pair
    assert named.both() == "3r" and Named(1)._asdict() == {"left": 1, "right": "r"} and triple.total() == 5
    assert repr(triple) == "Triple(a=1, b=4)"


class Stack(typing.Generic[T]):
    def __init__(self, items: "list[T]"):
        self.items = items

    def pop(self) -> T:
        return self.items.pop()


class IntStack(Stack["Shape"]):
    pass


@case(lambda: (Stack[Shape]([1]), IntStack([2]), T, Stack[Shape]))
def generics_and_type_variables(value):
    stack, more, variable, alias = value
    assert stack.pop() == 1 and more.pop() == 2 and variable is T and variable.__name__ == "T"
    assert alias.__origin__ is Stack and Stack.__parameters__ == (T,)


class Runner(abc.ABC):
    @abc.abstractmethod
    def run(self): ...

    def twice(self):
        return self.run() * 2


class Fast(Runner):
    def run(self):
        return 21


@case(Fast)
def abstract_base_class(value):
    assert value.twice() == 42 and isinstance(value, Runner)
    raises("TypeError", Runner)


@typing.runtime_checkable
class Runs(typing.Protocol):
    def run(self): ...


@case(lambda: Runs)
def protocol(value):
    assert isinstance(Fast(), value) and not isinstance(1, value)


class Options3(typing.TypedDict):
    a: int


@case(lambda: Options3)
def typed_dict(value):
    assert value(a=1) == {"a": 1}


class Registry(type):
    made = []

    def __new__(meta, name, bases, namespace, **options):
        made = super().__new__(meta, name, bases, namespace)
        made.order = len(Registry.made)
        Registry.made.append(name)
        return made

    def __getitem__(cls, item):
        return (cls.__name__, item)


class First(metaclass=Registry):
    pass


class Second(First, metaclass=Registry):
    pass


class Plugin:
    plugins = []

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        Plugin.plugins.append(cls.__name__)


class MyPlugin(Plugin):
    pass


class Typed:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        return self if instance is None else instance.__dict__[self.name] + 1

    def __set__(self, instance, value):
        instance.__dict__[self.name] = value


class Described:
    count = Typed()

    def __init__(self):
        self.count = 4


@case(lambda: (First, Second, MyPlugin(), Described()))
def metaclass_subclass_hook_and_descriptor_do_not_run_again(value):
    first, second, _, described = value
    assert first.order == 0 and second.order == 1 and Registry.made == ["First", "Second"]
    assert second["x"] == ("Second", "x") and type(second) is Registry
    assert Plugin.plugins == ["MyPlugin"] and described.count == 5 and Described.count.name == "count"

    class Later(Plugin):
        pass

    assert Plugin.plugins == ["MyPlugin", "Later"]


class Proxy:
    def __init__(self, target):
        self._target = target

    def __getattr__(self, name):
        return getattr(self._target, name)


@case(lambda: Proxy(Shape(3)))
def getattr_proxy(value):
    assert value.size == 3 and value.area == 9 and type(value) is Proxy


class Node:
    def __init__(self):
        self.me = self
        self.others = [self, {"me": self}, (self,)]
        self.method = self.act

    def act(self):
        return self


@case(Node)
def cycles(value):
    assert value.me is value and value.others[1]["me"] is value and value.others[2][0] is value
    assert value.method() is value


class Watched:
    def __init__(self):
        self.lock, self.rlock, self.event = threading.Lock(), threading.RLock(), threading.Event()
        self.condition, self.local = threading.Condition(), threading.local()
        self.local.x = 1
        self.target = Slotted()
        self.reference, self.dead = weakref.ref(self.target), weakref.ref(Shape(1))
        self.by_key = weakref.WeakKeyDictionary({self.target: 1})
        self.by_value = weakref.WeakValueDictionary({"a": self.target})
        self.set = weakref.WeakSet([self.target])


@case(Watched)
def locks_and_weak_references(value):
    with value.lock, value.rlock, value.condition:
        pass
    assert not value.event.is_set() and value.local.x == 1
    assert value.reference() is value.target and value.dead() is None
    assert (
        value.by_key[value.target] == 1 and value.by_value["a"] is value.target and value.target in value.set
    )


class ListLike(list):
    extra = 1


class DictLike(dict):
    def __init__(self, *args):
        super().__init__(*args)
        self.note = "n"


class Ordered(collections.OrderedDict):
    def first(self):
        return next(iter(self))


@case(
    lambda: {
        "deque": collections.deque([1, 2], 5),
        "default": collections.defaultdict(list, a=[1]),
        "counter": collections.Counter("aab"),
        "chain": collections.ChainMap({"a": 1}, {"b": 2}),
        "ordered": Ordered(b=1, a=2),
        "list": ListLike([1, 2]),
        "dict": DictLike({"k": 1}),
        "proxy": types.MappingProxyType({"a": 1}),
        "simple": types.SimpleNamespace(a=1),
        "keys": {"a": 1}.keys(),
        "values": {"a": 1}.values(),
        "items": {"a": 1}.items(),
        "decimal": decimal.Decimal("1.5"),
        "pattern": re.compile("a+"),
        "ellipsis": (..., NotImplemented, None, type(None), type(...)),
        "count": itertools.count(3),
        "text": io.StringIO("text"),
        "range": range(3),
        "slice": [slice(1, None)],
        "iterator": iter([1, 2]),
        "function type": types.FunctionType,
        "view type": type({}.keys()),
        "variable": VARIABLE,
        "wrapper": [int.__add__, "x".join, str.join, (1).__add__],
        "getter": operator.itemgetter(1),
        "logger": logging.getLogger("cargo.log"),
        "union": typing.Optional[int],  # noqa: UP045
        "alias": list[int],
        "parameters": [P, P.args, P.kwargs],
        "new type": Identity,
    }
)
def values_of_the_standard_library(value):
    assert value["deque"].maxlen == 5 and value["default"]["new"] == [] and value["counter"]["a"] == 2
    variable, positional, keywords = value["parameters"]
    assert positional.__origin__ is variable and keywords == variable.kwargs and variable.__name__ == "P"
    assert value["new type"](3) == 3 and value["new type"].__supertype__ is int
    assert value["chain"]["b"] == 2 and value["ordered"].first() == "b" and value["list"] == [1, 2]
    assert value["list"].extra == 1 and value["dict"].note == "n" and value["dict"]["k"] == 1
    assert (
        value["proxy"]["a"] == 1 and type(value["proxy"]) is types.MappingProxyType and value["simple"].a == 1
    )
    assert (
        list(value["keys"]) == ["a"] and list(value["values"]) == [1] and list(value["items"]) == [("a", 1)]
    )
    assert type(value["keys"]) is type({}.keys()) and value["decimal"] == decimal.Decimal("1.5")
    assert value["pattern"].match("aa") and value["ellipsis"][0] is ... and value["ellipsis"][3] is type(None)
    assert (
        next(value["count"]) == 3
        and value["text"].read() == "text"
        and value["function type"] is types.FunctionType
    )
    assert value["view type"] is type({}.keys())
    assert value["variable"].get() == 6 and value["variable"].name == "v" and value["getter"]("ab") == "b"
    assert [wrapper(*args) for wrapper, args in zip(value["wrapper"], ARGUMENTS, strict=True)] == [
        3,
        "axb",
        "axb",
        3,
    ]
    assert next(value["iterator"]) == 1 and value["logger"] is logging.getLogger("cargo.log")


class Failure(Exception):
    def __init__(self, code, *, detail):
        super().__init__(f"code {code}")
        self.code, self.detail = code, detail


@case(lambda: Failure(3, detail="d"))
def exception_with_its_own_init(value):
    assert value.code == 3 and value.detail == "d" and str(value) == "code 3" and isinstance(value, Failure)


class Refuses(list):
    def __reduce__(self):
        raise ValueError("not me")


class Unwilling:
    __slots__ = ("__dict__", "__hidden")

    def __init__(self):
        self.x, self.__hidden = 1, 2

    def __new__(cls, *needed):
        return super().__new__(cls)

    def __getstate__(self):
        raise SystemExit("not me")

    def total(self):
        return self.x + self.__hidden


class Lies:
    def __reduce_ex__(self, protocol):
        return "no such name at all"


class LiesMore:
    def __reduce_ex__(self, protocol):
        return 1, 2, 3


class Explodes:
    def __init__(self):
        self.x = 1

    def __setstate__(self, state):
        raise RuntimeError("boom")


def rebuild_badly():
    raise OSError("cannot")


class Unbuildable:
    def __reduce__(self):
        return rebuild_badly, ()


def generate():
    yield 1


class Holder:
    def __init__(self):
        self.file, self.generator, self.socket = LOG, generate(), socket.socket()
        self.thread, self.refuses, self.lies = threading.Thread(target=generate), Refuses(), LiesMore()
        self.explodes, self.unbuildable, self.unwilling = Explodes(), Unbuildable(), Unwilling()
        self.frame_name = "ok"

    def fine(self):
        return self.frame_name

    def touches(self):
        return self.file.read()


@case(Holder, missing=("file", "generator", "socket", "thread", "refuses"))
def what_cannot_travel_is_a_placeholder(value):
    assert value.fine() == "ok" and "missing" in repr(value.file) and "file" in repr(value.file)
    error = raises("MissingError", value.touches)
    assert "file" in str(error)
    for used in (
        len,
        iter,
        bool,
        int,
        lambda it: it + 1,
        lambda it: 1 - it,
        lambda it: it(),
        lambda it: it[0],
    ):
        raises("MissingError", used, value.generator)
    raises("MissingError", lambda: value.refuses.anything)
    raises("MissingError", setattr, value.refuses, "x", 1)
    assert "not me" in str(raises("MissingError", getattr, value.refuses, "x"))
    assert isinstance(value.explodes, Explodes)
    assert value.unwilling.total() == 3 and type(value.lies) is LiesMore


@case(lambda: Lies())
def object_that_names_itself_wrongly_travels_with_its_state(value):
    assert type(value) is Lies


def uses_modules(x):
    return deep.plus_offset(cargo.inner.deep.twice(x)), cargo.inner.LEVEL


@case(lambda: uses_modules)
def attributes_of_modules(value):
    assert value(1) == (102, "inner")
    assert "".join(("UN", "USED")) not in vars(deep)


def imports_inside(x):
    import os.path

    import cargo.inner.deep as somewhere
    from cargo.inner.deep import plus_offset as plus

    from .inner import deep as relative

    return plus(x) + somewhere.OFFSET + relative.twice(x), os.path.join("a", "b")


@case(lambda: imports_inside)
def modules_imported_inside_the_function(value):
    assert value(1) == (203, "a/b") or value(1)[0] == 203


@case(lambda: types.SimpleNamespace(module=deep))
def module_reached_as_data(value):
    assert value.module.plus_offset(1) == 101 and value.module is deep


def build_by_exec():
    namespace = {"K": 5, "__name__": "nowhere"}
    exec("def made(x):\n    return x + K\nclass Made:\n    def get(self):\n        return made(1)", namespace)
    return namespace["made"], namespace["Made"]


@case(build_by_exec)
def code_without_text(value):
    made, cls = value
    assert made(1) == 6 and cls().get() == 6


def chain(depth):
    """Functions that each use the next one, deeper than any stack."""
    namespace = {"__name__": "chained"}
    text = "\n".join(f"def f{i}(x): return f{i + 1}(x) if x else {i}" for i in range(depth))
    linecache.cache["<chained>"] = (len(text), None, text.splitlines(True), "<chained>")
    exec(compile(text, "<chained>", "exec"), namespace)
    return namespace["f0"]


@case(lambda: chain(3000))
def chain_of_functions_longer_than_the_stack(value):
    assert value(0) == 0


class Link:
    def __init__(self, after):
        self.after = after


def linked(length):
    last = None
    for _ in range(length):
        last = Link(last)
    return last


@case(lambda: linked(2000))
def data_nested_deeper_than_the_stack(value):
    count = 0
    while value is not None:
        value, count = value.after, count + 1
    assert count == 2000


@case(lambda: (sys.stdout, sys.__stderr__))
def standard_streams_are_those_of_the_replaying_process(value):
    assert value[0] is sys.stdout and value[1] is sys.__stderr__


def proxied():
    target = Link(5)
    return target, weakref.proxy(target), super(Link, target)


@case(proxied)
def weak_proxies_and_super_objects(value):
    target, proxy, parent = value
    assert proxy.after == 5 and proxy.__repr__.__self__ is target
    assert parent.__thisclass__ is Link and parent.__self__ is target


@case(lambda: (collections.OrderedDict(a=1).keys(), collections.OrderedDict(a=1).items()))
def views_of_ordered_dictionaries(value):
    assert list(value[0]) == ["a"] and list(value[1]) == [("a", 1)]
    assert type(value[0]) is type(collections.OrderedDict().keys())
