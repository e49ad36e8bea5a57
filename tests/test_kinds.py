"""Tensors that are not ordinary: their parts, whether the tensor policy holds for these, what they are called."""

from __future__ import annotations

import pytest
import torch

from replay import shipping
from replay.torch_adapter import kinds
from replay.torch_adapter.building import TensorBuilder
from replay.torch_adapter.tensors import TensorCollector


class Pair(torch.Tensor):
    """A wrapper subclass whose parts are attributes."""

    @staticmethod
    def __new__(cls, left, right):
        return torch.Tensor._make_wrapper_subclass(cls, left.shape, dtype=left.dtype)

    def __init__(self, left, right):
        self.left, self.right = left, right

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise AssertionError("no code of a subclass may run while it is recorded")


class Tagged(torch.Tensor):
    """A subclass over memory of its own."""


def sparse(layout):
    return torch.eye(4).to_sparse(layout=layout)


FAKE = torch._subclasses.FakeTensorMode().from_tensor(torch.ones(2))
"""Made once, while this module is imported: what torch imports for it changes the environment."""

SPECIAL = {
    "wrapper": (lambda: Pair(torch.ones(2, 3), torch.ones(2, 3)), "Pair float32[2, 3]"),
    "class": (lambda: torch.ones(2).as_subclass(Tagged), "Tagged float32[2]"),
    "sparse_coo": (lambda: sparse(torch.sparse_coo), "sparse_coo float32[4, 4] nnz=4"),
    "sparse_compressed": (lambda: sparse(torch.sparse_csr), "sparse_csr float32[4, 4] nnz=4"),
    "nested_strided": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "nested (strided) float32, 2 tensors",
    ),
    "nested_jagged": (
        lambda: torch.nested.nested_tensor_from_jagged(torch.ones(5), torch.tensor([0, 2, 5])),
        "nested (jagged) float32[2, j",
    ),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.5, 1, torch.quint8),
        "quantized (per_tensor_affine) quint8[3]",
    ),
    "fake": (
        lambda: FAKE,
        "fake float32[2]",
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", SPECIAL)
def test_each_kind_is_recognised_and_called_by_what_it_is(kind):
    make, summary = SPECIAL[kind]
    tensor = make()
    assert not kinds.is_ordinary(tensor)
    assert kinds.take_apart(tensor)[0] == kind
    assert kinds.summary(tensor).startswith(summary)


def test_an_ordinary_tensor_has_no_summary_of_a_kind():
    assert kinds.is_ordinary(torch.ones(2)) and kinds.summary(torch.nn.Parameter(torch.ones(2))) is None


def shipped(tensor, policy):
    """The tensor after a round trip, and the plan of its storages."""
    collector = TensorCollector()
    shipment = shipping.dump(tensor, tensors=collector)
    assert shipment.missing == ()
    plan = collector.plan(policy)
    blobs = {key: bytearray(b"".join(collector.chunks(key))) for key, one in plan.items() if one.entry}
    builder = TensorBuilder(collector.specs, plan, lambda entry: memoryview(blobs[entry]))
    with shipping.loaded(shipment.values, sources=shipment.sources, tensors=builder) as loaded:
        return loaded.root, plan


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_by_metadata_a_sparse_tensor_keeps_where_its_values_belong_and_not_the_values(layout):
    tensor = torch.diag(torch.arange(1.0, 5.0)).to_sparse(layout=layout)
    made, plan = shipped(tensor, "metadata")
    assert [one.entry is None for one in plan.values()].count(True) == 1
    assert torch.equal(made.to_dense() != 0, tensor.to_dense() != 0) or made.values().eq(0).any()
    assert made._nnz() == 4 and made.layout is layout


def test_by_metadata_the_tensors_in_a_wrapper_have_no_bytes():
    made, plan = shipped(Pair(torch.ones(2, 3), torch.zeros(2, 3)), "metadata")
    assert len(plan) == 2 and all(one.entry is None for one in plan.values())
    assert type(made).__name__ == "Pair" and made.left.shape == (2, 3)


def test_a_wrapper_shares_its_inner_tensor_with_whoever_else_has_it():
    inner = torch.ones(2)
    (made, other), plan = shipped([Pair(inner, inner), inner], "full")
    assert made.left is made.right is other and len(plan) == 1


def test_hooks_of_a_parameter_come_back_once():
    weight = torch.nn.Parameter(torch.ones(2))
    weight.register_hook(lambda grad: grad * 3)
    made, _ = shipped(weight, "full")
    made.sum().backward()
    assert made.grad.tolist() == [3.0, 3.0]


def test_a_view_comes_back_as_a_view_without_the_bytes_of_what_it_shows_a_part_of():
    base = torch.zeros(1_000_000)
    base[10:14] = 7.0
    made, plan = shipped(base[10:14], "full")
    assert made._is_view() and made._base.shape == base.shape and made.tolist() == [7.0] * 4
    assert [one.length for one in plan.values()] == [16]


def test_a_tensor_inside_a_gradient_transform_is_missing_with_the_reason():
    collector, found = TensorCollector(), []

    def look(x):
        found.append(shipping.dump(x, tensors=collector).missing)
        return x.sum()

    torch.func.grad(look)(torch.ones(2))
    assert "transform" in found[0][0].reason


@pytest.mark.parametrize("policy", ["dispatch", "plain"])
def test_a_wrapper_that_answers_for_its_own_sizes_does_so_again(policy):
    class Sized(torch.Tensor):
        """Says that it has twice the rows."""

        @staticmethod
        def __new__(cls, inner):
            asked = "sizes" if policy == "dispatch" else None
            return torch.Tensor._make_wrapper_subclass(
                cls, inner.shape, dtype=inner.dtype, dispatch_sizes_strides_policy=asked
            )

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            inner = args[0].inner
            if function in (torch.ops.aten.sym_size.default, torch.ops.aten.size.default):
                return (inner.shape[0] * 2, *inner.shape[1:])
            return function(inner, *args[1:])

    tensor = Sized(torch.ones(2, 3))
    made, _ = shipped(tensor, "full")
    assert tuple(made.shape) == tuple(tensor.shape) == ((4, 3) if policy == "dispatch" else (2, 3))
