"""The checks of prose in `make check` notice what they are for."""

import ast

import pytest

from scripts import check_docstrings as checks


def first_words(source):
    return [line.split(": ", 1)[1] for line in checks.check_first_words("file.py", ast.parse(source))]


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """Give the answer."""',
        'def f():\n    """Whether it holds."""',
        'def f():\n    """One number for each."""',
        'class A:\n    """Gives batches."""',
        'class A:\n    @property\n    def f(self):\n        """Give the answer."""',
    ],
)
def test_first_lines_that_say_nothing_or_give_are_found(source):
    assert len(first_words(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """Return whether it holds."""',
        'class A:\n    """One component per group."""',
        'class A:\n    @property\n    def f(self):\n        """Whether it holds."""',
        "def f():\n    pass",
    ],
)
def test_plain_first_lines_pass(source):
    assert first_words(source) == []


@pytest.mark.parametrize(
    "source",
    [
        '"""It is learnt."""',
        "x = 1  # unless told",
        'raise ValueError("refused for want of data")',
        'raise ValueError(f"{x} is told to foretell")',
    ],
)
def test_words_of_the_old_style_are_found_in_docstrings_comments_and_messages(source, tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "page.py").write_text(source + "\n")
    assert checks.check_words(["lab"])
    (tmp_path / "lab" / "page.py").write_text('"""It is learned by default."""\n')
    assert checks.check_words(["lab"]) == []


class Undocumented:
    """A class.

    Parameters
    ----------
    m : int
        A number.
    """

    def __init__(self, m=3):
        raise ValueError("no")

    def method(self):
        """Do something."""
        raise ValueError(f"no {self}")


def test_defaults_and_raises_must_be_documented():
    assert checks.check_defaults("A", Undocumented) == ["A: the default of m is not documented"]
    for thing in (Undocumented, Undocumented.method):
        _, tree = checks.source_of(thing)
        assert checks.raises_itself(tree)
    _, tree = checks.source_of(first_words)
    assert not checks.raises_itself(tree)


def test_exported_names_without_sections_are_found():
    pytest.importorskip("numpydoc")
    found = checks.check_sections("pathlib.PurePath", "PurePath", full=True)
    assert "PurePath: has no Examples section" in found
    assert any("PR01" in each for each in found)
    assert checks.check_sections("varmix.Groups", "Groups", full=True) == []


def test_what_is_exported_is_found():
    exported = {name for module in checks.public_modules() for name, _ in checks.exported_names(module)}
    assert {"Sampler", "Groups", "Allocation", "Shuffled", "BarrierNewton", "GainMeter", "vrb", "sgd"} <= exported
    assert "np" not in exported
