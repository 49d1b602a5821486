"""Pages made from findings: storage, rendering, and a check that the pages of this tree are up to date."""

import json
import re
from dataclasses import replace

import pytest

from lab import publish
from lab.publish import JUDGED_VERDICTS, Published
from lab.reproduce.findings import Claim, Details, Findings, Picture

TABLE = Details(("data set", "gain"), [("adult", "1.5x [1, 2]"), ("a|b", "2x [?]")])
JUDGED = Claim("Small", "It is small.", "0.5x [0.4, 0.6]", "holds", "12 seeds", details=TABLE, note="A hint.")
LOST = Claim("Large", "It is large.", "3 of 4", "does not hold", "12 seeds", beyond=True, details=TABLE)
UNSURE = Claim("Unsure", "It is unsure.", "1x [?]", "too few runs", "1 seed")
OTHER = Claim("Seen", "It was seen.", "7", "measured", "12 seeds", beyond=True)
PICTURE = {"file": "demo.png", "caption": "A caption.", "description": "A line."}
DEMO = Published(
    "demo",
    "A demonstration",
    [JUDGED, LOST, OTHER, UNSURE],
    [PICTURE],
    ["How."],
    {"runs": 5, "hours": 1.5, "versions": {}},
    {},
)
FIGURE = {
    "caption": "Seen from facts.",
    "description": "Dots.",
    "x_label": "loss",
    "line": 1.0,
    "log": True,
    "rows": {"adult": {"even": [0.5, 0.4, 0.6], "learned": [2.0, 1.0, 4.0]}, "covtype": {"learned": [3.0, 2.0, 5.0]}},
}
GONE = replace(DEMO, pictures=[], facts={"figure": FIGURE})  # no records, so no pictures


def read_dots(drawn):
    """Return the values of every arm in a figure of dots, from top to bottom."""
    (panel,) = drawn.axes
    marked = [line for line in panel.get_lines() if line.get_marker() not in ("None", "", None)]
    return {line.get_label(): list(line.get_xdata()) for line in marked}


def test_findings_are_kept_and_read_back(tmp_path):
    DEMO.write(tmp_path / "demo.json")
    again = Published.read(tmp_path / "demo.json")
    assert again.claims[0].details.columns == list(TABLE.columns)
    again.write(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "demo.json").read_bytes()


def test_a_claim_in_a_file_is_checked_like_any_other(tmp_path):
    DEMO.write(tmp_path / "demo.json")
    body = json.loads((tmp_path / "demo.json").read_text())
    body["claims"][0]["number"] = "x" * 40
    (tmp_path / "demo.json").write_text(json.dumps(body))
    with pytest.raises(ValueError, match="number of a claim"):
        Published.read(tmp_path / "demo.json")


def test_the_summary_counts_and_lists_what_was_judged_and_nothing_else():
    page = publish.render_index([DEMO])
    assert "2 claims, 1 hold, 1 do not hold; 1 more need more runs" in page
    assert [line.split(" | ")[:2] for line in page.splitlines() if line.startswith("| [")] == [
        ["| [Small](demo.md)", "0.5x [0.4, 0.6]"],
        ["| [Large](demo.md)", "3 of 4"],
    ]
    assert "Seen" not in page
    assert "Unsure" not in page


def test_a_page_begins_with_its_figure_and_shows_every_claim_with_its_table():
    page = publish.render_experiment(DEMO)
    assert page.index("demo.png") < page.index("| claim |") < page.index("<details>")
    for claim in DEMO.claims:
        assert claim.said in page
    assert page.count("| adult | 1.5x [1, 2] |") == 2  # one table in view, the other folded
    assert "| a/b |" in page  # a bar would end the cell
    assert page.count("<details>") == page.count("</details>")


def test_a_page_without_records_begins_with_the_figure_that_is_drawn_from_facts():
    page = publish.render_experiment(GONE)
    assert page.index("![Dots.](demo.png)\n\nSeen from facts.\n") < page.index("| claim |")
    assert "Seen from facts." not in publish.render_experiment(replace(GONE, pictures=[PICTURE]))
    assert "demo.png" not in publish.render_experiment(replace(GONE, facts={}))


def test_a_figure_from_facts_has_one_dot_and_one_interval_a_value():
    drawn = GONE.figure.draw(GONE.facts)
    assert read_dots(drawn) == {"even": [0.5], "learned": [2.0, 3.0]}
    (panel,) = drawn.axes
    ends = [segment[:, 0].tolist() for lines in panel.collections for segment in lines.get_segments()]
    assert sorted(ends) == [[0.4, 0.6], [1.0, 4.0], [2.0, 5.0]]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["adult", "covtype"]
    assert panel.get_xscale() == "log"
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["even", "learned"]
    assert drawn.get_figwidth() <= 6.4


def test_dots_of_a_row_lie_nearer_to_its_label_than_to_any_other():
    rows = {name: {arm: [1.0, 1.0, 1.0] for arm in "abcd"} for name in ("one", "two", "three")}
    (panel,) = publish.DotFigure(**{**FIGURE, "rows": rows}).draw({}).axes
    heights = [line.get_ydata() for line in panel.get_lines() if len(line.get_xdata()) == 3]
    assert len(heights) == 4
    for places in heights:
        assert [round(float(-place)) for place in places] == [0, 1, 2]


@pytest.mark.parametrize(("line", "drawn"), [(1.0, True), (0.0, True), (None, False)])
def test_a_figure_from_facts_has_a_line_where_one_is_asked_for(line, drawn):
    (panel,) = publish.DotFigure(**{**FIGURE, "line": line, "log": False}).draw({}).axes
    upright = [list(found.get_xdata()) for found in panel.get_lines() if found.get_marker() == "None"]
    assert upright == ([[line, line]] if drawn else [])
    assert panel.get_xscale() == "linear"


def test_a_figure_may_be_of_a_fact_that_is_kept_by_arm():
    kept = {
        "learned": {"adult": [2, 1, 4], "covtype": [3, 2, 5]},
        "even": {"covtype": [1, 1, 1]},
        "odd": {"w8a": [1, 1, 1]},
    }
    chosen = publish.DotFigure(**{**FIGURE, "rows": "ratios", "arms": ["even", "learned"]}).draw({"ratios": kept})
    assert read_dots(chosen) == {"learned": [2, 3], "even": [1]}
    assert [label.get_text() for label in chosen.axes[0].get_yticklabels()] == ["adult", "covtype"]  # w8a has neither


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": {"adult": {"even": [0.5, 0.0, 0.6]}}}, r"positive values, got .*log=False"),
        ({"rows": {"adult": {str(arm): [1, 1, 1] for arm in range(8)}}}, "1 to 7 arms, got 8"),
        ({"rows": {}}, "1 to 7 arms, got 0"),
        ({"rows": "ratio"}, r"'ratio', which does not exist. Choose from \['ratios'\]"),
        ({"arms": ["even", "evne"]}, r"in no row: \['evne'\]"),
    ],
)
def test_a_figure_that_cannot_be_drawn_says_why(changed, message):
    with pytest.raises(ValueError, match=message):
        publish.DotFigure(**{**FIGURE, **changed}).draw({"ratios": {}})


def test_a_figure_is_written_where_it_changed_and_holds_no_date(tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "PAGES", tmp_path / "results")
    path = tmp_path / "results" / "demo.png"
    assert publish.draw_figures([GONE]) == [path]
    first = path.read_bytes()
    assert b"tEXt" not in first  # where dates and versions are
    assert b"tIME" not in first
    assert publish.draw_figures([GONE]) == []
    other = {**FIGURE, "rows": {"adult": {"even": [0.7, 0.4, 0.8]}}}
    assert publish.draw_figures([replace(GONE, facts={"figure": other})]) == [path]
    assert path.read_bytes() != first
    assert publish.draw_figures([replace(GONE, pictures=[PICTURE]), replace(GONE, facts={})]) == []


def test_figures_are_drawn_with_the_pages_and_left_alone_by_a_check(tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    monkeypatch.setattr(publish, "PAGES", tmp_path / "results")
    monkeypatch.setattr(publish, "PAGES_WITH_BLOCKS", ())
    monkeypatch.setattr(publish, "read_findings", lambda: [GONE])
    pages = ["results/demo.md", "results/index.md"]
    assert publish.run_publish(None, [], check=True) == pages
    assert not (tmp_path / "results").exists()
    assert publish.run_publish(None, [], check=False) == [*pages, "results/demo.png"]
    assert (tmp_path / "results" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert publish.run_publish(None, [], check=False) == []


@pytest.mark.parametrize(
    ("made", "line"),
    [
        ({"runs": 1801, "hours": 1.5, "versions": {"numpy": "2"}}, "1,801 runs in 1.5 CPU hours; numpy 2."),
        ({"runs": 1801, "hours": 0, "versions": {"numpy": "2"}}, "1,801 runs; numpy 2."),
        ({"runs": 1801, "hours": 0, "versions": {}}, "1,801 runs."),
        ({"runs": 0, "hours": 0, "versions": {"numpy": "2"}}, None),
    ],
)
def test_the_line_about_runs_says_what_was_counted(made, line):
    page = publish.render_experiment(replace(DEMO, made=made))
    assert re.findall(r"^[\d,]+ runs.*", page, re.MULTILINE) == ([line] if line else [])


def test_what_was_found_in_records_is_kept_with_its_figures(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    from lab.reproduce.records import Record, Records

    plan = [{"seed": 0}, {"seed": 1}]

    class Experiment:
        plan = staticmethod(lambda mode: plan)
        then = staticmethod(lambda mode, records: [])
        facts = staticmethod(lambda records: {"seeds": len(records)})
        findings = staticmethod(lambda records: Findings("demo", "D", [JUDGED], [Picture("p", "c", "d", Figure)]))

    monkeypatch.setattr(publish, "import_experiment", lambda name: Experiment)
    monkeypatch.setattr(publish, "FINDINGS", tmp_path / "findings")
    monkeypatch.setattr(publish, "PAGES", tmp_path / "pages")
    (tmp_path / "findings").mkdir()
    for config, version in zip(plan, ("1", "2"), strict=True):
        Records(tmp_path / "records").write(Record("demo", config, {}, {"numpy": version}, 1.0, 1800.0))
    assert publish.collect_findings(tmp_path, ["demo"]) == ["demo"]
    kept = Published.read(tmp_path / "findings" / "demo.json")
    assert kept.made == {"runs": 2, "hours": 1.0, "versions": {"numpy": "1 and 2"}}
    assert kept.facts == {"seeds": 2}
    assert (tmp_path / "pages" / "p.png").exists()
    Records(tmp_path / "records").write(Record("demo", {"seed": 2}, {}, {}, 1.0, 1.0))
    with pytest.raises(publish.CommandError, match=r"1 of 3 records of demo .*VARMIX_DATA"):
        publish.collect_findings(tmp_path, ["demo"])
    with pytest.raises(publish.CommandError, match="no records"):
        publish.collect_findings(tmp_path / "nowhere", ["demo"])


def test_the_pages_of_this_tree_are_what_the_findings_say():
    assert publish.run_publish(None, [], check=True) == []


def test_every_experiment_is_published():
    assert [each.experiment for each in publish.read_findings()] == list(publish.list_experiments())


def test_every_picture_of_a_page_exists_and_no_other():
    wanted = {picture["file"] for each in publish.read_findings() for picture in each.list_pictures()}
    assert {path.name for path in publish.PAGES.glob("*.png")} == wanted


def test_no_number_with_an_interval_is_written_by_hand():
    """In pages that quote results, intervals appear only between the marks of generated text."""
    for name in publish.PAGES_WITH_BLOCKS:
        by_hand = publish.BLOCK.sub("", (publish.ROOT / name).read_text("utf-8"))
        prose = re.sub(r"```.*?```", "", by_hand, flags=re.DOTALL)
        assert not re.search(r"\d \[\d", prose), name


def test_losses_are_listed_like_gains():
    shown = publish.render_index(publish.read_findings())
    for each in publish.read_findings():
        for claim in each.claims:
            row = f"| [{claim.name}]({each.experiment}.md) | {claim.number} |"
            assert (row in shown) == (claim.verdict in JUDGED_VERDICTS)


def test_the_page_on_when_it_pays_is_short_and_names_losses():
    text = (publish.ROOT / "docs" / "when_it_pays.md").read_text("utf-8")
    assert len(text.split()) <= 600
    assert "does not hold" in text
    assert text.count("![") == 1
