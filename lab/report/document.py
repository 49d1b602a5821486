"""The shell of a page: one file with its style sheet and scripts inside, and nothing fetched from anywhere."""

from collections.abc import Mapping
from importlib import resources

from lab.report.markup import escape_text

# The browser itself is told to fetch nothing, so the promise does not rest on our care alone.
CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def render_document(
    title: str, lead: str, contents: Mapping[str, str], body: str, scripts: tuple[str, ...] = ()
) -> str:
    """Give a whole page: `contents` maps the targets of its links to their names; `lead` and `body` are HTML."""
    links = "".join(
        f'<li><a href="{escape_text(target)}">{escape_text(name)}</a></li>' for target, name in contents.items()
    )
    tail = "".join(f"<script>\n{read_resource(script)}</script>\n" for script in scripts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape_text(title)}</title>
<link rel="icon" href="data:,">
<style>
{read_resource("page.css")}</style>
<script>
{read_resource("theme.js")}</script>
</head>
<body>
<header class="top"><span class="name">varmix</span><button type="button" id="theme" hidden>Dark</button></header>
<div class="layout">
<nav class="contents" aria-label="Contents"><ul>{links}</ul></nav>
<main>
<h1>{escape_text(title)}</h1>
<p class="lead">{lead}</p>
{body}
</main>
</div>
{tail}</body>
</html>
"""


def read_resource(name: str) -> str:
    """Read a file that lies beside this one."""
    return resources.files("lab.report").joinpath(name).read_text("utf-8")
