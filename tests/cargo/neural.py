"""Cases of torch's objects. `compiled` checks that a frame still compiles as a whole."""

import collections
import dataclasses
import functools
import threading
import types

import numpy
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import nn

from cargo.cases import case, raises
from cargo.inner import deep
from cargo.inner.deep import plus_offset

EPSILON = 0.5


def compiled(function, *args, backend="eager"):
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, fullgraph=True)(*args)


def level_two(x):
    return torch.relu(x) + EPSILON


def level_one(x):
    return level_two(x) * deep.OFFSET


def inlines_two_levels(x):
    return level_one(x) + plus_offset(x)


@case(lambda: (inlines_two_levels, torch.ones(2)))
def functions_inlined_two_levels_deep(value):
    function, x = value
    assert torch.equal(compiled(function, x), torch.full((2,), 251.0))


def make_nonlocal():
    factor = torch.full((2,), 3.0)

    def inner(x):
        return x * factor

    def outer(x):
        return inner(x) + factor

    return outer


@case(lambda: (make_nonlocal(), torch.ones(2)))
def nonlocal_function(value):
    assert torch.equal(compiled(*value), torch.full((2,), 6.0))


def imports_in_frame(x):
    from cargo.inner import deep as module
    from cargo.inner.deep import twice

    return twice(x) + module.plus_offset(x)


@case(lambda: (imports_in_frame, torch.ones(1)))
def module_imported_inside_a_compiled_function(value):
    assert compiled(*value).item() == 103


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.stack = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.register_buffer("mask", torch.ones(3), persistent=False)
        self.lock = threading.Lock()
        self.tied = self.linear.weight

    def forward(self, x):
        return F.gelu(self.stack(self.norm(self.linear(x)))) * self.mask @ self.tied


@case(lambda: (Block(), torch.ones(2, 3)))
def neural_module(value):
    module, x = value
    assert torch.allclose(compiled(module, x), module(x)) and module.tied is module.linear.weight
    assert isinstance(module.tied, nn.Parameter) and module.tied.requires_grad
    assert set(dict(module.named_parameters(remove_duplicate=False))) >= {"linear.weight", "stack.0.bias"}
    assert "mask" not in module.state_dict() and type(module) is Block


@case(lambda: (Block.forward, Block(), torch.ones(2, 3)))
def forward_as_a_function(value):
    function, module, x = value
    assert function is Block.forward is type(module).forward and compiled(function, module, x).shape == (2, 3)


def uses_nn(x):
    return torch.nn.functional.relu(torch.nn.Identity()(x)) + torch.distributed.is_available()


@case(lambda: (uses_nn, torch.ones(2)))
def torch_nn_access(value):
    assert torch.equal(value[0](value[1]), value[1] + torch.distributed.is_available())


def parametrized():
    module = nn.Linear(3, 3)
    torch.nn.utils.parametrize.register_parametrization(module, "weight", Symmetric())
    return module, torch.nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)).eval()


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


@case(lambda: (*parametrized(), torch.ones(1, 3)))
def parametrized_modules(value):
    symmetric, spectral, x = value
    assert torch.equal(symmetric.weight, symmetric.weight.T) and symmetric(x).shape == (1, 3)
    assert spectral(x).shape == (1, 3) and isinstance(symmetric, nn.Linear)
    assert compiled(symmetric, x).shape == (1, 3)


def hooked():
    module = nn.Linear(2, 2)
    module.register_forward_hook(add_one)
    module.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    return module


def add_one(module, args, output):
    return output + 1


@case(lambda: (hooked(), torch.ones(1, 2)))
def module_with_hooks(value):
    module, x = value
    plain = F.linear(x * 2, module.weight, module.bias) + 1
    assert torch.allclose(module(x), plain) and torch.allclose(compiled(module, x), plain)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return scaled(grad) * 3 * x**2


def scaled(grad):
    return grad * EPSILON * 2


def cubes(x):
    return Cube.apply(x).sum()


@case(lambda: cubes)
def autograd_function(value):
    for function in (value, lambda x: compiled(value, x, backend="aot_eager")):
        x = torch.full((2,), 2.0, requires_grad=True)
        function(x).backward()
        assert torch.equal(x.grad, torch.full((2,), 12.0))


@torch.library.custom_op("cargo::shift", mutates_args=())
def shift(x: torch.Tensor, by: float) -> torch.Tensor:
    return x + by * EPSILON


@shift.register_fake
def _(x, by):
    return torch.empty_like(x)


def shift_setup(ctx, inputs, output):
    ctx.by = inputs[1]


shift.register_autograd(lambda ctx, grad: (grad * 2, None), setup_context=shift_setup)


def uses_custom_op(x):
    return shift(x, 2.0) * 2


def uses_custom_op_by_name(x):
    return torch.ops.cargo.shift(x, 2.0) + torch.ops.cargo.shift.default(x, 0.0)


@case(lambda: uses_custom_op)
def custom_operator(value):
    assert torch.equal(compiled(value, torch.zeros(2), backend="aot_eager"), torch.full((2,), 2.0))
    x = torch.zeros(2, requires_grad=True)
    value(x).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 4.0))


@case(lambda: uses_custom_op_by_name)
def custom_operator_reached_by_name(value):
    assert torch.equal(compiled(value, torch.zeros(2), backend="aot_eager"), torch.full((2,), 1.0))


def operators_of_all_sorts():
    aten = torch.ops.aten
    return aten.add.Tensor, aten.relu, aten, torch.ops, torch.ops.cargo.shift.default


@case(operators_of_all_sorts)
def operators(value):
    add, relu, aten, ops, own = value
    assert add is torch.ops.aten.add.Tensor and relu is torch.ops.aten.relu
    assert aten is torch.ops.aten and ops is torch.ops
    assert own(torch.zeros(1), 2.0).item() == 1.0


library = torch.library.Library("cargo_lib", "DEF")
library.define("double(Tensor x) -> Tensor")
library.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")
torch.library.register_fake("cargo_lib::double", lambda x: torch.empty_like(x), lib=library)


def uses_library(x):
    return torch.ops.cargo_lib.double(x) + 1


@case(lambda: uses_library)
def operator_of_a_library_is_traced_and_its_kernel_missing(value):
    error = raises("MissingError", value, torch.ones(2))
    assert "cargo_lib.double" in str(error)
    with torch._subclasses.FakeTensorMode() as mode:
        assert value(mode.from_tensor(torch.ones(2))).shape == (2,)


@torch.compile(backend="eager", dynamic=True)
def already_compiled(x):
    return level_two(x)


@torch.compiler.disable
def disabled(x):
    return level_two(x)


def calls_both(x):
    return already_compiled(x) + 1


@case(
    lambda: (already_compiled, disabled, calls_both, torch.compile(Block(), backend="eager"), torch.ones(1))
)
def compiled_and_disabled_functions(value):
    function, off, both, module, x = value
    assert function(x).item() == 1.5 and off(x).item() == 1.5 and both(x).item() == 2.5
    assert module(torch.ones(2, 3)).shape == (2, 3) and type(module).__name__ == "OptimizedModule"
    assert isinstance(module._orig_mod, Block) and function._torchdynamo_orig_callable(x).item() == 1.5
    assert off._torchdynamo_disable and off.__name__ == "disabled"


@torch.no_grad()
def without_grad(x):
    return x * 2


@case(lambda: without_grad)
def function_decorated_by_torch(value):
    x = torch.ones(1, requires_grad=True)
    assert not value(x).requires_grad and value.__name__ == "without_grad"


class Box:
    def __init__(self, a, b):
        self.a, self.b = a, b


pytree.register_pytree_node(Box, lambda box: ([box.a, box.b], None), lambda items, _: Box(*items))


@case(lambda: Box(torch.ones(1), 2))
def pytree_registration(value):
    leaves, spec = pytree.tree_flatten({"box": value})
    assert len(leaves) == 2 and isinstance(pytree.tree_unflatten(leaves, spec)["box"], Box)


def marked():
    tensor = torch.ones(3)
    torch._dynamo.mark_dynamic(tensor, 0)
    tensor.note = {"self": tensor}
    return tensor


@case(lambda: (lambda tensor: [tensor, tensor, {"a": tensor}])(marked()))
def tensor_identity_and_attributes(value):
    assert value[0] is value[1] is value[2]["a"] and value[0].note["self"] is value[0]
    assert 0 in value[0]._dynamo_dynamic_indices


@case(
    lambda: {
        "dtype": torch.bfloat16,
        "device": torch.device("cpu"),
        "size": torch.Size([1, 2]),
        "format": torch.channels_last,
        "layout": torch.sparse_coo,
        "finfo": torch.finfo(torch.float32),
        "scheme": torch.per_tensor_affine,
        "generator": torch.Generator().manual_seed(3),
        "sparse": torch.eye(2).to_sparse(),
        "csr": torch.eye(2).to_sparse_csr(),
        "numpy": numpy.arange(3),
        "scalar": numpy.float64(1.5),
        "ndtype": numpy.dtype("float32"),
        "storage": torch.ones(2).untyped_storage(),
        "optimizer": torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9),
    }
)
def values_of_torch_and_numpy(value):
    assert (
        value["dtype"] is torch.bfloat16
        and value["device"] == torch.device("cpu")
        and value["size"] == (1, 2)
    )
    assert value["format"] is torch.channels_last and value["layout"] is torch.sparse_coo
    assert value["finfo"].bits == 32 and value["scheme"] is torch.per_tensor_affine
    same = torch.Generator().manual_seed(3)
    assert torch.equal(torch.rand(2, generator=value["generator"]), torch.rand(2, generator=same))
    assert torch.equal(value["sparse"].to_dense(), torch.eye(2)) and torch.equal(
        value["csr"].to_dense(), torch.eye(2)
    )
    assert (
        value["numpy"].tolist() == [0, 1, 2] and value["scalar"] == 1.5 and value["ndtype"] == numpy.float32
    )
    assert value["storage"].nbytes() == 8 and value["optimizer"].defaults["lr"] == 0.1


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


def tagged():
    tensor = torch.ones(2).as_subclass(Tagged)
    tensor.tag = "t"
    return tensor


@case(tagged)
def tensor_subclass(value):
    assert type(value) is Tagged and value.tag == "t" and (value + 1).sum().item() == 4


@dataclasses.dataclass
class Output(collections.OrderedDict):
    loss: torch.Tensor = None


@case(lambda: Output(loss=torch.ones(1)))
def dataclass_of_a_mapping(value):
    assert value.loss.item() == 1 and isinstance(value, collections.OrderedDict)


@functools.lru_cache
def table(n):
    return torch.arange(n)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.sub = torch.compile(nn.Linear(2, 2), backend="eager")
        self.items = nn.ModuleDict({"a": nn.Linear(2, 2)})
        self.act = functools.partial(F.leaky_relu, negative_slope=0.1)
        self.table = table

    def forward(self, x):
        return self.act(self.items["a"](self.sub(x))) + self.table(2)


@case(lambda: (Mixed(), torch.ones(1, 2)))
def module_with_a_compiled_submodule_and_callables(value):
    module, x = value
    assert module(x).shape == (1, 2)


def own_backend(graph, inputs):
    if any(node.target is F.relu for node in graph.graph.nodes):
        raise ValueError("no relu here")
    return graph.forward


@case(lambda: own_backend)
def backend_of_the_users_own(value):
    torch._dynamo.reset()
    failed = raises("BackendCompilerFailed", torch.compile(lambda x: F.relu(x), backend=value), torch.ones(1))
    assert "no relu here" in str(failed)


class WithLog(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = open(__file__)  # noqa: SIM115

    def forward(self, x):
        return x + 1

    def loud(self, x):
        self.log.write("x")
        return x


@case(lambda: (WithLog(), torch.ones(1)), missing=("log",))
def frame_that_does_not_touch_what_is_missing(value):
    module, x = value
    assert compiled(module, x).item() == 2
    raises("MissingError", module.loud, x)


@case(lambda: torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU())))
def graph_module(value):
    assert value(torch.ones(1, 2)).shape == (1, 2) and "return" in value.code


@case(
    lambda: (dict.__dict__["fromkeys"], types.FunctionType.__dict__["__closure__"], type.__dict__["__name__"])
)
def descriptors_of_builtin_types_travel_by_dill(value):
    assert value[0].__name__ == "fromkeys" and value[1] is types.FunctionType.__dict__["__closure__"]
    assert value[2].__get__(int) == "int"
