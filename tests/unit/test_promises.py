"""What README, pages and docstrings promise is so: figures are those of the results, and lists are complete."""

import inspect
import json
import re
from pathlib import Path

import pytest

import varmix

ROOT = Path(__file__).resolve().parents[2]
BUILT = ("docs/_build/", "docs/api/generated/")
# What each of these said was not so: see the pages for what is.
UNTRUE = {
    "parameters are those of `sgdclassifier`": "some are missing",
    "parameters are those of `sgdclassifier` and `sgdregressor`": "some are missing",
    "parameters and attributes are those of `minibatchkmeans`": "one is missing",
    "upper estimate of a": "a ratio of second moments bounds no speed-up",
    "upper estimate only": "a ratio of second moments bounds no speed-up",
    "keep every estimate unbiased": "it is not in shuffled epochs while the mixture moves",
    "on six convex problems": "there are thirteen, and adult is one of them",
    "1.2 to 1.7 times": "it takes longer on data with few features",
    "nothing to tune": "the step is",
    "nothing else to tune": "the step is",
}


def name(path):
    return path.relative_to(ROOT).as_posix()


def pages():
    """What users read, by name: one line each, without the marks of docstrings and comments."""
    found = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src").rglob("*.py"),
    ]
    return {name(page): flat(page.read_text()) for page in found if not name(page).startswith(BUILT)}


def flat(text):
    return " ".join(text.split())


def page(path):
    return flat((ROOT / path).read_text())


def test_no_page_repeats_what_was_found_untrue():
    for path, text in pages().items():
        for sentence, why in UNTRUE.items():
            assert sentence not in text.lower(), f"{path} says {sentence!r}, but {why}"


def test_the_page_on_estimators_says_how_long_an_epoch_took():
    results = json.loads((ROOT / "lab/results/estimators.json").read_text())
    rows = [row for title, row in results.items() if title != "machine"]
    for arm, words in (
        ("shuffle", 'with `sampling="shuffle"`'),
        ("mixture", "with the mixture"),
        ("resplit by norms", ""),
    ):
        taken = [row[arm]["over SGDClassifier"] for row in rows]
        pattern = rf"{min(taken):.1f} to {max(taken):.1f} times (?:as long as scikit-learn's `SGDClassifier` )?{words}"
        assert re.search(pattern, page("docs/estimators.md")), pattern


def missing(ours, theirs):
    """Return what the docstrings of estimators list: names by what is said of them."""
    mine, other = (inspect.signature(kind).parameters for kind in (ours, theirs))
    fits = [inspect.signature(kind.fit).parameters for kind in (ours, theirs)]
    methods = {key for key in set(dir(theirs)) - set(dir(ours)) if key[0] != "_" and callable(getattr(theirs, key))}
    lists = {
        "Missing parameters": set(other) - set(mine),
        "Missing arguments of fit": set(fits[1]) - set(fits[0]),
        "Missing methods": methods,
        "Other defaults": {key for key in set(mine) & set(other) if mine[key].default != other[key].default},
        "New parameters": set(mine) - set(other),
    }
    return {title: names for title, names in lists.items() if names}


@pytest.mark.parametrize(
    ("module", "peer", "estimator"),
    [
        ("sklearn.linear_model", "SGDClassifier", "MixtureSGDClassifier"),
        ("sklearn.linear_model", "SGDRegressor", "MixtureSGDRegressor"),
        ("sklearn.cluster", "MiniBatchKMeans", "MixtureKMeans"),
    ],
)
def test_an_estimator_lists_all_in_which_it_differs_from_scikit_learns(module, peer, estimator):
    theirs = getattr(pytest.importorskip(module), peer)
    from varmix import estimators

    ours = getattr(estimators, estimator)
    text = inspect.getdoc(ours)
    listed = re.findall(r"^\* ([\w ]+): (.*?\.)(?=\n\n|\n\*)", text, re.DOTALL | re.MULTILINE)
    assert {title: set(re.findall(r"`(\w+)`", names)) for title, names in listed} == missing(ours, theirs)


def test_the_page_on_estimators_names_every_parameter_that_is_missing():
    linear = pytest.importorskip("sklearn.linear_model")
    from varmix import estimators

    text = page("docs/estimators.md")
    for ours in ("Classifier", "Regressor"):
        absent = missing(getattr(estimators, f"MixtureSGD{ours}"), getattr(linear, f"SGD{ours}"))
        for title in ("Missing parameters", "Missing arguments of fit", "Missing methods"):
            assert all(f"`{key}`" in text for key in absent[title])


def test_the_default_learner_is_told_apart_from_the_one_of_the_theorems():
    assert isinstance(varmix.vrm(varmix.Groups([0, 1])).learner, varmix.learners.BarrierNewton)
    assert "not the algorithm of the paper's theorems" in flat(varmix.learners.BarrierNewton.__doc__)
    assert "not the algorithm of the theorems" in flat(varmix.theory.__doc__)
    assert "not the algorithm of the theorems" in page("docs/api/theory.md")
    assert "The paper's theorems do not cover it" in page("README.md")
    assert "No bound is proven for `BarrierNewton` or `Cautious`" in page("docs/paper_map.md")
