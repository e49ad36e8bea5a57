"""A bundle of the CPU as if it were CUDA's: source, tensors and environment relabelled. For tests alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import replay
from replay.bundle import BundleWriter


def relabelled(path: Path, directory: str, pairs: Mapping[str, str]) -> Path:
    """Write the bundle anew with each of `pairs` replaced in its sources, and every CPU tensor on cuda:0.

    It is of another torch as well: its message names the CPU, and only within one torch do the messages count.
    """
    with replay.load(path) as bundle, BundleWriter(Path(directory), "x") as writer:
        manifest = bundle.manifest
        sources = {}
        for file, entry in manifest.sources.items():
            text = bundle.source(entry)
            for old, new in pairs.items():
                text = text.replace(old, new)
            sources[file] = writer.add_source(file, text)
        writer.add_values(bundle.values())
        storages = {}
        for key, spec in manifest.storages.items():
            entry = spec.entry
            if entry is not None:
                data = bundle.blob(entry)
                entry = writer.add_blob(key, len(data), [data])
            storages[key] = dataclasses.replace(spec, device="cuda:0", entry=entry)
        tensors = {key: dataclasses.replace(spec, device="cuda:0") for key, spec in manifest.tensors.items()}
        environment = dataclasses.replace(
            manifest.environment, gpus=("NVIDIA H200",), cuda="13.0", torch="0.0"
        )
        return writer.commit(
            dataclasses.replace(
                manifest,
                frame=dataclasses.replace(manifest.frame, entry=sources.get(manifest.frame.file)),
                sources=sources,
                storages=storages,
                tensors=tensors,
                environment=environment,
            )
        )
