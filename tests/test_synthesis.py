"""Values in place of those that did not travel."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.recording import StorageSpec
from replay.torch_adapter import synthesis


def spec_of(tensor, **changes):
    size = tensor.untyped_storage().nbytes()
    fields = {"nbytes": size, "start": 0, "length": size, "device": "cpu", "entry": "s0"}
    return StorageSpec(**{**fields, "dtype": str(tensor.dtype).removeprefix("torch."), **changes})


def drawn(tensor):
    """Synthetic values for a tensor's."""
    spec = synthesis.describe(spec_of(tensor), tensor.view(torch.uint8).flatten())
    window = torch.empty(spec.length, dtype=torch.uint8)
    synthesis.fill(window, spec)
    return spec, window.view(tensor.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_floats_have_the_recorded_range_mean_and_spread(dtype):
    values = (torch.randn(50_000) * 3 + 10).to(dtype)
    spec, back = drawn(values)
    assert spec.entry is None
    assert values.min() <= back.min() <= back.max() <= values.max()
    assert abs(back.double().mean() - 10) < 0.2
    assert abs(back.double().std() - 3) < 0.2


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.uint8, torch.uint16, torch.int32, torch.int64, torch.bool]
)
def test_integers_stay_in_the_recorded_range(dtype):
    values = torch.randint(0, 2 if dtype == torch.bool else 100, (1000,)).to(dtype)
    _, back = drawn(values)
    assert set(back.tolist()) <= set(range(int(values.long().min()), int(values.long().max()) + 1))


EXTREME = [
    torch.tensor([2**63 - 1, -(2**63)]),
    torch.tensor([2**64 - 1, 2**63], dtype=torch.uint64),
    torch.tensor([1.7e308, -1.7e308], dtype=torch.float64),
    torch.tensor([1.7e308, 1.7e308, 1.7e308], dtype=torch.float64),
    torch.tensor([float("nan"), float("inf"), 1.0]),
    torch.tensor([float("nan")]),
    torch.tensor([3.0]),
    torch.empty(0),
    torch.tensor([1 + 2j, 3 - 1j]),
]


@pytest.mark.parametrize("values", EXTREME, ids=str)
def test_extreme_values_are_described_and_drawn(values):
    spec, back = drawn(values)
    assert all(abs(number) < float("inf") for number in spec.statistics.values())
    assert back.isfinite().all() if back.is_floating_point() or back.is_complex() else True


def test_how_much_was_not_finite_is_noted():
    spec, _ = drawn(torch.tensor([float("nan"), float("inf"), 1.0, 2.0]))
    assert spec.statistics["not_finite"] == 0.5


def test_the_same_storage_gets_the_same_values_and_no_other_generator_moves():
    values = torch.randn(1000)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, other = drawn(values), drawn(values)
    assert torch.equal(one[1], other[1])
    assert one[0] == other[0]
    assert torch.equal(torch.rand(3), expected)


@settings(max_examples=50, deadline=None)
@given(
    size=st.integers(0, 67),
    start=st.integers(0, 9),
    dtype=st.sampled_from(["float32", "complex64", "int64", "bool"]),
)
def test_any_window_is_filled_also_one_that_no_element_fits(size, start, dtype):
    whole = torch.zeros(80, dtype=torch.uint8)
    window = whole[start : start + size]
    spec = StorageSpec(80, start, size, "cpu", "s0", dtype)
    described = synthesis.describe(spec, window)
    synthesis.fill(window, described)
    assert whole[:start].sum() == whole[start + size :].sum() == 0


def test_values_that_nobody_saw_are_around_zero_or_zero():
    floats, integers = (
        synthesis.ordinary(StorageSpec(4000, 0, 4000, "cpu", None, name)) for name in ("float32", "int32")
    )
    window = torch.ones(4000, dtype=torch.uint8)
    synthesis.fill(window, floats)
    assert 0.8 < window.view(torch.float32).std() < 1.2
    synthesis.fill(window, integers)
    assert window.view(torch.int32).tolist() == [0] * 1000


def test_a_large_storage_repeats_its_values(monkeypatch):
    monkeypatch.setattr(synthesis, "BLOCK", 10)
    _, back = drawn(torch.randn(25))
    assert back[:10].tolist() == back[10:20].tolist()
    assert back[20:].tolist() == back[:5].tolist()
