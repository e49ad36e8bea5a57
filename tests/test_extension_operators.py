"""Operators that a C++ extension defines: their schema and fake travel, their kernels do not, and the replay says so.

The extension is built once: some seconds of the compiler's time, for one file. Skipped where there is no compiler.
"""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from processes import run_python

SOURCE = """
#include <torch/library.h>
#include <ATen/ATen.h>
at::Tensor widen(const at::Tensor& x, int64_t times) { return x.repeat({1, times}); }
at::Tensor picked(const at::Tensor& x, const at::Tensor& at) { return x.index({at}); }
TORCH_LIBRARY(replay_extension, m) {
  m.def("widen(Tensor x, int times) -> Tensor");
  m.def("picked(Tensor x, Tensor at) -> Tensor");
  m.def("bare(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(replay_extension, CPU, m) {
  m.impl("widen", widen);
  m.impl("picked", picked);
  m.impl("bare", TORCH_FN(at::relu));
}
"""

RECORD = """
import json, sys, torch, replay
torch.ops.load_library("./extension.so")

@torch.library.register_fake("replay_extension::widen")
def _(x, times):
    return x.new_empty(x.shape[0], x.shape[1] * times)
@torch.library.register_fake("replay_extension::picked")
def _(x, at):
    return x.new_empty(at.shape)

@torch.compile(backend="aot_eager")
def fails_while_traced(x):
    return torch.ops.replay_extension.widen(x, 3) @ torch.ones(4)
@torch.compile(backend="aot_eager")
def fails_while_it_runs(x, at):
    return torch.ops.replay_extension.picked(x, at) + 1
@torch.compile(backend="aot_eager", fullgraph=True)
def has_no_fake(x):
    return torch.ops.replay_extension.bare(x) + 1

made = {}
for function, arguments in (
    (fails_while_traced, (torch.ones(2, 2),)),
    (fails_while_it_runs, (torch.ones(2), torch.tensor([7]))),
    (has_no_fake, (torch.ones(2),)),
):
    name = function.__name__
    try:
        with replay.record(sys.argv[1] + "/" + name) as rec:
            function(*arguments)
    except Exception as error:
        made[name] = [str(path) for path in rec.bundles]
print(json.dumps(made))
"""

REPLAY = """
import json, sys
from dataclasses import asdict
import replay
print(json.dumps({path: asdict(replay.run(path, isolate=False)) for path in sys.argv[1:]}))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What became of each program where the extension is gone."""
    if shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler")
    from torch.utils import cpp_extension

    folder = tmp_path_factory.mktemp("extension")
    (folder / "extension.cpp").write_text(SOURCE)
    headers = [f"-I{path}" for path in cpp_extension.include_paths()]
    library = cpp_extension.library_paths()[0]
    command = ["g++", "-O0", "-shared", "-fPIC", "-std=c++20", *headers, "extension.cpp", f"-L{library}"]
    subprocess.run([*command, "-lc10", "-ltorch_cpu", "-o", "extension.so"], cwd=folder, check=True)
    bundles = tmp_path_factory.mktemp("bundles")
    made = json.loads(run_python(folder, "-c", RECORD, str(bundles)).splitlines()[-1])
    shutil.rmtree(folder)
    paths = [path for found in made.values() for path in found]
    replayed = json.loads(run_python(bundles, "-c", REPLAY, *paths).splitlines()[-1])
    return {name: replayed[found[0]] for name, found in made.items() if found}


@pytest.mark.parametrize("name", ["fails_while_traced", "has_no_fake"])
def test_a_frame_that_is_only_traced_is_reproduced_without_the_extension(name, outcomes):
    outcome = outcomes[name]
    assert outcome["status"] == "reproduced", outcome
    assert outcome["error"]["message"] == outcome["recorded_error"]["message"]


def test_a_frame_that_runs_the_kernel_names_it_as_missing(outcomes):
    outcome = outcomes["fails_while_it_runs"]
    assert outcome["status"] == "missing", outcome
    assert "torch.ops.replay_extension.picked" in [one["name"] for one in outcome["missing"]]
