"""The pickler: the fast C pickler of the standard library, with our reducers in front.

Which reducer takes an object is decided once per type. Nothing here knows how any kind is reduced.
"""

from __future__ import annotations

import collections
import enum
import functools
import io
import pickle
import socket
import threading
import types
import typing
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from replay.shipping import (
    by_dill,
    classes,
    codes,
    functions,
    generated,
    modules,
    others,
    process_objects,
    torch_objects,
    triton_objects,
)
from replay.shipping.dumping import Dumping, Leaf, Namespace, Reduced
from replay.shipping.loading import Loading, builder
from replay.shipping.placeholders import Placeholder, reduce_again, reduce_lost
from replay.torch_adapter import objects, operators

Reducer = Callable[[Dumping, Any], Any]


def _native(dumping: Dumping, value: Any) -> Any:
    """pickle knows how, and cannot fail."""
    return NotImplemented


def _leaf(dumping: Dumping, value: Leaf) -> Reduced:
    dumping.depth -= 1
    return make_nothing, ()


def _function(dumping: Dumping, function: types.FunctionType) -> Any:
    wrapped = torch_objects.reduce_wrapped_function(dumping, function)
    return functions.reduce_function(dumping, function) if wrapped is None else wrapped


@builder
def make_nothing(loading: Loading) -> None:
    """What a mark in the stream comes back as."""


LIVE = (
    *(io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.FileIO, socket.socket),
    *(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
    *(types.FrameType, types.TracebackType, threading.Thread),
)

KNOWN: dict[type, Reducer] = {
    **dict.fromkeys((collections.OrderedDict, collections.deque, complex, range, slice), _native),
    Leaf: _leaf,
    Namespace: modules.reduce_namespace,
    types.FunctionType: _function,
    types.CodeType: codes.reduce_code,
    types.CellType: functions.reduce_cell,
    types.MethodType: functions.reduce_method,
    type(functools.lru_cache(len)): functions.reduce_cached,
    functools.cached_property: functions.reduce_cached_property,
    weakref.ref: process_objects.reduce_weak_reference,
    weakref.WeakKeyDictionary: process_objects.reduce_weak_mapping,
    weakref.WeakValueDictionary: process_objects.reduce_weak_mapping,
    weakref.WeakSet: process_objects.reduce_weak_set,
    type(threading.Lock()): process_objects.reduce_lock,
    type(threading.RLock()): process_objects.reduce_lock,
    threading.local: process_objects.reduce_local,
    ContextVar: process_objects.reduce_context_variable,
    **dict.fromkeys(LIVE, process_objects.reduce_live),
    **dict.fromkeys(by_dill.KINDS, by_dill.reduce_by_dill),
    **dict.fromkeys(weakref.ProxyTypes, process_objects.reduce_weak_proxy),
    super: others.reduce_super,
    types.MappingProxyType: others.reduce_proxy,
    type({}.keys()): others.reduce_view,
    type({}.values()): others.reduce_view,
    type({}.items()): others.reduce_view,
    type(collections.OrderedDict().keys()): others.reduce_view,
    type(collections.OrderedDict().values()): others.reduce_view,
    type(collections.OrderedDict().items()): others.reduce_view,
    property: others.reduce_property,
    staticmethod: others.reduce_wrapped,
    classmethod: others.reduce_wrapped,
    typing.TypeVar: others.reduce_type_variable,
    typing.ParamSpec: others.reduce_type_variable,
    typing.ParamSpecArgs: others.reduce_parameters_part,
    typing.ParamSpecKwargs: others.reduce_parameters_part,
    Placeholder: lambda _, value: reduce_again(value),
}


class Shipper(pickle.Pickler):
    """Pickles one object graph; whatever cannot be pickled becomes a placeholder."""

    def __init__(self, dumping: Dumping) -> None:
        self.stream = io.BytesIO()
        super().__init__(self.stream, others.PROTOCOL)
        self._dumping = dumping
        self._reducers = dict(KNOWN)
        if objects.is_imported():
            self._reducers.update(torch_objects.reducers())

    def reducer_override(self, value: Any) -> Any:
        """pickle calls this for every object that is no plain container, number or string."""
        cls = type(value)
        try:
            reducer = self._reducers.get(cls)
            if reducer is None:
                reducer = self._reducers[cls] = _choose(cls)
            return reducer(self._dumping, value)
        except RecursionError:
            raise  # `dump` tries again with a larger stack
        except Exception as error:  # noqa: BLE001 - the user's own
            return reduce_lost(self._dumping, value, f"pickling it raised {type(error).__name__}: {error}")


def _choose(cls: type) -> Reducer:
    if issubclass(cls, type):
        return classes.reduce_class
    if issubclass(cls, types.ModuleType) and not operators.holds_operators(cls):
        return modules.reduce_module
    if issubclass(cls, enum.Enum):
        return generated.reduce_member
    if issubclass(cls, BaseException):
        return others.reduce_exception
    if issubclass(cls, weakref.ref):
        return process_objects.reduce_weak_reference
    found = triton_objects.reducer_for(cls)
    if found is None and objects.is_imported():
        found = torch_objects.reducer_for(cls)
    return found or others.reduce_object
