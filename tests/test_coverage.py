"""Every program of the catalogue is recorded, replays where it is gone, and docs/coverage.md tells it."""

from __future__ import annotations

import importlib.util
import sys

import catalogue_run as catalogue
import pytest
import torch

PROGRAMS = catalogue.programs()

pytestmark = pytest.mark.timeout(2 * catalogue.PATIENCE)


@pytest.fixture(scope="session")
def found():
    """What was recorded and replayed, by the program's name."""
    return catalogue.run(list(PROGRAMS.values()))


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_recorded_and_replays_elsewhere_as_expected(name, found):
    program = PROGRAMS[name]
    if program.absent:
        pytest.skip(f"needs {program.absent}, which is not installed")
    problems = catalogue.problems(program, found[name])
    assert not problems, "\n".join(problems)


def test_titles_are_there_and_tell_the_programs_apart():
    titles = [program.title for program in PROGRAMS.values()]
    assert all(titles)
    assert len(set(titles)) == len(titles)
    assert not any("|" in title for title in titles)


def test_a_row_of_another_test_names_a_test_that_exists():
    for row in catalogue.TESTED_ELSEWHERE:
        path, _, name = row.test.partition("::")
        assert f"def {name}(" in (catalogue.TESTS.parent / path).read_text(encoding="utf-8"), row.test


def test_packages_of_the_catalogue_are_not_installed_here():
    for program in PROGRAMS.values():
        for name in (*program.packages, *program.projects):
            assert importlib.util.find_spec(name) is None
            assert name not in sys.modules


def test_the_table_is_what_was_found(found):
    committed = catalogue.TABLE.read_text(encoding="utf-8")
    if catalogue.versions() not in committed or torch.cuda.is_available():
        pytest.skip(
            f"docs/coverage.md is of other versions, or of a machine without a GPU: {catalogue.versions()}"
        )
    actual, rejected = catalogue.table(found, committed), catalogue.TABLE.with_name("coverage.md.actual")
    if actual == committed:
        rejected.unlink(missing_ok=True)
        return
    rejected.write_text(actual, encoding="utf-8")
    pytest.fail(
        f"{catalogue.TABLE} differs from what was found. Compare:  diff {catalogue.TABLE} {rejected}\n"
        f"To accept what was found:  mv {rejected} {catalogue.TABLE}"
    )


def test_a_program_that_misbehaves_is_found_out():
    program = catalogue.Program(name="holds/x", title="x", names=("thing",), warns="slow")
    outcome = {
        "status": "different",
        "event": "failure",
        "lacking": [],
        "error": {"message": "b", "traceback": ""},
        "recorded_error": {"message": "a"},
    }
    found = {
        "bundles": ["x.rec"],
        "lost": 1,
        "warnings": [],
        "left": ["f"],
        "error": "",
        "outcomes": [outcome],
    }
    text = "\n".join(catalogue.problems(program, found))
    for part in ("lost", "no warning", "left files", "different instead", "recorded: a", "not name 'thing'"):
        assert part in text
    assert "no bundle" in catalogue.problems(program, {**found, "bundles": []})[0]
