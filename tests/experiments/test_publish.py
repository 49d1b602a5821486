"""Pages that are made from findings: what is kept, what is rendered, and that the pages of this tree are up to date."""

import json
import re

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
    assert "2 claims 1 hold, 1 do not hold; 1 more need more runs" in page
    assert [line.split(" | ")[1:3] for line in page.splitlines() if line.startswith("| [demo]")] == [
        ["Small", "0.5x [0.4, 0.6]"],
        ["Large", "3 of 4"],
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
    with pytest.raises(publish.Refusal, match="no records"):
        publish.collect_findings(tmp_path / "nowhere", ["demo"])


def test_the_pages_of_this_tree_are_what_the_findings_say():
    assert publish.run_publish(None, [], check=True) == []


def test_every_experiment_is_published():
    assert [each.experiment for each in publish.read_findings()] == list(publish.list_experiments())


def test_every_picture_of_a_page_exists_and_no_other():
    wanted = {picture["file"] for each in publish.read_findings() for picture in each.pictures}
    assert {path.name for path in publish.PAGES.glob("*.png")} == wanted


def test_no_number_with_an_interval_is_written_by_hand():
    """In the pages that quote results, intervals stand between the marks of what a script has written."""
    for name in publish.PAGES_WITH_BLOCKS:
        by_hand = publish.BLOCK.sub("", (publish.ROOT / name).read_text("utf-8"))
        prose = re.sub(r"```.*?```", "", by_hand, flags=re.DOTALL)
        assert not re.search(r"\d \[\d", prose), name


def test_losses_are_listed_like_gains():
    shown = publish.render_index(publish.read_findings())
    for each in publish.read_findings():
        for claim in each.claims:
            assert (f"| {claim.name} | {claim.number} |" in shown) == (claim.verdict in JUDGED_VERDICTS)
