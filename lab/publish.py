"""Publish: turn full runs into findings, figures and pages of the documentation.

    python -m lab publish results/full     # records to lab/results/findings and figures, then the pages
    python -m lab publish                  # only the pages, from lab/results/findings
    python -m lab publish --check          # fail if a page differs from the findings

There is one JSON file of findings per experiment. If the records of its runs no longer exist, its figure is drawn from
this file too. Numbers in pages are made from these files: all of `docs/results`, and the parts of other pages between
the marks `<!-- results: NAME -->` and `<!-- end -->`.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.commands import CommandError, unknown_name
from lab.experiments.convex.arms import AGAIN, CROSS, DEFAULT, MIXTURE, ONCE
from lab.experiments.convex.comparison import combine_tasks
from lab.experiments.convex.figures import SHOWN_TASKS
from lab.experiments.convex.tasks import LISTED_TASKS
from lab.files import atomic_write
from lab.reproduce.catalogue import import_experiment, list_experiments
from lab.reproduce.findings import JUDGED_VERDICTS, Claim, Details, Findings, Verdict
from lab.reproduce.records import Record, Records
from lab.reproduce.terminal import VERDICT_MARKS
from varmix.meter import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
FINDINGS = ROOT / "lab" / "results" / "findings"
PAGES = ROOT / "docs" / "results"
BLOCK = re.compile(r"(<!-- results: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
PLURALS: dict[Verdict, str] = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}
PAGES_WITH_BLOCKS = ("README.md", "docs/index.md", "docs/when_it_pays.md", "docs/howto/cold_start.md")
COLD_STARTS = ROOT / "lab" / "results" / "cold.json"


@dataclass(frozen=True)
class Published:
    """The findings of one experiment, as stored in its JSON file.

    Parameters
    ----------
    experiment : str
        Name of the experiment on the command line.
    title : str
        Title of its page.
    claims : sequence of Claim
        Claims with their numbers and verdicts.
    pictures : sequence of mapping
        File name, caption and description of every figure.
    notes : sequence of str
        Paragraphs of the protocol.
    made : mapping
        Runs, hours and versions behind the numbers, and optionally a remark.
    facts : mapping
        Numbers by name that other pages quote. The fact "figure" has the settings of a `DotFigure`, for a page without
        pictures.
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
        """Read the findings from a file."""
        body = json.loads(path.read_text("utf-8"))
        claims = [
            Claim(**{**claim, "details": claim["details"] and Details(**claim["details"])}) for claim in body["claims"]
        ]
        return cls(**{**body, "claims": claims})

    @property
    def figure(self) -> "DotFigure | None":
        """Figure to draw from facts; None if the page has pictures from records, or no figure."""
        return DotFigure(**self.facts["figure"]) if "figure" in self.facts and not self.pictures else None

    def list_pictures(self) -> list[Mapping[str, str]]:
        """Return file name, caption and description of every figure of the page, including one drawn from facts."""
        figure = self.figure
        if figure is None:
            return list(self.pictures)
        return [{"file": f"{self.experiment}.png", "caption": figure.caption, "description": figure.description}]

    def write(self, path: Path) -> None:
        """Write the findings to a file, atomically."""
        with atomic_write(path) as file:
            file.write((json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())


@dataclass(frozen=True)
class DotFigure:
    """Settings of a figure of dots with intervals: one row per label, one colour and shape per arm.

    Parameters
    ----------
    caption : str
        One or two sentences for the reader.
    description : str
        Description for readers who cannot see the figure.
    x_label : str
        Label of the horizontal axis.
    line : float or None
        Position of a vertical line; None for no line.
    log : bool
        Whether the axis is logarithmic.
    rows : mapping or str
        Value, low and high by row and arm, or the name of a fact that has them by arm and row.
    arms : sequence of str, optional
        Arms to draw. Default: all.
    """

    caption: str
    description: str
    x_label: str
    line: float | None
    log: bool
    rows: Mapping[str, Mapping[str, Sequence[float]]] | str
    arms: Sequence[str] | None = None

    def draw(self, facts: Mapping[str, Any]) -> "Figure":
        """Draw the figure.

        Parameters
        ----------
        facts : mapping
            Facts of the same experiment.

        Returns
        -------
        matplotlib.figure.Figure
            Figure made by `lab.plots.draw_dots`.

        Raises
        ------
        ValueError
            If the fact does not exist, or if an arm is in no row.
        """
        from lab.plots import draw_dots

        rows = self._find_rows(facts)
        known = {arm for row in rows.values() for arm in row}
        if unknown := set(self.arms or ()) - known:
            raise ValueError(
                f"The figure asks for arms that are in no row: {sorted(unknown)}. Choose from {sorted(known)}."
            )
        shown = {
            label: {arm: Interval(*row[arm]) for arm in self.arms or row if arm in row} for label, row in rows.items()
        }
        return draw_dots({label: row for label, row in shown.items() if row}, self.x_label, self.line, self.log)

    def _find_rows(self, facts: Mapping[str, Any]) -> Mapping[str, Mapping[str, Sequence[float]]]:
        if not isinstance(self.rows, str):
            return self.rows
        if self.rows not in facts:
            raise ValueError(
                f"The figure shows the fact {self.rows!r}, which does not exist. Choose from {sorted(facts)}."
            )
        return _turn_rows(facts[self.rows])


def _turn_rows(by_arm: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, dict[str, Sequence[float]]]:
    labels = dict.fromkeys(label for row in by_arm.values() for label in row)
    return {label: {arm: row[label] for arm, row in by_arm.items() if label in row} for label in labels}


def run_publish(folder: Path | None, names: Sequence[str], check: bool) -> list[str]:
    """Write all pages, or only check them; return a line for each file that was written or is out of date."""
    for name in names:
        if name not in list_experiments():
            raise unknown_name("experiment", name, list_experiments())
    collected = [f"findings of {name} written" for name in collect_findings(folder, names)] if folder else []
    found = read_findings()
    changed = [path for path, text in render_pages(found).items() if _write_changed(path, text.encode(), check)]
    if not check:
        changed += draw_figures(found)
    return collected + [path.relative_to(ROOT).as_posix() for path in changed]


def draw_figures(found: Sequence[Published]) -> list[Path]:
    """Draw the figures that are made from facts; return the files that changed."""
    from lab.plots import render_png

    figures = {PAGES / f"{each.experiment}.png": (each.figure, each.facts) for each in found}
    return [
        path
        for path, (figure, facts) in figures.items()
        if figure is not None and _write_changed(path, render_png(figure.draw(facts)))
    ]


def _write_changed(path: Path, content: bytes, check: bool = False) -> bool:
    """Return whether a file differs from its content; write it in this case, unless this is a check."""
    if path.exists() and path.read_bytes() == content:
        return False
    if not check:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(content)
    return True


def collect_findings(folder: Path, names: Sequence[str]) -> list[str]:
    """Write findings and figures from the full runs in a folder; return the experiments that have such runs."""
    from lab import plots

    found = []
    for name in names or list_experiments():
        records = _read_records(folder, name)
        if not records:
            continue
        findings = import_experiment(name).findings(records)
        for picture in findings.pictures:
            plots.save(plots.render_picture(picture), PAGES, picture.name, kinds=("png",), dpi=140)
        _make_published(findings, records).write(FINDINGS / f"{name}.json")
        found.append(name)
    if not found:
        raise CommandError(
            f"There are no records of full runs in {folder}. Make them with: python -m lab reproduce --full"
        )
    return found


def _read_records(folder: Path, name: str) -> list[Record]:
    """Return all records of an experiment; raise `CommandError` if there are records of unplanned runs."""
    experiment, records = import_experiment(name), Records(folder / "records")
    planned = records.read(name, experiment.plan("full"))
    found = [*planned, *records.read(name, experiment.then("full", planned))] if planned else []
    stored = len(list((folder / "records" / name).glob("*.json")))
    if stored > len(found):
        raise CommandError(
            f"{stored - len(found)} of {stored} records of {name} in {folder} belong to runs that are not planned "
            f"here, probably because data sets are missing. Set VARMIX_DATA to the folder with the data of these runs."
        )
    return found


def _make_published(findings: Findings, records: Sequence[Record]) -> Published:
    versions = {(name, made) for record in records for name, made in record.versions.items()}
    return Published(
        findings.experiment,
        findings.title,
        findings.claims,
        [
            {"file": f"{picture.name}.png", "caption": picture.caption, "description": picture.description}
            for picture in findings.pictures
        ],
        findings.notes,
        {
            "runs": len(records),
            "hours": round(sum(record.cpu_seconds for record in records) / 3600, 2),
            "versions": {
                name: " and ".join(sorted(made for other, made in versions if other == name))
                for name in sorted({name for name, _ in versions})
            },
        },
        import_experiment(findings.experiment).facts(records),
    )


def read_findings() -> list[Published]:
    """Return all stored findings, in the order of the paper."""
    paths = [FINDINGS / f"{name}.json" for name in list_experiments()]
    return [Published.read(path) for path in paths if path.exists()]


# -------------------------------------------------------------------------------------------------------------- pages


def render_pages(found: Sequence[Published]) -> dict[Path, str]:
    """Return all pages that are made from findings, by path."""
    pages = {PAGES / f"{each.experiment}.md": render_experiment(each) for each in found}
    pages[PAGES / "index.md"] = render_index(found)
    blocks = render_blocks(found)
    for name in PAGES_WITH_BLOCKS:
        path = ROOT / name
        pages[path] = BLOCK.sub(lambda match: f"{match[1]}{blocks[match[2]]}{match[3]}", path.read_text("utf-8"))
    return pages


def render_index(found: Sequence[Published]) -> str:
    """Return the summary page: one line per judged claim."""
    judged = [(each, claim) for each in found for claim in each.claims if claim.verdict in JUDGED_VERDICTS]
    counts = Counter(claim.verdict for _, claim in judged)
    counted = ", ".join(f"{counts[verdict]} {word}" for verdict, word in PLURALS.items() if counts[verdict])
    undecided = sum(claim.verdict == "too few runs" for each in found for claim in each.claims)
    counted += f"; {undecided} more need more runs" if undecided else ""
    rows = [(f"[{claim.name}]({each.experiment}.md)", claim.number, _mark(claim)) for each, claim in judged]
    links = "\n".join(f"* [{each.title}]({each.experiment}.md)" for each in found)
    names = "\n".join(each.experiment for each in found)
    return f"""# Results

Results of `python -m lab reproduce --full`. Of {len(judged)} claims, {counted}. Brackets are 95 % intervals. Each link
leads to the page of an experiment, with its figure, its protocol, and measurements without a claim.

{_render_table(("claim", "number", "verdict"), rows)}
{links}

```{{toctree}}
:hidden:

{names}
```
"""


def render_experiment(each: Published) -> str:
    """Return the page of an experiment: its figure, its claims and one table; the rest is folded."""
    pictures = each.list_pictures()
    rows = [(claim.name, claim.number, _mark(claim)) for claim in each.claims]
    shown = next((claim for claim in each.claims if claim.details), None)
    parts = [f"# {each.title}\n"]
    if pictures:
        parts.append(_render_picture(pictures[0]))
    parts.append(_render_table(("claim", "number", "verdict"), rows))
    if shown is not None and shown.details is not None:
        parts.append(f"**{shown.name}.** {shown.said}\n\n{_render_table(shown.details.columns, shown.details.rows)}")
    parts.append(_fold("What each claim says", "\n".join(_render_claim(claim, shown) for claim in each.claims)))
    if pictures[1:]:
        parts.append(_fold("More figures", "\n".join(map(_render_picture, pictures[1:]))))
    remark = [each.made["remark"]] if "remark" in each.made else []
    parts.append(_fold("Protocol", "\n\n".join([*each.notes, *remark, *_render_runs(each.made)]) + "\n"))
    return "\n".join(parts)


def _render_runs(made: Mapping[str, Any]) -> list[str]:
    """Return the line with runs, hours and versions; no line if there are no runs, no hours if they are unknown."""
    if not made["runs"]:
        return []
    hours = f" in {made['hours']:g} CPU hours" if made["hours"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return [f"{made['runs']:,} runs{hours}{versions and '; '}{versions}."]


def _render_claim(claim: Claim, shown: Claim | None) -> str:
    source = "Beyond the paper" if claim.beyond else "The paper"
    note = f" {claim.note}" if claim.note else ""
    text = f"**{claim.name}: {claim.number}** ({_mark(claim)}). {source}: {claim.said} *{claim.settings}.*{note}\n"
    if claim.details is None or claim is shown:
        return text
    return f"{text}\n{_render_table(claim.details.columns, claim.details.rows)}"


def _mark(claim: Claim) -> str:
    mark, _ = VERDICT_MARKS.get(claim.verdict, ("", ""))
    return f"{mark} {claim.verdict}".strip()


def _render_picture(picture: Mapping[str, str]) -> str:
    return f"![{picture['description']}]({picture['file']})\n\n{picture['caption']}\n"


def _render_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _fold(title: str, text: str) -> str:
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n</details>\n"


# -------------------------------------------------------------------------------------------- parts of other pages


def render_blocks(found: Sequence[Published]) -> dict[str, str]:
    """Return the parts of other pages that are made from findings, by name."""
    by_name = {each.experiment: each for each in found}
    blocks = {f"claims {name}": _list_claims(each) for name, each in by_name.items()}
    if {"convex", "networks"} <= set(by_name):
        ratios = _read_ratios(by_name["convex"].facts["ratios"])
        once = _read_ratios(by_name["convex"].facts["beside once"])
        blocks["figure"] = _render_figure(ratios, once, "docs/results/")
        blocks["figure on the landing page"] = _render_figure(ratios, once, "results/")
        blocks["pays"] = _render_pays(ratios, once, _read_ratios(by_name["networks"].facts["held_out"]))
        blocks["convex"] = _render_convex(ratios, once)
    blocks["cold start"] = _render_cold_starts(json.loads(COLD_STARTS.read_text("utf-8")))
    return blocks


def _render_cold_starts(measured: Mapping[str, Any]) -> str:
    """Return the table of results of `python -m lab bench cold`."""
    unit = measured["unit, CPU s"]
    rows = [
        (use, f"{taken['empty cache, CPU s']:.1f} s", f"{unit * taken['full cache, units']:.1f} s")
        for use, taken in measured.items()
        if isinstance(taken, dict) and "full cache, units" in taken
    ]
    machine = measured["machine"]
    return (
        _render_table(("first use in a process", "nothing compiled yet", "already compiled"), rows)
        + f"\nCPU time from the start of Python to the first result, including imports ({machine['cpu']}, Numba "
        f"{machine['numba']}). Importing NumPy and Numba and compiling one simple loop takes {unit:.1f} s on this "
        "machine. `python -m lab bench cold` measures these times.\n"
    )


# Claims that `docs/when_it_pays.md` quotes, by experiment, gains and losses. The pages of results have all claims.
QUOTED_CLAIMS = {
    "networks": (
        "Rare class: beats reshuffling",
        "Rare class: half the run is enough",
        "MNIST: not worse than reshuffling",
    ),
    "kmeans": (
        "k-means: lower error per iteration",
        "k-means: time to uniform's error",
        "k-means: no advantage on MNIST",
    ),
    "cartpole": ("Replay: VRM cuts the variance",),
    "kdpp": ("k-DPP mixture beats uniform sets", "k-DPP overhead outweighs its benefit"),
}


def _list_claims(each: Published) -> str:
    claims = {claim.name: claim for claim in each.claims}
    quoted = [claims[name] for name in QUOTED_CLAIMS.get(each.experiment, ())]
    return "\n" + "".join(f"* {claim.name}: **{claim.number}** ({_mark(claim)})\n" for claim in quoted) + "\n"


Ratios = Mapping[str, Mapping[str, Interval]]
"""Loss relative to plain shuffling, by arm and task."""


def _read_ratios(rows: Mapping[str, Mapping[str, Sequence[float]]]) -> Ratios:
    return {arm: {task: Interval(*ratio) for task, ratio in row.items()} for arm, row in rows.items()}


def _format_ratio(ratio: Interval) -> str:
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def _render_figure(ratios: Ratios, once: Ratios, folder: str) -> str:
    names = {task: " ".join(title.split("\n")) for task, title in SHOWN_TASKS.items()}
    worse = {task: ", where shuffling once ends lower" if once[DEFAULT][task].low > 1 else "" for task in names}
    ends = "; ".join(f"{_format_ratio(ratios[DEFAULT][task])} on {name}{worse[task]}" for task, name in names.items())
    return (
        f"![Excess training loss against gradients on three data sets, for varmix, plain shuffling and shuffling once]"
        f"({folder}convex-losses.png)\n\n"
        "**Excess training loss (above the minimum), varmix / plain shuffling, after the same number of gradients: "
        f"{ends}.** Linear models trained by SGD on real data, each method with its own best step size; mean and 95 % "
        "interval over seeds. Most neural networks change little.\n"
    )


def _count(row: Mapping[str, Interval]) -> str:
    """Return on how many problems a sampler is better, worse (with their names), or undecided."""
    worse = [task for task, ratio in row.items() if ratio.low > 1]
    better = sum(ratio.high < 1 for ratio in row.values())
    undecided = len(row) - better - len(worse)
    parts = [f"better on {better} of {len(row)} problems", f"worse on {len(worse) or 'none'}"]
    parts[1] += f" ({'; '.join(worse)})" if worse else ""
    return ", ".join([*parts, f"undecided on {undecided}"] if undecided else parts)


def _render_pays(convex: Ratios, once: Ratios, held_out: Ratios) -> str:
    mean = combine_tasks(convex[DEFAULT])
    labels = held_out["mixture of labels"]
    return "".join(
        f"* {line}\n"
        for line in (
            f"**Pays: linear models on uneven data.** Compared with plain shuffling it is {_count(convex[DEFAULT])}; "
            f"its mean excess training loss is {_format_ratio(mean)} of shuffling's. Compared with shuffling once, in "
            f"one fixed order, it is {_count(once[DEFAULT])}.",
            f"**Can pay: a rare class, many points, few epochs.** An MLP on covtype ends at "
            f"{_format_ratio(labels['rare class, covtype'])} of plain shuffling's held-out loss.",
            f"**Loses: a long tail with a balanced loss.** An MLP on MNIST ends at "
            f"{_format_ratio(labels['long tail, balanced loss'])} of plain shuffling's "
            f"held-out loss. Weight the classes in the loss instead.",
            f"**Changes little: most networks.** In held-out loss it is {_count(labels)}.",
            "**Needs a large step size.** Less noise helps where noise limits the step size. Held-out loss improves "
            "less than training loss.",
        )
    )


def _render_convex(ratios: Ratios, once: Ratios) -> str:
    def mean(arm: str, tasks: Sequence[str]) -> str:
        return _format_ratio(combine_tasks({task: ratios[arm][task] for task in tasks}))

    tasks = list(ratios[DEFAULT])
    others = [task for task in tasks if task not in LISTED_TASKS]
    rows = (
        ("by default", _count(ratios[DEFAULT]), mean(DEFAULT, tasks)),
        (f"by default, on the {len(others)} problems not tuned on", "", mean(DEFAULT, others)),
        ("always on, `varmix.vrm`", _count(ratios[MIXTURE]), mean(MIXTURE, tasks)),
        ('always on, `resplit="norms"`', _count(ratios[CROSS]), mean(CROSS, tasks)),
        ("plain shuffling, other seeds", "", mean(AGAIN, tasks)),
        ("shuffling once", "", mean(ONCE, tasks)),
        ("uniform draws with replacement", "", mean("uniform", tasks)),
    )
    table = _render_table(("sampler", "against plain shuffling", "mean ratio of excess losses"), rows)
    return (
        f"\nLinear models by SGD, each method at its best step size.\n\n{table}\n"
        f"Against shuffling once, in one fixed order, the default is {_count(once[DEFAULT])}.\n\n"
    )
