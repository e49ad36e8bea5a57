"""Tensors taken apart and put together again."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.errors import MissingError, UnsupportedTorchError
from replay.recording import TensorSpec
from replay.torch_adapter.building import TensorBuilder
from replay.torch_adapter.tensors import SMALL, TensorCollector

pytestmark = pytest.mark.filterwarnings("ignore")  # torch calls some dtypes experimental or deprecated


def names_of_dtypes():
    found = {str(one).removeprefix("torch.") for one in vars(torch).values() if isinstance(one, torch.dtype)}
    return sorted(found)


PACKED = ("int1", "int2", "int3", "int4", "int5", "int6", "int7", "uint1", "uint2", "uint3", "uint4", "uint5")
NUMBERS = [
    name
    for name in names_of_dtypes()
    if not name.startswith(("bits", "q", "float4")) and name not in (*PACKED, "uint6", "uint7")
]


class Trip:
    """Tensors taken apart by one collector, and put together by one builder."""

    def __init__(self, *tensors, policy="full"):
        collector = TensorCollector()
        self.keys = [collector.add(one) for one in tensors]
        self.specs = collector.specs
        self.plan = collector.plan(policy)
        self.blobs = {
            key: bytearray(b"".join(bytes(chunk) for chunk in collector.chunks(key)))
            for key, spec in self.plan.items()
            if spec.entry is not None
        }
        assert all(len(self.blobs[key]) == self.plan[key].length for key in self.blobs)
        self.builder = TensorBuilder(self.specs, self.plan, lambda entry: memoryview(self.blobs[entry]))
        self.back = [self.builder.get(key) for key in self.keys]


def bits(tensor):
    """The bytes of a tensor's elements, in order; conjugation and negation are not applied."""
    plain = tensor.detach()
    plain = torch.conj(plain) if plain.is_conj() else plain
    plain = torch._neg_view(plain) if plain.is_neg() else plain
    flat = torch.empty(0, dtype=torch.uint8).set_(plain.untyped_storage()).numpy().tobytes()
    size = plain.itemsize
    places = [range(count) for count in plain.shape]
    return [
        flat[at * size : (at + 1) * size]
        for at in (
            plain.storage_offset() + sum(i * step for i, step in zip(index, plain.stride(), strict=True))
            for index in itertools.product(*places)
        )
    ]


TOLD = ("shape", "dtype", "device", "requires_grad", "is_leaf")
ASKED = ("stride", "storage_offset", "is_conj", "is_neg", "is_inference")


def assert_alike(one, other):
    for name in TOLD:
        assert getattr(one, name) == getattr(other, name), name
    for name in ASKED:
        assert getattr(one, name)() == getattr(other, name)(), name
    assert type(one) is type(other)


@st.composite
def bases(draw):
    """A tensor with bytes at random, of any number type."""
    dtype = getattr(torch, draw(st.sampled_from(NUMBERS)))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    count = 1
    for size in shape:
        count *= size
    if dtype == torch.bool:
        data = bytes(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)))
    else:
        data = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).view(shape)


def _slice(draw, tensor):
    if tensor.dim() == 0:
        return tensor
    dim = draw(st.integers(0, tensor.dim() - 1))
    start = draw(st.integers(0, max(0, tensor.shape[dim] - 1)))
    return tensor.transpose(0, dim)[start :: draw(st.integers(1, 2))].transpose(0, dim)


def _imaginary(tensor):
    """A view with the negative bit."""
    return torch.conj(tensor).imag if tensor.dtype in (torch.complex64, torch.complex128) else tensor


def _bytes(tensor):
    bits = tensor.is_conj() or tensor.is_neg()
    plain = tensor.dim() > 0 and not bits and tensor.stride(-1) == 1 and tensor.is_contiguous()
    return tensor.view(torch.uint8) if plain else tensor


VIEWS = {
    "same": lambda draw, tensor: tensor,
    "alias": lambda draw, tensor: tensor.detach(),
    "slice": _slice,
    "transpose": lambda draw, tensor: tensor.permute(tuple(reversed(range(tensor.dim())))),
    "expand": lambda draw, tensor: tensor.unsqueeze(0).expand(3, *tensor.shape),
    "empty": lambda draw, tensor: tensor.unsqueeze(0)[0:0],
    "conj": lambda draw, tensor: torch.conj(tensor),
    "imaginary": lambda draw, tensor: _imaginary(tensor),
    "diagonal": lambda draw, tensor: tensor.diagonal() if tensor.dim() == 2 else tensor,
    "bytes": lambda draw, tensor: _bytes(tensor),
}


@st.composite
def families(draw):
    """Several views of one storage."""
    base = draw(bases())
    tensors = [base]
    for name in draw(st.lists(st.sampled_from(sorted(VIEWS)), max_size=5)):
        tensors.append(VIEWS[name](draw, draw(st.sampled_from(tensors))))
    if all(one.is_floating_point() for one in tensors) and draw(st.booleans()):
        tensors = [one if one.requires_grad else one.detach().requires_grad_() for one in tensors]
    return draw(st.permutations(tensors))


@settings(max_examples=300, deadline=None)
@given(families())
def test_views_come_back_alike_and_share_one_storage_as_they_did(tensors):
    trip = Trip(*tensors)
    assert len(trip.plan) == 1
    for one, other in zip(tensors, trip.back, strict=True):
        assert_alike(one, other)
        assert bits(one) == bits(other)
        assert one.untyped_storage().nbytes() == other.untyped_storage().nbytes()
    for (i, one), (j, other) in itertools.combinations(enumerate(tensors), 2):
        assert (one is other) == (trip.back[i] is trip.back[j])
        assert trip.back[i].untyped_storage().data_ptr() == trip.back[j].untyped_storage().data_ptr()


@settings(max_examples=60, deadline=None)
@given(families(), st.sampled_from(["auto", "metadata"]))
def test_without_bytes_all_but_the_values_comes_back(tensors, policy):
    for one, other in zip(tensors, Trip(*tensors, policy=policy).back, strict=True):
        assert_alike(one, other)


@pytest.mark.parametrize("name", names_of_dtypes())
@pytest.mark.parametrize("policy", ["full", "metadata"])
def test_every_dtype_of_this_torch_travels(name, policy):
    dtype = getattr(torch, name)
    tensor = torch.arange(64, dtype=torch.uint8).remainder(2).view(dtype)
    (back,) = Trip(tensor, policy=policy).back
    assert (back.dtype, back.shape, back.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
    if policy == "full":
        assert back.view(torch.uint8).tolist() == tensor.view(torch.uint8).tolist()


@given(start=st.integers(0, 999_000), length=st.integers(0, 40), step=st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_only_the_bytes_that_tensors_span_are_written(start, length, step):
    big = torch.arange(1_000_000)
    view = big[start : start + length * step : step]
    trip = Trip(view)
    (spec,) = trip.plan.values()
    assert spec.nbytes == 8_000_000
    assert spec.length == (8 * ((view.numel() - 1) * step + 1) if view.numel() else 0)
    (back,) = trip.back
    assert back.tolist() == view.tolist()
    assert back.untyped_storage().nbytes() == 8_000_000
    assert back.storage_offset() == view.storage_offset()


def test_the_window_of_two_views_spans_both():
    big = torch.arange(1000, dtype=torch.int32)
    trip = Trip(big[100:110], big[0:0], big[200:201])
    (spec,) = trip.plan.values()
    assert (spec.start, spec.length) == (400, 404)
    assert [one.tolist() for one in trip.back] == [list(range(100, 110)), [], [200]]


def test_writing_into_one_view_shows_in_the_other():
    base = torch.zeros(4)
    one, other = Trip(base, base[1:3]).back
    other.fill_(5)
    assert one.tolist() == [0, 5, 5, 0]
    assert base.tolist() == [0, 0, 0, 0]


def leafless():
    yield torch.ones(3, requires_grad=True) * 2
    yield (torch.ones(3, 4, requires_grad=True) * 2).t()[1:, ::2]
    yield torch.ones(3, requires_grad=True).view(3, 1)
    yield torch.ones(3, dtype=torch.complex64, requires_grad=True).conj()
    yield torch.ones(3, dtype=torch.complex64, requires_grad=True).conj().imag
    yield (torch.ones(3, 2, requires_grad=True) * 1).expand(5, 3, 2)
    yield torch.ones(0, 2, requires_grad=True) * 1
    yield torch.tensor(2.0, requires_grad=True) * 1


@pytest.mark.parametrize("tensor", leafless(), ids=lambda one: f"{tuple(one.shape)}-{one.dtype}")
def test_what_is_no_leaf_comes_back_as_none_that_takes_gradients(tensor):
    (back,) = Trip(tensor).back
    assert_alike(tensor, back)
    assert torch.equal(tensor, back)
    back.abs().sum().backward()


def special():
    yield torch.nn.Parameter(torch.ones(2, 3).t())
    yield torch.nn.Parameter(torch.ones(2, dtype=torch.int8), requires_grad=False)
    yield torch.tensor(3.5)
    yield torch.empty(0)
    yield torch.empty(3, 0, 2).transpose(0, 2)
    yield torch.ones(3, device="meta")
    yield torch.ones(3, 4, device="meta", requires_grad=True).t()
    yield torch.nn.Parameter(torch.ones(3, device="meta"))
    yield torch.ones(3, dtype=torch.complex64).conj().detach().requires_grad_()
    yield torch.arange(3.0).expand(100_000, 3)
    with torch.inference_mode():
        yield torch.ones(3)
        yield torch.ones(3, requires_grad=True)
        yield torch.nn.Parameter(torch.ones(3))
        yield torch.ones(3, dtype=torch.complex64).conj()


@pytest.mark.parametrize("number", range(14))
def test_special_tensors_come_back_alike(number):
    tensor = list(special())[number]
    trip = Trip(tensor)
    (back,) = trip.back
    assert_alike(tensor, back)
    if tensor.device.type != "meta":
        assert torch.equal(tensor, back)
        (spec,) = trip.plan.values()
        assert spec.length <= max(tensor.untyped_storage().nbytes(), 1)


def test_there_are_as_many_special_tensors_as_the_test_says():
    assert len(list(special())) == 14


def test_one_object_is_recorded_once_and_comes_back_as_one():
    tensor = torch.ones(2)
    trip = Trip(tensor, tensor, tensor.detach())
    assert trip.keys[0] == trip.keys[1] != trip.keys[2]
    assert trip.back[0] is trip.back[1] is not trip.back[2]


def test_gradients_travel_with_their_tensors():
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.full((2,), 7.0)
    other = torch.ones(2, requires_grad=True)
    back, grad, bare = Trip(weight, weight.grad, other).back
    assert back.grad is grad
    assert grad.tolist() == [7, 7]
    assert bare.grad is None


def test_what_is_no_ordinary_tensor_is_left_to_others():
    class Sub(torch.Tensor):
        pass

    found = []

    def look(x):
        found.append(TensorCollector().add(x))
        return x

    torch.vmap(look)(torch.ones(2, 3))
    others = [
        torch.eye(2).to_sparse(),
        torch.ones(2).as_subclass(Sub),
        torch.nested.nested_tensor([torch.ones(1)]),
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    ]
    found += [TensorCollector().add(tensor) for tensor in others]
    assert found == [None] * 5


def test_a_bare_storage_travels_whole():
    tensor = torch.arange(10)
    collector = TensorCollector()
    key, part = collector.add_storage(tensor.untyped_storage()), collector.add(tensor[2:4])
    (spec,) = collector.plan("full").values()
    assert (spec.start, spec.length) == (0, 80)
    blob = bytearray(b"".join(bytes(chunk) for chunk in collector.chunks("s0")))
    builder = TensorBuilder(collector.specs, {"s0": spec}, lambda _: memoryview(blob))
    assert builder.get_storage(key).data_ptr() == builder.get(part).untyped_storage().data_ptr()


def test_chunks_are_the_storages_own_memory():
    tensor = torch.arange(1000)
    collector = TensorCollector()
    collector.add(tensor)
    (chunk,) = collector.chunks("s0")
    tensor[0] = 77
    assert chunk[0] == 77


def test_a_collector_keeps_what_it_took_alive():
    collector = TensorCollector()
    tensor = torch.ones(3)
    gone = weakref.ref(tensor)
    key = collector.add(tensor)
    del tensor
    gc.collect()
    assert gone() is not None
    assert collector.key_of(gone()) == key
    assert collector.key_of(torch.ones(3)) is None


def kept(policy, **tensors):
    collector = TensorCollector()
    keys = {name: collector.add(tensor) for name, tensor in tensors.items()}
    plan = collector.plan(policy)
    return {name for name, key in keys.items() if plan[collector.specs[key].storage].entry is not None}


def test_auto_keeps_integers_and_small_floats_and_the_smallest_first():
    tensors = {
        "small": torch.ones(SMALL // 4),
        "large": torch.ones(SMALL // 4 + 1),
        "integers": torch.ones(1_000_000, dtype=torch.int64),
        "flags": torch.ones(1_000_000, dtype=torch.bool),
        "view": torch.ones(1_000_000)[:10],
        "none": torch.ones(0),
    }
    assert kept("auto", **tensors) == {"small", "integers", "flags", "view", "none"}
    assert kept("full", **tensors) == set(tensors)
    assert kept("metadata", **tensors) == set()
    many = {f"t{number}": torch.ones(SMALL // 4) for number in range(20)}
    assert len(kept("auto", tiny=torch.ones(1), **many)) == 8
    assert "tiny" in kept("auto", tiny=torch.ones(1), **many)


def test_a_view_with_another_dtype_makes_a_storage_no_less_synthetic():
    base = torch.randn(100_000)
    one, other = Trip(base, base.view(torch.int32), policy="metadata").back
    assert (one.dtype, other.dtype) == (torch.float32, torch.int32)
    assert one.data_ptr() == other.data_ptr()


def test_a_stand_in_for_an_earlier_call_needs_no_bytes():
    from replay.torch_adapter import sketches

    collector = TensorCollector()
    sketch = sketches.Tensor.of(torch.nn.Parameter(torch.randn(4, 6).t()))
    key = collector.key_of(collector.declare(sketch))
    plan = collector.plan("full")
    assert [spec.entry for spec in plan.values()] == [None]
    back = TensorBuilder(collector.specs, plan, memoryview).get(key)
    assert (type(back), back.shape, back.stride(), back.device.type) == (
        torch.nn.Parameter,
        (6, 4),
        (1, 6),
        "cpu",
    )


def test_what_the_manifest_lacks_or_torch_does_not_know_is_named():
    builder = TensorBuilder({"t0": TensorSpec((1,), (1,), 0, "float3", "cpu", None)}, {}, memoryview)
    with pytest.raises(MissingError, match="'t1'"):
        builder.get("t1")
    with pytest.raises(UnsupportedTorchError, match="float3"):
        builder.get("t0")


def test_devices_are_asked_for():
    collector = TensorCollector()
    key = collector.add(torch.ones(2))
    asked = []

    def device(name):
        asked.append(name)
        return "meta"

    plan = collector.plan("metadata")
    assert TensorBuilder(collector.specs, plan, memoryview, device).get(key).device.type == "meta"
    assert asked == ["cpu"]
