"""The ranks of torch.distributed: which one this process is, and pretending to be one of them alone.

A replay is one process. It gets a default group of the recorded size, and the recorded groups by their names, with
torch's "fake" backend: collectives are traced and return at once, without anybody else. Their results are not those
of a real group. Nothing here connects to anything.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from replay.errors import MissingError
from replay.torch_adapter import features

LAUNCH = re.compile(r"^(?:(?:LOCAL_|GROUP_|ROLE_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT)|TORCHELASTIC_.*)$")
"""Environment variables by which a launcher tells a process its rank. A replay must not join somebody's job."""


def membership() -> dict[str, Any]:
    """Rank, world size, backend and groups of this process, as plain data; empty outside torch.distributed."""
    dist = _joined()
    return (
        {}
        if dist is None
        else {
            "rank": int(dist.get_rank()),
            "world_size": int(dist.get_world_size()),
            "backend": str(dist.get_backend()),
            "groups": [*_groups()],
        }
    )


def rank() -> int | None:
    """The rank of this process; None outside torch.distributed."""
    dist = _joined()
    return None if dist is None else int(dist.get_rank())


def _joined() -> Any:
    """torch.distributed, if this process has joined a group."""
    dist = sys.modules.get("torch.distributed")
    joined = dist is not None and dist.is_available() and dist.is_initialized()
    return dist if joined else None


def _groups() -> Iterator[dict[str, Any]]:
    world = _world()
    for group, name in dict(features.require(world, "pg_names")).items():
        ranks = features.require(world, "pg_group_ranks").get(group)
        backend = features.require(world, "pg_map").get(group)
        if ranks is not None and backend is not None:
            yield {"name": str(name), "ranks": [*ranks], "backend": str(backend[0])}


def _world() -> Any:
    return features.require(features.module("torch.distributed.distributed_c10d"), "_world")


@contextmanager
def pretended(recorded: Mapping[str, Any]) -> Iterator[str | None]:
    """Be the recorded rank, alone, while inside; yields a note for the reader of the outcome, if there is one.

    `recorded`: what `membership` found. Nothing happens where the program was not distributed. Raises MissingError
    if this process is part of another job, or its torch was built without torch.distributed.
    """
    if "world_size" not in recorded:
        yield None
        return
    rank, size = int(recorded["rank"]), int(recorded["world_size"])
    dist = features.module("torch.distributed")
    if not dist.is_available():
        raise MissingError("torch.distributed: this torch was built without it")
    if dist.is_initialized():
        if (dist.get_rank(), dist.get_world_size()) != (rank, size):
            raise MissingError(
                f"rank {rank} of {size}: this process belongs to another group already; replay in a child process"
            )
        yield None
        return
    hook = sys.excepthook  # torch sets one that prints the rank
    _join(dist, recorded)
    try:
        yield f"rank {rank} of {size} was replayed alone, with fake process groups: collectives move no data"
    finally:
        dist.destroy_process_group()
        sys.excepthook = hook


def _join(dist: Any, recorded: Mapping[str, Any]) -> None:
    fake = features.module("torch.testing._internal.distributed.fake_pg")
    store = features.require(fake, "FakeStore")()
    rank = int(recorded["rank"])
    dist.init_process_group("fake", rank=rank, world_size=int(recorded["world_size"]), store=store)
    c10d, world = features.module("torch.distributed.distributed_c10d"), _world()
    default = features.require(c10d, "_get_default_group")()
    _name_backend(world, default, str(recorded["backend"]))
    known = set(features.require(world, "pg_names").values())
    for one in recorded.get("groups", ()):
        if one["name"] not in known:
            group = _make_group(c10d, world, one, rank)
            _name_backend(world, group, str(one["backend"]))
    taken = [int(name) for name in features.require(world, "pg_names").values() if str(name).isdigit()]
    world.group_count = max([int(features.require(world, "group_count")), *(number + 1 for number in taken)])


def _make_group(c10d: Any, world: Any, one: Mapping[str, Any], rank: int) -> Any:
    """A group with a name of its own choice, which `new_group` would not give it."""
    ranks = [int(each) for each in one["ranks"]]
    _, store = features.require(world, "pg_map")[features.require(c10d, "_get_default_group")()]
    make = features.require(c10d, "_new_process_group_helper")
    backend = features.require(c10d, "Backend")("fake")
    place = ranks.index(rank) if rank in ranks else None
    group, _ = make(
        len(ranks),
        place,
        ranks,
        backend,
        store,
        one["name"],
        timeout=features.require(c10d, "_get_default_timeout")(backend),
    )
    features.require(world, "pg_group_ranks")[group] = {each: index for index, each in enumerate(ranks)}
    return group


def _name_backend(world: Any, group: Any, backend: str) -> None:
    """Let `get_backend` answer as it did in the recorded program: frames branch on it."""
    groups = features.require(world, "pg_map")
    groups[group] = (backend, groups[group][1])


def is_group(kind: type) -> bool:
    """Whether this is torch's class of process groups, or one that derives from it."""
    dist = sys.modules.get("torch.distributed")
    base = getattr(dist, "ProcessGroup", None)
    return base is not None and issubclass(kind, base)


def group_name(group: Any) -> str | None:
    """The name under which torch knows a group; None for one that it does not."""
    found = dict(features.require(_world(), "pg_names")).get(group)
    return None if found is None else str(found)


def group(name: str) -> Any:
    """The group of that name. Raises MissingError where this process is in no such group."""
    if _joined() is not None:
        for one, known in dict(features.require(_world(), "pg_names")).items():
            if str(known) == name:
                return one
    raise MissingError(f"the process group {name!r}: this process is in no group of that name")
