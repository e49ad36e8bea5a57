"""An exception of the compiler, taken apart into plain data.

Reads the attributes that torch hangs on its exceptions (`real_stack`, `inner_exception`, `gb_type`) and the
traceback; it must run before torch strips the traceback on the way to the user, that is, inside the hook.
Decides the stage. Compares nothing: that is `replay.fingerprint`.
"""

from __future__ import annotations

import linecache
import os
import re
import site
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from types import CodeType, TracebackType

from replay import fingerprint
from replay.recording import ErrorInfo, Stage, UserFrame
from replay.selection import resumed_function
from replay.torch_adapter import features

Line = tuple[str, int, str]
"""File, line number, function."""

LIMIT_TITLES = ("Dynamo recompile limit exceeded", "Dynamo cache limit exceeded")
"""torch's words for a recompile limit that is hit (>= 2.9, and before)."""

_CALLS_BACKEND = ("torch/_dynamo/output_graph.py", ("call_user_compiler", "_call_user_compiler"))
"""Where Dynamo hands the graph over: what is raised further in is the backend's."""

_LIMIT_NAME = re.compile(r"Limit type: (\w+)|^(\w+_limit) reached$")
"""The second are the words of RecompileLimitExceeded (torch 2.9)."""
_LIMIT_TYPES = ("FailOnRecompileLimitHit", "FailOnCacheLimitHit", "RecompileLimitExceeded")


def describe(
    error: BaseException,
    *,
    stage: Stage | None = None,
    code: CodeType | None = None,
    trace: TracebackType | None = None,
) -> ErrorInfo:
    """Plain data of a failure.

    `stage`: where that is known from elsewhere. `code`: of the frame; its first line stands for an error that names
    no line of the user's. `trace`: the part of the traceback that counts, where what is outside it is not the frame's.
    """
    inner = _attribute(error, "inner_exception")
    lines = list(_lines(trace or error.__traceback__))
    if isinstance(inner, BaseException) and inner.__traceback__ is not None:
        lines += [line for line in _lines(inner.__traceback__) if line not in lines]
    stage = stage_of(error, lines, stage)
    user = tuple(_user_frames(error, lines)) or own_frame(code)
    kind = type_name(type(error))
    inner_type = type_name(type(inner)) if isinstance(inner, BaseException) else None
    gb_type, raised_in = _gb_type(error), _raised_in(lines)
    return ErrorInfo(
        type=kind,
        message=_text(error),
        stage=stage,
        fingerprint=fingerprint.compute(
            stage=stage,
            type=kind,
            inner_type=inner_type,
            gb_type=gb_type,
            user_frames=user,
            title=_title(error, inner),
            raised_in=raised_in,
        ),
        user_frames=user,
        inner_type=inner_type,
        gb_type=gb_type,
        raised_in=raised_in,
        traceback=_formatted(error),
    )


def stage_of(error: BaseException, lines: Iterable[Line], known: Stage | None = None) -> Stage:
    """The stage that failed, from the exception's type and the files that its traceback went through.

    `known`: what it is unless it is a recompile limit, which Dynamo treats as a graph break.
    """
    if is_limit(error):
        return "recompile_limit"
    if known is not None:
        return known
    rooms = [(torch_file(file) or "", function) for file, _, function in lines]
    started = [
        i for i, (room, name) in enumerate(rooms) if room == _CALLS_BACKEND[0] and name in _CALLS_BACKEND[1]
    ]
    if not started and not isinstance(error, features.module("torch._dynamo.exc").BackendCompilerFailed):
        return "dynamo"
    autograd = max(
        (i for i, (room, _) in enumerate(rooms) if room.startswith("torch/_functorch/")), default=-1
    )
    inductor = max(
        (i for i, (room, _) in enumerate(rooms) if room == "torch/_inductor/compile_fx.py"), default=-1
    )
    if inductor > autograd:
        return "inductor"
    return "aot_autograd" if autograd >= 0 else "backend"


def is_limit(error: BaseException | None) -> bool:
    """Whether the error says that a recompile limit was hit."""
    if error is None:
        return False
    return type(error).__name__ in _LIMIT_TYPES or _text(error).startswith(LIMIT_TITLES)


def limit_name(error: BaseException | None) -> str:
    """The limit that was hit, by its name in torch._dynamo.config; empty for any other error."""
    if error is None or not is_limit(error):
        return ""
    found = _LIMIT_NAME.search(_text(error)) or _LIMIT_NAME.search(_text(error.__cause__ or error))
    return "" if found is None else found[1] or found[2]


def is_skip(error: BaseException) -> bool:
    """Whether the exception is Dynamo's way to leave a frame alone: no failure."""
    return isinstance(error, features.module("torch._dynamo.exc").SkipFrame)


def type_name(kind: type) -> str:
    """Fully qualified name; no module for builtins."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def torch_file(filename: str) -> str | None:
    """For example "torch/_dynamo/exc.py" for a file of the installed torch (or triton), else None."""
    for root, name in _torch_roots():
        if filename.startswith(root):
            return name + "/" + PurePath(filename[len(root) :]).as_posix()
    return None


def is_user_file(filename: str) -> bool:
    """Whether a file is neither torch's (or generated by it), nor of the standard library, nor installed, nor ours."""
    if filename.startswith("<"):
        return filename.startswith(("<ipython", "<stdin", "<doctest"))
    return not filename.startswith(_library_roots())


def real_stack(error: BaseException) -> list[UserFrame]:
    """The user's stack that Dynamo keeps on its errors, outermost first; empty where there is none."""
    stack = _attribute(error, "real_stack")
    if not isinstance(stack, traceback.StackSummary):
        return []
    return [user_frame(frame.filename, frame.lineno or 0, frame.name) for frame in stack]


def _user_frames(error: BaseException, lines: list[Line]) -> Iterator[UserFrame]:
    frames = real_stack(error)
    frames = [frame for frame in frames if torch_file(frame.file) is None] or frames
    if not frames:
        frames = [user_frame(*line) for line in lines if is_user_file(line[0])]
    yield from frames


def user_frame(file: str, line: int, function: str) -> UserFrame:
    """A line of the program, with its text where that is known."""
    name = resumed_function(function) or function  # the line number in a resume function's name is no name
    return UserFrame(file=file, line=line, function=name, code=linecache.getline(file, line).strip())


def own_frame(code: CodeType | None) -> tuple[UserFrame, ...]:
    """The first line of a frame, which stands for an error that names no line; none of a resume function."""
    if code is None or resumed_function(code.co_name) is not None or not is_user_file(code.co_filename):
        return ()
    return (user_frame(code.co_filename, code.co_firstlineno, code.co_name),)


def _title(error: BaseException, inner: object) -> str:
    limit = limit_name(error)
    if limit:
        return f"Limit type: {limit}"
    text = _text(inner if isinstance(inner, BaseException) else error)
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _gb_type(error: BaseException) -> str | None:
    """torch's name for the graph break; before torch 2.11 it is only the message's first line."""
    kind = _attribute(error, "gb_type")
    if isinstance(kind, str) and kind:
        return kind
    unsupported = isinstance(error, features.module("torch._dynamo.exc").Unsupported)
    return _title(error, None) if unsupported else None


def _attribute(error: BaseException, name: str) -> object:
    """An attribute that torch may have hung on an exception; a property of the user's may raise anything."""
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - then it is not torch's
        return None


def _text(error: BaseException) -> str:
    """`str(error)`, as far as the exception can say it."""
    try:
        return str(error)
    except Exception as failed:  # noqa: BLE001 - whatever a user's __str__ raises
        return f"<str() of it raised {type(failed).__name__}>"


def _lines(trace: TracebackType | None) -> Iterator[Line]:
    while trace is not None:
        code = trace.tb_frame.f_code
        yield code.co_filename, trace.tb_lineno, code.co_name
        trace = trace.tb_next


def _raised_in(lines: list[Line]) -> str | None:
    for file, _, function in reversed(lines):
        place = torch_file(file)
        if place is not None and not function.startswith("<"):
            return f"{place}:{function}"
    return None


def _formatted(error: BaseException) -> str:
    """The traceback as Python prints it, without our own frames and without the directories of libraries."""
    report = traceback.TracebackException.from_exception(error)
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    link: traceback.TracebackException | None = report
    while link is not None:
        kept = [frame for frame in link.stack if not frame.filename.startswith(ours)]
        link.stack = traceback.StackSummary.from_list(kept)
        link = link.__cause__ or link.__context__
    text = "".join(report.format())
    for root, name in _torch_roots():
        text = text.replace(root, name + "/")
    for root in sorted(_library_roots(), key=len, reverse=True):
        text = text.replace(root, "")
    return text


def _torch_roots() -> list[tuple[str, str]]:
    roots = []
    for name in ("torch", "triton", "functorch"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file:
            roots.append((os.path.dirname(file) + os.sep, name))
    return roots


def _library_roots() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    roots = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"], ours}
    roots.update(root.rstrip(os.sep) for root, _ in _torch_roots())
    if hasattr(site, "getsitepackages"):
        roots.update(site.getsitepackages())
    roots.update(_generated_roots())
    return tuple(root + os.sep for root in roots)


def _generated_roots() -> list[str]:
    """Directories of the code that Inductor generates.

    torch's own `cache_dir` is not called: it makes the directory, and sets the variable.
    """
    caches = sys.modules.get("torch._inductor.runtime.cache_dir_utils")
    if caches is None:
        return []
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or features.require(caches, "default_cache_dir")()
    return [os.path.abspath(named)]
