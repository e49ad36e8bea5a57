"""A file's text and its code objects, within one Python; across versions see test_source_versions.py."""

from __future__ import annotations
import __future__

import inspect
import linecache
import textwrap
import traceback
from types import CodeType, FunctionType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay import source
from replay.errors import MissingError

TEXT = textwrap.dedent(
    '''
    import functools

    def plain(a, b=1):
        """Doc."""
        return [x for x in range(a) if (lambda y: y)(x)]

    def outer(n):
        def inner(m):
            return n + m
        return inner, lambda k: (k, n)

    twins = lambda: 1, lambda: 2, lambda: 1

    class A:
        @functools.lru_cache
        def method(self):
            return __class__, self.__hidden
        class B:
            def method(self): return {k: (lambda: k)() for k in 'ab'}
        def method(self): return 2

    async def waits():
        return [await x async for x in []]
    '''
)


def every(code: CodeType):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from every(constant)


def compiled(text, filename="/nowhere/user.py"):
    return compile(text, filename, "exec", dont_inherit=True)


def functions(code):
    return [one for one in every(code) if one.co_name not in source.COMPREHENSIONS]


def test_every_code_object_is_found_again():
    found = functions(compiled(TEXT))
    assert len(found) > 12
    for code in found:
        path = source.locate(code, TEXT)
        assert path is not None, code
        again = source.extract(TEXT, code.co_filename, path)
        assert again == code or (again.co_code, again.co_consts) == (code.co_code, code.co_consts)  # twins


def test_the_extracted_code_has_the_recorded_file_name_and_lines():
    code = next(code for code in every(compiled(TEXT)) if code.co_name == "inner")
    again = source.extract(TEXT, "/else/where.py", source.locate(code, TEXT))
    assert again.co_filename == "/else/where.py"
    assert again.co_firstlineno == code.co_firstlineno


def test_nothing_is_executed():
    text = "raise SystemExit\ndef f(): return 1\n"
    code = next(code for code in every(compiled(text)) if code.co_name == "f")
    assert source.extract(text, "x.py", source.locate(code, text)) == code


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(x):\n    return x + 1\n", "def f(x):\n    return x + 2\n"),
        ("def f(x):\n    return x + 1\n", "\ndef f(x):\n    return x + 1\n"),
        ("def f(x):\n    return x.a\n", "def f(x):\n    return x.b\n"),
        ("def f(x):\n    return x\n", "def f(y):\n    return y\n"),
        ("def f(x):\n    return x\n", "def g(x):\n    return x\n"),
        ("def f(x):\n    return x\n", "def f(x:\n"),
        ("def f(x):\n    return x\n", "def f(x): return '\0'"),
    ],
)
def test_a_file_that_was_edited_since_is_noticed(before, after):
    code = functions(compiled(before))[1]
    assert source.locate(code, after) is None
    assert source.locate(code, after, rewritten=True) is None


def test_twins_on_one_line_that_differ_in_nothing_lead_to_the_same_code():
    codes = [
        code for code in every(compiled(TEXT)) if code.co_name == "<lambda>" and code.co_firstlineno == 13
    ]
    values = {FunctionType(source.extract(TEXT, "x.py", source.locate(code, TEXT)), {})() for code in codes}
    assert values == {1, 2}


def test_future_flags_that_a_cell_inherited_are_kept():
    feature = __future__.annotations
    text = "def f(x: undefined): pass\n"
    code = functions(compile(text, "<cell>", "exec", feature.compiler_flag, dont_inherit=True))[1]
    flags = source.future_flags(code)
    assert flags == feature.compiler_flag
    assert source.extract(text, "<cell>", source.locate(code, text), flags) == code


def test_text_that_this_python_cannot_compile_is_missing():
    with pytest.raises(MissingError, match=r"user\.py: this Python cannot compile"):
        source.extract("def f(:\n", "user.py", (("f", 1, 0),))
    with pytest.raises(MissingError, match="no g at line 7"):
        source.extract("def f(): pass\n", "user.py", (("g", 7, 0),))


def with_assertion(values, expected=3):
    total = sum(values)
    assert total == expected, f"not {expected}"
    return [value for value in values if value]


def without_assertion(values):
    return sum(values)


def test_a_function_whose_assertions_pytest_rewrote_travels_as_text():
    text = source.text_of(__file__, globals())
    assert source.is_rewritten(globals())
    assert source.locate(with_assertion.__code__, text) is None
    path = source.locate(with_assertion.__code__, text, rewritten=True)
    assert FunctionType(source.extract(text, __file__, path), {})([1, 2], 3) == [1, 2]
    assert source.locate(without_assertion.__code__, text) is not None


def test_a_rewritten_file_that_was_edited_since_is_noticed():
    text = source.text_of(__file__, globals())
    for old, new in (("return sum(values)", "return max(values)"), ("total = sum(", "total = max(")):
        edited = text.replace(old, new, 1)
        assert edited != text
        function = with_assertion if "total" in old else without_assertion
        assert source.locate(function.__code__, edited, rewritten=True) is None


def test_texts_of_notebook_cells_are_found_in_linecache(monkeypatch):
    text = "def cell(x):\n    return x\n"
    monkeypatch.setitem(
        linecache.cache, "<ipython-input-1-abc>", (len(text), None, text.splitlines(True), "x")
    )
    assert list(source.texts("<ipython-input-1-abc>")) == [text]
    assert source.text_of("<no such thing>") is None


def test_an_edited_file_has_two_texts(tmp_path):
    path = tmp_path / "user.py"
    path.write_text("one = 1\n")
    assert source.text_of(str(path)) == "one = 1\n"
    path.write_text("two = 2\n")
    try:
        assert list(source.texts(str(path))) == ["one = 1\n", "two = 2\n"]
    finally:
        linecache.cache.pop(str(path))


def test_shown_texts_appear_in_tracebacks_and_getsource_and_are_taken_out():
    text = "def fails(x):\n    return x.absent  # here\n"
    before = dict(linecache.cache)
    with source.shown({"/nowhere/shown.py": text}):
        function = FunctionType(functions(compiled(text, "/nowhere/shown.py"))[1], {})
        with pytest.raises(AttributeError) as caught:
            function(1)
        lines = traceback.format_exception(caught.type, caught.value, caught.tb)
        assert "return x.absent  # here" in "".join(lines)
        assert inspect.getsource(function) == text
    assert "/nowhere/shown.py" not in linecache.cache
    assert set(before) <= set(linecache.cache)


def test_showing_puts_back_what_was_shown_before():
    undo_first = source.show("<shown>", "first\n")
    undo_second = source.show("<shown>", "second\n")
    assert linecache.getline("<shown>", 1) == "second\n"
    undo_second()
    assert linecache.getline("<shown>", 1) == "first\n"
    undo_first()
    assert "<shown>" not in linecache.cache


NAMES = st.sampled_from(["f", "g"])
EXPRESSIONS = st.recursive(
    st.sampled_from(["1", "x", "f"]),
    lambda inner: st.one_of(
        st.tuples(NAMES, inner).map(lambda p: f"(lambda {p[0]}: {p[1]})"),
        inner.map(lambda e: f"[{e} for x in y]"),
        inner.map(lambda e: f"list({e} for x in y)"),
        st.tuples(inner, inner).map(lambda p: f"{{{p[0]}: {p[1]} for x in y}}"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]}, {p[1]})"),
    ),
    max_leaves=8,
)
BLOCKS = st.recursive(
    EXPRESSIONS.map(lambda e: [f"z = {e}"]),
    lambda inner: st.one_of(
        st.tuples(NAMES, inner).map(lambda p: [f"def {p[0]}(x=1):", *(f"  {line}" for line in p[1])]),
        st.tuples(NAMES, inner).map(lambda p: [f"class {p[0]}:", *(f"  {line}" for line in p[1])]),
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
    ),
    max_leaves=6,
)


@given(BLOCKS)
def test_any_program_finds_each_of_its_code_objects(lines):
    text = "\n".join(lines)
    for code in functions(compiled(text)):
        again = source.extract(text, code.co_filename, source.locate(code, text))
        assert again.co_code == code.co_code
        assert (again.co_name, again.co_firstlineno) == (code.co_name, code.co_firstlineno)
        assert again.co_freevars == code.co_freevars
