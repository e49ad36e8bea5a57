"""Device meshes and placements of torch.distributed: as this torch pickles them, or made anew on another.

A mesh needs process groups. Where the replaying process has none, it gets a default group of the recorded size with
torch's "fake" backend, which moves no data. Nothing here connects to anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from replay.torch_adapter import distributed, features
from replay.torch_adapter.undisturbed import undisturbed

MESHES = "torch.distributed.device_mesh"
SPECS = "torch.distributed.tensor._dtensor_spec"


def is_mesh(cls: type) -> bool:
    """Whether a class is that of meshes."""
    return cls.__name__ == "DeviceMesh" and cls.__module__ == MESHES


def is_spec(cls: type) -> bool:
    """Whether a class is that of a DTensor's layout over a mesh."""
    return cls.__name__ == "DTensorSpec" and cls.__module__ == SPECS


def mesh_facts(mesh: Any) -> dict[str, Any]:
    """What any torch makes the mesh of."""
    dist = features.module("torch.distributed")
    joined = dist.is_initialized()
    with undisturbed():
        ranks = mesh.mesh.tolist()
    return {
        "torch": list(features.version()),
        "device": str(mesh.device_type),
        "mesh": ranks,
        "names": mesh.mesh_dim_names,
        "groups": list(getattr(mesh, "_dim_group_names", None) or ()),
        "rank": int(dist.get_rank()) if joined else 0,
        "world_size": int(dist.get_world_size()) if joined else 1 + max(_flat(ranks)),
    }


def mesh_state(mesh: Any) -> dict[str, Any]:
    """What this torch pickles of the mesh."""
    found = mesh.__getstate__() if "__getstate__" in type(mesh).__dict__ else dict(mesh.__dict__)
    return dict(found)


def in_group(facts: Mapping[str, Any]) -> AbstractContextManager[Any]:
    """Be in a fake group of the recorded size while inside, unless this process has a group."""
    dist = features.module("torch.distributed")
    if dist.is_available() and dist.is_initialized():
        return nullcontext()
    return distributed.pretended(
        {"rank": facts["rank"], "world_size": facts["world_size"], "backend": "fake"}
    )


def make_mesh(facts: Mapping[str, Any], device: str) -> Any:
    """A mesh; of new groups, unless this process has the recorded ones, which `restore_mesh` then gives it."""
    mesh = features.require(features.module(MESHES), "DeviceMesh")
    names = facts["names"] and tuple(facts["names"])
    if _is_restorable(facts, facts.get("groups")):
        return mesh(device, facts["mesh"], mesh_dim_names=names, _init_backend=False)
    return mesh(device, facts["mesh"], mesh_dim_names=names)


def restore_mesh(mesh: Any, facts: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Give a mesh the recorded state, if this torch wrote it and this process has its groups."""
    if not _is_restorable(facts, state.get("_dim_group_names")):
        return
    if hasattr(mesh, "__setstate__"):
        mesh.__setstate__(dict(state))
    else:
        mesh.__dict__.update(state)


def _is_restorable(facts: Mapping[str, Any], names: Any) -> bool:
    same = list(facts["torch"]) == list(features.version())
    return same and bool(names) and all(map(_is_group, names))


def _is_group(name: Any) -> bool:
    resolve = features.require(
        features.module("torch.distributed.distributed_c10d"), "_resolve_process_group"
    )
    try:
        return isinstance(name, str) and resolve(name) is not None
    except (RuntimeError, ValueError, TypeError):
        return False


def spec_parts(spec: Any) -> tuple[Any, tuple[Any, ...], tuple[Any, ...] | None]:
    """Mesh, placements, and (shape, stride, dtype) of the whole tensor if they are known."""
    meta = spec.tensor_meta
    known = None if meta is None else (tuple(meta.shape), tuple(meta.stride), meta.dtype)
    return spec.mesh, tuple(spec.placements), known


def make_spec(mesh: Any, placements: tuple[Any, ...], known: tuple[Any, ...] | None) -> Any:
    """The layout of a DTensor over a mesh."""
    specs = features.module(SPECS)
    meta = None
    if known is not None:
        shape, stride, dtype = known
        meta = features.require(specs, "TensorMeta")(features.module("torch").Size(shape), stride, dtype)
    return features.require(specs, "DTensorSpec")(mesh, placements, tensor_meta=meta)


def _flat(ranks: Any) -> list[int]:
    return [one for part in ranks for one in _flat(part)] if isinstance(ranks, list) else [ranks]
