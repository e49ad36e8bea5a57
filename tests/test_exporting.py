"""`export`: Python as text, tensors and objects as expressions, whole frames as programs, and the command."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace

import msgspec
import nbformat
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import ROOT, imported, python, recorded, write

import replay
from replay import isolation
from replay.cli import main
from replay.errors import UsageError
from replay.exporting import expressions, making, texts, words
from replay.exporting.checking import identity
from replay.exporting.layout import render, render_notebook
from replay.exporting.tensors import Tensors
from replay.exporting.texts import File
from replay.exporting.transcript import Transcript
from replay.exporting.values import Values
from replay.findings.export import Check, Excerpt, Program, Step
from replay.replayer import observe
from replay.torch_adapter.keyed import Keys, on_cpu
from replay.torch_adapter.tensors import TensorCollector

RECORDINGS = ROOT / "recordings"
MISMATCH = RECORDINGS / "dynamo_shape_mismatch.rec"


def formatted(text):
    """Whether `ruff format`, as it comes, would leave the text as it is."""
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--check", "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False).returncode == 0


# Expressions


def literals(text):
    atoms = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text | st.binary()
    return st.recursive(
        atoms,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.lists(inner, max_size=4).map(tuple)
            | st.dictionaries(text, inner, max_size=3)
        ),
        max_leaves=12,
    )


@given(literals(st.text()))
def test_a_literal_reads_back_as_the_value_that_was_written(value):
    text = expressions.statement(expressions.assigned("x", expressions.literal(value)))
    held = {}
    exec(text, held)
    assert held["x"] == value and type(held["x"]) is type(value)


@settings(max_examples=15, deadline=None)
@given(st.lists(literals(st.text(st.characters(codec="ascii"))), min_size=1, max_size=8))
def test_statements_are_as_ruff_formats_them(values):
    lines = [expressions.statement(expressions.assigned("x", expressions.literal(one))) for one in values]
    assert formatted("\n".join(lines) + "\n"), lines


def test_a_long_call_is_broken_at_its_arguments_and_a_long_argument_at_its_items():
    call = expressions.call(
        "torch.tensor",
        [expressions.literal([[1.0, 2.0, 3.0]] * 6)],
        {"device": expressions.literal("cuda"), "requires_grad": expressions.literal(True)},
    )
    text = expressions.statement(expressions.assigned("value", call))
    assert all(len(line) <= expressions.WIDTH for line in text.split("\n"))
    assert formatted(text + "\n")
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(f"value = {expressions.flat(call)}"))


# The user's text

SOURCE = '''\
from __future__ import annotations

import math
import torch.nn as nn

# how loud
GAIN = 3


def outer(x, *, gain=GAIN):
    """With a comment."""  # kept
    def inner(y):
        return math.sin(y) * x + LATER
    return inner(gain)


LATER, other = 1, [n for n in range(3)]
op = make()
op.register_fake(outer)


class Net(nn.Module):
    table = GAIN

    def forward(self, x):
        from .layers import scale
        return helper(x)
'''


def test_a_piece_names_what_it_needs_and_keeps_its_own_lines():
    file = File("nets.py", SOURCE)
    piece = file.excerpt(file.bindings["outer"], "outer")
    assert piece.text.startswith("def outer(x, *, gain=GAIN):") and "# kept" in piece.text
    assert texts.free_names(piece.text) == ["GAIN", "LATER", "math"]
    assert texts.names_at_definition(piece.text) == {"GAIN"}
    assert file.excerpt(file.bindings["GAIN"], "GAIN").text == "# how loud\nGAIN = 3"
    assert [ast.unparse(one) for one in file.attached("op")] == ["op.register_fake(outer)"]
    net = file.excerpt(file.bindings["Net"], "Net").text
    assert texts.free_names(net) == ["GAIN", "helper", "nn"]
    assert texts.imports_inside(net) == [".layers"]
    assert file.annotations_are_texts


def test_a_name_that_a_function_binds_itself_is_no_name_that_it_needs():
    text = "def f(x):\n    table = [x for x in x]\n    return table\n"
    assert texts.free_names(text) == []


# Whole files

PROGRAM = Program(
    imports=("import math", "", "import torch"),
    code=(
        Excerpt("a.py", 3, "GAIN", "GAIN = 3", definition=False),
        Excerpt("a.py", 4, "LOSS", "LOSS = 4", definition=False),
        Excerpt("a.py", 9, "f", "def f(x):\n    return x * GAIN"),
        Excerpt("b.py", 1, "g", "def g(x):\n    return f(x) + math.pi"),
    ),
    rebuilds=True,
    settings=('torch._inductor.config.cpp.inject = "yes"',),
    values=("x = torch.randn(2, 3)",),
    steps=(
        Step("compiled = torch.compile(g)"),
        Step("compiled(x)", ("torch.no_grad()",)),
        Step("compiled(x + 1)", ("torch.no_grad()",)),
    ),
    variables={"TORCHINDUCTOR_MAX_AUTOTUNE": "1"},
    seeded=True,
)


def test_a_file_has_its_parts_in_order_and_is_as_ruff_formats_it():
    text = render(PROGRAM, ["One.", "", 'It says """no""".'], ["Expected:", "", "that"])
    assert formatted(text)
    marks = ("os.environ", "import math", "GAIN = 3\nLOSS", "def f", "def g", "def rebuild", "manual_seed")
    places = [
        text.index(one)
        for one in (*marks, "inject", "with torch.no_grad():\n    compiled(x)\n    compiled", "# Exp")
    ]
    assert places == sorted(places)
    assert ast.get_docstring(ast.parse(text)) == 'One.\n\nIt says """no""".'


def test_a_notebook_is_valid_and_holds_the_same_program():
    text = render_notebook(PROGRAM, ["One ```"], ["Expected:"])
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert [cell.cell_type for cell in notebook.cells][:: len(notebook.cells) - 1] == ["markdown", "markdown"]
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    alone = render(PROGRAM, ["One."], [])
    assert ast.dump(ast.parse(code)) == ast.dump(ast.Module(ast.parse(alone).body[1:], []))


def test_what_the_recording_says_cannot_leave_a_comment_or_the_docstring():
    with replay.load(MISMATCH) as bundle:
        manifest = bundle.manifest
    evil = 'x"""\nimport os\u202e\x1b[31m\\'
    error = replace(manifest.error, message=evil, type="E")
    manifest = replace(manifest, error=error, frame=replace(manifest.frame, function=evil, file=evil))
    check = Check(False, evil)
    text = render(Program(), words.head(manifest, Program(notes=(evil,)), check), words.foot(manifest))
    tree = ast.parse(text)
    assert len(tree.body) == 1 and "\x1b" not in text and "\u202e" not in text


# Tensors


def transcribed(*tensors, exact=False, policy="full"):
    """Expressions of tensors as a bundle has them, evaluated."""
    collector = TensorCollector()
    keys = [collector.add(one) for one in tensors]
    plan = collector.plan(policy)
    blobs = {
        key: memoryview(bytearray(b"".join(bytes(part) for part in collector.chunks(key))))
        for key, spec in plan.items()
        if spec.entry is not None
    }
    noted = Keys()
    builder = noted.builder(collector.specs, plan, blobs.__getitem__)
    loaded = [builder.get(key) for key in keys]
    shared = set()
    while True:  # as `frames.transcribe` does
        writer = Tensors(
            Holder(collector.specs, plan), noted, on_cpu(collector.specs, plan, blobs.__getitem__)
        )
        writer.transcript = Transcript({}, shared, writer.write, exact=exact)
        values = Values(writer.transcript)
        found = [values.write(one, f"t{at}") for at, one in enumerate(loaded)]
        if writer.transcript.again <= shared:
            break
        shared |= writer.transcript.again
    lines = [*writer.transcript.statements, f"made = [{', '.join(map(expressions.flat, found))}]"]
    held = {"torch": torch}
    for line in lines:
        exec(expressions.statement(line), held)
    return held["made"], [expressions.flat(one) for one in found]


class Holder:
    """What the writer needs of a manifest."""

    def __init__(self, tensors, storages):
        self.tensors, self.storages = tensors, storages


DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "complex64",
    "int64",
    "int32",
    "uint8",
    "bool",
    "uint16",
)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), max_size=3),
    dtype=st.sampled_from(DTYPES),
    order=st.randoms(use_true_random=False),
    graded=st.booleans(),
)
def test_a_tensor_is_rebuilt_with_its_shape_strides_dtype_and_gradient(shape, dtype, order, graded):
    kind = getattr(torch, dtype)
    flat = torch.arange(max(1, torch.Size(shape).numel())) * 3 % 7
    tensor = flat[: torch.Size(shape).numel()].view(shape).to(kind)
    dims = list(range(len(shape)))
    order.shuffle(dims)
    tensor = torch.empty_strided(tensor.permute(dims).shape, tensor.permute(dims).stride(), dtype=kind).copy_(
        tensor.permute(dims)
    )
    if graded and (kind.is_floating_point or kind.is_complex):
        tensor.requires_grad_()
    ((made,), _) = transcribed(tensor)
    assert (made.shape, made.dtype, made.requires_grad) == (tensor.shape, kind, tensor.requires_grad)
    assert made.is_leaf == tensor.is_leaf
    pairs = zip(tensor.shape, tensor.stride(), made.stride(), strict=True)
    assert tensor.numel() == 0 or all(size == 1 or one == two for size, one, two in pairs)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=True), min_size=1, max_size=20))
def test_exact_values_are_the_very_values(values):
    tensor = torch.tensor(values)
    ((made,), _) = transcribed(tensor, exact=True)
    assert torch.equal(made.view(torch.int32).isnan(), tensor.view(torch.int32).isnan())
    assert torch.equal(made.nan_to_num(), tensor.nan_to_num())


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (torch.zeros(2, 3), "torch.zeros(2, 3)"),
        (torch.ones(4, dtype=torch.int64), "torch.ones(4, dtype=torch.int64)"),
        (torch.full((2,), 7), "torch.full((2,), 7)"),
        (torch.full((3,), 0.5), "torch.full((3,), 0.5)"),
        (torch.arange(12).view(3, 4) + 0, "torch.arange(12).view(3, 4)"),
        (torch.arange(6.0), "torch.arange(6.0)"),
        (torch.tensor([2, 71]), "torch.tensor([2, 71])"),
        (torch.tensor([0.5, -1.5]), "torch.tensor([0.5, -1.5])"),
        (torch.tensor(0.25), "torch.tensor(0.25)"),
        (torch.tensor([True, False]), "torch.tensor([True, False])"),
        (torch.linspace(0, 1, 7), "torch.randn(7)"),
        (torch.arange(40) * 5 % 41, "torch.randint(0, 41, (40,))"),
        (torch.empty(0, 3), "torch.empty(0, 3)"),
        (torch.empty(2, 3, device="meta"), 'torch.empty(2, 3, device="meta")'),
        (torch.ones(3, requires_grad=True), "torch.ones(3, requires_grad=True)"),
        (torch.ones(3, requires_grad=True).clone(), "torch.ones(3).requires_grad_().clone()"),
        (torch.zeros(3, 2).t(), "torch.zeros(3, 2).t()"),
        (
            torch.empty_strided((2, 3), (1, 2)).zero_(),
            "torch.empty_strided((2, 3), (1, 2)).copy_(torch.zeros(2, 3))",
        ),
        (torch.ones(3, 1).expand(3, 4).detach(), None),
        (torch.nn.Parameter(torch.ones(2)), "torch.nn.Parameter(torch.ones(2))"),
    ],
    ids=str,
)
def test_a_tensor_is_written_as_people_write_it(tensor, text):
    ((made,), (found,)) = transcribed(tensor)
    assert text is None or found == text
    assert made.shape == tensor.shape and made.stride() == tensor.stride()


def test_tensors_that_share_memory_share_it_again():
    whole = torch.arange(12.0) * 0.3
    first, second = whole.view(3, 4), whole[2:5]
    made, _ = transcribed(whole, first, second)
    assert len({one.untyped_storage().data_ptr() for one in made}) == 1
    assert made[2].storage_offset() == 2 and made[1].shape == (3, 4)


def test_made_up_values_are_not_written_down():
    ((made,), (text,)) = transcribed(torch.tensor([0.5, 1.5]), policy="metadata")
    assert text == "torch.randn(2)" and made.shape == (2,)


# Frames

USER = """
    import collections
    import dataclasses
    import enum
    import functools
    import logging
    import torch

    from torch import nn

    log = logging.getLogger("nets")
    SIZES = {"a": (2, 3)}
    WEIGHT = torch.ones(3)


    class Mode(enum.Enum):
        FAST = "fast"
        SLOW = "slow"


    @dataclasses.dataclass
    class Options:
        mode: Mode
        scale: float = 2.0


    Pair = collections.namedtuple("Pair", "left right")


    class Layer(nn.Module):
        def __init__(self, width, key):
            super().__init__()
            self.lin = nn.Linear(width, width, bias=False)
            self.act = nn.GELU(approximate="tanh")
            self.register_buffer("seen", torch.zeros(2), persistent=False)
            self.width = key + width

        def forward(self, x):
            return self.act(self.lin(x)) + self.seen.sum() @ x


    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(3, 3)
            self.two = nn.Linear(3, 3)
            self.two.weight = self.one.weight
            self.mode = "train"

        def forward(self, x):
            return self.two(self.one(x)).view(7, 7)


    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.used = nn.Linear(3, 3)
            self.unused = nn.Linear(700, 700)

        def forward(self, x):
            return self.used(x).view(7, 7)


    def closed(options, pair):
        scale = options.scale

        def inner(x):
            log.debug("inner")
            return (x * scale + pair.left).view(7, 7)

        return inner


    def many(x, options, pair, act, *rest, flag=False, **more):
        width = SIZES["a"][1] + len(rest) + len(more)
        return (act(x) * WEIGHT * options.scale + pair.left).view(width * 50, -1)


    def generator(x, stream):
        return next(stream) + x.view(3)


    def compiled(function):
        return torch.compile(function, backend="eager", fullgraph=True)


    def run_closed():
        compiled(closed(Options(Mode.FAST), Pair(torch.ones(3), 1)))(torch.ones(2, 3))


    def run_many():
        act = functools.partial(torch.nn.functional.gelu, approximate="tanh")
        x = torch.ones(2, 3)
        compiled(many)(x, Options(Mode.SLOW, 3.0), Pair(x, [x]), act, 1, "two", flag=True, more=x)


    def run_layer():
        torch.compile(Layer(4, 1).eval(), backend="eager")(torch.randn(2, 4))


    def run_half():
        torch.compile(Half(), backend="eager")(torch.randn(2, 3))


    def inner_too(model, weight, x):
        return (model(x) @ weight).view(7, 7)


    def run_aliases():
        model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        compiled(inner_too)(model, model[0].weight, torch.ones(2, 3))


    def run_tied():
        model = Tied()
        model.mode = "eval"
        torch.compile(model, backend="eager")(torch.randn(2, 3))


    def run_generator():
        compiled(generator)(torch.ones(2), (n for n in range(3)))


    def run_grad():
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            compiled(many)(torch.ones(2, 3), Options(Mode.SLOW), Pair(1, 2), torch.relu)
"""

FRAMES = ("closed", "many", "layer", "tied", "half", "aliases", "generator", "grad")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("users")
    with imported(folder, "nets", USER) as module:
        return {name: recorded(folder / name, getattr(module, f"run_{name}")).bundles[0] for name in FRAMES}


@pytest.fixture(scope="module")
def programs(bundles):
    """What each frame was written down as, in this process."""
    return {name: plan_of(bundles[name]) for name in FRAMES}


def plan_of(path):
    found = observe(path, {"export": {}}, {"backend": "uncompiled"}, isolate=False).found["export"]
    return msgspec.convert(found["programs"], list[Program], strict=False), found["refused"]


def text_of(program):
    """The file; every one is as ruff formats it."""
    text = render(program, ["A file."], ["The end."])
    assert formatted(text), text
    return text


@pytest.mark.parametrize("name", [name for name in FRAMES if name != "generator"])
def test_a_frame_fails_as_recorded_when_its_file_is_run(name, bundles, programs, tmp_path):
    forms, refused = programs[name]
    assert not refused
    text = text_of(forms[0])
    path = write(tmp_path, "repro.py", text)
    seen = recorded(
        tmp_path / "seen",
        lambda: exec(compile(path.read_text(), str(path), "exec"), {"__name__": "__main__"}),
    )
    with replay.load(bundles[name]) as bundle:
        wanted = identity(bundle.manifest)
    assert wanted in [identity(replay.load(one).manifest) for one in seen.bundles], text


def test_a_closure_is_a_function_in_a_function(programs):
    text = text_of(programs["closed"][0][0])
    assert "def make_inner(pair, scale):" in text and "return inner" in text
    assert 'log = logging.getLogger("nets")' in text


def test_a_module_is_made_by_its_constructor_where_that_makes_the_same(programs):
    text = text_of(programs["tied"][0][0])
    assert 'tied = Tied()\ntied.mode = "eval"' in text and "rebuild" not in text


def test_a_module_whose_arguments_are_not_known_is_rebuilt_from_its_attributes(programs):
    text = text_of(programs["layer"][0][0])
    assert "torch.nn.Linear(4, 4, bias=False)" in text
    assert 'torch.nn.GELU(approximate="tanh")' in text
    assert "seen=torch.nn.Buffer(torch.zeros(2), persistent=False)" in text
    assert text.count("def rebuild(") == 1 and ".eval()" in text


def test_what_the_recording_left_out_is_left_out_and_said(programs):
    text = text_of(programs["half"][0][0])
    assert "half = rebuild(Half, unused=None, used=torch.nn.Linear(3, 3))" in text
    assert any("leaves out arguments.self.unused" in note for note in programs["half"][0][0].notes)


def test_an_object_that_is_met_twice_is_one_object(programs):
    text = text_of(programs["many"][0][0])
    assert text.count("torch.ones(2, 3)") == 1
    assert "Mode.SLOW" in text and "functools.partial(torch.nn.functional.gelu" in text


def test_a_part_of_a_module_is_that_part(programs):
    text = text_of(programs["aliases"][0][0])
    assert "linear = torch.nn.Linear(3, 3)" in text
    assert "compiled(model, " in text and text.count("torch.nn.Linear") == 1
    assert "weight = " not in text or "weight = linear.weight" in text


def test_global_state_stands_around_the_call(programs):
    text = text_of(programs["grad"][0][0])
    assert 'with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):\n    compiled' in text


def test_what_no_file_can_hold_is_refused_by_name(programs):
    forms, refused = programs["generator"]
    assert not forms and "stream" in refused
    assert "\n" not in refused


HELPERS = """
    SCALE = {scale}


    def helper(x):
        return x * SCALE
"""
STEP = """
    import torch

    import helpers
    from helpers import helper

    SCALE = 2


    def step(x):
        return (helper(x) + helpers.helper(x)).view(7, 7) * SCALE


    def run():
        torch.compile(step, backend="eager", fullgraph=True)(torch.ones(3))
"""


def of_two_files(folder, scale):
    with imported(folder, "helpers", HELPERS.format(scale=scale)), imported(folder, "steps", STEP) as steps:
        return plan_of(recorded(folder / "bundles", steps.run).bundles[0])


def test_files_of_a_program_become_one_where_they_agree_on_names(tmp_path):
    (program,), _ = of_two_files(tmp_path, 2)
    text = text_of(program)
    assert text.count("SCALE = 2") == 1 and text.count("def helper(x)") == 1
    assert "helpers = types.SimpleNamespace(helper=helper)" in text


def test_a_name_that_two_files_use_for_different_things_is_refused(tmp_path):
    forms, refused = of_two_files(tmp_path, 3)
    assert not forms and refused.startswith("SCALE: two things of the program have this name")


# The command


def test_a_file_that_exists_is_not_written_over(tmp_path, capsys):
    target = write(tmp_path, "repro.py", "keep me")
    assert main(["export", str(MISMATCH), "-o", str(target)]) == 2
    assert "--force" in capsys.readouterr().err
    assert target.read_text() == "keep me"


def test_a_refusal_is_one_line_and_nothing_is_written(bundles, tmp_path, capsys):
    target = tmp_path / "repro.py"
    assert main(["export", str(bundles["generator"]), "-o", str(target)]) == 2
    told = capsys.readouterr().err.strip().split("\n")[-1]
    assert "cannot be exported: stream" in told and "generator" in told
    assert not target.exists()


def test_the_command_writes_a_file_that_is_verified(tmp_path):
    done = python("-m", "replay", "export", MISMATCH, "-o", "repro.py", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["verified"] and told["check"]["fingerprint"] == identity(replay.load(MISMATCH).manifest)
    text = (tmp_path / "repro.py").read_text()
    assert text == told["text"] and "Verified with torch" in text
    assert "replay" not in [name for node in ast.walk(ast.parse(text)) for name in getattr(node, "names", ())]


OTHER = "import torch\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))"


def test_a_file_that_fails_otherwise_is_not_written_unless_asked_for(tmp_path):
    answers = []

    def call(target, request, **settings):
        if target != making.TARGET:
            return isolation.call(target, request, **settings)
        if not answers:
            answers.append(isolation.call(target, {**request, "text": OTHER}, **settings))
        return answers[0]

    with pytest.raises(UsageError, match=r"not verified \(nothing was recorded of it.*--unverified"):
        replay.export(MISMATCH, tmp_path / "repro.py", call=call)
    assert not list(tmp_path.iterdir())
    made = replay.export(MISMATCH, tmp_path / "repro.py", unverified=True, call=call)
    assert not made.verified and "NOT VERIFIED" in (tmp_path / "repro.py").read_text()
