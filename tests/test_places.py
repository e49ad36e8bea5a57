"""Places in a call: what stands there is replaced, and what outlives the call is put back."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import torch

from replay.replayer import places
from replay.replayer.places import Arguments, NoPlaceError, Place

SCALE = 2


class Thing:
    def __init__(self):
        self.step = 1


class Slotted:
    __slots__ = ("step",)

    def __init__(self):
        self.step = 1


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step, self.layers = 1, torch.nn.ModuleList([torch.nn.Linear(2, 2)])


def called(x, *rest, flag=False, **more):
    return x, rest, flag, more, SCALE


def changed(place, positional=(), keywords=None, *, function=called, how=lambda value: -value):
    """The arguments of a call with something else at a place."""
    arguments = Arguments(positional, keywords or {})
    with ExitStack() as stack:
        places.change(place, function, arguments, how, stack)
        return arguments.positional, arguments.keywords


def local(name, *path):
    return Place("local", name, path)


@pytest.mark.parametrize(
    ("place", "positional", "keywords", "expected"),
    [
        (local("x"), (1,), {}, ((-1,), {})),
        (local("x"), (), {"x": 1}, ((-1,), {})),
        (local("rest", ("item", 1)), (1, 2, 3), {}, ((1, 2, -3), {})),
        (local("more", ("item", "b")), (1,), {"b": 2}, ((1,), {"flag": False, "b": -2})),
        (local("flag"), (1,), {"flag": 5}, ((1,), {"flag": -5})),
        (local("x", ("item", "a"), ("item", 0)), ({"a": [1, 2]},), {}, (({"a": [-1, 2]},), {})),
    ],
)
def test_an_argument_is_replaced_wherever_it_was_given(place, positional, keywords, expected):
    got, given = changed(place, positional, keywords)
    assert (got, {"flag": False, **given}) == (expected[0], {"flag": False, **expected[1]})


def test_the_callers_containers_stay_as_they_are():
    given = {"a": [1, 2]}
    changed(local("x", ("item", "a"), ("item", 0)), (given,))
    assert given == {"a": [1, 2]}


@pytest.mark.parametrize("kind", [Thing, Slotted])
def test_an_attribute_is_other_during_the_call_and_put_back_after_it(kind):
    thing = kind()
    with ExitStack() as stack:
        places.change(
            local("x", ("attribute", "step")), called, Arguments((thing,), {}), lambda one: one + 4, stack
        )
        assert thing.step == 5
    assert thing.step == 1


def test_a_tensor_in_place_of_a_modules_number_is_a_buffer():
    module = Module()
    with ExitStack() as stack:
        places.change(
            local("x", ("attribute", "step")), called, Arguments((module,), {}), torch.tensor, stack
        )
        assert dict(module.named_buffers())["step"] == 1
    assert (module.step, dict(module.named_buffers())) == (1, {})


def test_a_module_in_a_list_is_reached_by_its_number():
    module = Module()
    place = local("x", ("attribute", "layers"), ("attribute", "0"), ("attribute", "in_features"))
    assert places.owner(place, called, Arguments((module,), {})) is module.layers[0]


def test_globals_and_closures_are_put_back():
    factor = 3

    def scaled(x):
        return x * factor

    def inner(x, function):
        return function(x)

    with ExitStack() as stack:
        nothing = Arguments((1,), {})
        places.change(Place("global", "SCALE", ()), called, nothing, lambda one: one + 5, stack)
        places.change(local("factor"), scaled, nothing, lambda one: one + 1, stack)
        places.change(
            local("function", ("cell", 0)), inner, Arguments((1, scaled), {}), lambda one: one * 10, stack
        )
        assert called(0)[-1] == 7
        assert scaled(1) == 40
    assert (called(0)[-1], scaled(1)) == (2, 3)


@pytest.mark.parametrize(
    "place",
    [
        local("y"),
        Place("global", "NOT_THERE", ()),
        Place("global", "__import_not_there", ()),
        local("x", ("attribute", "a")),
        local("x", ("item", 9)),
        local("x", ("cell", 0)),
        local("x", ("item", 0), ("attribute", "real")),
    ],
)
def test_a_call_without_the_place_says_so(place):
    with pytest.raises(NoPlaceError):
        changed(place, ((1, 2),))


def test_the_same_object_replaces_nothing():
    given = ([1],)
    assert changed(local("x", ("item", 0)), given, how=lambda one: one)[0] is given
