"""Remedies of recompilations: what is proposed, and what a replay of the sequence proves."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch
from programs import recorded

import replay
from replay.errors import ReplayError
from replay.findings.recompiles import CauseGroup
from replay.recompilation.counting import count
from replay.recompilation.remedies import prove
from replay.replayer import Trials, observe

SIZES, LIMIT = (3, 4, 5, 6), 3


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


def multiplied_in_place(x, n):
    x.mul_(n)


def writes():
    run = compiled(multiplied_in_place, dynamic=False)
    for n in (2, 3, 4, 5):
        run(torch.ones(3), n)


def kept_in_a_list(x, n, seen):
    seen.append(n)
    return x + 1


def notes():
    run, seen = compiled(kept_in_a_list, dynamic=False), []
    for n in (2, 3, 4, 5):
        run(torch.ones(3), n, seen)


def few_compilations():
    """A low limit is sooner hit."""
    return torch._dynamo.config.patch(recompile_limit=LIMIT)


def labels():
    run = compiled(labelled)
    with few_compilations():
        for n in range(6):
            run(torch.ones(3), f"step {n}")


def raising_labels():
    run = compiled(labelled, fullgraph=True)
    with few_compilations():
        for n in range(6):
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


def defaults():
    run, x, before = compiled(plus_one), torch.ones(3), torch.get_default_dtype()
    run(x)
    torch.set_default_dtype(torch.float64)
    try:
        run(x)
    finally:
        torch.set_default_dtype(before)


def closures():
    def multiplier(n):
        return lambda x: x * n

    run = compiled(applied, dynamic=False)
    for n in (2, 3, 4):
        run(torch.ones(3), multiplier(n))


def default_arguments():
    run = compiled(applied, dynamic=False)
    for n in (0.5, 1.5, 2.5):
        run(torch.ones(3), lambda x, n=n: x * n)


def inference():
    run, x = compiled(plus_one), torch.ones(3)
    run(x)
    with torch.no_grad():
        run(x)
    with torch.inference_mode():
        run(x)


def off_by_one(graph, example_inputs):
    """A backend that computes something else."""
    return lambda *inputs: tuple(one + 1 for one in graph(*inputs))


def wrong():
    run = torch.compile(plus_one, backend=off_by_one, dynamic=False)
    for size in SIZES:
        run(torch.ones(size))


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
    with few_compilations():
        for n in range(6):
            run(torch.ones(3), [0] * n)


def by_factor(x):
    return x * FACTOR


FACTOR = 1


def changing_globals():
    global FACTOR
    run = compiled(by_factor, dynamic=False)
    for value in (2, 3, 4):
        FACTOR = value
        run(torch.ones(3))


def strides():
    run = compiled(plus_one, dynamic=False)
    for x in (torch.ones(2, 3), torch.ones(3, 2).t()):
        run(x)


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
    "writes": (writes, [INTEGER]),
    "notes": (notes, [INTEGER]),
    "labels": (labels, [group("string", "L['label']", [repr(f"step {n}") for n in range(4)])]),
    "raising_labels": (
        raising_labels,
        [group("string", "L['label']", [repr(f"step {n}") for n in range(4)])],
    ),
    "counters": (counters, [group("attribute", "L['self'].step", (0, 1, 2, 3))]),
    "attributes": (attributes, [group("attribute", "L['self'].factor", (2, 3, 4))]),
    "functions": (functions, [group("function", "L['function'].__code__")]),
    "other_functions": (other_functions, [group("function", "L['function']")]),
    "classes": (classes, [group("type", "L['function']")]),
    "modes": (modes, [group("grad_mode", "", ("True", "False"))]),
    "defaults": (defaults, [group("global_state", "default_dtype", ("float32", "float64"))]),
    "closures": (closures, [group("function", "L['function'].__closure__[0].cell_contents", (2, 3, 4))]),
    "default_arguments": (
        default_arguments,
        [group("function", "L['function'].__defaults__[0]", (0.5, 1.5))],
    ),
    "inference": (inference, [group("grad_mode", "grad_mode", ("True", "False"))]),
    "wrong": (wrong, [SIZE]),
    "dtypes": (dtypes, [group("dtype", "L['x']", ("torch.float32", "torch.float64"))]),
    "gradients": (gradients, [group("requires_grad", "L['x']")]),
    "types": (types, [group("type", "L['n']", ("int", "float"))]),
    "sizes_and_integers": (sizes_and_integers, [SIZE, INTEGER]),
    "sizes_and_names": (
        sizes_and_names,
        [SIZE, group("size", "L['y']", SIZES, 0), group("string", "L['name']", ("'a'", "'b'"))],
    ),
    "lengths": (lengths, [group("length", "L['items']", range(4))]),
    "changing_globals": (changing_globals, [group("integer", "G['FACTOR']", (2, 3, 4))]),
    "strides": (strides, [group("stride", "L['x']", (3, 1), 0)]),
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
def bundles(tmp_path_factory):
    """A recorded bundle of each case, by its name."""
    folder, found = tmp_path_factory.mktemp("remedies"), {}
    for name, (program, _) in CASES.items():
        (found[name],) = recorded(folder / name, program, on="recompile").bundles
    return found


@pytest.fixture(scope="module")
def proven(bundles):
    """By case: the remedies by their names. Each case is asked once."""

    @functools.cache
    def ask(name):
        with replay.load(bundles[name]) as bundle:
            plain = replay.run(bundle, isolate=False)
            found, tried = prove(bundle, Here(bundle), CASES[name][1], count(plain.calls), plain=plain)
        assert tried >= len(found)
        return {one.name: one for one in found}

    return ask


def before_and_after(one):
    return (one.before.compiles, one.before.uncompiled), (one.after.compiles, one.after.uncompiled)


PROVEN = [
    ("sizes", "mark_dynamic", (4, 0), (1, 0), "torch._dynamo.mark_dynamic(x, 0)  # before every call"),
    (
        "sizes",
        "mark_unbacked",
        (4, 0),
        (1, 0),
        "torch._dynamo.decorators.mark_unbacked(x, 0)  # before every call",
    ),
    ("sizes", "dynamic=True", (4, 0), (1, 0), "torch.compile(plus_one, dynamic=True)"),
    ("sizes", "automatic dynamic", (4, 0), (2, 0), "torch.compile(plus_one)  # without dynamic=False"),
    (
        "inner_sizes",
        "mark_dynamic",
        (4, 0),
        (1, 0),
        "torch._dynamo.mark_dynamic(pair[0], 0)  # before every call",
    ),
    ("integers", "tensor", (4, 0), (1, 0), "n = torch.tensor(n)  # before every call"),
    ("writes", "tensor", (4, 0), (1, 0), "n = torch.tensor(n)  # before every call"),
    ("changing_globals", "tensor", (3, 0), (1, 0), "FACTOR = torch.tensor(FACTOR)  # before every call"),
    ("strides", "contiguous", (2, 0), (1, 0), "x = x.contiguous()  # before every call"),
    ("branches", "dynamic=True", (4, 0), (2, 0), "torch.compile(branching, dynamic=True)"),
    ("floats", "tensor", (2, 0), (1, 0), "n = torch.tensor(n, dtype=torch.float64)  # before every call"),
    ("types", "tensor", (2, 0), (1, 0), "n = torch.tensor(n, dtype=torch.float64)  # before every call"),
    (
        "counters",
        "tensor",
        (4, 0),
        (1, 0),
        'self.register_buffer("step", torch.tensor(self.step), persistent=False)',
    ),
    (
        "counters",
        "move out",
        (4, 0),
        (1, 0),
        "# keep self.step outside of forward, which sees one value of it in every call",
    ),
    (
        "attributes",
        "allow_unspec_int_on_nn_module=True",
        (3, 0),
        (2, 0),
        "torch._dynamo.config.allow_unspec_int_on_nn_module = True",
    ),
    (
        "functions",
        "hoist",
        (3, 0),
        (1, 0),
        "# make function once, before the first call, and pass the same object in every call",
    ),
    (
        "classes",
        "hoist",
        (3, 0),
        (1, 0),
        "# make function once, before the first call, and pass the same object in every call",
    ),
    ("modes", "enable_grad", (2, 0), (1, 0), "with torch.enable_grad():  # around every call"),
    ("modes", "no_grad", (2, 0), (1, 0), "with torch.no_grad():  # around every call"),
    (
        "defaults",
        "one state",
        (2, 0),
        (1, 0),
        "# set once, before the first call, and leave as it was there: default_dtype=float32",
    ),
    (
        "inference",
        "one mode",
        (3, 0),
        (1, 0),
        "# make every call under the modes of the first: grad_enabled=True, inference_mode=False",
    ),
    (
        "closures",
        "captured tensor",
        (3, 0),
        (1, 0),
        "# in function, close over a tensor in place of the number: torch.tensor(2)",
    ),
    (
        "default_arguments",
        "captured tensor",
        (3, 0),
        (1, 0),
        "# in function, make the default a tensor in place of the number: torch.tensor(0.5)",
    ),
    ("dtypes", "one dtype", (3, 0), (1, 0), "x = x.to(torch.float32)  # before every call"),
    ("gradients", "one requires_grad", (2, 0), (1, 0), "x = x.detach()  # before every call"),
    ("lengths", "recompile_limit", (3, 1), (4, 0), "torch._dynamo.config.recompile_limit = 4"),
    ("labels", "recompile_limit", (3, 1), (4, 0), "torch._dynamo.config.recompile_limit = 4"),
    (
        "labels",
        "leave out",
        (3, 1),
        (1, 0),
        "# give labelled the same label in every call, and use what changes outside",
    ),
    (
        "other_functions",
        "eager_on_recompile",
        (3, 0),
        (1, 2),
        'torch.compiler.set_stance("eager_on_recompile")  # after the first call',
    ),
]


@pytest.mark.parametrize(("case", "name", "before", "after", "change"), PROVEN)
def test_a_remedy_is_proven_by_the_calls_with_it(case, name, before, after, change, proven):
    one = proven(case)[name]
    assert before_and_after(one) == (before, after)
    assert (one.change, one.same, one.after.errors) == (change, True, 0)
    assert one.after.seconds > 0


NOT_PROVEN = [
    ("sizes_and_names", "mark_dynamic"),  # the other causes are still there
    ("branches", "tensor"),  # breaks the graph
    ("branches", "leave out"),  # changes the results
    ("writes", "leave out"),
    ("notes", "leave out"),
    ("notes", "tensor"),  # a tensor is in the list then
    ("attributes", "move out"),
    ("integers", "leave out"),
    ("other_functions", "hoist"),  # the functions are not equal
    ("types", "float"),  # floats are constants too
    ("lengths", "leave out"),
    ("sizes", "eager_on_recompile"),  # there is better
    ("lengths", "eager_on_recompile"),
]


@pytest.mark.parametrize(("case", "name"), NOT_PROVEN)
def test_what_does_not_help_or_gives_something_else_is_not_returned(case, name, proven):
    assert name not in proven(case)


def test_where_compiled_code_is_wrong_without_a_remedy_too_nothing_is_said_of_results(proven):
    found = proven("wrong")
    assert found["mark_dynamic"].same is None
    assert before_and_after(found["mark_dynamic"]) == ((4, 0), (1, 0))


def test_the_limit_that_was_hit_is_the_one_to_raise(bundles):
    options = {"recompile_limit": 9, "accumulated_recompile_limit": 2}
    with replay.load(bundles["labels"]) as bundle:
        plain = replay.run(bundle, isolate=False, **options)
        found, _ = prove(bundle, Here(bundle), [], count(plain.calls), options=options, plain=plain)
    (one,) = found
    assert (one.name, one.before.compiles, one.after.compiles) == ("accumulated_recompile_limit", 2, 4)
    assert one.options == {"recompile_limit": 9, "accumulated_recompile_limit": 4}


def test_a_limit_that_raises_is_raised(proven):
    one = proven("raising_labels")["recompile_limit"]
    assert before_and_after(one) == ((3, 0), (4, 0)) and (one.before.errors, one.after.errors) == (1, 0)
    assert (one.after.errors, one.same) == (0, True)


def test_of_several_causes_the_best_of_each_are_tried_together(proven):
    (one,) = proven("sizes_and_names").values()
    assert before_and_after(one) == ((4, 0), (1, 0))
    assert (one.cause, one.source, one.same) == (None, "x, y, name", True)
    assert one.change.splitlines() == [
        "torch._dynamo.mark_dynamic(x, 0)  # before every call",
        "torch._dynamo.mark_dynamic(y, 0)  # before every call",
        "# give two_sizes the same name in every call, and use what changes outside",
    ]


def test_where_no_cause_is_alone_the_first_of_each_are_tried_together_at_once(bundles):
    causes = [replace(one, sole=()) for one in (SIZE, INTEGER)]
    with replay.load(bundles["sizes_and_integers"]) as bundle:
        plain = replay.run(bundle, isolate=False)
        found, tried = prove(bundle, Here(bundle), causes, count(plain.calls), plain=plain)
    assert [(one.name, one.after.compiles) for one in found] == [
        ("mark_dynamic + tensor", 1),
        ("dynamic=True", 1),
        ("automatic dynamic", 2),
    ]
    assert tried == 3
    assert found[0].change.splitlines() == [
        "torch._dynamo.mark_dynamic(x, 0)  # before every call",
        "n = torch.tensor(n)  # before every call",
    ]


def test_the_best_comes_first(proven):
    assert next(iter(proven("sizes"))) == "mark_dynamic"
    for case in ("sizes", "integers", "counters", "labels"):
        found = list(proven(case).values())
        keys = [(one.after.uncompiled, one.after.compiles) for one in found]
        assert keys == sorted(keys)


def test_options_show_a_remedy_again(proven, bundles):
    one = proven("sizes")["automatic dynamic"]
    again = replay.run(bundles["sizes"], isolate=False, **one.options)
    assert count(again.calls).compiles == one.after.compiles == 2
    assert proven("sizes")["mark_dynamic"].options == {}


def test_what_was_chosen_for_every_replay_holds_for_the_remedies_too(proven, bundles):
    options, told = {"recompile_limit": 2, "config": {"dynamo.verbose": True}}, []
    with replay.load(bundles["counters"]) as bundle:
        plain = replay.run(bundle, isolate=False, **options)
        before = count(plain.calls)
        assert (before.compiles, before.uncompiled) == (2, 2)
        found, tried = prove(
            bundle,
            Here(bundle),
            CASES["counters"][1],
            before,
            options=options,
            heard=lambda ended, of: told.append((ended, of)),
        )
    by_name = {one.name: one for one in found}
    assert by_name["allow_unspec_int_on_nn_module=True"].options == {
        "recompile_limit": 2,
        "config": {"dynamo.verbose": True, "dynamo.allow_unspec_int_on_nn_module": True},
    }
    assert told == [(at, tried + 1) for at in range(1, tried + 2)]  # and the replay without a remedy


def test_trials_in_processes_of_their_own_prove_the_same(bundles):
    with replay.load(bundles["sizes"]) as bundle, Trials(bundle, jobs=2) as trials:
        before = count(replay.run(bundle, isolate=False).calls)
        found, tried = prove(bundle, trials, CASES["sizes"][1], before)
    assert (tried, len(found)) == (4, 4)
    assert [(one.name, one.after.compiles) for one in found[:2]] == [("mark_dynamic", 1), ("dynamic=True", 1)]
