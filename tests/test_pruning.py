"""What of large modules and objects is left out, and what is not because code could reach it."""

from __future__ import annotations

import functools
import operator
import re
import weakref

import pytest
import torch
from programs import here, recorded

from replay.recorder import pruning
from replay.recorder.reach import Reach
from replay.recorder.uses import uses_of


class Branch(torch.nn.Module):
    """A small part with one thing that it does not use."""

    def __init__(self, size=20):
        super().__init__()
        self.lin = torch.nn.Linear(size, size)
        self.unused = torch.nn.Linear(size, 2 * size)

    def forward(self, x):
        return self.lin(x)


class Model(torch.nn.Module):
    """A large part, a small part, and other things."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Branch(), Branch(300)
        self.table = torch.nn.Parameter(torch.rand(100, 100))
        self.register_buffer("history", torch.rand(1000))
        self.blocks = torch.nn.ModuleList([Branch(20), Branch(20)])
        self.tokenizer = object()
        self.scale, self.title = 3, "a model"

    def forward(self, x):
        return self.decode(self.encoder(x))

    def encode(self, x):
        return fail(self.encoder(x), self.scale)

    def decode(self, x):
        return self.decoder(x)

    @property
    def reader(self):
        return self.decoder.lin

    def encode_and_read(self, x):
        return fail(self.encoder(x) + self.reader.bias[0], self.scale)

    def encode_by_name(self, x, name="encoder"):
        return fail(getattr(self, name)(x), self.scale)

    def encode_by_known_name(self, x):
        return fail(getattr(self, "encoder", None)(x), self.scale)

    def encode_and_sum(self, x):
        return fail(self.encoder(x) + sum(p.sum() for p in self.encoder.parameters()), self.scale)

    def encode_and_sum_all(self, x):
        return fail(self.encoder(x) + sum(p.sum() for p in self.parameters()), self.scale)

    def encode_blocks(self, x):
        for block in self.blocks:
            x = block(x)
        return fail(x, self.scale)

    def call(self, x):
        return fail(self(x[:, :1].expand(3, 20)), self.scale)

    def encode_through_helper(self, x):
        return helper(self, x)


class Hooked(Model):
    """What a hook does with a module, nobody knows."""

    def __init__(self):
        super().__init__()
        self.encoder.register_forward_hook(lambda module, inputs, output: output + module.unused.bias[0])


class Proxy(torch.nn.Module):
    """A module with attributes of its own making."""

    def __init__(self):
        super().__init__()
        self.inner, self.other = Branch(), Branch(300)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def encode(self, x):
        return fail(self.lin(x), 3)


class Trainer:
    """A user's object around a model."""

    def __init__(self):
        self.model, self.data, self.rate = Model(), [torch.rand(500) for _ in range(3)], 0.1
        self.callbacks = [lambda: None]

    def step(self, x):
        return self.model.encode(x) * self.rate


def fail(x, scale):
    return x @ torch.ones(x.shape[1] + scale, 2)


def helper(model, x):
    return fail(model.encoder(x), model.scale)


def hand_over(model, x):
    return fail(apply_it(model.encoder, x), 3)


def apply_it(f, x):
    return f(x)


def with_partial(model, x):
    return functools.partial(helper, model)(x)


X = torch.rand(3, 20)
ALL = {"encoder.unused", "decoder", "table", "history", "blocks", "tokenizer"}
"""Of a Model, what `encode` cannot reach."""
HANDED = (ALL - {"decoder"}) | {"decoder.unused"}
"""The same where the model is handed to something: it may be called, and then its `forward` runs."""


def left_out(function, *args, directory, tensors="full", **options):
    """Short names of what was left out, and the outcome of a replay."""
    run = recorded(
        directory, lambda: torch.compile(function, backend="eager", **options)(*args), tensors=tensors
    )
    outcome = here(run.bundles[0])
    assert outcome.error.message == outcome.recorded_error.message
    names = {re.sub(r"^arguments\.\w+", "", one.name).lstrip(".") for one in run.manifest.left_out}
    return names, outcome, run


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda m: (m.encode, X), ALL),
        (lambda m: (m.encode_by_known_name, X), ALL),
        (lambda m: (m.encode_through_helper, X), HANDED),
        (lambda m: (helper, m, X), ALL),
        (lambda m: (hand_over, m, X), ALL),
        (lambda m: (with_partial, m, X), HANDED),
        (lambda m: (m.encode_and_read, X), HANDED),
        (lambda m: (m.encode_and_sum, X), ALL - {"encoder.unused"}),
        (lambda m: (m.encode_blocks, X), (ALL - {"blocks", "encoder.unused"}) | {"encoder"}),
        (lambda m: (m.encode_and_sum_all, X), set()),
        (lambda m: (m.encode_by_name, X), set()),
    ],
)
def test_what_the_code_does_not_name_is_left_out_and_the_failure_is_the_same(program, expected, tmp_path):
    names, outcome, run = left_out(*program(Model()), directory=tmp_path)
    blocks = {f"blocks.{number}.unused" for number in range(2)}
    assert names - blocks == expected
    assert ("blocks" in expected or not expected) or blocks <= names
    assert outcome.status == "reproduced"
    assert not outcome.missing
    assert not {"title", "scale"} & names
    assert not run.warnings


def test_a_method_that_calls_its_module_reaches_its_forward(tmp_path):
    assert "decoder" not in left_out(Model().call, X, directory=tmp_path)[0]


def test_a_module_with_hooks_or_attributes_of_its_own_making_stays_whole(tmp_path):
    names, _, _ = left_out(Hooked().encode, X, directory=tmp_path / "a")
    assert "encoder.unused" not in names
    assert "decoder" in names
    assert left_out(Proxy().encode, X, directory=tmp_path / "b")[0] <= {"inner.unused"}


def test_a_users_object_is_divided_as_well(tmp_path):
    names, outcome, run = left_out(Trainer().step, X, directory=tmp_path)
    assert names == {f"model.{name}" for name in ALL} | {"data", "callbacks"}
    assert outcome.status == "reproduced"
    (tensors,) = [one.nbytes for one in run.manifest.left_out if one.name.endswith("data")]
    assert tensors == 3 * 500 * 4


def test_only_what_is_reached_is_in_a_full_bundle(tmp_path):
    model = Model()
    _, _, run = left_out(model.encode, X, directory=tmp_path)
    expected = sum(p.numel() for p in model.encoder.lin.parameters()) * 4 + X.nbytes
    assert sum(one.length for one in run.manifest.storages.values()) == expected
    assert all(one.entry for one in run.manifest.storages.values())


def test_a_replay_that_touches_what_was_left_out_says_missing_and_its_name(tmp_path, monkeypatch):
    def wrong(self, value):
        return {"encoder"} if isinstance(value, Model) else frozenset()

    monkeypatch.setattr(pruning.Pruning, "__call__", wrong)
    run = recorded(tmp_path, lambda: torch.compile(Model().encode, backend="eager")(X), tensors="full")
    outcome = here(run.bundles[0])
    assert outcome.status == "missing"
    assert [(one.name, one.reason) for one in outcome.missing] == [
        ("arguments.self.encoder", "left out: the frame's code does not name it")
    ]


def test_a_recompiled_frame_is_pruned_with_its_earlier_calls(tmp_path):
    def small(x):
        return x

    model = Model()

    def encode(self, x):
        return self.encoder(x) if x.shape[0] < 5 else fail(self.encoder(x), 3)

    def program():
        compiled = torch.compile(encode, backend="eager", dynamic=False)
        compiled(model, X)
        compiled(model, torch.rand(7, 20))

    run = recorded(tmp_path, program, tensors="full")
    assert len(run.manifest.calls) == 1
    assert any(one.name.endswith(".decoder") for one in run.manifest.left_out)
    assert here(run.bundles[0]).status == "reproduced"


def test_a_backend_that_names_forward_does_not_reach_the_models(tmp_path):
    def backend(graph, inputs):
        if any("mul" in str(node.target) for node in graph.graph.nodes):
            raise ValueError("no multiplication here")
        return graph.forward

    def encode(model, x):
        return model.encoder(x) * 2

    run = recorded(tmp_path, lambda: torch.compile(encode, backend=backend)(Model(), X), tensors="full")
    assert any(one.name.endswith(".decoder") for one in run.manifest.left_out)
    assert here(run.bundles[0]).status == "reproduced"


@torch.library.custom_op("pruningtests::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5


halve.register_fake(torch.empty_like)
halve.register_autograd(lambda ctx, gradient: gradient @ torch.ones(5, 5))


def loss(model, x):
    return halve(model.encoder(x)).sum()


def choose(model, x):
    few = torch.ones(20, dtype=torch.uint16)
    return torch.where(model.encoder(x)[0] > 0, few, few + 1)


@pytest.mark.parametrize(("program", "backend"), [(loss, "aot_eager"), (choose, "inductor")])
def test_autograd_and_inductor_do_with_a_module_that_has_parts_left_out(program, backend, tmp_path, inductor):
    run = recorded(tmp_path, lambda: torch.compile(program, backend=backend)(Model(), X), tensors="full")
    assert any(one.name.endswith(".decoder") for one in run.manifest.left_out)
    outcome = here(run.bundles[0])
    assert outcome.status == "reproduced", outcome
    assert outcome.error.stage == {"aot_eager": "aot_autograd"}.get(backend, backend)
    assert outcome.error.message == outcome.recorded_error.message


def uses(function):
    return uses_of(function.__code__)


def test_what_code_looks_into_at_once_is_not_handed_to_anything():
    found = uses(lambda model, x: model.encoder(x) + model.scale.a)
    assert {"encoder", "x"} <= found.handed
    assert not {"model", "scale"} & found.handed
    assert {"encoder", "scale", "a"} <= found.names


@pytest.mark.parametrize(
    "function",
    [
        lambda m, n: getattr(m, n),
        lambda m, n: getattr(m.a(), n),
        lambda m: vars(m),
        lambda m: m.__dict__,
        lambda m: [p for p in m.parameters()],  # noqa: C416
        lambda m: torch.nn.Module.parameters(m),
        lambda m, n: operator.attrgetter(n)(m),
        lambda m: getattr(m, "children")(),  # noqa: B009
        lambda m, n: getattr(m, f"layer{n}"),
        lambda m, n: getattr(m, "layer" + n),
        lambda m, n: getattr(m, "layer" + n.x, None),
    ],
)
def test_code_that_finds_attributes_without_their_names_may_reach_anything(function):
    assert uses(function).anything


def test_code_that_lists_one_part_reaches_that_part():
    found = uses(lambda self, n: (self.head.parameters(), getattr(self.config, n), self.body.to("cpu")))
    assert not found.anything
    assert {"head", "config", "body"} <= found.listed


def test_names_in_texts_and_tuples_count():
    assert {"decoder", "layers", "head"} <= uses(lambda m: m.f("decoder.layers", ("head",))).names


def test_objects_of_every_kind_are_walked_without_harm():
    class Odd:
        __slots__ = ("__weakref__", "part")

        def __getattribute__(self, name):
            raise RuntimeError("do not touch")

    odd = Odd()
    held = {"odd": odd, "ref": weakref.ref(odd), "self": None, "empty": (lambda: later).__closure__}
    later = held
    held["self"] = held

    def program(x, things):
        return things if x else odd

    reach = Reach(lambda value: True)
    reach.add(program)
    reach.add(held, "things")
    assert {id(odd)} <= set(reach.objects)
