"""Frames that reach the compiler by other ways than the call of a compiled function, or in another process.

The programs are rows of the catalogue. One process records them all; another one, without them, replays.
"""

from __future__ import annotations

import json
import pickle
import shutil
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch._dynamo
from processes import run_python

import replay
from replay.recorder import children
from replay.torch_adapter import backward_nodes, distributed, entries, stances

CATALOGUE = Path(__file__).parent / "catalogue" / "fails"

ENTRIES = {
    "export_strict": "export",
    "export_not_strict": "export",
    "export_dynamic_shapes": "export",
    "dynamo_export": "dynamo_export",
    "aot_compile": "aot_compile",
    "compiled_autograd_backend": "compiled_autograd",
    "compiled_autograd_function": "compiled_autograd",
    "stance_fail_on_recompile": "compile",
    "stance_eager_then_compile": "compile",
    "nested_compile": "compile",
    "nested_inlined": "compile",
    "nested_in_backend": "compile",
    "optimizer_adam": "compile",
    "optimizer_sgd": "compile",
    "optimizer_own": "compile",
}

RECORD = """
import json, runpy, sys, replay, torch
found = {}
for name in sys.argv[2:]:
    torch._dynamo.reset()
    error = None
    try:
        with replay.record(sys.argv[1] + "/" + name) as rec:
            runpy.run_path(name + ".py", run_name="__main__")
    except Exception as e:
        error = e
    found[name] = {"bundles": [str(path) for path in rec.bundles], "lost": rec.lost, "raised": str(error)}
print(json.dumps(found))
"""

REPLAY = """
import json, sys
from dataclasses import asdict
import replay
def go(path, **options):
    return asdict(replay.run(path, isolate=False, **options))
print(json.dumps({path: {"recorded": go(path), "eager": go(path, backend="eager")} for path in sys.argv[1:]}))
"""


@pytest.fixture(scope="session")
def reached(tmp_path_factory):
    """What was recorded of each program, and its outcomes."""
    folder, bundles = tmp_path_factory.mktemp("programs"), tmp_path_factory.mktemp("reach")
    for name in ENTRIES:
        shutil.copy(CATALOGUE / f"{name}.py", folder)
    found = json.loads(run_python(folder, "-c", RECORD, str(bundles), *ENTRIES).splitlines()[-1])
    shutil.rmtree(folder)
    paths = [path for one in found.values() for path in one["bundles"]]
    outcomes = json.loads(run_python(bundles, "-c", REPLAY, *paths).splitlines()[-1])
    return {
        name: {**one, "outcomes": [outcomes[path] for path in one["bundles"]]} for name, one in found.items()
    }


@pytest.mark.parametrize("name", ENTRIES)
def test_it_is_recorded_with_the_way_that_it_came(name, reached):
    found = reached[name]
    assert found["bundles"], found
    assert found["lost"] == 0
    with replay.load(found["bundles"][0]) as bundle:
        assert bundle.manifest.compile.entry == ENTRIES[name]


@pytest.mark.parametrize("name", ENTRIES)
def test_it_is_reproduced_with_the_same_text_where_the_program_is_gone(name, reached):
    for one in reached[name]["outcomes"]:
        outcome = one["recorded"]
        assert outcome["status"] == "reproduced", outcome
        assert outcome["error"]["message"] == outcome["recorded_error"]["message"]


def test_one_failure_of_an_entry_makes_one_bundle(reached):
    assert {
        name: len(one["bundles"]) for name, one in reached.items() if ENTRIES[name] != "compile"
    } == dict.fromkeys([name for name, entry in ENTRIES.items() if entry != "compile"], 1)


def test_a_chosen_backend_goes_through_torch_compile(reached):
    (one,) = reached["export_not_strict"]["outcomes"]
    assert one["eager"]["status"] == "different"
    assert one["eager"]["error"]["type"].startswith("torch._dynamo.exc.")
    (one,) = reached["aot_compile"]["outcomes"]
    assert one["eager"]["status"] == "passed"


def test_a_stance_that_refuses_is_in_the_state_and_needs_the_earlier_call(reached):
    with replay.load(reached["stance_fail_on_recompile"]["bundles"][0]) as bundle:
        assert bundle.manifest.state["stance"] == "fail_on_recompile"
        assert len(bundle.manifest.calls) == 1
        assert bundle.manifest.error.stage == "runtime"


def test_nothing_stays_patched_and_the_stance_is_back(tmp_path):
    import multiprocessing.process

    import torch.export._trace as trace
    from torch._dynamo import aot_compile, convert_frame, eval_frame

    def look():
        return (
            trace._export,
            torch._dynamo.export,
            eval_frame.export,
            aot_compile.aot_compile_fullgraph,
            convert_frame.has_tensor_in_frame,
            multiprocessing.process.BaseProcess.start,
        )

    before = look()
    with replay.record(tmp_path), replay.record(tmp_path):
        assert all(one is not other for one, other in zip(look(), before, strict=True))
    assert look() == before
    with stances.refusing("fail_on_recompile"):
        assert stances.current() == "fail_on_recompile"
    assert stances.current() == "default"


def test_an_export_that_works_records_nothing(tmp_path):
    class Twice(torch.nn.Module):
        def forward(self, x):
            return x * 2

    with replay.record(tmp_path / "none") as rec:
        exported = torch.export.export(Twice(), (torch.ones(2),), strict=True)
    assert exported.module()(torch.ones(2)).tolist() == [2, 2]
    assert rec.bundles == []
    assert not (tmp_path / "none").exists()


def test_arguments_that_do_not_fit_are_no_failure_of_the_compiler(tmp_path):
    class Twice(torch.nn.Module):
        def forward(self, x):
            return x * 2

    with pytest.raises(Exception), replay.record(tmp_path / "none") as rec:  # noqa: B017, PT011 - torch's own words
        torch.export.export(Twice(), (torch.ones(2), torch.ones(2)), strict=True)
    assert (rec.bundles, rec.lost) == ([], 0)


def test_a_dynamo_export_made_in_the_block_and_called_after_it_is_torchs_own(tmp_path):
    with replay.record(tmp_path / "none") as rec:
        later = torch._dynamo.export(lambda x: x @ torch.ones(9))
    with pytest.raises(Exception, match="9"):
        later(torch.ones(2))
    assert rec.bundles == []


def test_entries_in_entries_are_told_once_and_threads_do_not_meet():
    told = []
    undo = entries.install(
        lambda entry, *_: told.append((entry.name, threading.current_thread().name)), print
    )
    try:

        class Wrong(torch.nn.Module):
            def forward(self, x):
                return x @ torch.ones(9)

        def export():
            with pytest.raises(Exception, match="9"):
                torch.export.export(Wrong(), (torch.ones(2),), strict=True)

        export()
        thread = threading.Thread(target=export, name="other")
        thread.start()
        thread.join()
    finally:
        undo()
    assert told == [("export", "MainThread"), ("export", "other")]


NODES = [
    "Mm",
    "Addmm",
    "Bmm",
    "T",
    "Relu",
    "Gelu",
    "Softmax",
    "LogSoftmax",
    "NllLoss",
    "NativeLayerNorm",
    "Embedding",
]
NODES += [
    "Convolution",
    "MaxPool2DWithIndices",
    "NativeDropout",
    "Gather",
    "Cat",
    "Stack",
    "Select",
    "Slice",
    "View",
]
NODES += ["UnsafeView", "Expand", "Permute", "Clone", "Pow"]


@pytest.mark.parametrize("name", [f"{node}Backward0" for node in NODES] + ["SumBackward1", "MeanBackward1"])
def test_a_backward_node_is_made_from_its_name(name):
    assert backward_nodes.operator(name).__name__ == name


def test_a_backward_node_that_torch_does_not_have_is_missing_by_name():
    with pytest.raises(replay.MissingError, match="NoSuchThingBackward0"):
        backward_nodes.operator("NoSuchThingBackward0")


PROCESSES = """
import sys, torch, torch.multiprocessing as mp, replay

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return embed(torch.ones(5), i)

def embed(x, i):
    return torch.compile(look, backend="eager")(x, i)

def look(x, i):
    return x @ torch.ones(9)

def rank(number, size):
    torch.compile(step, backend="eager")(torch.ones(4), size)

def step(x, size):
    return x @ torch.ones(30 + size)

def run_fails():
    torch.compile(pick, backend="aot_eager")(torch.arange(3.0), torch.tensor([100]))

def pick(table, rows):
    return table[rows] * 2

def works():
    torch.compile(torch.sin, backend="eager")(torch.ones(2))

def load(method):
    loader = torch.utils.data.DataLoader(Numbers(), num_workers=2, multiprocessing_context=method)
    try:
        list(loader)
    except Exception as error:
        print("caught", "look" in str(error))

def start(method, function):
    process = mp.get_context(method).Process(target=function)
    process.start()
    process.join()
    print(function.__name__, process.exitcode, "run" in vars(process))

def main():
    load("fork")
    start("fork", run_fails)
    start("fork", works)
    mp.spawn(rank, (2,), nprocs=2)

if __name__ == "__main__":
    if sys.argv[1:] == ["alone"]:
        start("spawn", run_fails)
    else:
        try:
            with replay.record(sys.argv[1]) as rec:
                main()
        except mp.ProcessRaisedException:
            print("raised")
        print(*sorted(path.name for path in rec.bundles), rec.lost)
"""


@pytest.fixture(scope="session")
def processes(tmp_path_factory):
    """A program whose failures are all in other processes: in a block, and under the command."""
    folder, bundles = tmp_path_factory.mktemp("processes"), tmp_path_factory.mktemp("children")
    (folder / "program.py").write_text(PROCESSES, encoding="utf-8")
    printed = run_python(folder, "program.py", str(bundles / "block")).splitlines()
    run_python(folder, "-m", "replay", "record", "-o", str(bundles / "command"), "program.py", "alone")
    shutil.rmtree(folder)
    paths = sorted((bundles / "block").glob("*"))
    outcomes = json.loads(run_python(bundles, "-c", REPLAY, *map(str, paths)).splitlines()[-1])
    return bundles, printed, outcomes


def test_every_failure_of_child_processes_has_one_bundle_and_the_parent_knows_it(processes):
    bundles, printed, _ = processes
    names = sorted(path.name for path in (bundles / "block").iterdir())
    assert [name.partition("-")[0] for name in names] == ["look", "pick", "step"]
    assert printed[-1].split() == [*names, "0"]
    assert printed[:4] == ["caught True", "run_fails 1 False", "works 0 False", "raised"]


def test_what_children_recorded_is_reproduced(processes):
    for outcome in (one["recorded"] for one in processes[2].values()):
        assert outcome["status"] == "reproduced", outcome
        assert outcome["error"]["message"] == outcome["recorded_error"]["message"]


def test_the_command_records_children_too(processes):
    assert [path.name.partition("-")[0] for path in (processes[0] / "command").iterdir()] == ["pick"]


RANK = """
import os, sys, torch, torch.distributed as dist, replay
import torch.distributed._functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

rank, folder = int(sys.argv[1]), sys.argv[2]
os.environ["RANK"], os.environ["LOCAL_RANK"] = sys.argv[1], sys.argv[1]
dist.init_process_group("gloo", rank=rank, world_size=2, store=dist.FileStore(folder + "/store", 2))
group = dist.new_group([1, 0])
mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("one", "two"))

class Reduced(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)
        self.group = group
    def forward(self, x):
        x = funcol.all_reduce(self.layer(x), "sum", self.group)
        return x @ torch.ones(100 + dist.get_rank(self.group) + 10 * dist.get_world_size(), 2)

def collective(x):
    y = x.clone()
    dist.all_reduce(y)
    return y + torch.ones(7 if dist.get_rank() == 1 and dist.get_backend() == "gloo" else 9)

def meshed(x):
    return x @ torch.ones(40 + dist.get_rank(mesh.get_group("two")) + 5 * mesh.size(), 2)

def variable(x):
    return x @ torch.ones(50 + int(os.environ["LOCAL_RANK"]), 2)

def parallel(model, x):
    return model.module(x) @ torch.ones(60 + len(list(model.parameters())) + dist.get_rank(), 2)

model = DistributedDataParallel(torch.nn.Linear(3, 4))
with replay.record(folder) as rec:
    for function, arguments in ((Reduced(), ()), (collective, ()), (meshed, ()), (variable, ()), (parallel, (model,))):
        torch._dynamo.reset()
        try:
            torch.compile(function, backend="eager", fullgraph=True)(*arguments, torch.ones(2, 3))
        except Exception:
            pass
dist.barrier()
dist.destroy_process_group()
print(len(rec.bundles), rec.lost)
"""


@pytest.fixture(scope="session")
def ranks(tmp_path_factory):
    """Two ranks over gloo record; one process that is told to be another rank replays them all."""
    folder, bundles = tmp_path_factory.mktemp("ranks"), tmp_path_factory.mktemp("collected")
    (folder / "rank.py").write_text(RANK, encoding="utf-8")
    second: list[str] = []
    other = threading.Thread(target=lambda: second.append(run_python(folder, "rank.py", "1", str(bundles))))
    other.start()
    first = run_python(folder, "rank.py", "0", str(bundles))
    other.join()
    shutil.rmtree(folder)
    paths = sorted(bundles.glob("*.rec"))
    misled = "import os; os.environ.update(RANK='5', WORLD_SIZE='9', LOCAL_RANK='6', MASTER_ADDR='nowhere.invalid')\n"
    last = "\nimport torch.distributed\nassert not torch.distributed.is_initialized() and os.environ['RANK'] == '5'"
    replayed = run_python(bundles, "-c", misled + REPLAY + last, *map(str, paths))
    return [first, *second], paths, json.loads(replayed.splitlines()[-1])


def test_every_rank_has_a_bundle_of_its_own_for_each_failure(ranks):
    printed, paths, _ = ranks
    assert [one.splitlines()[-1] for one in printed] == ["5 0", "5 0"]
    assert sorted(path.name.rpartition("-")[2] for path in paths) == ["rank0.rec"] * 5 + ["rank1.rec"] * 5


def test_each_rank_is_reproduced_alone_with_its_own_text(ranks):
    _, paths, outcomes = ranks
    texts = set()
    for path in paths:
        outcome = outcomes[str(path)]["recorded"]
        assert outcome["status"] == "reproduced", outcome
        assert outcome["error"]["message"] == outcome["recorded_error"]["message"]
        assert any("replayed alone" in note for note in outcome["notes"])
        texts.add(outcome["error"]["message"])
    assert len(texts) == len(paths)


def test_rank_size_backend_and_groups_are_in_the_manifest(ranks):
    for path in ranks[1]:
        with replay.load(path) as bundle:
            process = bundle.manifest.process
        assert path.name.endswith(f"-rank{process['rank']}.rec")
        assert (process["world_size"], process["backend"]) == (2, "gloo")
        assert {"name": "0", "ranks": [0, 1], "backend": "gloo"} in process["groups"]
        assert "MASTER_ADDR" not in bundle.manifest.environment.variables


HASHED = {"name": "0a1b2c", "ranks": [6, 3], "backend": "cpu:gloo,cuda:nccl"}
BIG = {
    "rank": 3,
    "world_size": 8,
    "backend": "nccl",
    "groups": [{"name": "0", "ranks": [*range(8)], "backend": "nccl"}, HASHED],
}


def test_a_large_job_is_pretended_by_one_process_and_leaves_no_trace():
    import torch.distributed as dist

    hook = sys.excepthook
    with distributed.pretended(BIG) as note:
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (3, 8, "nccl")
        group = distributed.group("0a1b2c")
        assert (dist.get_rank(group), dist.get_process_group_ranks(group)) == (1, [6, 3])
        assert distributed.group_name(group) == "0a1b2c"
        with pytest.raises(replay.MissingError, match="no group of that name"):
            distributed.group("another")
        with (
            pytest.raises(replay.MissingError, match="another group already"),
            distributed.pretended({**BIG, "rank": 4}),
        ):
            pass
        with distributed.pretended(BIG) as inner:
            assert inner is None
        assert dist.is_initialized()
    assert note is not None
    assert not dist.is_initialized()
    assert sys.excepthook is hook
    with pytest.raises(replay.MissingError, match="no group of that name"):
        distributed.group("0")


def test_a_spawned_child_that_never_imports_dynamo_never_does(tmp_path):
    program = """
import multiprocessing, sys, replay
def child():
    sys.exit(7 if "torch" in sys.modules else 3)
if __name__ == "__main__":
    with replay.record(sys.argv[1]):
        process = multiprocessing.get_context("spawn").Process(target=child)
        process.start()
        process.join()
    print(process.exitcode)
"""
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    assert run_python(tmp_path, "program.py", str(tmp_path / "none")).split() == ["3"]
    assert not (tmp_path / "none").exists()


def test_an_order_that_cannot_be_pickled_does_not_keep_the_process_from_starting():
    class Odd:
        family = children.Family(((), {"only": lambda: None}))

    recorded = children.Recorded(print, (Odd(),))
    assert pickle.loads(pickle.dumps(recorded)) is print


def test_what_a_recorder_leaves_out_of_a_job_of_its_own(tmp_path):
    def wrong(x):
        return x @ torch.ones(9)

    with pytest.raises(Exception, match="9"), replay.record(tmp_path) as rec:
        torch.compile(wrong, backend="eager")(torch.ones(2))
    with replay.load(rec.bundles[0]) as bundle:
        assert "rank" not in bundle.manifest.process
    assert "rank" not in rec.bundles[0].name
    assert sys.excepthook is sys.__excepthook__ or not torch.distributed.is_initialized()
