"""Which remedies are proposed for a cause, how sources are read, and how proven remedies are told. Needs no torch."""

from __future__ import annotations

import io

import pytest
from gold import assert_gold

from replay.findings.recompiles import CauseGroup, Count, Recompiles, Remedy
from replay.recompilation.proposals import Proposal, Setting, distinct, in_turn, joined, merged
from replay.recompilation.proposing import propose, propose_limit, propose_stance
from replay.recompilation.sources import Source, parse, show
from replay.recording import Outcome
from replay.report.page import Page
from replay.report.remedies import command_line, difference, draw_remedies

SOURCES = [
    ("L['x']", Source("local", "x"), "x"),
    ("L['x'].size()[0]", Source("local", "x", (), "size"), "x"),
    ("L['x'].stride()[1]", Source("local", "x", (), "stride"), "x"),
    ("L['self'].step", Source("local", "self", (("attribute", "step"),)), "self.step"),
    (
        "L['self']._modules['block']._buffers['mask'].size()[1]",
        Source("local", "self", (("attribute", "block"), ("attribute", "mask")), "size"),
        "self.block.mask",
    ),
    ("L['self'].__dict__['mode']", Source("local", "self", (("attribute", "mode"),)), "self.mode"),
    (
        "L['items'][0]['ids']",
        Source("local", "items", (("item", 0), ("item", "ids"))),
        "items[0]['ids']",
    ),
    ("dict.__getitem__(L['d'], 'key')", Source("local", "d", (("item", "key"),)), "d['key']"),
    ("list.__getitem__(L['d'], 2)", Source("local", "d", (("item", 2),)), "d[2]"),
    ("getattr(L['o'], 'a b')", Source("local", "o", (("attribute", "a b"),)), "getattr(o, 'a b')"),
    (
        "L['self']._modules['layers']._modules['0'].rate",
        Source("local", "self", (("attribute", "layers"), ("attribute", "0"), ("attribute", "rate"))),
        "self.layers[0].rate",
    ),
    ("G['SCALE']", Source("global", "SCALE"), "SCALE"),
    (
        "G['__import_pkg_dot_nets'].SCALE",
        Source("global", "__import_pkg_dot_nets", (("attribute", "SCALE"),)),
        "pkg.nets.SCALE",
    ),
    (
        "L['f'].__closure__[0].cell_contents",
        Source("local", "f", (("cell", 0),)),
        "f.__closure__[0].cell_contents",
    ),
]


@pytest.mark.parametrize(("text", "source", "shown"), SOURCES)
def test_a_source_is_a_variable_and_the_way_from_it(text, source, shown):
    assert parse(text) == source
    assert show(source) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "num_threads",
        "x",
        "___from_numpy(L['a'])",
        "list(dict.keys(L['d']))[0]",
        "L[0]",
        "L['x'",
        "L['x'][f()]",
        "__import__('os').system('true')",
        "L['f'].__closure__[n].cell_contents",
        "getattr(L['o'], name)",
        "L['x']" + ".a" * 500,
    ],
)
def test_what_names_no_place_is_not_followed(text):
    assert parse(text) is None


def group(cause, source, values=(), dimension=None):
    return CauseGroup(cause, source, dimension, (1, 2), (1,), tuple(values))


PLAIN = Setting("forward")
FIXED = Setting("forward", dynamic=False, undo_dynamic=True)
PROPOSED = [
    (group("size", "L['x']", ("3", "4"), 1), PLAIN, ["mark_dynamic", "dynamic=True", "mark_unbacked"]),
    (
        group("size", "L['x']", ("3", "4"), 1),
        FIXED,
        ["mark_dynamic", "automatic dynamic", "dynamic=True", "mark_unbacked"],
    ),
    (
        group("size", "L['x']", ("3", "4"), 1),
        Setting("f", dynamic=True, config={"dynamo.automatic_dynamic_shapes": False}),
        ["mark_dynamic", "automatic_dynamic_shapes=True", "mark_unbacked"],
    ),
    (group("integer", "L['n']", ("3", "4")), PLAIN, ["tensor", "dynamic=True", "leave out"]),
    (
        group("integer", "L['n']", ("3", "4")),
        Setting("f", config={"dynamo.specialize_int": True}),
        ["specialize_int=False", "tensor", "dynamic=True", "leave out"],
    ),
    (group("float", "L['n']", ("0.5", "0.25")), PLAIN, ["tensor", "leave out"]),
    (group("string", "L['name']", ("'a'", "'b'")), PLAIN, ["leave out"]),
    (
        group("attribute", "L['self'].step", ("0", "1")),
        PLAIN,
        ["tensor", "allow_unspec_int_on_nn_module=True", "move out"],
    ),
    (
        group("integer", "L['self'].step", ("0", "1")),
        PLAIN,
        ["tensor", "allow_unspec_int_on_nn_module=True", "move out"],
    ),
    (group("attribute", "L['self'].mode", ("'a'", "'b'")), PLAIN, ["move out"]),
    (group("attribute", "L['self'].act", ("function relu", "function tanh")), PLAIN, ["hoist", "move out"]),
    (group("function", "L['f'].__code__", ()), PLAIN, ["hoist"]),
    (group("identity", "L['o']", ()), PLAIN, ["hoist"]),
    (
        group("identity", "L['o']", ()),
        Setting("f", config={"dynamo.inline_inbuilt_nn_modules": False}),
        ["inline_inbuilt_nn_modules=True", "hoist"],
    ),
    (group("grad_mode", "grad_mode", ("True", "False")), PLAIN, ["enable_grad", "no_grad"]),
    (group("grad_mode", "", ("False", "True")), PLAIN, ["no_grad", "enable_grad"]),
    (
        group("grad_mode", "", ("True", "False")),
        Setting("f", state=("grad_enabled", "inference_mode")),
        ["enable_grad", "no_grad", "one mode"],
    ),
    (group("global_state", "num_threads", ("4", "2")), PLAIN, ["one state"]),
    (group("global_state", "inference_mode", ("False", "True")), PLAIN, ["one state"]),
    (group("global_state", "function_modes", ("a", "b")), PLAIN, []),
    (group("function", "L['f'].__defaults__[0]", ("1", "2")), PLAIN, ["hoist", "captured tensor"]),
    (group("function", "L['f'].__closure__[0].cell_contents", ("1.5",)), PLAIN, ["hoist", "captured tensor"]),
    (group("dtype", "L['x']", ("float32",)), PLAIN, ["one dtype"]),
    (group("device", "L['x']", ("cpu",)), PLAIN, ["one device"]),
    (group("requires_grad", "L['x']", ("True",)), PLAIN, ["one requires_grad"]),
    (
        group("stride", "L['x']", ("1", "4"), 0),
        PLAIN,
        ["contiguous", "mark_dynamic", "dynamic=True"],
    ),
    (group("type", "L['n']", ("int", "float")), PLAIN, ["float", "tensor", "hoist"]),
    (group("length", "L['items']", ("1", "2")), PLAIN, ["dynamic=True"]),
    (group("rank", "L['x']", ("1", "2")), PLAIN, []),
    (group("other", "", ()), PLAIN, []),
    (group("size", "___from_numpy(L['a'])", ("3", "4"), 0), PLAIN, ["dynamic=True"]),
]


@pytest.mark.parametrize(("cause", "setting", "names"), PROPOSED)
def test_each_cause_has_its_remedies_the_most_fitting_first(cause, setting, names):
    proposed = propose(cause, setting)
    assert [one.name for one in proposed] == names
    assert all(bool(one.options) != bool(one.steps) for one in proposed)


def test_a_limit_is_raised_only_where_one_was_hit_and_to_what_the_calls_need():
    some, none, raising = (Count(8, 0, *two, 1.0) for two in ((3, 0), (0, 0), (0, 3)))
    assert propose_limit(PLAIN, some) == ()
    assert propose_limit(Setting("f", limit="recompile_limit"), none) == ()
    (one,) = propose_limit(Setting("f", limit="recompile_limit"), some)
    assert (one.options, "not in this recording" in one.caveat) == ({"recompile_limit": 11}, True)
    assert propose_limit(Setting("f", limit="recompile_limit"), raising) == (one,)
    (one,) = propose_limit(Setting("f", limit="accumulated_recompile_limit", counted=True), some)
    assert one.change == "torch._dynamo.config.accumulated_recompile_limit = 11"
    assert (one.options, "recording" in one.caveat) == ({"accumulated_recompile_limit": 11}, False)


def test_results_must_be_known_to_be_the_same_where_a_value_is_left_out():
    for cause in ("string", "integer"):
        (out,) = [one for one in propose(group(cause, "L['n']", ("1",)), PLAIN) if one.name == "leave out"]
        assert out.must_agree
    assert propose_stance().trades


def test_state_that_is_to_be_otherwise_is_said_not_to_be_compared():
    proposed = propose(group("attribute", "L['self'].step", ("0", "1")), PLAIN)
    assert [one.name for one in proposed if "self.step itself was not compared" in one.caveat] == [
        "tensor",
        "move out",
    ]
    assert not any("not compared" in one.caveat for one in propose(group("integer", "L['n']", ("1",)), PLAIN))


def test_one_proposal_for_several_places_is_tried_once_and_is_of_the_whole():
    size, integer = group("size", "L['x']", ("3",), 0), group("integer", "L['n']", ("3",))
    tried = distinct(in_turn([propose(size, PLAIN), propose(integer, PLAIN)]))
    assert [(one.name, one.source) for one in tried] == [
        ("mark_dynamic", "L['x']"),
        ("tensor", "L['n']"),
        ("dynamic=True", ""),
        ("mark_unbacked", "L['x']"),
        ("leave out", "L['n']"),
    ]


def test_proposals_together_do_what_each_does():
    one = Proposal("a", "size", "L['x']", "x", "first", {"config": {"dynamo.a": 1}}, ({"act": "b"},))
    two = Proposal("b", "float", "L['y'].z", "y", "first", {"config": {"dynamo.b": 2}}, must_agree=True)
    both = joined([one, two])
    assert (both.name, both.cause, both.source) == ("a + b", None, "x, y.z")
    assert (both.change, both.caveat, both.must_agree) == ("x\ny", "first", True)
    assert (both.options, both.steps) == ({"config": {"dynamo.a": 1, "dynamo.b": 2}}, ({"act": "b"},))


def test_options_add_up():
    assert merged({"config": {"a": 1}, "dynamic": False}, {"config": {"b": 2}, "dynamic": True}) == {
        "config": {"a": 1, "b": 2},
        "dynamic": True,
    }
    assert merged({"without": ("a", "b")}, {"without": ("b", "c")}) == {"without": ("a", "b", "c")}


BEFORE = Count(8, 0, 1, 0, 31.2)
REMEDIES = (
    Remedy(
        "mark_dynamic",
        "size",
        "L['tokens']",
        "torch._dynamo.mark_dynamic(tokens, 1)  # before every call",
        BEFORE,
        Count(1, 8, 0, 0, 4.5),
        same=True,
    ),
    Remedy(
        "dynamic=True",
        "size",
        "L['tokens']",
        "torch.compile(forward, dynamic=True)",
        BEFORE,
        Count(2, 7, 0, 0, 9.01),
        "all sizes and integers are symbols then: the code may be slower, and some of it may not compile at all",
        True,
        {"dynamic": True},
    ),
    Remedy(
        "tensor + leave out",
        None,
        "self.step, name",
        'self.register_buffer("step", torch.tensor(self.step), persistent=False)\n'
        "# give forward the same \x1b[31mname in every call, and use what changes outside of it",
        BEFORE,
        Count(3, 6, 0, 0, 0.0123),
        "code that branches on a number breaks the graph once it is a tensor",
        None,
    ),
    Remedy(
        "recompile_limit",
        None,
        "",
        "torch._dynamo.config.recompile_limit = 9",
        BEFORE,
        Count(9, 0, 0, 0, 35.0),
        "each compilation takes time and memory",
        True,
        {"recompile_limit": 9, "config": {"dynamo.verbose": True}},
    ),
)


def found(*remedies, tried=7):
    outcome = Outcome("bundle.rec", "reproduced", "inductor", "forward", None, None)
    return Recompiles("bundle.rec", "forward", outcome, "2.13.0", BEFORE, remedies=remedies, tried=tried)


def drawn(told, **options):
    stream = io.StringIO()
    draw_remedies(Page(stream), told, **options)
    return stream.getvalue()


def test_the_report_is_as_it_was_accepted():
    text = drawn(found(*REMEDIES))
    assert "\x1b" not in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert_gold("remedies.txt", text)


def test_a_report_without_remedies_says_so():
    assert drawn(found()) == "Remedies  7 tried by replaying the calls, side by side; none help\n"
    assert drawn(found(tried=0)) == ""


def test_only_the_best_are_shown_unless_all_are_asked_for():
    many = found(*[REMEDIES[0]] * 7)
    assert "... 2 more (-v shows them)" in drawn(many)
    assert drawn(many, verbose=1).count(". mark_dynamic") == 7


def test_before_and_after_in_one_line():
    calm = Remedy("a", None, "", "", Count(8, 0, 0, 0, 31), Count(1, 7, 0, 0, 0.5))
    assert difference(calm) == "8 compiles, 31.0 s -> 1 compile, 0.50 s"
    failing = Remedy("a", None, "", "", Count(8, 0, 1, 2, 31), Count(1, 7, 0, 0, 0.5))
    assert (
        difference(failing) == "8 compiles, 31.0 s -> 1 compile, 0.50 s; uncompiled: 1 -> 0; errors: 2 -> 0"
    )


def test_the_command_shows_the_options():
    options = {"dynamic": False, "without": ("compile.dynamic", "calls"), "config": {"dynamo.a": True}}
    assert command_line("a b.rec", options) == (
        "python -m replay 'a b.rec' --no-dynamic --without compile.dynamic,calls --config dynamo.a=true"
    )
