"""The page of benchmarks: nested results as tables, whatever their names are."""

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from lab.report.document import document
from lab.report.markup import number, slug, text

Scalar = str | int | float | bool | None
LONG = 30  # rows above which a table waits to be opened


def page(benchmarks: Mapping[str, object]) -> str:
    """Give the page; `benchmarks` maps titles to nested mappings and lists of numbers and strings."""
    contents = {"index.html": "Back to the report"}
    parts = []
    for i, (title, results) in enumerate(benchmarks.items(), 1):
        name = f"part-{i}-{slug(title)}"
        contents[f"#{name}"] = title
        parts.append(f'<section id="{name}"><h2>{text(title)}</h2>{_part(results)}</section>')
    lead = "Speed and memory as measured on the machine named with each part; units stand in the names."
    return document("Benchmarks", lead, contents, "".join(parts) or '<p class="aside">Nothing was measured.</p>')


def render(results: object, level: int = 3) -> str:
    """Give results as tables: numbers first, then mappings of the same depth side by side, then what lies deeper."""
    if isinstance(results, Mapping):
        return _mapping(results, level)
    records = [row for row in results if _is_flat(row)] if _is_list(results) else []
    if records and _is_list(results) and len(records) == len(results):
        return _table([("", row) for row in records])
    if _is_list(results) and not all(_is_scalar(value) for value in results):
        return "".join(render(value, level) for value in results)
    return f"<p>{_value(results)}</p>"


def _part(results: object) -> str:
    if not isinstance(results, Mapping) or not isinstance(results.get("machine"), Mapping):
        return render(results)
    machine = "".join(
        f"<div><dt>{text(str(name))}</dt><dd>{_value(value)}</dd></div>" for name, value in results["machine"].items()
    )
    rest = {name: value for name, value in results.items() if name != "machine"}
    return f'<dl class="machine">{machine}</dl>{render(rest)}'


def _mapping(results: Mapping[str, object], level: int) -> str:
    plain = {name: value for name, value in results.items() if not _is_deep(value)}
    flat = {name: value for name, value in results.items() if _is_flat(value)}
    # Mappings that share a column are rows of one table; others are matters of their own.
    together = len(flat) > 1 and bool(set.intersection(*(set(value) for value in flat.values())))
    parts = [_table([(name, {"": value}) for name, value in plain.items()])] if plain else []
    parts += [_table(list(flat.items()))] if together else []
    heading = min(level, 6)
    for name, value in results.items():
        if name not in plain and not (together and name in flat):
            parts.append(f"<h{heading}>{text(name)}</h{heading}>{render(value, level + 1)}")
    return "".join(parts)


def _table(rows: Sequence[tuple[str, Mapping[str, object]]]) -> str:
    columns = list(dict.fromkeys(column for _, row in rows for column in row))
    named = any(name for name, _ in rows)
    corner = "<td></td>" if named else ""
    head = "".join(f'<th scope="col">{text(column)}</th>' for column in columns)
    body = "".join(
        f"<tr>{_head(name) if named else ''}{''.join(_cell(row, column) for column in columns)}</tr>"
        for name, row in rows
    )
    header = f"<thead><tr>{corner}{head}</tr></thead>" if any(columns) else ""
    table = (
        '<div class="wide" tabindex="0" role="region" aria-label="Table">'
        f'<table class="numbers">{header}<tbody>{body}</tbody></table></div>'
    )
    return table if len(rows) <= LONG else f"<details><summary>{len(rows)} rows</summary>{table}</details>"


def _head(name: str) -> str:
    return f'<th scope="row">{text(name)}</th>'


def _cell(row: Mapping[str, object], column: str) -> str:
    value = row.get(column)
    kind = ' class="words"' if isinstance(value, str) else ""
    return f"<td{kind}>{_value(value)}</td>"


def _value(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if _is_list(value):
        return ", ".join(_value(item) for item in value)
    return text(str(value))


def _is_scalar(value: object) -> TypeGuard[Scalar]:
    return value is None or isinstance(value, str | int | float | bool)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_deep(value: object) -> bool:
    return isinstance(value, Mapping) or (_is_list(value) and not all(_is_scalar(item) for item in value))


def _is_flat(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping) and bool(value) and not any(_is_deep(item) for item in value.values())
