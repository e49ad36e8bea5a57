"""`recompiles`: every guard that sends a call to the compiler again, the causes, the report and the command."""

from __future__ import annotations

import io
import json
import re
import textwrap
from collections import OrderedDict
from dataclasses import replace

import msgspec
import pytest
import torch
from gold import assert_gold
from programs import ROOT, imported, python, recorded

import replay
from replay.cli import main
from replay.errors import UsageError
from replay.findings.recompiles import Call, Difference, Recompiles, Refusal
from replay.recompilation import causes, grouping, sentences
from replay.recording import ErrorInfo
from replay.report.plain import recompiles_json
from replay.report.recompiles import draw_recompiles, summarise
from replay.torch_adapter import expressions, process_state, refusals, tensor_guards, words

GOLD_TORCH = "2.13"

USER = """
    import enum
    import torch


    class Colour(enum.Enum):
        RED = 1
        BLUE = 2


    class Gain:
        def __init__(self, gain):
            self.gain = gain


    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step, self.parts = 0, []
            self.lin = torch.nn.Linear(3, 3)

        def forward(self, x):
            y = self.lin(x) * self.step
            for part in self.parts:
                y = y + part
            return y


    FACTOR = 1


    def times(x, factor):
        return x * factor

    def plus(x):
        return x + 1

    def add(x, y):
        return x + y

    def named(x, name):
        return x * 2 if name else x

    def flagged(x, flag):
        return x * 2 if flag else x - 1

    def applied(x, function):
        return function(x)

    def gained(x, by):
        return x * (by.gain if isinstance(by, Gain) else by)

    def counted(x, items):
        return x * len(items)

    def summed(x, table):
        return x * sum(table.values())

    def scaled(x):
        return x * FACTOR

    def branching(x):
        return x + 1 if x.shape[0] > 5 else x - 1

    def painted(x, colour):
        return x + 1 if colour is Colour.RED else x - 1

    def cast(x, dtype):
        return x.to(dtype)

    def chosen(x, y):
        return x * 2 if y is None else x + y

    def alike(x, y):
        return x + y if x is y else x - y


    def compiled(function, **options):
        return torch.compile(function, backend="eager", **options)

    def calls(function, *arguments, **options):
        run = compiled(function, **options)
        for one in arguments:
            run(*one)

    def ones(*size, **options):
        return torch.ones(*size, **options)


    def integer():
        calls(times, (ones(3), 3), (ones(3), 4), (ones(3), 5), dynamic=False)

    def float_():
        calls(times, (ones(3), 1.5), (ones(3), 2.5))

    def boolean():
        calls(flagged, (ones(3), True), (ones(3), False))

    def size():
        calls(plus, (ones(3, 4),), (ones(3, 5),), (ones(6, 5),), dynamic=False)

    def condition():
        calls(branching, (ones(3),), (ones(9),), dynamic=True)

    def stride():
        calls(plus, (ones(3, 4),), (ones(4, 3).t(),), dynamic=False)

    def rank():
        calls(plus, (ones(3),), (ones(3, 4),))

    def dtype():
        calls(plus, (ones(3),), (ones(3, dtype=torch.float64),))

    def requires_grad():
        calls(plus, (ones(3),), (ones(3, requires_grad=True),))

    def string():
        calls(named, *[(ones(3), name) for name in "abc"])

    def attribute():
        module = Counter()
        run = compiled(module)
        for module.step in range(4):
            run(ones(3))

    def function():
        calls(applied, *[(ones(3), lambda x, by=by: x * by) for by in (2.5, 3.5)], (ones(3), torch.relu))

    def closure():
        def made(by):
            return lambda x: x * by

        calls(applied, (ones(3), made("a" == "b")), (ones(3), made("a" == "a")))

    def grad_mode():
        run = compiled(plus)
        run(ones(3))
        with torch.no_grad():
            run(ones(3))

    def autocast():
        run = compiled(plus)
        run(ones(3))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            run(ones(3))

    def inference():
        run = compiled(plus)
        with torch.no_grad():
            run(ones(3))
        with torch.inference_mode():
            run(ones(3))

    def threads():
        run, before = compiled(plus), torch.get_num_threads()
        run(ones(3))
        torch.set_num_threads(before + 1)
        run(ones(3))
        torch.set_num_threads(before)

    def default_dtype():
        run = compiled(plus)
        run(ones(3))
        torch.set_default_dtype(torch.float64)
        run(ones(3, dtype=torch.float32))
        torch.set_default_dtype(torch.float32)

    def type_():
        calls(gained, (ones(3), 2), (ones(3), 2.5), (ones(3), Gain(3)))

    def none():
        calls(chosen, (ones(3), None), (ones(3), ones(3)))

    def length():
        calls(counted, *[(ones(3), [0] * length) for length in (1, 2, 3)])

    def keys():
        calls(summed, (ones(3), {"a": 1}), (ones(3), {"b": 1}))

    def identity():
        calls(painted, (ones(3), Colour.RED), (ones(3), Colour.BLUE))

    def aliases():
        x = ones(3)
        calls(alike, (x, ones(3)), (x, x))

    def constant():
        calls(cast, (ones(3), torch.float64), (ones(3), torch.float16))

    def a_global():
        global FACTOR
        run = compiled(scaled)
        for FACTOR in (1, 2):
            run(ones(3))

    def several():
        module = Counter()
        run = compiled(module, dynamic=False)
        run(ones(3))
        module.step, module.parts = 7, [ones(3)]
        with torch.no_grad():
            run(ones(2, 3))

    def limit():
        calls(named, *[(ones(3), f"step {number}") for number in range(12)])

    def steady():
        run = compiled(plus, dynamic=False)
        for number in (3, 3, 3, 4, 4, 3):
            run(ones(number))


    LOG = open(__file__)

    def reading(gm, example_inputs):
        LOG.readline()
        return gm.forward

    def lacks():
        run = torch.compile(plus, backend=reading, dynamic=False)
        run(ones(3))
        run(ones(4))


    def fails():
        compiled(lambda x: x @ x)(ones(3, 4))
"""

DTYPE = ["float32", "float64"]
# program -> each cause: its kind, what differs, the values; in the order of the report
CAUSES = {
    "integer": [("integer", "L['factor']", None, ("3", "4", "5"))],
    "float_": [("float", "L['factor']", None, ("1.5", "2.5"))],
    "boolean": [("boolean", "L['flag']", None, ("True", "False"))],
    "size": [
        ("size", "L['x'].size()[1]", 1, ("4", "5")),
        ("size", "L['x'].size()[0]", 0, ("3", "6")),
    ],
    "condition": [("size", "L['x'].size()[0]", 0, ("3", "9"))],
    "stride": [("stride", "L['x'].stride()", None, ("[4, 1]", "[1, 3]"))],
    "rank": [("rank", "L['x']", None, ("1", "2"))],
    "dtype": [("dtype", "L['x']", None, ("float32", "float64"))],
    "requires_grad": [("requires_grad", "L['x']", None, ("False", "True"))],
    "string": [("string", "L['name']", None, ("'a'", "'b'", "'c'"))],
    "attribute": [("attribute", "L['self'].step", None, ("0", "1", "2", "3"))],
    "closure": [
        ("function", "L['function'].__closure__[0].cell_contents", None, ("False", "True")),
    ],
    "grad_mode": [("grad_mode", "grad_mode", None, ("True", "False"))],
    "autocast": [("global_state", "autocast", None, ("off", "cpu bfloat16"))],
    "inference": [
        ("global_state", "inference_mode", None, ("False", "True")),
        ("other", "L['x']", None, ("an ordinary tensor", "an inference tensor")),
    ],
    "threads": [("global_state", "num_threads", None, None)],
    "default_dtype": [("global_state", "default_dtype", None, ("float32", "float64"))],
    "type_": [("type", "L['by']", None, ("int", "float", "Gain"))],
    "none": [("type", "L['y']", None, ("NoneType", "Tensor"))],
    "length": [("length", "L['items']", None, ("1", "2", "3"))],
    "keys": [("length", "L['table']", None, ("key 'a'", "key 'b'"))],
    "identity": [("identity", "L['colour']", None, ("Colour.RED", "Colour.BLUE"))],
    "aliases": [("identity", "L['y']", None, ("another object", "the same object"))],
    "constant": [("dtype", "L['dtype']", None, ("torch.float64", "torch.float16"))],
    "a_global": [("integer", "G['FACTOR']", None, ("1", "2"))],
}
OTHERS = ("function", "several", "limit")
SHOWN = ("size", "attribute", "several", "limit", "type_")


def sequences():
    """The recordings of this house that are of sequences."""
    for path in sorted((ROOT / "recordings").glob("recompile_*.rec")):
        with replay.load(path) as bundle:
            if bundle.manifest.sequence is not None:
                yield path.stem


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """A bundle of each program, from a file of a user's that is gone."""
    folder = tmp_path_factory.mktemp("users")
    made = {"folder": folder, "text": textwrap.dedent(USER)}
    with imported(folder, "nets", USER) as module:
        for name in (*CAUSES, *OTHERS):
            (path,) = recorded(folder / "all", getattr(module, name), on="recompile").bundles
            made[name] = path.rename(folder / f"{name}.rec")
        made["steady"] = recorded(folder / "all", module.steady, on="recompile", calls=True).bundles[0]
        made["lacks"] = recorded(folder / "all", module.lacks, on="recompile").bundles[0]
        module.LOG.close()
        made["fails"] = recorded(folder / "all", module.fails).bundles[0]
    return made


@pytest.fixture(scope="module")
def found(bundles):
    """What was found out of each, in this process."""
    names = (*CAUSES, *OTHERS, "steady")
    return {name: analysed(bundles[name]) for name in names}


def analysed(bundle, *words_, **options):
    """What is found out of a bundle, in this process."""
    return replay.recompiles(bundle, *words_, isolate=False, limits=(), remedies=False, **options)


def command(*words_):
    """The exit code of the verb."""
    return main(["recompiles", "--no-grid", "--no-remedies", *map(str, words_)])


def drawn(one, **options):
    stream = io.StringIO()
    draw_recompiles(one, stream, **options)
    return stream.getvalue()


def normal(text, folder):
    """A report without what differs from run to run."""
    text = text.replace(str(folder), "/users").replace(torch.__version__, "TORCH")
    return re.sub(r"\b\d{10,}\b", "ID", re.sub(r"\d+\.\d+ s\b", "0 s", text))


def differences(one, number):
    return [each for refusal in one.calls[number].refusals for each in refusal.differences]


# --- what is found


@pytest.mark.parametrize("name", CAUSES)
def test_each_cause_is_told_with_what_differs_and_its_values(name, found):
    told = [(one.cause, one.source, one.dimension, one.values) for one in found[name].causes]
    wanted = [
        (*rest, seen[3] if values is None else values)
        for (*rest, values), seen in zip(CAUSES[name], told, strict=False)
    ]
    assert told == wanted
    assert not found[name].notes


@pytest.mark.parametrize("name", CAUSES)
def test_a_call_meets_each_entry_that_was_compiled_before_it_the_newest_first(name, found):
    for number, call in enumerate(found[name].calls):
        assert [one.call for one in call.refusals] == list(range(number))[::-1]
        assert all(one.differences and not one.note for one in call.refusals)


@pytest.mark.parametrize("name", CAUSES)
def test_what_torch_names_as_the_first_reason_is_among_the_guards(name, found):
    one = found[name]
    for call, outcome in zip(one.calls, one.outcome.calls, strict=True):
        for refusal in call.refusals:
            first = next(each for each in outcome.reasons if each.startswith(f"{refusal.compile_id}: "))
            told = {re.sub(r"L\['(\w+)'\]", r"\1", each.guard) for each in refusal.differences}
            kinds = {each.cause for each in refusal.differences}
            words_of_torch = first.partition(": ")[2].partition("  #")[0].strip()
            structural = kinds & {
                "size",
                "stride",
                "rank",
                "dtype",
                "requires_grad",
                "global_state",
                "grad_mode",
            }
            assert words_of_torch in told or structural or kinds <= {"length", "identity"}, (first, told)


def test_all_that_one_call_changes_is_told_and_nothing_of_it_alone(found):
    told = {(one.cause, one.source): one for one in found["several"].causes}
    assert set(told) == {
        ("attribute", "L['self'].step"),
        ("length", "L['self'].parts"),
        ("grad_mode", "grad_mode"),
        ("rank", "L['x']"),
    }
    assert all((one.calls, one.sole) == ((1,), ()) for one in told.values())


def test_the_call_that_hits_the_limit_has_its_guards_too(found):
    last = found["limit"].calls[-1]
    assert (last.fate, last.limit, len(last.refusals)) == ("uncompiled", "recompile_limit", 8)
    assert found["limit"].causes[0].calls == tuple(range(1, 9))
    assert found["limit"].causes[0].values == tuple(repr(f"step {number}") for number in range(9))


def test_functions_are_told_by_name_and_line(found, bundles):
    told = {(one.cause, one.source): one for one in found["function"].causes}
    assert {cause for cause, _ in told} == {"function"}
    lines = bundles["text"].splitlines()
    line = next(at for at, text in enumerate(lines, start=1) if "lambda x, by=by" in text)
    assert told["function", "L['function'].__code__"].values == (
        f"function <lambda> at nets.py:{line}",
        "function relu",
    )
    if not torch.__version__.startswith("2.9."):  # which does not ask for defaults
        assert told["function", "L['function'].__defaults__[0]"].values == ("2.5", "3.5")


def test_a_guard_names_the_users_line(found):
    (group,) = found["attribute"].causes
    assert (group.place.function, group.place.code) == ("forward", "y = self.lin(x) * self.step")
    assert [one.place.code for one in differences(found["type_"], 1)] == [
        "return x * (by.gain if isinstance(by, Gain) else by)"
    ]


def test_calls_that_found_compiled_code_are_counted_and_refused_by_nobody(found):
    one = found["steady"]
    fates = [call.fate for call in one.calls]
    assert fates.count("compiled") == 2 and "hit" in fates
    assert (one.count.compiles, one.count.hits) == (2, len(fates) - 2)
    assert [len(call.refusals) for call in one.calls if call.fate == "hit"] == [0] * one.count.hits
    assert len(one.again) == 1


def test_the_replay_is_that_of_run(bundles, found):
    outcome = replay.run(bundles["string"], isolate=False)
    assert found["string"].outcome.calls == tuple(
        replace(one, seconds=other.seconds)
        for one, other in zip(outcome.calls, found["string"].outcome.calls, strict=True)
    )


def test_options_of_a_replay_apply(bundles):
    one = analysed(bundles["size"], dynamic=True)
    assert (one.count.compiles, one.causes, one.again) == (1, (), ())
    one = analysed(bundles["string"], recompile_limit=1)
    assert [(call.fate, call.limit) for call in one.calls][:2] == [
        ("compiled", ""),
        ("uncompiled", "recompile_limit"),
    ]


def test_a_torch_that_lists_no_entries_is_named_and_the_calls_are_told(bundles, monkeypatch):
    def gone(code):
        raise replay.UnsupportedTorchError("torch 9: _debug_get_cache_entry_list: it is gone")

    monkeypatch.setattr(refusals, "entries", gone)
    one = analysed(bundles["string"])
    assert (one.count.compiles, one.causes) == (3, ())
    assert any("_debug_get_cache_entry_list" in note for note in one.notes)


def test_nothing_of_torch_stays_exchanged(bundles):
    owner = torch._dynamo.guards.CheckFunctionManager
    before = owner.__init__
    analysed(bundles["string"])
    assert owner.__init__ is before


def test_a_bundle_without_calls_says_how_to_record_one(bundles):
    with pytest.raises(UsageError, match=r'on="recompile"'):
        analysed(bundles["fails"])
    with pytest.raises(UsageError, match="nothing is compiled"):
        analysed(bundles["string"], "uncompiled")


# --- causes, without torch


@pytest.mark.parametrize(
    ("kind", "aspect", "source", "was", "now", "cause"),
    [
        ("EQUALS_MATCH", "", "L['n']", "int", "int", "integer"),
        ("EQUALS_MATCH", "", "L['n']", "int", "float", "type"),
        ("EQUALS_MATCH", "", "L['n']", "", "float", "float"),
        ("FLOAT_IS_NAN", "", "L['n']", "float", "float", "float"),
        ("EQUALS_MATCH", "", "L['name']", "str", "str", "string"),
        ("TRUE_MATCH", "", "L['flag']", "bool", "bool", "boolean"),
        ("ID_MATCH", "", "L['flag']", "bool", "bool", "boolean"),
        ("EQUALS_MATCH", "", "L['d']", "dtype", "dtype", "dtype"),
        ("EQUALS_MATCH", "", "L['d']", "device", "device", "device"),
        ("EQUALS_MATCH", "", "L['cfg']['depth'][0]", "int", "int", "integer"),
        ("EQUALS_MATCH", "", "G['FACTOR']", "int", "int", "integer"),
        ("EQUALS_MATCH", "", "G['__import_pkg_dot_nets'].FACTOR", "int", "int", "integer"),
        ("EQUALS_MATCH", "", "L['self'].step", "int", "int", "attribute"),
        ("EQUALS_MATCH", "", "L['self']._modules['a'].mode", "str", "str", "attribute"),
        ("EQUALS_MATCH", "", "L['self'].__dict__['mode']", "str", "str", "attribute"),
        ("ID_MATCH", "", "L['self'].act", "function", "function", "attribute"),
        ("ABSENT", "", "L['self'].mode", "str", "absent", "attribute"),
        ("ABSENT", "", "L['table']['a']", "int", "absent", "length"),
        ("ABSENT", "", "L['f'].__defaults__[0]", "int", "absent", "function"),
        ("TENSOR_MATCH", "size", "L['x'].size()[0]", "", "", "size"),
        ("LAMBDA_GUARD", "", "L['x'].size()[0]", "int", "int", "size"),
        ("SYMBOLIC_SHAPE_GUARD", "", "L['x'].stride()[0]", "int", "int", "stride"),
        ("LAMBDA_GUARD", "", "L['n']", "int", "int", "integer"),
        ("TENSOR_MATCH", "stride", "L['x'].stride()", "", "", "stride"),
        ("TENSOR_MATCH", "rank", "L['x']", "", "", "rank"),
        ("TENSOR_MATCH", "dtype", "L['self'].weight", "", "", "dtype"),
        ("TENSOR_MATCH", "device", "L['x']", "", "", "device"),
        ("TENSOR_MATCH", "requires_grad", "L['x']", "", "", "requires_grad"),
        ("TENSOR_MATCH", "class", "L['x']", "", "", "type"),
        ("TENSOR_MATCH", "keys", "L['x']", "", "", "other"),
        ("TYPE_MATCH", "", "L['by']", "Gain", "Louder", "type"),
        ("NONE_MATCH", "", "L['y']", "NoneType", "Tensor", "type"),
        ("ID_MATCH", "", "L['f'].__code__", "code", "code", "function"),
        ("EQUALS_MATCH", "", "L['f'].__closure__[0].cell_contents", "int", "int", "function"),
        ("EQUALS_MATCH", "", "L['f'].__defaults__[0]", "int", "int", "function"),
        ("ID_MATCH", "", "L['f']", "function", "function", "function"),
        ("ID_MATCH", "", "L['f']", "builtin_function_or_method", "builtin_function_or_method", "function"),
        ("LENGTH_CHECK", "", "L['self'].parts", "list", "list", "length"),
        ("DICT_LENGTH", "", "L['table']", "dict", "dict", "length"),
        ("MAPPING_KEYS_MATCH", "", "L['table']", "", "", "length"),
        ("ID_MATCH", "", "L['o']", "object", "object", "identity"),
        ("OBJECT_ALIASING", "", "L['x']", "Tensor", "Tensor", "identity"),
        ("GLOBAL_STATE", "grad_mode", "grad_mode", "", "", "grad_mode"),
        ("GLOBAL_STATE", "num_threads", "num_threads", "", "", "global_state"),
        ("DEFAULT_DEVICE", "default_device", "default_device", "", "", "global_state"),
        ("TORCH_FUNCTION_MODE_STACK", "function_modes", "function_modes", "", "", "global_state"),
        ("OTHER", "", "", "", "", "other"),
        ("EQUALS_MATCH", "", "L['s']", "set", "set", "length"),
        ("EQUALS_MATCH", "", "L['o']", "slice", "slice", "other"),
    ],
)
def test_a_cause_is_told_from_the_guard_and_the_types(kind, aspect, source, was, now, cause):
    assert causes.classify(kind, aspect, source, was, now) == cause


def difference(cause, source, expected="", seen="", guard=""):
    return Difference(cause, guard or f"{source} == {expected}", source, expected, seen)


def call(number, *entries):
    refusals_ = [Refusal(f"0/{at}", at, tuple(entries[at])) for at in reversed(range(len(entries)))]
    return Call(number, "compiled", f"0/{number}", refusals=tuple(refusals_))


def test_a_cause_counts_where_it_kept_a_call_from_the_nearest_entry():
    a, b = difference("integer", "L['a']", "1", "2"), difference("string", "L['b']", "'x'", "'y'")
    groups = grouping.group([call(0), call(1, [a]), call(2, [a, b], [b])])
    assert [(one.source, one.calls, one.sole) for one in groups] == [
        ("L['a']", (1,), (1,)),
        ("L['b']", (2,), (2,)),
    ]


def test_two_things_in_the_way_of_every_entry_are_both_a_cause_and_neither_is_the_sole_one():
    a, b = difference("integer", "L['a']", "1", "2"), difference("string", "L['b']", "'x'", "'y'")
    assert [(one.calls, one.sole) for one in grouping.group([call(0), call(1, [a, b])])] == [((1,), ())] * 2


def test_what_an_object_of_another_type_holds_is_no_cause_of_its_own():
    kind = difference("type", "L['by']", "Gain", "Louder")
    inside = difference("attribute", "L['by'].gain", "1", "2")
    beside = difference("integer", "L['by2']", "1", "2")
    assert grouping.roots([kind, inside, beside]) == [kind, beside]
    other = difference("identity", "L['by']", guard="___check_obj_id(L['by'], 5)")
    assert grouping.roots([other, inside, beside]) == [other, beside]


def test_what_belongs_to_another_function_is_no_cause_of_its_own():
    code = difference("function", "L['f'].__code__", "function f", "function g")
    default = difference("function", "L['f'].__defaults__[0]", "1", "2")
    assert grouping.roots([default, code]) == [code]
    assert grouping.roots([default]) == [default]


def test_values_are_told_once_in_the_order_of_their_calls():
    calls = [call(0)]
    for number, value in enumerate(("2", "3", "2"), start=1):
        calls.append(call(number, *[[difference("integer", "L['n']", "1", value)]] * number))
    (group,) = grouping.group(calls)
    assert group.values == ("1", "2", "3")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("L['x'].size()[0]", "x"),
        ("L['self']._modules['a'].mode", "self.a.mode"),
        ("L['self'].__dict__['mode']", "self.mode"),
        ("L['self']._modules['a']._parameters['weight']", "self.a.weight"),
        ("G['FACTOR']", "FACTOR"),
        ("G['__import_pkg_dot_nets'].FACTOR", "pkg.nets.FACTOR"),
        ("L['f'].__code__", "f"),
        ("L['cfg']['a'][0]", "cfg['a'][0]"),
        ("L['___stack0'].size()[0]", "a value from before the graph break"),
    ],
)
def test_a_source_is_named_as_the_program_names_it(source, name):
    assert sentences.name(source) == name


def test_a_sentence_names_the_first_values_and_how_many_there_are(found):
    assert found["limit"].causes[0].sentence == (
        "name was 'step 0', 'step 1', 'step 2', 'step 3', ... (9 values): each string is compiled for on its own"
    )
    assert found["condition"].causes[0].sentence.endswith("compiled code holds for 2 <= x.size()[0] <= 5")


# --- what a guard looks at


class Trap:
    """Whose code must not run."""

    kept = 1

    def __init__(self):
        self.own = 2

    @property
    def computed(self):
        raise AssertionError("a property ran")

    def __getattr__(self, name):
        raise AssertionError("__getattr__ ran")

    def __getitem__(self, key):
        raise AssertionError("__getitem__ ran")


class Table(dict):
    def __getitem__(self, key):
        raise AssertionError("__getitem__ ran")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("L['trap'].own", 2),
        ("L['trap'].kept", 1),
        ("L['trap'].computed", expressions.UNKNOWN),
        ("L['trap'].nothing", expressions.UNKNOWN),
        ("L['trap']['a']", expressions.UNKNOWN),
        ("L['trap'].own()", expressions.UNKNOWN),
        ("list(L['trap'])[0]", expressions.UNKNOWN),
        ("L['table']['a']", 5),
        ("dict.__getitem__(L['table'], 'a')", 5),
        ("list(dict.keys(L['table']))[0]", "a"),
        ("L['table']['b']", expressions.ABSENT),
        ("L['gone']", expressions.ABSENT),
        ("L['ordered']['x'][-1]", 3),
        ("L['x'].size()[1]", 4),
        ("L['module']._parameters['weight'].stride()[0]", 3),
        ("L['module'].weight.shape[0]", 2),
        ("L['module'].nothing", expressions.ABSENT),
        ("type(L['x'])", torch.Tensor),
        ("___upper(L['name'])", "A"),
        ("upper(L['name'])", expressions.UNKNOWN),
        ("__import__('os')", expressions.UNKNOWN),
        ("L['x'] +", expressions.UNKNOWN),
    ],
)
def test_a_source_is_read_without_code_of_the_users(expression, value):
    held = {
        "trap": Trap(),
        "table": Table(a=5),
        "ordered": OrderedDict(x=[1, 2, 3]),
        "x": torch.ones(3, 4),
        "module": torch.nn.Linear(3, 2),
        "name": "a",
    }
    scope = {"L": held, "G": {}, "___upper": str.upper, "upper": str.upper}
    read = expressions.read(expression, scope)
    assert read is value or read == value


GUARD = (
    "check_tensor(L['x'], Tensor, DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU), torch.float32, "
    "device=None, requires_grad=False, size=[3, 4], stride=[4, 1])"
)


@pytest.mark.parametrize(
    ("tensor", "aspects"),
    [
        (lambda: torch.ones(3, 4), []),
        (lambda: torch.ones(5, 6), [("size", 0), ("size", 1)]),
        (lambda: torch.ones(6, 5).t(), [("size", 0), ("size", 1), ("stride", None)]),
        (lambda: torch.ones(4, 3).t(), [("stride", None)]),
        (lambda: torch.ones(3), [("rank", None)]),
        (lambda: torch.ones(3, 5, dtype=torch.int64), [("dtype", None), ("size", 1)]),
        (lambda: torch.nn.Parameter(torch.ones(3, 4)), [("class", None), ("requires_grad", None)]),
        (lambda: torch.ones(3, 4, device="meta"), [("device", None)]),
        (lambda: 3, [("class", None)]),
    ],
)
def test_all_that_differs_of_a_tensor_is_told_and_strides_only_where_sizes_do_not_say_them(tensor, aspects):
    compiled = tensor_guards.layout(torch.ones(3, 4))
    told = tensor_guards.differing(GUARD, tensor(), compiled)
    assert [(one.name, one.dimension) for one in told] == aspects


def test_of_the_way_that_torch_dispatches_only_what_differs_is_told():
    guard = GUARD.replace("torch.float32", "torch.complex64")
    tensor = torch.ones(3, 4, dtype=torch.complex64)
    (told,) = tensor_guards.differing(guard, tensor.conj(), tensor_guards.layout(tensor))
    assert (told.name, told.expected, told.seen) == ("keys", "without Conjugate", "with Conjugate")


def test_a_size_that_was_compiled_as_any_size_differs_never():
    anything = GUARD.replace("size=[3, 4], stride=[4, 1]", "size=[None, 4], stride=[4, 1]")
    compiled = tensor_guards.layout(torch.ones(3, 4))
    assert tensor_guards.differing(anything, torch.ones(9, 4), compiled) == []


def test_torchs_names_of_state_are_read_from_its_reason():
    reason = "GLOBAL_STATE changed: grad_mode autocast(15)_enabled autocast(15)_dtype num_threads "
    assert process_state.changed(reason) == ["grad_mode", "autocast", "num_threads"]
    assert {"grad_mode", "autocast", "num_threads", "default_dtype"} <= set(process_state.read())


def test_values_are_told_in_short_words_without_code_of_the_users():
    assert words.told(Trap()) == "Trap object"
    assert words.told("x" * 200).endswith("…") and len(words.told("x" * 200)) == words.LENGTH
    assert words.told(torch.ones(2, 3)) == "float32[2, 3] cpu"
    assert words.told(Table(a=1)) == "Table object"
    assert [words.told(one) for one in ({2, 1}, [], [1, "a"], {"a": 1}, [Trap()], list(range(99)))] == [
        "{1, 2}",
        "list of 0",
        "[1, 'a']",
        "{'a': 1}",
        "list of 1",
        "list of 99",
    ]
    assert words.told(drawn).startswith("function drawn at test_recompiles.py:")


# --- for people


@pytest.mark.skipif(
    not torch.__version__.startswith(GOLD_TORCH),
    reason=f"the gold files hold the words of torch {GOLD_TORCH}",
)
@pytest.mark.parametrize("name", SHOWN)
def test_a_report_looks_as_the_gold_file(name, found, bundles, monkeypatch):
    for variable in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    assert_gold(f"recompiles_{name}.txt", normal(drawn(found[name]), bundles["folder"]))


@pytest.mark.skipif(
    not torch.__version__.startswith(GOLD_TORCH),
    reason=f"the gold files hold the words of torch {GOLD_TORCH}",
)
@pytest.mark.parametrize("name", list(sequences()))
def test_the_report_of_a_recording_looks_as_the_gold_file(name, monkeypatch):
    for variable in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    one = analysed(ROOT / "recordings" / f"{name}.rec")
    assert_gold(f"recompiles_of_{name}.txt", normal(drawn(one), ROOT))


def test_all_but_paths_fits_80_columns(found):
    for one in found.values():
        wide = [line for line in drawn(one).splitlines() if len(line) > 80]
        assert all("/" in line for line in wide), wide


def test_the_report_tells_the_newest_entry_and_counts_the_others_verbose_tells_all(found):
    one = found["string"]
    assert "and 1 guard of 1 older entry" in drawn(one)
    text = drawn(one, verbose=1)
    assert "older entr" not in text
    assert all(each.guard in text for number in range(3) for each in differences(one, number))


def test_many_calls_are_told_in_few_lines_and_hits_as_a_stretch(found):
    one = found["limit"]
    calls = tuple(replace(one.calls[1], number=number) for number in range(1000))
    assert len(drawn(replace(one, calls=calls)).splitlines()) < 80
    assert "calls 4 to 5: hit" in drawn(found["steady"])


def test_terminal_escapes_of_a_bundle_come_out_escaped(found):
    one = found["string"]
    bad = replace(one.causes[0], sentence="\x1b[2J", place=replace(one.causes[0].place, code="\x1b]0;x\x07"))
    refusal = Refusal("0/0", 0, (difference("string", "L['\x1b']", "\x1b", "\x1b"),), "\x1b")
    calls = (replace(one.calls[1], refusals=(refusal,), error="\x1b"),)
    assert "\x1b" not in drawn(replace(one, causes=(bad,), calls=calls, notes=("\x1b",)), verbose=1)


def test_json_reads_back_as_the_same_data(found):
    one = found["several"]
    again = msgspec.convert(json.loads(recompiles_json(one)), Recompiles, strict=False)
    assert (again.calls, again.causes, again.count) == (one.calls, one.causes, one.count)


def test_the_summary_counts_and_names_the_limit(found):
    told = summarise(found["limit"])
    assert told.startswith("9 calls: compiled 8 times in ")
    assert told.endswith("1 ran uncompiled")
    assert "recompile_limit was hit in call 9" in drawn(found["limit"]).splitlines()[2]


# --- the command, and child processes


def test_the_command_tells_in_a_pipe_without_colour(bundles, tmp_path):
    done = python("-m", "replay", "recompiles", bundles["attribute"], cwd=tmp_path, NO_COLOR="1")
    assert (done.returncode, "\x1b" in done.stdout) == (1, False), done.stderr
    assert "self.step was 0, 1, 2, 3: an attribute is compiled in as a constant" in done.stdout


def test_a_replay_that_lacks_something_exits_with_125_and_names_it(bundles, capsys):
    assert command(bundles["lacks"], "--no-isolate") == 125
    told = capsys.readouterr().out
    assert "missing: " in told and "LOG" in told


def test_of_a_replay_that_ended_the_error_is_told(found):
    error = ErrorInfo("SIGABRT", "the process ended", "backend", "0")
    one = replace(found["string"], calls=(), causes=(), count=None)
    assert "SIGABRT: the process ended" in drawn(replace(one, outcome=replace(one.outcome, error=error)))


def test_nothing_compiled_again_exits_with_0(bundles, capsys):
    assert command(bundles["size"], "--dynamic", "--no-isolate", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["count"]["compiles"], told["causes"]) == (1, [])


def test_of_a_folder_the_functions_that_are_asked_for_are_told(bundles, capsys):
    assert command(bundles["folder"], "--function", "cou*", "--no-isolate", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert [one["function"] for one in told["recompiles"]] == ["counted"]


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("fails", [], 'on="recompile"'),
        ("string", ["--function", "nothing"], "named"),
        ("string", ["--backend", "uncompiled"], "nothing is compiled"),
        ("folder", ["--function", "nothing"], "counted"),
    ],
)
def test_what_cannot_be_told_is_an_error_of_usage(name, more, message, bundles, capsys):
    assert command(bundles[name], *more) == 2
    assert message in capsys.readouterr().err


def test_a_folder_without_sequences_says_how_to_record_one(tmp_path, capsys):
    assert command(tmp_path) == 2
    assert 'on="recompile"' in capsys.readouterr().err


def test_the_recordings_of_this_house_that_are_no_sequences_are_refused(capsys):
    assert command(ROOT / "recordings" / "dynamo_shape_mismatch.rec") == 2
    assert "holds no sequence" in capsys.readouterr().err
