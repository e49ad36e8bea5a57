"""One bundle written once more with less in it: texts, values, manifest. What went, and what could not, is told."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from replay import fingerprint, giveaways, trust
from replay.bundle import Bundle, BundleWriter, to_plain
from replay.bundle.layout import BLOBS, VALUES
from replay.contents import texts
from replay.errors import UsageError
from replay.plain import from_plain
from replay.recording import Environment, ErrorInfo, InputInfo, Manifest, Missing, StorageSpec, Substitution
from replay.stripping import cutting, statistics, values
from replay.stripping.assignments import without_values
from replay.stripping.comments import unchanged, without_comments
from replay.stripping.renaming import Renaming, renaming_for
from replay.torch_adapter.environment import variables_to_set


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to go."""

    values: Collection[str] | None  # inputs or storages whose values go; None: all
    comments: bool = True
    names: bool = True  # directories, users, hosts, addresses
    environment: bool = True
    globals: Collection[str] = ()  # names
    calls: bool = False  # those that compiled the frame before


@dataclass(slots=True)
class Stripping:
    """The pieces of one bundle, without what was to go."""

    bundle: Bundle
    wanted: Wanted
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    _renaming: Renaming = field(default_factory=Renaming)
    _sources: dict[str, str] = field(default_factory=dict)  # new name -> new text
    _lines: dict[str, str] = field(default_factory=dict)  # source lines that changed
    _docstrings: set[str] = field(default_factory=set)
    _values: bytes | None = None
    _gone: frozenset[str] = frozenset()  # "global x", "earlier calls"
    _storages: dict[str, StorageSpec] = field(default_factory=dict)

    def prepare(self) -> Stripping:
        """Make every piece. Raises BundleError where the bundle is damaged."""
        if self.wanted.names:
            everything = [*texts.of_manifest(self.bundle), *texts.of_values(self.bundle, texts.ValuesRead())]
            self._renaming = renaming_for(self.bundle.manifest.sources, [one.text for one in everything])
        self._strip_sources()
        self._strip_values()
        self._strip_storages()
        self._tell_names()
        self._tell_environment()
        return self

    def write(self, folder: Path, substitution: Substitution) -> Path:
        """Write the bundle into the folder; its path. `substitution`: what is known of its replay."""
        with BundleWriter(folder, "stripped", sign=trust.successor_signer(self.bundle)) as writer:
            sources = {file: writer.add_source(file, text) for file, text in self._sources.items()}
            if self._values is not None:
                writer.add_values(self._values)
            for spec in self._storages.values():
                if spec.entry is not None:
                    writer.add_blob(
                        spec.entry.removeprefix(BLOBS), spec.length, [self.bundle.blob(spec.entry)]
                    )
            return writer.commit(self._manifest(sources, substitution))

    # --- the pieces

    def _strip_sources(self) -> None:
        comments = docstrings = 0
        for file, entry in self.bundle.manifest.sources.items():
            text = self.bundle.source(entry)
            bare = without_comments(text) if self.wanted.comments else unchanged(text)
            if bare is None:
                self.kept.append(f"the comments of {file}: this Python cannot parse it")
                bare = unchanged(text)
            comments, docstrings = comments + bare.comments, docstrings + bare.documented
            self._lines |= bare.lines
            self._docstrings |= bare.docstrings - {""}
            text, left = without_values(bare.text, self.wanted.globals)
            self.kept += [f"the source of {name} in {file}" for name in sorted(left)]
            self._sources[self._rename(file)] = self._rename_in_code(text)
        if comments or docstrings:
            what = [_count(comments, "comment"), _count(docstrings, "docstring")]
            self.removed.append(" and ".join(one for one in what if not one.startswith("0 ")))

    def _strip_values(self) -> None:
        if VALUES not in self.bundle.manifest.entries:
            return
        own = _is_this_python(self.bundle.manifest.environment)
        data = self._cut(self.bundle.values())
        self._values = values.rewritten(data, self._change, self.bundle.path, bytecode=own)
        for user in self._renaming.users:
            if user.encode() in self._values:
                self.kept.append(
                    f"the name {user!r} in bytecode or as a name that the program uses (values.pkl)"
                )

    def _cut(self, data: bytes) -> bytes:
        """The values without globals and earlier calls that were to go."""
        manifest, path = self.bundle.manifest, self.bundle.path
        calls = self.wanted.calls and bool(manifest.calls)
        if calls and manifest.sequence is not None:
            self.kept.append("the earlier calls: they are what was recorded")
            calls = False
        if not self.wanted.globals and not calls:
            return data
        found = cutting.without(data, self.wanted.globals, calls=calls, path=path)
        for name in self.wanted.globals:
            if f"global {name}" not in (*found.gone, *found.shared):
                raise UsageError(f"{path}: no function in it uses a global that is called {name!r}")
        self._gone = frozenset(found.gone)
        self.removed += found.gone
        self.kept += [f"{what}: the rest of the values shares an object with it" for what in found.shared]
        self.kept += [f"the object of {what}: something else holds it too" for what in found.elsewhere]
        return found.values

    def _change(self, text: str) -> str:
        return "" if text in self._docstrings else self._rename(text)

    def _rename(self, text: str) -> str:
        return self._renaming(text) if self.wanted.names else text

    def _rename_in_code(self, text: str) -> str:
        return self._renaming.in_code(text) if self.wanted.names else text

    def _strip_storages(self) -> None:
        chosen, gone = _chosen(self.bundle.manifest, self.wanted.values), 0
        dropped = [one.name for one in self.bundle.manifest.inputs if self._is_gone(one)]
        chosen |= _chosen(self.bundle.manifest, dropped)
        for key, spec in self.bundle.manifest.storages.items():
            if spec.entry is None or key not in chosen:
                self._storages[key] = spec
            else:
                gone += spec.length
                dtype = _dtype(self.bundle.manifest, key)
                self._storages[key] = statistics.metadata_of(spec, dtype, self.bundle.blob(spec.entry))
        went = [key for key, spec in self.bundle.manifest.storages.items() if spec.entry and key in chosen]
        if went:
            self.removed.append(
                f"the values of {_count(len(went), 'storage')}, {gone:,} bytes; metadata stays"
            )

    def _is_gone(self, one: InputInfo) -> bool:
        return one.role == "global" and f"global {one.name}" in self._gone

    def _tell_names(self) -> None:
        if self._renaming.replaced:
            directories = [old for old, _ in self._renaming.directories if old in self._renaming.replaced]
            names = sorted(self._renaming.replaced - set(directories))
            told = [_count(len(directories), "directory", "directories")] if directories else []
            told += [_count(len(names), "name") + " of users, hosts or addresses"] if names else []
            self.removed.append(" and ".join(told) + ", everywhere")

    def _tell_environment(self) -> None:
        found = self.bundle.manifest.environment
        if self.wanted.environment:
            gone = len(found.variables) - len(_needed_variables(found))
            what = ["platform and processor"] if found.platform or found.cpu else []
            what += [_count(gone, "environment variable")] if gone else []
            self.removed += [", ".join(what)] if what else []

    # --- the manifest

    def _manifest(self, sources: dict[str, str], substitution: Substitution) -> Manifest:
        plain = self._renamed(to_plain(self.bundle.manifest))
        manifest = from_plain(plain, Manifest)
        frame = replace(manifest.frame, entry=sources.get(manifest.frame.file))
        return replace(
            manifest,
            frame=frame,
            error=self._error(manifest.error),
            environment=self._environment(manifest.environment),
            sources=sources,
            storages=self._storages,
            substitution=substitution,
            inputs=tuple(one for one in manifest.inputs if not self._is_gone(one)),
            calls=() if "earlier calls" in self._gone else manifest.calls,
            missing=(*manifest.missing, *self._missing()),
            process={name: value for name, value in manifest.process.items() if name != "session"},
            entries={},
        )

    def _missing(self) -> Iterator[Missing]:
        for what in sorted(self._gone - {"earlier calls"}):
            yield Missing(f"globals.{what.removeprefix('global ')}", "global", cutting.TAKEN_OUT)

    def _renamed(self, plain: Any) -> Any:
        if isinstance(plain, str):
            return self._rename(plain)
        if isinstance(plain, list):
            return [self._renamed(one) for one in plain]
        if isinstance(plain, dict):
            return {self._renamed(key): self._renamed(one) for key, one in plain.items()}
        return plain

    def _error(self, error: ErrorInfo | None) -> ErrorInfo | None:
        """The error without the comments of the source lines that it quotes; its fingerprint follows the line."""
        if error is None:
            return None
        frames = tuple(replace(one, code=self._uncommented(one.code)) for one in error.user_frames)
        made = replace(
            error,
            user_frames=frames,
            message=self._uncommented_lines(error.message),
            traceback=self._uncommented_lines(error.traceback),
        )
        old, new = _core(error), _core(made)
        if old != new and old == fingerprint.core(error.fingerprint):
            rest = error.fingerprint.removeprefix(old)
            return replace(made, fingerprint=new + rest)
        return made

    def _uncommented_lines(self, text: str) -> str:
        lines = []
        for line in text.split("\n"):
            bare = line.strip()
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(indent + self._uncommented(bare) if bare in self._lines else line)
        return "\n".join(lines)

    def _uncommented(self, line: str) -> str:
        return self._lines.get(line, line)

    def _environment(self, found: Environment) -> Environment:
        if not self.wanted.environment:
            return found
        variables = {
            name: value
            for name, value in variables_to_set(found.variables).items()
            if not giveaways.is_secret_name(name)
            and not giveaways.tokens_in(value.encode("utf-8", "replace"))
        }
        return replace(found, platform="", cpu="", variables=variables)


def _is_this_python(found: Environment) -> bool:
    """Whether bytecode of the recording is of the form that this Python writes."""
    here = platform.python_implementation(), ".".join(platform.python_version_tuple()[:2])
    return (found.implementation, ".".join(found.python.split(".")[:2])) == here


def _needed_variables(found: Environment) -> list[str]:
    """Those that a replay sets, and that look like no secret."""
    return [
        name
        for name, value in variables_to_set(found.variables).items()
        if not giveaways.is_secret_name(name) and not giveaways.tokens_in(value.encode("utf-8", "replace"))
    ]


def _count(number: int, word: str, words: str = "") -> str:
    return f"{number} {word if number == 1 else words or word + 's'}"


def _chosen(manifest: Manifest, wanted: Collection[str] | None) -> set[str]:
    """The storages whose values go."""
    if wanted is None:
        return set(manifest.storages)
    names = set(wanted)
    tensors = {key for one in manifest.inputs if one.name in names for key in one.tensors}
    of_inputs = {spec.storage for key, spec in manifest.tensors.items() if key in tensors and spec.storage}
    return of_inputs | (names & set(manifest.storages))


def unknown_names(manifest: Manifest, wanted: Collection[str]) -> Iterator[str]:
    """Names that are neither an input's nor a storage's."""
    known = {one.name for one in manifest.inputs} | set(manifest.storages)
    return (name for name in wanted if name not in known)


def _dtype(manifest: Manifest, storage: str) -> str:
    """The type of most of the tensors that share the storage."""
    kinds = [spec.dtype for spec in manifest.tensors.values() if spec.storage == storage]
    return max(set(kinds), key=kinds.count) if kinds else "uint8"


def _core(error: ErrorInfo) -> str:
    made = fingerprint.compute(
        stage=error.stage,
        type=error.type,
        inner_type=error.inner_type,
        gb_type=error.gb_type,
        user_frames=error.user_frames,
    )
    return fingerprint.core(made)
