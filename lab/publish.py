"""Publish: what full runs showed, as pages of the documentation.

    python -m lab publish results/full     # records to lab/results/findings, figures and pages
    python -m lab publish                  # the pages alone, from lab/results/findings
    python -m lab publish --check          # whether they are what the findings say

Findings are kept as one JSON file an experiment.  Everything that pages say in numbers is made from these files: the pages in
`docs/results`, and the parts of `README.md` and `docs/when_it_pays.md` between the marks `<!-- results: NAME -->` and
`<!-- end -->`.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.files import atomic_write
from lab.reproduce.catalogue import import_experiment, list_experiments
from lab.reproduce.findings import Claim, Details, Findings
from lab.reproduce.records import Record, Records
from varmix.meter import Interval

ROOT = Path(__file__).resolve().parents[1]
FINDINGS = ROOT / "lab" / "results" / "findings"
PAGES = ROOT / "docs" / "results"
MARKS = {"holds": "✓", "holds in part": "◐", "does not hold": "✗", "too few runs": "…", "measured": "–"}
JUDGED = ("holds", "holds in part", "does not hold")
BLOCK = re.compile(r"(<!-- results: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
PAGES_WITH_BLOCKS = ("README.md", "docs/when_it_pays.md", "docs/index.md")


@dataclass(frozen=True)
class Published:
    """The findings of one experiment, as they are kept.

    Parameters
    ----------
    experiment, title
        Its word on the command line, and what it is about.
    claims
        What was claimed and measured.
    pictures
        File name, caption and description of every figure.
    notes
        The protocol.
    made
        Runs, hours, and versions behind the numbers.
    facts
        Numbers that other pages quote, by name.
    """

    experiment: str
    title: str
    claims: Sequence[Claim]
    pictures: Sequence[Mapping[str, str]]
    notes: Sequence[str]
    made: Mapping[str, Any]
    facts: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Published":
        """Return the findings in a file."""
        body = json.loads(path.read_text("utf-8"))
        claims = [
            Claim(**{**claim, "details": claim["details"] and Details(**claim["details"])}) for claim in body["claims"]
        ]
        return cls(**{**body, "claims": claims})

    def write(self, path: Path) -> None:
        """Write the findings aside and rename the file."""
        with atomic_write(path) as file:
            file.write((json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


def collect_findings(folder: Path, names: Sequence[str]) -> list[str]:
    """Turn the full runs in a folder into files of findings and figures; return the experiments that had any."""
    from lab import plots

    found = []
    for name in names or list_experiments():
        records = _read_records(folder, name)
        if not records:
            continue
        findings = import_experiment(name).findings(records)
        for picture in findings.pictures:
            plots.save(plots.render_picture(picture), PAGES, picture.name, kinds=("png",), dpi=140)
        _publish(findings, records).write(FINDINGS / f"{name}.json")
        found.append(name)
    return found


def _read_records(folder: Path, name: str) -> list[Record]:
    experiment, records = import_experiment(name), Records(folder / "records")
    planned = records.read(name, experiment.plan("full"))
    return [*planned, *records.read(name, experiment.then("full", planned))] if planned else []


def _publish(findings: Findings, records: Sequence[Record]) -> Published:
    versions = Counter((name, made) for record in records for name, made in record.versions.items())
    return Published(
        findings.experiment,
        findings.title,
        findings.claims,
        [
            {"file": f"{each.name}.png", "caption": each.caption, "description": each.description}
            for each in findings.pictures
        ],
        findings.notes,
        {
            "runs": len(records),
            "hours": round(sum(record.cpu_seconds for record in records) / 3600, 2),
            "versions": {name: made for name, made in sorted(versions)},
        },
        _list_facts(findings.experiment, records),
    )


def _list_facts(name: str, records: Sequence[Record]) -> dict[str, Any]:
    """Return the numbers that README and `when_it_pays` quote: for convex problems the ratios by arm and task."""
    if name != "convex":
        return {}
    from lab.experiments.convex.table import Table

    table = Table(records)
    ratios = {arm: {task: table.relative(task, 32, arm) for task in table.tasks} for arm in table.arms}
    return {"ratios": {arm: {t: list(r) for t, r in row.items() if r is not None} for arm, row in ratios.items()}}


def read_findings() -> list[Published]:
    """Return all findings that are kept, in the order of the paper."""
    paths = [FINDINGS / f"{name}.json" for name in list_experiments()]
    return [Published.read(path) for path in paths if path.exists()]


def render_pages(found: Sequence[Published]) -> dict[Path, str]:
    """Return every page that is made from findings, by its path."""
    pages = {PAGES / f"{each.experiment}.md": render_experiment(each) for each in found}
    pages[PAGES / "index.md"] = render_index(found)
    blocks = render_blocks(found)
    for name in PAGES_WITH_BLOCKS:
        path = ROOT / name
        pages[path] = BLOCK.sub(lambda match: f"{match[1]}{blocks[match[2]]}{match[3]}", path.read_text("utf-8"))
    return pages


def render_index(found: Sequence[Published]) -> str:
    """Return the summary: one line a claim that was judged."""
    judged = [(each, claim) for each in found for claim in each.claims if claim.verdict in JUDGED]
    counts = Counter(claim.verdict for _, claim in judged)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in JUDGED if counts[verdict])
    rows = [
        (f"[{each.experiment}]({each.experiment}.md)", claim.name, claim.number, _mark(claim)) for each, claim in judged
    ]
    links = "\n".join(f"* [{each.title}]({each.experiment}.md)" for each in found)
    names = "\n".join(each.experiment for each in found)
    return f"""# Results

What `python -m lab reproduce --full` measured. Of {len(judged)} claims {told}. Brackets hold 95 % intervals; each name leads to
its figure, its protocol, and what was measured without a claim.

{_render_table(("experiment", "claim", "number", "verdict"), rows)}
{links}

```{{toctree}}
:hidden:

{names}
```
"""


def render_experiment(each: Published) -> str:
    """Return the page of an experiment: its figure, its claims, one table of numbers, and the rest folded."""
    first, *others = each.pictures or [None]
    rows = [(claim.name, claim.number, _mark(claim)) for claim in each.claims]
    shown = next((claim for claim in each.claims if claim.details), None)
    parts = [f"# {each.title}\n"]
    if first is not None:
        parts.append(_render_picture(first))
    parts.append(_render_table(("claim", "number", "verdict"), rows))
    if shown is not None and shown.details is not None:
        parts.append(f"**{shown.name}.** {shown.said}\n\n{_render_table(shown.details.columns, shown.details.rows)}")
    parts.append(_fold("What each claim says", "\n".join(_render_claim(claim, shown) for claim in each.claims)))
    if others:
        parts.append(_fold("More figures", "\n".join(_render_picture(other) for other in others)))
    made = each.made
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    runs = f"{made['runs']:,} runs in {made['hours']:g} CPU hours; {versions}."
    remark = [made["remark"]] if "remark" in made else []
    parts.append(_fold("Protocol", "\n\n".join([*each.notes, *remark, runs]) + "\n"))
    return "\n".join(parts)


def _render_claim(claim: Claim, shown: Claim | None) -> str:
    source = "Beyond the paper" if claim.beyond else "The paper"
    note = f" {claim.note}" if claim.note else ""
    text = f"**{claim.name}: {claim.number}** ({_mark(claim)}). {source}: {claim.said} *{claim.settings}.*{note}\n"
    if claim.details is None or claim is shown:
        return text
    return f"{text}\n{_render_table(claim.details.columns, claim.details.rows)}"


def _mark(claim: Claim) -> str:
    return f"{MARKS[claim.verdict]} {claim.verdict}"


def _render_picture(picture: Mapping[str, str]) -> str:
    return f"![{picture['description']}]({picture['file']})\n\n{picture['caption']}\n"


def _render_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _fold(title: str, text: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n</details>\n"


README_TASKS = {
    "california_housing": "house prices (california_housing)",
    "kdd_bio": "rare proteins (kdd_bio)",
    "adult": "income (adult)",
}


def render_blocks(found: Sequence[Published]) -> dict[str, str]:
    """Return the parts of other pages that are made from findings, by name."""
    by_name = {each.experiment: each for each in found}
    blocks = {f"claims {name}": _list_claims(each) for name, each in by_name.items()}
    if "convex" in by_name:
        ratios = _read_ratios(by_name["convex"])
        blocks["figure"] = _render_figure(ratios, "docs/results/")
        blocks["figure on the landing page"] = _render_figure(ratios, "results/")
        blocks["pays"] = _render_pays(ratios, by_name)
        blocks["convex"] = _render_convex(ratios)
    return blocks


def _list_claims(each: Published) -> str:
    rows = [
        f"* {claim.name}: **{claim.number}** ({_mark(claim)})\n" for claim in each.claims if claim.verdict in JUDGED
    ]
    return "\n" + "".join(rows) + "\n"


Ratios = Mapping[str, Mapping[str, Interval]]
"""Final excess beside that of reshuffling, by arm and task."""


def _read_ratios(convex: Published) -> Ratios:
    return {arm: {task: Interval(*ratio) for task, ratio in row.items()} for arm, row in convex.facts["ratios"].items()}


MIXTURE, RESPLIT, SHUFFLED_AGAIN = "mixture", "mixture, cross", "reshuffling again"


def _render_figure(ratios: Ratios, folder: str) -> str:
    ends = ", ".join(f"{ratios[MIXTURE][task]} ({title})" for task, title in README_TASKS.items())
    return (
        f"![Excess training loss against gradient evaluations on three data sets: varmix ends below plain shuffling]"
        f"({folder}readme.png)\n\n"
        f"*Linear models trained by SGD on real data, each method at its own best step, mean and 95 % band of 12 seeds. varmix ends at "
        f"this part of the excess loss of plain shuffling: {ends}. `python -m lab publish` draws the figure.*\n"
    )


def _render_pays(ratios: Ratios, found: Mapping[str, Published]) -> str:
    networks = found["networks"].facts["held_out"]
    return "".join(
        f"* {line}\n"
        for line in (
            f"**Pays: models with convex losses on uneven data.** {_sum_up(ratios)}",
            f"**Pays: a rare class, many points, few epochs.** An MLP on covtype ended at {networks['rare class, covtype']} of plain "
            "shuffling's held-out loss.",
            f"**Changes nothing: even data.** Eight networks on MNIST: {networks['MNIST']} of its held-out loss.",
            f"**Loses: a long tail with a balanced loss.** {networks['long tail']} of it; weight the classes in the loss instead.",
            "**Shows only with a step that is as long as the noise allows**, and in the training loss more than in the held-out loss.",
        )
    )


def _sum_up(ratios: Ratios) -> str:
    row = ratios[MIXTURE].values()
    below, above = sum(r.high < 1 for r in row), sum(r.low > 1 for r in row)
    return (
        f"All {len(row)} tasks that were tried: {below} better, {len(row) - below - above} undecided, {above} worse than plain "
        f"shuffling, at {min(r.value for r in row):.2f} to {max(r.value for r in row):.2f} of its excess training loss (geometric mean "
        f"{combine_ratios(list(row))})."
    )


def _render_convex(ratios: Ratios) -> str:
    others = combine_ratios([r for task, r in ratios[MIXTURE].items() if task not in LISTED_TASKS])
    return (
        f"\nLogistic regression and least squares by SGD, each method at its own best step, 12 seeds. {_sum_up(ratios)} Settings were "
        f'chosen with the first seven in view; on the others the mean is {others}. With `resplit="norms"`, which cuts groups anew '
        f"by the norms last seen, the mean over all is {combine_ratios(list(ratios[RESPLIT].values()))}. Plain shuffling beside itself "
        f"has {combine_ratios(list(ratios[SHUFFLED_AGAIN].values()))}: that is how far chance goes.\n\n"
    )


def draw_ratios(ratios: Ratios) -> "Figure":
    """Draw the final excess of every task beside that of plain shuffling."""
    from lab.plots import COLORS, format_axis, make_panels

    figure, (panel,) = make_panels(1, width=6.4, height=3.6)
    tasks = list(ratios[MIXTURE])
    arms = {MIXTURE: "varmix", RESPLIT: 'varmix, resplit="norms"', SHUFFLED_AGAIN: "shuffling again (chance)"}
    for index, (arm, label) in enumerate(arms.items()):
        places = [-row + 0.22 * (1 - index) for row in range(len(tasks))]
        for place, task in zip(places, tasks, strict=True):
            if (ratio := ratios[arm].get(task)) is not None:
                panel.plot([ratio.low, ratio.high], [place, place], color=COLORS[index], linewidth=1.2)
                panel.plot([ratio.value], [place], "osD"[index], color=COLORS[index], markersize=4, label=label)
                label = ""
    panel.axvline(1.0, color="black", linewidth=0.8)
    panel.set_yticks([-row for row in range(len(tasks))], tasks)
    panel.set(xscale="log", xlabel="final excess loss / that of plain shuffling (left of one is better)")
    panel.legend(loc="upper center", bbox_to_anchor=(0.4, 1.12), ncols=3)
    format_axis(panel.xaxis)
    return figure


def run_publish(folder: Path | None, names: Sequence[str], check: bool) -> list[str]:
    """Write, or check, all pages; return a line for each that was written, or that is not what it should be."""
    told = [f"findings of {name} written" for name in collect_findings(folder, names)] if folder else []
    for path, text in render_pages(read_findings()).items():
        if path.exists() and path.read_text("utf-8") == text:
            continue
        told.append(path.relative_to(ROOT).as_posix())
        if not check:
            with atomic_write(path) as file:
                file.write(text.encode())
    return told
