import os
import re
import shutil
import sys
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from lab.report import evolutions, page, write
from lab.report import page as figures
from lab.report.benchmarks import render_results
from lab.report.markup import escape_json, format_number, read_resource
from lab.reproduce.findings import Claim, Details, Evolution, Findings, Picture

NASTY = "</script><script>alert(1)</script> <b> & \"quoted\" 'x' <!--"
FACTS = {"mode": "quick", "command": "`python -m lab reproduce --quick`", NASTY: NASTY}
SKIPPED = ["kmeans: add scikit-learn with `pip install '.[kmeans]'`.", NASTY]
RESULTS = {
    "Core": {
        "machine": {"cpu": "AMD EPYC", "cores": 2},
        "speed": {
            "one index, ns": 105.7146,
            "Dense, m = 1": {"us": 9.94127, "ratio": 94.0388},
            "Groups, m = 1": {"us": 12.2617, "ratio": 115.9886},
        },
        "peers": {
            "missing": ["torch", "DPPy"],
            "exact": True,
            "note": None,
            "deeper": {"and": {"deeper": {"still": 1.5}}},
        },
    },
    NASTY: [{"k": 2, "losses": NASTY, "paid": 897.241}, {"k": 11, "losses": "rare"}],
}


TABLE = Details(("data set", "mixture"), [("adult", "1.5x [1, 2]"), (NASTY, NASTY)])


def line_figure():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3))
    axes = figure.subplots()
    axes.semilogy([1, 2, 3], [0.1, 1, 10], marker="o")
    axes.fill_between([1, 2, 3], [0.05, 0.5, 5], [0.2, 2, 20], alpha=0.2, hatch="/")
    axes.set_title(r"rounds $\sqrt{T}$ <&>")
    return figure


def sample():
    x = np.arange(0, 200, 2)
    weights = {f"blob {j + 1}": (j + 1) / 28 * np.ones(100) for j in range(7)}
    weights["blob 1"] = np.where(x < 20, 0.0, 0.2)
    weights["blob 2"] = np.where(x == 40, np.nan, 0.1)
    return [
        Findings(
            "blobs",
            "Blobs (6.1)",
            [
                Claim("Middle blobs", "The middle blobs get the weight.", "0.83 [0.81, 0.85]", "holds", "10 seeds"),
                Claim("Steps", "Fewer steps.", "2x [1, 3]", "holds in part", "5 epochs", details=TABLE, note="A hint."),
                Claim("<b>&'\"<!--", NASTY, "<b>&'\"<!--", "does not hold", NASTY, note=NASTY),
            ],
            [Picture("a", "A caption.", "A line rises.", line_figure), Picture("b", NASTY, NASTY, line_figure)],
            [Evolution("weights", "The mixture", "round", "weight", x, weights)],
            ["A note with `code`.", NASTY],
        ),
        Findings(
            "regret",
            "Regret",
            [
                Claim("Ours", "Asked of us.", "3 of 4", "measured", "3 seeds", beyond=True),
                Claim("Slope", "Slope 4/5.", "0.7 [0.4, 1.2]", "too few runs", "quick"),
            ],
            evolutions=[Evolution("e", NASTY, NASTY, NASTY, [1.0, 1.0], {NASTY: [1.0, 2.0]})],
        ),
    ]


class Seen(HTMLParser):
    """Collects links, ids, tags, and text outside of scripts and styles of a page."""

    def __init__(self, html):
        super().__init__()
        self.ids, self.links, self.tags, self.words, self.inside = [], [], Counter(), [], None
        self.feed(html)
        self.words = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.inside = tag
        self.ids += [value for name, value in attributes if name == "id"]
        self.links += [(name, value) for name, value in attributes if name in ("src", "href", "srcset", "action")]

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, words):
        if self.inside not in ("script", "style"):
            self.words.append(words)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    assert write(out, sample(), FACTS, SKIPPED, RESULTS) == out / "report" / "index.html"
    return out / "report"


def test_every_claim_and_fact_is_on_the_page_in_words(written):
    html = (written / "index.html").read_text("utf-8")
    words = Seen(html).words
    plain = " ".join(NASTY.split())
    for found in sample():
        assert found.title in words
        for claim in found.claims:
            cells = (
                [cell for row in (claim.details.columns, *claim.details.rows) for cell in row] if claim.details else []
            )
            for part in (claim.name, claim.said, claim.number, claim.settings, claim.verdict, claim.note, *cells):
                assert " ".join(part.split()) in words
    assert html.count('class="beyond"') == 1
    for part in (
        "A caption.",
        "A note with code.",
        "python -m lab reproduce --quick",
        "kmeans: add scikit-learn",
        plain,
    ):
        assert part in words
    (counted,) = re.findall(r"\bOf 5 findings, ([^.]*)\.", words)
    parts = re.split(", | and ", counted)
    assert [part.split()[0] for part in parts] == ["1"] * 5  # one claim per verdict
    for part, verdict in zip(parts, ("holds", "in part", "not hold", "too few runs", "measure"), strict=True):
        assert verdict in part


def test_figures_come_before_claims_and_tables_wait_to_be_opened(written):
    html = (written / "index.html").read_text("utf-8")
    places = [html.index(part) for part in ("<figure", "data-plot", 'class="claims"', "Protocol")]
    assert places == sorted(places)
    for table in re.finditer('<table class="numbers"', html):
        before = html[: table.start()]
        assert before.count("<details") - before.count("</details>") == 1


def test_nothing_on_a_page_can_break_out_of_its_place(written):
    for name in ("index.html", "benchmarks.html"):
        html = (written / name).read_text("utf-8")
        assert "alert(1)</script>" not in html
        assert "<b>" not in html.replace("<b> &amp;", "")
        assert "<!--" not in html
    tags = Seen((written / "index.html").read_text("utf-8")).tags
    assert tags["script"] == 2 + 2  # the theme, the plots, and the data of two evolutions


@pytest.mark.parametrize("name", ["index.html", "benchmarks.html"])
def test_a_page_needs_nothing_but_itself(written, name):
    html = (written / name).read_text("utf-8")
    seen = Seen(html)
    assert not re.search(r"https?://", html)
    assert not re.search(r"@import|url\((?!#)", html)
    others = {"index.html": "benchmarks.html", "benchmarks.html": "index.html"}
    for attribute, value in seen.links:
        assert value.startswith("#") or (attribute == "href" and value in (others[name], "data:,"))
    targets = [value[1:] for _, value in seen.links if value.startswith("#")]
    assert set(targets) <= set(seen.ids)


@pytest.mark.parametrize("name", ["index.html", "benchmarks.html"])
def test_ids_are_unique_and_references_inside_figures_lead_somewhere(written, name):
    html = (written / name).read_text("utf-8")
    ids = Seen(html).ids
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(ids)
    assert name != "index.html" or "url(#figure-1-" in html


def test_the_page_of_benchmarks_is_linked_only_when_there_is_one(tmp_path, written):
    assert 'href="benchmarks.html"' in (written / "index.html").read_text("utf-8")
    first = write(tmp_path, sample()[1:], {}, [])
    assert "benchmarks.html" not in first.read_text("utf-8")
    assert [path.name for path in first.parent.iterdir()] == ["index.html"]


def test_a_run_without_claims_says_so(tmp_path):
    pages = write(tmp_path, [], {}, [], {}), tmp_path / "report" / "benchmarks.html"
    for path in pages:
        seen = Seen(path.read_text("utf-8"))
        assert seen.tags["table"] == 0
        assert seen.tags["p"] > 0
    assert "claim" in Seen(pages[0].read_text("utf-8")).words


def test_the_same_findings_give_the_same_page(tmp_path, written):
    again = write(tmp_path, sample(), FACTS, SKIPPED, RESULTS)
    assert again.read_bytes() == (written / "index.html").read_bytes()


def test_a_page_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = write(tmp_path, sample()[1:], {}, [])
    before = path.read_bytes()

    def broken():
        raise RuntimeError("no figure today")

    failing = Findings("a", "A", [], [Picture("a", "b", "c", broken)])
    with pytest.raises(RuntimeError, match="no figure today"):
        write(tmp_path, [failing], {}, [], RESULTS)
    assert [file.name for file in path.parent.iterdir()] == ["index.html"]

    def interrupted(aside, target):
        assert Path(aside).parent == target.parent  # otherwise the renaming would be a copy
        assert Path(aside).read_text("utf-8").endswith("</html>\n")
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, [], {"mode": "full"}, [])
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["index.html"]


def test_findings_that_cannot_be_shown_are_refused_with_advice(monkeypatch):
    with pytest.raises(ValueError, match=r"different experiments, got \['a', 'A'\]. Merge"):
        page.render_index([Findings("a", "A", []), Findings("A", "B", [])], {}, [])
    with pytest.raises(ValueError, match=r"nothing to draw. Leave it out"):
        evolutions.embed_evolution(Evolution("w", "W", "x", "y", [], {"a": []}), "plot")
    with pytest.raises(ValueError, match=r"must not decrease. Sort"):
        evolutions.embed_evolution(Evolution("w", "W", "x", "y", [2, 1], {"a": [1, 1]}), "plot")
    with pytest.raises(ValueError, match=r"arm 'a' has 1 values for 2 values of x.* nan where there is none"):
        evolutions.embed_evolution(Evolution("w", "W", "x", "y", [1, 2], {"a": [1]}), "plot")
    monkeypatch.setitem(sys.modules, "lab.plots", None)
    with pytest.raises(ImportError, match=r"pip install -e '\.\[lab\]'"):
        figures.embed_picture(Picture("a", "b", "c", lambda: None), "a-")


def test_data_holds_no_nan_and_long_lines_keep_their_ends_and_their_beginning():
    n = 100_000
    html = evolutions.embed_evolution(Evolution("w", "W", "x", "y", range(n), {"a": np.full(n, np.nan)}), "plot")
    assert "NaN" not in html
    assert "nan" not in html
    kept = evolutions.thin_places(range(n))
    assert kept[:10] == list(range(10))
    assert kept[-1] == n - 1
    assert max(b - a for a, b in pairwise(kept)) < 2 * n / (evolutions.MAX_PLACES // 2)
    with pytest.raises(ValueError, match="JSON"):
        escape_json(float("nan"))


def test_results_become_tables_that_keep_every_number_and_name():
    words = Seen(render_results(RESULTS)).words
    for part in (
        "AMD EPYC",
        "one index, ns",
        "106",
        "9.94",
        "94.0",
        "116",
        "torch, DPPy",
        "yes",
        "–",
        "still",
        "1.50",
        "897",
    ):
        assert part in words
    assert render_results([1, "a", 0.5]) == "<p>1, a, 0.500</p>"
    assert render_results([[{"a": 1}], [{"a": 2}]]).count("<table") == 2
    assert "<details>" in render_results([{"a": i} for i in range(100)])


def test_numbers_are_written_for_the_eye():
    assert [format_number(v) for v in (999.9, 1e9, 12, -5e-324, 0.0)] == [
        "1000",
        "1.00 × 10⁹",
        "12",
        "−4.94 × 10⁻³²⁴",
        "0",
    ]
    assert format_number(1234567).split("\u202f") == ["1", "234", "567"]


def test_scripts_can_stand_inside_a_page():
    for name in ("plot.js", "theme.js"):
        assert "</script" not in read_resource(name)
        assert "<!--" not in read_resource(name)


# ---------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if sync_playwright is None or chromium is None:
        absent = (
            "playwright (pip install playwright)" if sync_playwright is None else "chromium (apt-get install chromium)"
        )
        reason = f"The report is looked at in a real browser, and there is no {absent}."
        if os.environ.get("VARMIX_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def opened(browser, written):
    """Yield a function that opens a page; afterwards check that no page logged an error."""
    complaints, contexts = [], []

    def open_page(name="index.html", width=1280, **settings):
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}, **settings))
        tab = contexts[-1].new_page()
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
        tab.goto((written / name).as_uri())
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def lines(tab):
    return tab.locator("[data-plot]").first.locator("path[data-arm]")


def ground(tab):
    return tab.evaluate("getComputedStyle(document.body).backgroundColor")


def test_a_click_in_the_legend_hides_a_line_and_another_brings_it_back(opened):
    tab = opened()
    button = tab.get_by_role("button", name="blob 3")
    assert lines(tab).count() == 7
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert lines(tab).count() == 6
    assert tab.locator("[data-plot]").first.locator("path[data-arm='2']").count() == 0
    button.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    assert lines(tab).count() == 7
    tab.get_by_role("button", name="Hide all").first.click()
    assert lines(tab).count() == 0
    tab.get_by_role("button", name="Show all").first.click()
    assert lines(tab).count() == 7


def test_arms_beyond_the_colours_differ_by_their_dashes(opened):
    tab = opened()
    looks = lines(tab).evaluate_all(
        "paths => paths.map(p => getComputedStyle(p).stroke + getComputedStyle(p).strokeDasharray)"
    )
    assert len(set(looks)) == 7


def test_hovering_shows_the_values_sorted_and_only_those_that_are_visible(opened):
    tab = opened()
    stage = tab.locator(".stage").first
    tooltip = stage.locator(".tooltip")
    assert tooltip.is_hidden()
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert tooltip.is_visible()
    assert re.match(r"round \d+", tooltip.text_content())
    values = [float(v) for v in tooltip.locator("li b").all_text_contents()]
    assert len(values) == 7
    assert values == sorted(values, reverse=True)
    tab.get_by_role("button", name="blob 7").click()
    stage.hover()
    assert "blob 7" not in tooltip.text_content()
    assert stage.locator("circle").count() == 6
    tab.mouse.move(0, 0)
    assert tooltip.is_hidden()


def test_keys_move_along_the_lines_and_the_values_are_spoken(opened):
    tab = opened()
    stage = tab.locator(".stage").first
    spoken = tab.locator("[data-readout]").first
    assert spoken.get_attribute("aria-live") == "polite"
    stage.focus()
    expected = (
        ("ArrowRight", 0),
        ("ArrowRight", 2),
        ("End", 198),
        ("ArrowRight", 198),
        ("ArrowLeft", 196),
        ("Home", 0),
    )
    for key, place in expected:
        stage.press(key)
        assert spoken.text_content().startswith(f"round {place}: blob 7 0.25")
    assert stage.locator(".crosshair").count() == 1
    for _ in range(20):
        stage.press("ArrowRight")
    assert "blob 2" not in spoken.text_content()  # it has no value there
    stage.press("Escape")
    assert spoken.text_content() == ""
    assert stage.locator(".crosshair").count() == 0


def test_logarithmic_axes_leave_out_what_has_no_logarithm(opened):
    tab = opened()
    stage = tab.locator(".stage").first
    before = lines(tab).first.get_attribute("d")
    tab.get_by_label("logarithmic y").first.check()
    after = lines(tab).first.get_attribute("d")
    assert before.count("L") - after.count("L") == 10  # ten zeros at the beginning
    assert "weight (log)" in stage.text_content()
    tab.get_by_label("logarithmic x").first.check()
    stage.focus()
    stage.press("Home")
    assert tab.locator("[data-readout]").first.text_content().startswith("round 2:")
    for path in lines(tab).evaluate_all("paths => paths.map(p => p.getAttribute('d'))"):
        assert not re.search("NaN|Infinity", path)
    tab.get_by_label("logarithmic y").first.uncheck()
    tab.get_by_label("logarithmic x").first.uncheck()
    assert lines(tab).first.get_attribute("d") == before


def test_the_theme_follows_the_system_until_it_is_chosen_and_is_remembered(opened):
    tab = opened(color_scheme="dark")
    dark = ground(tab)
    tab.get_by_role("button", name="Light theme").click()
    light = ground(tab)
    assert light != dark
    tab.reload()
    assert ground(tab) == light
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.get_by_role("button", name="Dark theme").count() == 0
    assert ground(tab) == "rgb(255, 255, 255)"


def test_a_page_without_storage_still_changes_its_theme(opened):
    tab = opened(color_scheme="light")
    tab.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('forbidden'); } })"
    )
    tab.reload()
    light = ground(tab)
    tab.get_by_role("button", name="Dark theme").click()
    assert ground(tab) != light


def test_touching_reads_values_and_touching_elsewhere_puts_them_away(opened):
    tab = opened(width=360, has_touch=True)
    stage = tab.locator(".stage").first
    stage.tap()
    assert stage.locator(".tooltip").is_visible()
    tab.locator("h2").first.tap()
    assert stage.locator(".tooltip").is_hidden()


def test_without_javascript_there_is_a_table(opened):
    tab = opened(java_script_enabled=False)
    assert tab.locator("[data-excuse]").first.is_visible()
    tab.locator("[data-plot] summary").first.click()
    assert tab.locator("[data-plot] table").first.is_visible()
    assert tab.locator(".stage").first.is_hidden()
    assert tab.locator("#theme").is_hidden()


@pytest.mark.parametrize("name", ["index.html", "benchmarks.html"])
@pytest.mark.parametrize("width", [320, 768, 1280])
def test_no_page_is_wider_than_its_window(opened, name, width):
    tab = opened(name, width=width)
    for closed in tab.locator("details").all():
        closed.evaluate("details => { details.open = true; }")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_a_plot_is_drawn_again_when_the_window_changes(opened):
    tab = opened()
    tab.set_viewport_size({"width": 360, "height": 700})
    stage = tab.locator(".stage").first
    width = round(stage.bounding_box()["width"])
    assert width < 360
    tab.wait_for_function("w => document.querySelector('.stage svg').viewBox.baseVal.width === w", arg=width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_seen_is_not_blank(opened, tmp_path, scheme):
    from matplotlib.image import imread

    tab = opened(color_scheme=scheme)
    tab.screenshot(path=tmp_path / "page.png", full_page=True)
    for part in (".card", ".stage"):
        tab.locator(part).first.screenshot(path=tmp_path / "part.png")
        pixels = imread(tmp_path / "part.png")[..., :3]
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50
    whole = imread(tmp_path / "page.png")[..., :3]
    assert whole.std() > 0.05
    assert (whole.mean() < 0.5) == (scheme == "dark")
