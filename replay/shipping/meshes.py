"""Meshes of torch.distributed and the layouts of DTensors over them. What they are made of: `torch_adapter.meshes`."""

from __future__ import annotations

from typing import Any

from replay.shipping.dumping import Dumping, Reduced
from replay.shipping.loading import Loading, builder
from replay.shipping.placeholders import Placeholder
from replay.torch_adapter import meshes as torchs_meshes


def reducer_for(cls: type) -> Any:
    """The reducer for one of these classes, None for any other."""
    if torchs_meshes.is_mesh(cls):
        return reduce_mesh
    return reduce_spec if torchs_meshes.is_spec(cls) else None


def reduce_mesh(dumping: Dumping, mesh: Any) -> Reduced:
    """By what it is, and by what this torch makes of it."""
    facts = torchs_meshes.mesh_facts(mesh)
    return make_mesh, (facts,), (facts, torchs_meshes.mesh_state(mesh)), None, None, fill_mesh


@builder
def make_mesh(loading: Loading, facts: dict[str, Any]) -> Any:
    """A mesh; the process is the recorded rank of a fake group until the load ends, if it was in none."""
    loading.undo.enter_context(torchs_meshes.in_group(facts))
    return torchs_meshes.make_mesh(facts, loading.tensors.device(facts["device"]))


@builder
def fill_mesh(loading: Loading, mesh: Any, state: Reduced) -> None:
    """The recorded state, where it means anything here."""
    if not isinstance(mesh, Placeholder):
        torchs_meshes.restore_mesh(mesh, *state)


def reduce_spec(dumping: Dumping, spec: Any) -> Reduced:
    """By mesh, placements and the whole tensor's sizes."""
    return make_mesh_layout, torchs_meshes.spec_parts(spec)


@builder
def make_mesh_layout(
    loading: Loading, mesh: Any, placements: tuple[Any, ...], known: tuple[Any, ...] | None
) -> Any:
    """The layout of a DTensor over a mesh."""
    return torchs_meshes.make_spec(mesh, placements, known)
