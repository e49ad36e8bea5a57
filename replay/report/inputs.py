"""The inputs of a frame as a table. Nothing here reads a tensor's bytes: it shows what the manifest says."""

from __future__ import annotations

from replay.recording import InputInfo, Manifest, TensorSpec
from replay.report.page import Page
from replay.report.text import count, short_type, show_tuple

ROWS = 40


def draw_inputs(page: Page, manifest: Manifest) -> None:
    """One row for each argument, closure variable and global that the frame uses."""
    if not manifest.inputs:
        return
    page.heading("Inputs", _totals(manifest))
    rows = [_row(one, manifest) for one in manifest.inputs[:ROWS]]
    page.table(("name", "role", "type", "what", "values"), rows)
    if len(manifest.inputs) > ROWS:
        page.line(f"... {len(manifest.inputs) - ROWS} more (--json has all)", style="dim")


def _row(one: InputInfo, manifest: Manifest) -> tuple[str, ...]:
    what, values = describe_input(one, manifest), describe_values(one, manifest)
    return one.name, one.role, short_type(one.type), what, values


def describe_input(one: InputInfo, manifest: Manifest) -> str:
    """What the input is: of a single tensor all that decides how it compiles, else the recorded summary."""
    specs = [manifest.tensors[key] for key in one.tensors if key in manifest.tensors]
    if len(specs) == 1 and short_type(one.type) in ("Tensor", "Parameter", "Buffer"):
        return describe_tensor(specs[0])
    return one.summary


def describe_tensor(spec: TensorSpec) -> str:
    """`float32[2, 3] cpu`, and whatever is not ordinary: strides, offset, grad, bits."""
    words = [f"{spec.dtype}{show_tuple(spec.shape)} {spec.device}"]
    if spec.stride != contiguous(spec.shape):
        words.append(f"stride {show_tuple(spec.stride)}")
    if spec.offset:
        words.append(f"offset {spec.offset}")
    if spec.requires_grad:
        words.append("requires_grad" if spec.is_leaf else "requires_grad, not a leaf")
    words += [word for word in ("conj", "neg", "inference") if getattr(spec, word)]
    return ", ".join(words)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a dense tensor in C order, in elements; torch counts a dimension of size 0 as 1."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def describe_values(one: InputInfo, manifest: Manifest) -> str:
    """Whether the numbers in its tensors are the recorded ones: real, synthetic, some synthetic, or none."""
    specs = [manifest.tensors[key] for key in one.tensors if key in manifest.tensors]
    keys = [spec.storage for spec in specs if spec.storage is not None]
    storages = [manifest.storages[key] for key in keys if key in manifest.storages]
    if not specs:
        return ""
    if not storages:
        return "none"
    synthetic = sum(storage.entry is None for storage in storages)
    if synthetic == 0:
        return "real"
    return "synthetic" if synthetic == len(storages) else f"{synthetic} of {len(storages)} synthetic"


def _totals(manifest: Manifest) -> str:
    tensors = count(len(manifest.tensors), "tensor")
    synthetic = sum(storage.entry is None for storage in manifest.storages.values())
    if synthetic:
        return f"{tensors}; {synthetic} of {count(len(manifest.storages), 'storage')} synthetic"
    return tensors
