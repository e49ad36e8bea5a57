"""torch's objects but for its tensors: modules, operators, compiled and disabled functions.

Only public names of torch are used here; the private ones are in `replay.torch_adapter.objects`. This module
imports torch when an object of torch's is met, never before.
"""

from __future__ import annotations

from typing import Any

from replay.shipping import autograd_objects, graphs, meshes, operators, tensors
from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.functions import refers
from replay.shipping.loading import Loading, builder
from replay.shipping.others import reduce_object
from replay.shipping.placeholders import Placeholder
from replay.shipping.plain import fill_plain, make_plain
from replay.torch_adapter import distributed, objects, subclasses
from replay.torch_adapter import graphs as torchs_graphs
from replay.torch_adapter import operators as torchs_operators


def reducers() -> dict[type, Any]:
    """The reducers of torch's own types, by exact type."""
    import torch

    return {
        torch.Tensor: tensors.reduce_tensor,
        torch.nn.Parameter: tensors.reduce_tensor,
        torch.nn.Buffer: tensors.reduce_tensor,
        torch.UntypedStorage: tensors.reduce_storage,
        torch.storage.TypedStorage: tensors.reduce_typed_storage,
        torch.Generator: reduce_generator,
        torch.layout: reduce_named,
        torch.memory_format: reduce_named,
        torch.finfo: reduce_info,
        torch.iinfo: reduce_info,
        type(torch.ops): operators.reduce_operators,
        type(torch.ops.aten): operators.reduce_operators,
        type(torch.ops.aten.add): operators.reduce_operator,
        type(torch.ops.aten.add.Tensor): operators.reduce_operator,
        torchs_operators.custom_op_type(): operators.reduce_custom_op,
        torchs_graphs.scripted_function_type(): graphs.reduce_scripted_function,
        graphs.NodeNumber: graphs.reduce_node_number,
        torch.Stream: reduce_stream,
        torch.Event: reduce_event,
    }


def reducer_for(cls: type) -> Any:
    """The reducer for a subclass of one of torch's types, None for any other."""
    import torch

    if distributed.is_group(cls):
        return reduce_group
    if issubclass(cls, (torch.Tensor, torch.UntypedStorage)):
        return tensors.reduce_tensor if issubclass(cls, torch.Tensor) else tensors.reduce_storage
    if subclasses.is_modes_type(cls):
        return tensors.reduce_fake_mode
    if issubclass(cls, torch.nn.Module):
        return _module_reducer(cls)
    if issubclass(cls, torch.Stream):
        return reduce_stream
    if issubclass(cls, torch.Event):
        return reduce_event
    if issubclass(cls, torchs_operators.higher_order_type()):
        return graphs.reduce_higher_order
    if issubclass(cls, (type(torch.ops.aten.add.Tensor), type(torch.ops.aten.add))):
        return operators.reduce_operator
    if issubclass(cls, type(torch.ops.aten)):
        return operators.reduce_operators
    return autograd_objects.reducer_for(cls) or meshes.reducer_for(cls)


def _module_reducer(cls: type) -> Any:
    if cls.__name__ == "OptimizedModule":
        return reduce_optimized
    if torchs_graphs.is_graph_module(cls):
        return graphs.reduce_graph_module
    return graphs.reduce_scripted_module if torchs_graphs.is_scripted(cls) else reduce_neural_module


def reduce_stream(dumping: Dumping, stream: Any) -> Reduced:
    """A stream of the same device: what waits in it is no data."""
    return make_stream, (str(stream.device),)


@builder
def make_stream(loading: Loading, device: str) -> Any:
    """A new stream."""
    import torch

    return torch.Stream(device=loading.tensors.device(device))


def reduce_event(dumping: Dumping, event: Any) -> Reduced:
    """An event of the same device that nothing was recorded in."""
    return make_event, (str(event.device),)


@builder
def make_event(loading: Loading, device: str) -> Any:
    """A new event."""
    import torch

    return torch.Event(device=loading.tensors.device(device))


def reduce_group(dumping: Dumping, group: Any) -> Any:
    """A process group by its name; the replay has a fake one of that name."""
    name = distributed.group_name(group)
    return reduce_object(dumping, group) if name is None else (make_group, (name,))


@builder
def make_group(loading: Loading, name: str) -> Any:
    """The group of that name."""
    return distributed.group(name)


def reduce_generator(dumping: Dumping, generator: Any) -> Reduced:
    """With its state."""
    return make_generator, (str(generator.device), generator.get_state())


@builder
def make_generator(loading: Loading, device: str, state: Any) -> Any:
    """A generator in the recorded state."""
    import torch

    made = torch.Generator(device)
    made.set_state(state)
    return made


def reduce_named(dumping: Dumping, value: Any) -> Reduced:
    """A constant that torch holds under the name that it prints."""
    return make_named, (str(value).removeprefix("torch."),)


@builder
def make_named(loading: Loading, name: str) -> Any:
    """What torch has under that name."""
    import torch

    return getattr(torch, name)


def reduce_info(dumping: Dumping, info: Any) -> Reduced:
    """A finfo or iinfo by its dtype."""
    return make_info, (type(info).__name__, info.dtype)


@builder
def make_info(loading: Loading, name: str, dtype: str) -> Any:
    """A finfo or iinfo."""
    import torch

    return getattr(torch, name)(getattr(torch, dtype))


def reduce_wrapped_function(dumping: Dumping, function: Any) -> Any:
    """What torch.compile or torch.compiler.disable made of a function; None if the function is neither."""
    if "_torchdynamo_orig_callable" not in function.__dict__ or refers(dumping, function):
        return None
    wrapped = objects.wrapped_by_dynamo(function)
    if wrapped is None:
        return None
    kind, original = wrapped
    if kind == "disable":
        return make_disabled, (original,)
    return make_compiled, (original, objects.compiled_options(function))


@builder
def make_disabled(loading: Loading, function: Any) -> Any:
    """Disable it again."""
    import torch

    if isinstance(function, Placeholder):
        return function
    return torch.compiler.disable(function)  # type: ignore[no-untyped-call]


@builder
def make_compiled(loading: Loading, function: Any, options: dict[str, Any]) -> Any:
    """Compile it again, which does nothing until it is called."""
    import torch

    if isinstance(function, Placeholder):
        return function
    if isinstance(options.get("backend"), Placeholder):
        options = {**options, "backend": "eager"}
    return torch.compile(function, **options)


def reduce_optimized(dumping: Dumping, module: Any) -> Reduced:
    """A compiled module, by the module that was compiled."""
    return make_compiled, (objects.original_module(module), objects.compiled_options(module))


def reduce_neural_module(dumping: Dumping, module: Any) -> Any:
    """A parametrized module refuses to be pickled; its `__dict__` is all that it is."""
    getter = getattr(type(module), "__getstate__", None)
    if getattr(getter, "__module__", "").startswith("torch.nn.utils"):
        return make_plain, (type(module),), (dict(module.__dict__), {}), None, None, fill_plain
    if objects.is_captured_backward(module):
        return autograd_objects.reduce_captured(dumping, module)
    return reduce_object(dumping, module)
