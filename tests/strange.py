"""Programs that are odd in one way each, and fail to compile."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
import enum
import functools
import os
import threading
import weakref

import torch
import torch._dynamo
from programs import no_relu

PROGRAMS = {}
GNONE = None
NT = collections.namedtuple("NT", "a b")


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def always(gm, example_inputs):
    raise ValueError("always")


@dataclasses.dataclass
class Cfg:
    a: int
    t: torch.Tensor
    d: dict


class Node:
    def __init__(self, n):
        self.next = n
        self.v = 1


def chain(n):
    h = None
    for _ in range(n):
        h = Node(h)
    return h


class Reduce:
    def __reduce__(self):
        raise RuntimeError("reduce fails")

    v = 2


class Color(enum.Enum):
    RED = 1


@program
def one_of_two_lambdas_on_a_line():
    fs = [lambda x: x.relu(), lambda x: x.relu() + 1]
    torch.compile(fs[1], backend=no_relu)(torch.ones(3))


@program
def functools_partial():
    def f(a, x, *, k):
        return (a * x * k).relu()

    torch.compile(functools.partial(f, 2, k=3), backend=no_relu)(torch.ones(3))


@program
def bound_method():
    class A:
        w = 3

        def m(self, x):
            return (x * self.w).relu()

    torch.compile(A().m, backend=no_relu)(torch.ones(3))


@program
def class_method():
    class A:
        w = 3

        @classmethod
        def m(cls, x):
            return (x * cls.w).relu()

        @staticmethod
        def s(x):
            return x.relu()

    torch.compile(A.m, backend=no_relu)(torch.ones(3))


@program
def callable_object():
    class A:
        def __call__(self, x):
            return x.relu()

    torch.compile(A(), backend=no_relu)(torch.ones(3))


@program
def closure_over_loop_variables():
    fs = []
    for i in range(3):

        def g(x, i=i):
            def h():
                return x + i

            return h().relu()

        fs.append(g)
    torch.compile(fs[2], backend=no_relu)(torch.ones(3))


@program
def every_kind_of_argument():
    def f(a, /, b, *args, k, d=4, **kw):
        def inner():
            return a + b + k

        return (inner() + args[0] + kw["z"]).relu()

    o = torch.ones(3)
    torch.compile(f, backend=no_relu)(o, o, o, o, k=o, z=o)


@program
def rebound_and_deleted_arguments():
    def f(x, y):
        y = x + 1
        del x
        x = y
        return x.relu()

    torch.compile(f, backend=no_relu)(torch.ones(3), 3)


@program
def argument_deleted_before_a_break():
    def f(x, y):
        z = x + y
        del x
        torch._dynamo.graph_break()
        return z.relu()

    torch.compile(f, backend=no_relu)(torch.ones(3), 3)


@program
def global_that_is_none():
    def f(x):
        if GNONE is None:
            x = x + 1
        return x.relu()

    torch.compile(f, backend=no_relu)(torch.ones(3))


@program
def dataclass_argument():
    def f(c):
        return (c.t * c.a + c.d["x"]).relu()

    torch.compile(f, backend=no_relu)(Cfg(2, torch.ones(3), {"x": torch.zeros(3)}))


@program
def optimizer_step():
    p = torch.nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    opt = torch.optim.Adam([p])

    def bad(gm, ex):
        raise ValueError("no optimizers here")

    @torch.compile(backend=bad)
    def step():
        opt.step()

    step()


@program
def linked_list_of_ten_thousand():
    h = chain(10000)

    def f(x, h):
        return (x + h.v).relu()

    torch.compile(f, backend=no_relu)(torch.ones(3), h)


@program
def code_from_exec():
    ns = {"torch": torch}
    exec("def f(x):\n    y = x + 1\n    return y.relu()\n", ns)
    torch.compile(ns["f"], backend=no_relu)(torch.ones(3))


@program
def object_that_cannot_be_pickled():
    def f(x, o):
        return x.relu()

    torch.compile(f, backend=no_relu)(torch.ones(3), Reduce())


@program
def huge_containers():
    big = list(range(20_000))
    dd = {i: str(i) for i in range(20_000)}

    def f(x, b, d):
        return (x + b[3]).relu()

    torch.compile(f, backend=no_relu)(torch.ones(3), big, dd)


@program
def coroutine_function():
    async def f(x):
        return x.relu()

    async def main():
        return await torch.compile(f, backend=no_relu)(torch.ones(3))

    print(asyncio.run(main()))


@program
def backend_that_returns_none():
    def bad(gm, ex):
        return None

    def f(x):
        return x.relu()

    torch.compile(f, backend=bad)(torch.ones(3))


@program
def assertion_in_the_backend():
    def bad(gm, ex):
        assert gm is None

    def f(x):
        return x.relu()

    torch.compile(f, backend=bad)(torch.ones(3))


@program
def thread_pool():
    def f(x):
        return x.relu()

    def job(i):
        try:
            torch.compile(f, backend=no_relu)(torch.ones(3))
        except Exception as e:
            return e

    with concurrent.futures.ThreadPoolExecutor(4) as p:
        raise next(error for error in p.map(job, range(8)) if error)


@program
def threads_and_coroutines():
    def f(x):
        return x.relu()

    async def job():
        await asyncio.sleep(0)
        await asyncio.to_thread(lambda: torch.compile(f, backend=no_relu)(torch.ones(3)))

    async def main():
        r = await asyncio.gather(job(), job(), return_exceptions=True)
        raise r[0]

    asyncio.run(main())


@program
def tensor_subclass():
    class S(torch.Tensor):
        pass

    def f(x):
        return x.relu()

    torch.compile(f, backend=no_relu)(torch.ones(3).as_subclass(S))


@program
def sparse_tensor():
    def f(x, s):
        return x.relu()

    torch.compile(f, backend=always)(torch.ones(3), torch.eye(3).to_sparse())


@program
def jagged_tensor():
    def f(x, n):
        return x.relu() + n.values().sum()

    torch.compile(f, backend=always)(
        torch.ones(3), torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    )


@program
def higher_order_operator():
    def f(p, x):
        return torch.cond(p, lambda x: x.relu(), lambda x: x + 1, (x,))

    torch.compile(f, backend=always)(torch.tensor(True), torch.ones(3))


@program
def dict_of_tensors():
    def f(d):
        return {k: v.relu() for k, v in d.items()}

    torch.compile(f, backend=no_relu)({"a": torch.ones(3), "b": torch.zeros(2)})


@program
def mutated_after_break():
    def f(x, d):
        x.add_(1)
        d["k"] = x
        d["n"] += 1
        torch._dynamo.graph_break()
        return d["k"].relu()

    torch.compile(f, backend=no_relu)(torch.ones(3), {"n": 1})


@program
def enum_and_named_tuple():
    def f(x, c, n):
        return (x.relu() if c is Color.RED else x) + n.a

    torch.compile(f, backend=no_relu)(torch.ones(3), Color.RED, NT(1, torch.ones(3)))


@program
def training_step():
    m = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5))
    o = torch.optim.SGD(m.parameters(), lr=0.1)

    def step(x):
        o.zero_grad()
        loss = m(x).relu().sum()
        loss.backward()
        o.step()
        return loss

    torch.compile(step, backend=no_relu)(torch.ones(4, 3))


@program
def module_with_a_hook():
    m = torch.nn.Linear(3, 3)
    m.register_forward_hook(lambda mod, a, out: out.relu())
    torch.compile(m, backend=no_relu)(torch.ones(3))


@program
def inherited_forward():
    class B(torch.nn.Module):
        def forward(self, x):
            return self.act(x)

    class C(B):
        def act(self, x):
            return super().__getattribute__("k")(x)

        def k(self, x):
            return x.relu()

    torch.compile(C(), backend=no_relu)(torch.ones(3))


@program
def context_manager():
    @contextlib.contextmanager
    def cm():
        yield 3

    def f(x):
        with cm() as k:
            return (x * k).relu()

    torch.compile(f, backend=no_relu)(torch.ones(3))


@program
def slots_and_property():
    class P:
        __slots__ = ("t",)

        def __init__(s):
            s.t = torch.ones(3)

        @property
        def v(s):
            return s.t * 2

    def f(p):
        return p.v.relu()

    torch.compile(f, backend=no_relu)(P())


@program
def object_with_lock_file_and_thread():
    class H:
        def __init__(s):
            s.lock = threading.Lock()
            s.w = torch.ones(3)
            s.log = open(os.devnull, "w")  # noqa: SIM115
            s.thread = threading.current_thread()

    def f(h):
        return h.w.relu()

    torch.compile(f, backend=no_relu)(H())


@program
def cached_function():
    @functools.lru_cache
    def k(n):
        return n * 2

    def f(x):
        return (x * k(3)).relu()

    torch.compile(f, backend=no_relu)(torch.ones(3))


@program
def exception_with_a_constructor_of_its_own():
    class E(Exception):
        def __init__(s, a, b):
            super().__init__(a)
            s.b = b

    def bad(gm, ex):
        raise E("a", torch.ones(3))

    def f(x):
        return x.relu()

    torch.compile(f, backend=bad)(torch.ones(3))


@program
def lambda_over_many_lines():
    f = lambda x: x.relu().sum()
    torch.compile(f, backend=no_relu)(torch.ones(3))


@program
def decorated_function():
    def d(g):
        @functools.wraps(g)
        def w(*a, **k):
            return g(*a, **k).relu()

        return w

    @d
    def f(x):
        return x + 1

    torch.compile(f, backend=no_relu)(torch.ones(3))


@program
def vmap_inside():
    def f(x):
        return torch.vmap(lambda y: y.relu())(x)

    torch.compile(f, backend=no_relu)(torch.ones(3, 3))


@program
def grad_inside():
    def f(x):
        return torch.func.grad(lambda y: y.relu().sum())(x)

    torch.compile(f, backend=no_relu)(torch.ones(3))


@program
def recursive_function():
    def f(x, n):
        return x.relu() if n == 0 else f(x + 1, n - 1)

    torch.compile(f, backend=no_relu)(torch.ones(3), 5)


@program
def deep_stack():
    def f(x):
        return x.relu()

    def deep(n):
        return torch.compile(f, backend=no_relu)(torch.ones(3)) if n == 0 else deep(n - 1)

    deep(700)


@program
def compiled_submodule():
    class M(torch.nn.Module):
        def __init__(s):
            super().__init__()
            s.l = torch.compile(torch.nn.Linear(3, 3), backend="eager")

        def forward(s, x):
            return s.l(x).relu()

    torch.compile(M(), backend=no_relu)(torch.ones(3))


@program
def call_of_a_disabled_function():
    @torch.compiler.disable
    def g(x):
        return x + 1

    def f(x):
        return g(x).relu()

    torch.compile(f, backend=no_relu)(torch.ones(3))


@program
def odd_constants():
    def f(x, *a):
        return x.relu()

    torch.compile(f, backend=no_relu)(
        torch.ones(3), b"\x00", {1, 2}, frozenset("a"), range(3), slice(1), ..., 1j, float("nan"), 10**40
    )


@program
def numpy_array():
    import numpy as np

    def f(a):
        return torch.from_numpy(a).relu()

    torch.compile(f, backend=no_relu)(np.ones(3))


@program
def list_that_holds_itself():
    ring = [torch.ones(3)]
    ring.append(ring)

    def f(one):
        return one[0].relu()

    torch.compile(f, backend=no_relu)(ring)


@program
def tensor_in_a_default():
    D = {"s": torch.ones(3)}

    def f(x, *, d=D):
        return (x + d["s"]).relu()

    torch.compile(f, backend=no_relu)(torch.ones(3))


@program
def weak_reference():
    class A:
        pass

    a = A()
    a.w = 2
    r = weakref.ref(a)

    def f(x):
        return (x * r().w).relu()

    torch.compile(f, backend=no_relu)(torch.ones(3))


@program
def two_windows_of_one_storage():
    b = torch.randn(1000, 1000)

    def f(x, y):
        return (x[0] + y[0]).relu()

    torch.compile(f, backend=no_relu)(b[:2, :3], b[1:3, :3])


@program
def marked_dynamic():
    x = torch.ones(5)
    torch._dynamo.mark_dynamic(x, 0)

    def nd(gm, ex):
        if any(isinstance(e, torch.SymInt) for e in ex):
            raise ValueError("dyn")
        return gm

    torch.compile(lambda x: x + 1, backend=nd)(x)


@program
def limit_of_one_compile():
    def f(x, s):
        return x + len(s)

    c = torch.compile(f, backend="eager", fullgraph=True, recompile_limit=2)
    for i in range(12):
        c(torch.ones(3), f"x{i}")


@program
def error_on_graph_break():
    def f(x):
        with torch._dynamo.error_on_graph_break(True):
            torch._dynamo.graph_break()
        return x + 1

    torch.compile(f, backend="eager")(torch.ones(3))


@program
def generator_inside():
    def g(x):
        yield x.relu()

    def f(x):
        return next(iter(g(x)))

    torch.compile(f, backend=no_relu)(torch.ones(3))
