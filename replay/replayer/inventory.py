"""What the files of `--artifacts` are called, and what each of them is. Nothing here writes."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence

TRACED = {
    "dynamo_output_graph": "dynamo_graph.py",
    "dynamo_cpp_guards_str": "guards.txt",
    "dynamo_graph_break_reason": "graph_break.txt",
    "aot_joint_graph": "aot_joint_graph.py",
    "aot_forward_graph": "aot_forward_graph.py",
    "aot_backward_graph": "aot_backward_graph.py",
    "aot_inference_graph": "aot_inference_graph.py",
    "aot_forward_graph_fw_metadata": "aot_metadata.txt",
    "before_pre_grad_graph": "before_pre_grad.py",
    "after_pre_grad_graph": "after_pre_grad.py",
    "before_joint_graph": "before_joint_passes.py",
    "after_joint_graph": "after_joint_passes.py",
    "before_post_grad_graph": "before_post_grad.py",
    "inductor_post_grad_graph": "after_post_grad.py",
    "after_post_grad_graph": "after_post_grad.py",
    "inductor_output_code": "output_code.py",
}
"""An entry of torch's structured trace -> the file that it becomes. The others are in the trace alone."""

WHAT = {
    "outcome.json": "the outcome, as --json prints it",
    "trace.log": "torch's structured trace, which tlparse reads",
    "logs.txt": "the log messages of Dynamo, AOTAutograd and Inductor, from level INFO on",
    "*/frame.txt": "which frame this is, and what became of it",
    "*/dynamo_graph*_runnable.py": "the same graph as a script: compiles it with the backend, and runs it",
    "*/dynamo_graph_no_script*": "why there is no script of the graph",
    "*/dynamo_graph*.py": "the graph that Dynamo traced, to read",
    "*/inputs/*": "the values that the script feeds to the graph",
    "*/bytecode_original*": "the function's bytecode",
    "*/bytecode_modified*": "the bytecode that Dynamo runs instead",
    "*/guards*": "the guards, as the tree that is checked on each call",
    "*/graph_break*": "why Dynamo stopped tracing, with the user's stack and its own",
    "*/aot_joint_graph*": "AOTAutograd's forward and backward in one graph",
    "*/aot_forward_graph*": "AOTAutograd's forward graph",
    "*/aot_backward_graph*": "AOTAutograd's backward graph",
    "*/aot_inference_graph*": "AOTAutograd's graph, where no gradient is needed",
    "*/aot_metadata*": "what AOTAutograd found out about inputs, outputs and mutations",
    "*/before_pre_grad*": "Dynamo's graph as Inductor got it",
    "*/after_pre_grad*": "after Inductor's passes over it",
    "*/before_joint_passes*": "AOTAutograd's graph before Inductor's joint passes",
    "*/after_joint_passes*": "and after them",
    "*/before_post_grad*": "AOTAutograd's graph before Inductor's last passes",
    "*/after_post_grad*": "and after them: what is lowered",
    "*/output_code*": "the Python that Inductor made, with its kernels",
    "*/fx_graph_readable.py": "the graph that Inductor lowers, to read",
    "*/fx_graph_runnable.py": "the same as a script, with made-up inputs",
    "*/fx_graph_transformed.py": "the same after Inductor's passes",
    "*/ir_pre_fusion.txt": "Inductor's IR before fusion",
    "*/ir_post_fusion.txt": "Inductor's IR after fusion",
    "kernels/*": "a source that Inductor wrote for a compiler: C++ or Triton",
}
"""A file's pattern -> what it is; the first that fits counts."""

EXPECTED = (
    ("*/dynamo_graph*.py", "Dynamo's graphs"),
    ("*/dynamo_graph*_runnable.py", "a runnable script of Dynamo's graph"),
    ("*/aot_*graph*.py", "AOTAutograd's graphs"),
    ("*/ir_post_fusion.txt", "Inductor's IR"),
    ("*/output_code*.py", "Inductor's output code"),
    ("kernels/*", "kernel sources"),
    ("*/guards*", "guards"),
    ("*/bytecode_modified*", "Dynamo's bytecode"),
)
"""What somebody may look for."""

INPUTS = "/inputs/storages"
"""How the folder ends in which torch keeps the bytes of a graph's inputs."""

_WORD = re.compile(r"[^0-9A-Za-z]+")


def frame_folder(compile_id: str) -> str:
    """The folder of a frame: "frame_0_0"; of what belongs to none "frame_unknown"."""
    return f"frame_{_WORD.sub('_', compile_id).strip('_') or 'unknown'}"


def describe(name: str) -> str:
    """What a file is; one that nobody foresaw is Inductor's own."""
    found = (what for pattern, what in WHAT.items() if fnmatch.fnmatchcase(name, pattern))
    return next(found, "written by Inductor")


def absent(names: Iterable[str]) -> list[str]:
    """What somebody may look for and that is not among the files."""
    known: Sequence[str] = list(names)
    return [what for pattern, what in EXPECTED if not any(fnmatch.fnmatchcase(one, pattern) for one in known)]
