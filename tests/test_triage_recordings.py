"""What triage says of every bundle of recordings/: the fault, and the table and the sentence as gold files."""

from __future__ import annotations

import functools
import importlib.util
import io
import re
import sys
from dataclasses import replace

import pytest
import torch
from gold import assert_gold
from programs import ROOT

import replay
from replay.report.triage import draw_triage

RECORDINGS = ROOT / "recordings"
NAMES = sorted(path.stem for path in RECORDINGS.glob("*.rec"))

FAULTS = {
    "aot_wrong_backward": "user_code",
    "backward_compiles_late": "backend",
    "called_after_graph_break": "user_code",
    "cuda_autocast_dtypes": "user_code",
    "cuda_device_constant": "user_code",
    "cuda_item_under_fullgraph": "dynamo",
    "cuda_run_time_count": "user_code",
    "cuda_triton_autotuned": "user_code",
    "cuda_triton_kernel_error": "unknown",  # it takes the device to compile the kernel
    "cuda_triton_then_mismatch": "user_code",
    "cuda_wrong_backward": "user_code",
    "dynamic_second_call": "backend",
    "dynamo_shape_mismatch": "user_code",
    "export_strict": "dynamo",
    "fullgraph_graph_break": "dynamo",
    "graph_break_in_a_callee": "graph_break",
    "inductor_cpp_compile_error": "cpp_compiler",
    "inductor_where_uint16": "inductor_lowering",
    "module_with_parameters": "user_code",
    "rank_of_four": "user_code",
    "recompile_attribute": "recompile",
    "recompile_functions": "recompile",
    "recompile_global_state": "recompile",
    "recompile_grad_mode": "recompile",
    "recompile_identity": "recompile",
    "recompile_integers": "recompile",
    "recompile_limit": "recompile_limit",
    "recompile_list_length": "recompile",
    "recompile_module_counter": "recompile_limit",
    "recompile_padding": "recompile",
    "recompile_sizes": "recompile",
    "recompile_strings": "recompile",
    "recompile_types": "recompile",
    "resume_function": "user_code",
    "run_time_index": "user_code",
    "suppressed_error": "backend",
    "toy_backend_rejects_relu": "backend",
    "wrong_numbers_relu": "numerics",
}
"""What each program's own docstring says is wrong with it."""

SAME_TORCH = torch.__version__.startswith("2.13.")
AS_RECORDED = SAME_TORCH and sys.version_info[:2] == (3, 11)
TRITON = importlib.util.find_spec("triton") is not None


@functools.cache
def triaged(name):
    """One triage for all tests of a bundle."""
    return replay.triage(RECORDINGS / f"{name}.rec", jobs=2)


def drawn(triage):
    """The report, without what differs from run to run and from machine to machine."""
    stream = io.StringIO()
    draw_triage(
        replace(triage, drift=(), rungs=tuple(replace(rung, drift=()) for rung in triage.rungs)), stream
    )
    text = re.sub(
        r" +\d+\.\d(?= +\d+ +\d+$)", lambda found: "#".rjust(len(found[0])), stream.getvalue(), flags=re.M
    )
    text = re.sub(r"\d+\.\d+ s$", "# s", text, flags=re.M)
    text = re.sub(r"\d{11,}(?:.*\.\.\.$)?", "#", text, flags=re.M)  # an object's id
    return re.sub(r"\S*/replay-[^r/][^/]*/\S+", "/GENERATED", text)


def test_every_recording_has_a_fault():
    assert list(FAULTS) == NAMES


@pytest.fixture
def _plain_pipe(monkeypatch):
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def skip_without_its_device(name):
    if name.startswith("cuda") and torch.cuda.is_available():
        pytest.skip("what is expected is of a machine without a GPU")
    if name.startswith(("cuda_triton", "cuda_run_time")) and not TRITON:
        pytest.skip("the frame uses Triton, which is not installed")


@pytest.mark.skipif(
    not SAME_TORCH, reason="another torch has other faults; most were recorded with torch 2.13"
)
@pytest.mark.parametrize("name", NAMES)
def test_triage_finds_what_is_at_fault(name):
    skip_without_its_device(name)
    found = triaged(name)
    assert found.fault == FAULTS[name], found.sentence


@pytest.mark.usefixtures("_plain_pipe")
@pytest.mark.skipif(
    not AS_RECORDED, reason="the gold files are of torch 2.13 and Python 3.11, which most were recorded with"
)
@pytest.mark.parametrize("name", NAMES)
def test_the_table_and_the_sentence_are_as_the_gold_file(name):
    skip_without_its_device(name)
    assert_gold(f"triage_{name}.txt", drawn(triaged(name)))
