"""Remedies of recompilations: what is proposed, and what a replay of the sequence proves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from programs import recorded

import replay
from replay.errors import ReplayError
from replay.findings.recompiles import CauseGroup
from replay.recompilation.proposals import Proposal, Setting, propose, propose_limit
from replay.recompilation.remedies import counted, distinct, in_turn, joined, merged, prove
from replay.recompilation.sources import Source, parse, show
from replay.replayer import Trials, observe

SIZES, LIMIT = (3, 4, 5, 6), 8


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * 2


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 1

    def forward(self, x):
        return x * self.factor


def plus_one(x):
    return x + 1


def times(x, n):
    return x * n


def branching(x, n):
    return x * 2 if n > 4 else x * 3


def labelled(x, label):
    return x + 1 if label else x


def applied(x, function):
    return function(x)


def both(x, n):
    return x.sum() * n


def two_sizes(x, y, name):
    return (x.sum() + y.sum()) * (1 if name else 2)


def counted_items(x, items):
    return x * len(items)


def scaled_first(pair, scale=1):
    return pair[0] * scale


def compiled(function, **options):
    return torch.compile(function, backend="eager", **options)


def sizes():
    run = compiled(plus_one, dynamic=False)
    for size in SIZES:
        run(torch.ones(size))


def integers():
    run = compiled(times, dynamic=False)
    for n in (2, 3, 4, 5):
        run(torch.ones(3), n)


def floats():
    run = compiled(times)
    for n in (0.25, 0.5, 0.75, 1.5):
        run(torch.ones(3), n)


def branches():
    run = compiled(branching, dynamic=False)
    for n in (2, 3, 6, 7):
        run(torch.ones(3), n)


def labels():
    run = compiled(labelled)
    for n in range(12):
        run(torch.ones(3), f"step {n}")


def counters():
    run = compiled(Counter())
    for _ in range(4):
        run(torch.ones(3))


def attributes():
    module = Scaled()
    run = compiled(module)
    for n in (2, 3, 4):
        module.factor = n
        run(torch.ones(3))


def functions():
    run = compiled(applied)
    for _ in range(3):
        run(torch.ones(3), eval("lambda x: x * 2"))


def other_functions():
    run = compiled(applied)
    for n in range(3):
        run(torch.ones(3), eval(f"lambda x: x * {n}"))


def classes():
    run = compiled(applied)
    for _ in range(3):

        class Twice:
            def __call__(self, x):
                return x * 2

        run(torch.ones(3), Twice())


def modes():
    run, x = compiled(plus_one), torch.ones(3)
    run(x)
    with torch.no_grad():
        run(x)


def threads():
    run, x, before = compiled(plus_one), torch.ones(3), torch.get_default_dtype()
    run(x)
    torch.set_default_dtype(torch.float64)
    try:
        run(x)
    finally:
        torch.set_default_dtype(before)


def dtypes():
    run = compiled(plus_one)
    for dtype in (torch.float32, torch.float64, torch.float16):
        run(torch.ones(3, dtype=dtype))


def gradients():
    run = compiled(plus_one)
    for wanted in (False, True):
        run(torch.ones(3, requires_grad=wanted))


def types():
    run = compiled(times)
    for n in (2, 2.5):
        run(torch.ones(3), n)


def sizes_and_integers():
    run = compiled(both, dynamic=False)
    for n in (2, 3, 4, 5):
        run(torch.ones(n + 1), n)


def sizes_and_names():
    run = compiled(two_sizes, dynamic=False)
    for n in (3, 4, 5, 6):
        run(torch.ones(n), torch.ones(n + 1), f"step {n}")


def lengths():
    run = compiled(counted_items)
    for n in range(12):
        run(torch.ones(3), [0] * n)


def inner_sizes():
    run = compiled(scaled_first, dynamic=False)
    for size in SIZES:
        run((torch.ones(size), 1), scale=2)


def group(cause, source, values=(), dimension=None, calls=(1, 2, 3)):
    return CauseGroup(cause, source, dimension, tuple(calls), tuple(calls), tuple(map(str, values)))


SIZE, INTEGER = group("size", "L['x']", SIZES, 0), group("integer", "L['n']", (2, 3, 4, 5))
CASES = {
    "sizes": (sizes, [SIZE]),
    "integers": (integers, [INTEGER]),
    "floats": (floats, [group("float", "L['n']", (0.25, 0.5, 0.75, 1.5))]),
    "branches": (branches, [group("integer", "L['n']", (2, 3, 6, 7))]),
    "labels": (labels, [group("string", "L['label']", [repr(f"step {n}") for n in range(9)])]),
    "counters": (counters, [group("attribute", "L['self'].step", (0, 1, 2, 3))]),
    "attributes": (attributes, [group("attribute", "L['self'].factor", (2, 3, 4))]),
    "functions": (functions, [group("function", "L['function'].__code__")]),
    "other_functions": (other_functions, [group("function", "L['function']")]),
    "classes": (classes, [group("type", "L['function']")]),
    "modes": (modes, [group("grad_mode", "", ("True", "False"))]),
    "threads": (threads, [group("global_state", "")]),
    "dtypes": (dtypes, [group("dtype", "L['x']", ("torch.float32", "torch.float64"))]),
    "gradients": (gradients, [group("requires_grad", "L['x']")]),
    "types": (types, [group("type", "L['n']", ("int", "float"))]),
    "sizes_and_integers": (sizes_and_integers, [SIZE, INTEGER]),
    "sizes_and_names": (
        sizes_and_names,
        [SIZE, group("size", "L['y']", SIZES, 0), group("string", "L['name']", ("'a'", "'b'"))],
    ),
    "lengths": (lengths, [group("length", "L['items']", range(9))]),
    "inner_sizes": (inner_sizes, [group("size", "L['pair'][0]", SIZES, 0)]),
}


class Here:
    """Trials in this process: what the trials find is the same, and no process is started for them."""

    def __init__(self, bundle):
        self.bundle = bundle

    def run(self, trials, heard=None):
        done = []
        for at, one in enumerate(trials):
            try:
                seen = observe(self.bundle, one.instruments, one.options, isolate=False)
            except ReplayError as error:
                done.append(replace(one, refused=str(error)))
            else:
                done.append(replace(one, outcome=seen.outcome, found=seen.found))
            if heard is not None:
                heard(at, done[-1])
        return done


@pytest.fixture(scope="module")
def proven(tmp_path_factory):
    """By case: what is proven, asked for once."""
    folder, known = tmp_path_factory.mktemp("remedies"), {}

    def ask(name):
        if name not in known:
            (path,) = recorded(folder / name, CASES[name][0], on="recompile").bundles
            with replay.load(path) as bundle:
                plain = replay.run(bundle, isolate=False)
                known[name] = prove(bundle, Here(bundle), CASES[name][1], counted(plain, 0), plain=plain)
        found, tried = known[name]
        assert tried >= len(found)
        return {one.name: one for one in found}

    return ask


@pytest.mark.parametrize("name", CASES)
def test_look(name, proven):
    print("=====", name)
    for one in proven(name).values():
        print("   ", one.name, one.before.compiles, one.after, one.same, one.change, one.options)
