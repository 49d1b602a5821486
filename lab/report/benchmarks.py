"""The page of benchmarks: nested results of any shape as tables."""

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from lab.report.markup import escape_text, format_number, make_slug, render_document

Scalar = str | int | float | bool | None
MAX_OPEN_ROWS = 30  # longer tables are folded


def render_page(benchmarks: Mapping[str, object]) -> str:
    """Return the page. `benchmarks` maps titles to nested mappings and lists of numbers and strings."""
    contents = {"index.html": "Back to the report"}
    parts = []
    for i, (title, results) in enumerate(benchmarks.items(), 1):
        name = f"part-{i}-{make_slug(title)}"
        contents[f"#{name}"] = title
        parts.append(f'<section id="{name}"><h2>{escape_text(title)}</h2>{_render_part(results)}</section>')
    lead = "Measured on the machine that is named with each part. Names include the units."
    return render_document("Benchmarks", lead, contents, "".join(parts) or '<p class="aside">Nothing was measured.</p>')


def render_results(results: object, level: int = 3) -> str:
    """Return results as tables: first plain values, then flat mappings as rows of one table, then deeper ones."""
    if isinstance(results, Mapping):
        return _render_mapping(results, level)
    records = [row for row in results if _is_flat(row)] if _is_list(results) else []
    if records and _is_list(results) and len(records) == len(results):
        return _render_table([("", row) for row in records])
    if _is_list(results) and not all(_is_scalar(value) for value in results):
        return "".join(render_results(value, level) for value in results)
    return f"<p>{_render_value(results)}</p>"


def _render_part(results: object) -> str:
    if not isinstance(results, Mapping) or not isinstance(results.get("machine"), Mapping):
        return render_results(results)
    machine = "".join(
        f"<div><dt>{escape_text(str(name))}</dt><dd>{_render_value(value)}</dd></div>"
        for name, value in results["machine"].items()
    )
    rest = {name: value for name, value in results.items() if name != "machine"}
    return f'<dl class="machine">{machine}</dl>{render_results(rest)}'


def _render_mapping(results: Mapping[str, object], level: int) -> str:
    plain = {name: value for name, value in results.items() if not _is_deep(value)}
    flat = {name: value for name, value in results.items() if _is_flat(value)}
    # Mappings that share a column become rows of one table; others get their own tables.
    together = len(flat) > 1 and bool(set.intersection(*(set(value) for value in flat.values())))
    parts = [_render_table([(name, {"": value}) for name, value in plain.items()])] if plain else []
    parts += [_render_table(list(flat.items()))] if together else []
    heading = min(level, 6)
    for name, value in results.items():
        if name not in plain and not (together and name in flat):
            parts.append(f"<h{heading}>{escape_text(name)}</h{heading}>{render_results(value, level + 1)}")
    return "".join(parts)


def _render_table(rows: Sequence[tuple[str, Mapping[str, object]]]) -> str:
    columns = list(dict.fromkeys(column for _, row in rows for column in row))
    named = any(name for name, _ in rows)
    corner = "<td></td>" if named else ""
    head = "".join(f'<th scope="col">{escape_text(column)}</th>' for column in columns)
    body = "".join(
        f"<tr>{_render_head(name) if named else ''}{''.join(_render_cell(row, column) for column in columns)}</tr>"
        for name, row in rows
    )
    header = f"<thead><tr>{corner}{head}</tr></thead>" if any(columns) else ""
    table = (
        '<div class="wide" tabindex="0" role="region" aria-label="Table">'
        f'<table class="numbers">{header}<tbody>{body}</tbody></table></div>'
    )
    return table if len(rows) <= MAX_OPEN_ROWS else f"<details><summary>{len(rows)} rows</summary>{table}</details>"


def _render_head(name: str) -> str:
    return f'<th scope="row">{escape_text(name)}</th>'


def _render_cell(row: Mapping[str, object], column: str) -> str:
    value = row.get(column)
    kind = ' class="words"' if isinstance(value, str) else ""
    return f"<td{kind}>{_render_value(value)}</td>"


def _render_value(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return format_number(value)
    if _is_list(value):
        return ", ".join(_render_value(item) for item in value)
    return escape_text(str(value))


def _is_scalar(value: object) -> TypeGuard[Scalar]:
    return value is None or isinstance(value, str | int | float | bool)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_deep(value: object) -> bool:
    return isinstance(value, Mapping) or (_is_list(value) and not all(_is_scalar(item) for item in value))


def _is_flat(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping) and bool(value) and not any(_is_deep(item) for item in value.values())
