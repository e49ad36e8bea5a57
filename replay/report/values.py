"""Which values in a bundle are the recorded ones, which are made up, and what was left out. Reads no blob."""

from __future__ import annotations

from collections.abc import Iterable

from replay.recording import LeftOut, Manifest, StorageSpec, Substitution
from replay.report.inputs import describe_tensor
from replay.report.page import Page
from replay.report.text import count, show_seconds, show_size

ROWS = 12


def draw_values(page: Page, manifest: Manifest) -> None:
    """One row for each storage, the largest first; what the check while recording found; what was left out."""
    storages = sorted(manifest.storages.items(), key=lambda item: -item[1].length)
    if storages or manifest.substitution is not None:
        page.heading("Values", _totals(one for _, one in storages))
    if manifest.substitution is not None:
        page.pairs([("check", describe_substitution(manifest.substitution))])
    if storages:
        rows = [_row(key, one, manifest) for key, one in storages[:ROWS]]
        page.table(("storage", "size", "values", "tensors", "of"), rows, right=(1,))
    if len(storages) > ROWS:
        page.line(
            f"... {len(storages) - ROWS} smaller: {_totals(one for _, one in storages[ROWS:])} (--json has all)",
            style="dim",
        )
    draw_left_out(page, manifest.left_out)


def draw_left_out(page: Page, left_out: tuple[LeftOut, ...]) -> None:
    """What the frame's code cannot reach, the largest first."""
    if not left_out:
        return
    total = show_size(sum(one.nbytes for one in left_out))
    page.heading("Left out", f"what the frame's code does not name: {len(left_out)}, {total} of tensors")
    ordered = sorted(left_out, key=lambda one: (-one.nbytes, one.name))
    page.table(
        ("name", "type", "tensors"),
        [(one.name, one.type, show_size(one.nbytes)) for one in ordered[:ROWS]],
        right=(2,),
    )
    if len(ordered) > ROWS:
        page.line(f"... {len(ordered) - ROWS} more (--json has all)", style="dim")


def values_of(storage: StorageSpec) -> str:
    """`real` or `synthetic`."""
    return "synthetic" if storage.entry is None else "real"


def describe_substitution(found: Substitution) -> str:
    """What the check while recording found, in one line."""
    took = f" ({show_seconds(found.seconds)})" if found.seconds else ""
    if found.survived:
        return f"checked while recording{took}: the failure comes back as it is"
    if found.survived is None:
        return f"not known whether the failure comes back as it is: {found.reason}"
    kept = [f"{count(len(found.kept), 'storage')} kept real for it"] if found.kept else []
    kept += ["nothing left out"] if found.whole else []
    with_it = " and ".join(kept) or "nothing more to keep"
    if found.reproduces:
        return f"checked while recording{took}: it comes back with {with_it}; without, it did not ({found.reason})"
    if found.reproduces is None:
        return f"it did not come back; not known whether it does with {with_it}: {found.reason}"
    return f"checked while recording{took}: it does not come back in a fresh process ({found.reason}), with {with_it}"


def _row(key: str, storage: StorageSpec, manifest: Manifest) -> tuple[str, ...]:
    keys = [name for name, spec in manifest.tensors.items() if spec.storage == key]
    first = describe_tensor(manifest.tensors[keys[0]]) if keys else ""
    more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    inputs = [one.name for one in manifest.inputs if not set(keys).isdisjoint(one.tensors)]
    return key, show_size(storage.length), values_of(storage), first + more, ", ".join(inputs[:3])


def _totals(storages: Iterable[StorageSpec]) -> str:
    sizes: dict[str, list[int]] = {"real": [], "synthetic": []}
    for one in storages:
        sizes[values_of(one)].append(one.length)
    return ", ".join(
        f"{len(found)} {name} ({show_size(sum(found))})" for name, found in sizes.items() if found
    )
