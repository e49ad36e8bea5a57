"""How objects are asked for their pickling: a time limit, what is not asked again, and what becomes of them."""

from __future__ import annotations

import contextlib
import contextvars
import signal
import struct
import threading
import time
import types
from typing import NewType

import pytest
from test_shipping import dump, loaded

from replay.errors import MissingError
from replay.shipping import asking, patience
from replay.shipping.dumping import Dumping
from replay.shipping.policy import Policy

VARIABLE = contextvars.ContextVar("VARIABLE", default=1)


@contextlib.contextmanager
def the_timer_is_free():
    """pytest-timeout uses the timer that interrupts calls; it waits while inside."""
    remaining, handler = (
        signal.setitimer(signal.ITIMER_REAL, 0),
        signal.signal(signal.SIGALRM, signal.SIG_DFL),
    )
    try:
        yield
    finally:
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        assert signal.signal(signal.SIGALRM, handler) is signal.SIG_DFL
        signal.setitimer(signal.ITIMER_REAL, *remaining)


@pytest.fixture(params=["interrupted", "in a thread"])
def impatient(request, monkeypatch):
    """Both ways of limiting a call, with a short limit."""
    monkeypatch.setattr(patience, "SECONDS", 0.2)
    if request.param == "in a thread":
        monkeypatch.setattr(patience, "_timer_is_free", lambda: False)
        yield
    else:
        with the_timer_is_free():
            assert patience._timer_is_free()
            yield


def sleep():
    time.sleep(100)


def loop():
    while True:
        pass


def wait_for_a_lock():
    lock = threading.Lock()
    with lock, lock:
        pass


def swallow():
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            if time.monotonic() > SWALLOW_UNTIL[0]:
                raise


SWALLOW_UNTIL = [0.0]


@pytest.mark.parametrize("function", [sleep, loop, wait_for_a_lock, swallow])
def test_a_call_that_does_not_end_is_stopped(impatient, function):
    SWALLOW_UNTIL[0] = time.monotonic() + 0.3
    started = time.monotonic()
    with pytest.raises(patience.Stuck):
        patience.within(function)
    assert time.monotonic() - started < 5


def test_a_call_that_ends_returns_and_raises_as_it_does(impatient):
    assert patience.within(lambda a, b: a + b, 1, 2) == 3
    with pytest.raises(SystemExit):
        patience.within(exit)
    with pytest.raises(ZeroDivisionError):
        patience.within(lambda: 1 / 0)


def test_a_call_sees_the_context_variables_of_its_caller(impatient):
    token = VARIABLE.set(5)
    assert patience.within(VARIABLE.get) == 5
    VARIABLE.reset(token)


def test_a_timer_that_the_program_uses_is_left_alone(monkeypatch):
    monkeypatch.setattr(patience, "SECONDS", 0.05)
    with the_timer_is_free():
        signal.setitimer(signal.ITIMER_REAL, 100)
        with pytest.raises(patience.Stuck):
            patience.within(sleep)
        assert 90 < signal.setitimer(signal.ITIMER_REAL, 0)[0] < 100


def made(name, **members):
    """A class of the user's."""
    cls = type(name, members.pop("bases", ()), {"__module__": "somebody", **members})
    cls.__qualname__ = name
    return cls


def dumping():
    return Dumping(Policy(), None)


def test_what_has_no_code_of_its_own_is_asked_without_a_time_limit(monkeypatch):
    monkeypatch.setattr(patience, "within", None)
    for value in (made("Plain")(), types.SimpleNamespace(a=1)):
        asking.asked(dumping(), value)
    with pytest.raises(asking.Refused):
        asking.asked(dumping(), made("Custom", __getstate__=lambda self: 1)())


def test_after_one_object_hangs_no_other_of_its_class_is_asked(monkeypatch):
    monkeypatch.setattr(patience, "SECONDS", 0.05)
    calls = []

    def hang(self):
        calls.append(self)
        time.sleep(100)

    state, cls = dumping(), made("Hangs", __reduce__=hang)
    for _ in range(3):
        with pytest.raises(asking.Refused, match="did not end within"):
            asking.asked(state, cls())
    assert len(calls) == 1


def test_an_interrupt_of_the_user_passes():
    def interrupted(self):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dump({"x": made("Interrupted", __reduce__=interrupted)()})


class Refuses:
    def __init__(self, n):
        self.n = n

    def __getstate__(self):
        raise TypeError("no")


class RefusesList(list):
    def __reduce_ex__(self, protocol):
        raise TypeError("no")


def test_an_object_that_refuses_travels_with_its_attributes_if_it_has_nothing_else():
    shipment = dump({"plain": Refuses(3), "list": RefusesList([1])})
    assert [(one.name, one.reason) for one in shipment.missing] == [
        ("list", "pickling it raised TypeError: no")
    ]
    assert shipment.stuck == {}
    with loaded(shipment) as values:
        assert values.root["plain"].n == 3


class Endless:
    def __getstate__(self):
        return {"next": Endless()}


def test_pickling_that_makes_ever_new_objects_ends_and_is_told(monkeypatch):
    monkeypatch.setattr(asking, "MOST", 2000)
    shipment = dump({"x": Endless()})
    assert list(shipment.stuck) == [f"{__name__}.Endless"]
    assert "more than 2000 objects" in shipment.stuck[f"{__name__}.Endless"]


class Connection:
    def __init__(self, made_of):
        self.made_of = made_of

    def __reduce__(self):
        return changed, (self.made_of,)


def changed(made_of):
    return {"made_of": made_of}


def test_an_object_that_comes_back_as_another_class_is_named():
    with loaded(dump({"x": Connection(1)})) as values:
        assert values.root["x"] == {"made_of": 1}
        assert [(one.name, one.reason) for one in values.missing] == [
            ("an object of Connection", "its own pickling made a dict of it")
        ]


class Key:
    """Its hash needs what is made of other objects, and it is a key of what it holds."""

    def __init__(self):
        self.parts = [1]
        self.table = {self: 1}

    def __hash__(self):
        return hash(tuple(self.parts))


def test_values_that_cannot_be_made_are_missing_and_no_traceback():
    with pytest.raises(MissingError, match="making them raised AttributeError"), loaded(dump({"x": Key()})):
        pass


Identity = NewType("Identity", int)


def test_new_types_and_structs_travel():
    with loaded(dump({"new": Identity, "struct": struct.Struct("<i")})) as values:
        assert values.root["new"].__supertype__ is int and values.root["new"](3) == 3
        assert values.root["struct"].unpack(b"\x01\0\0\0") == (1,)
