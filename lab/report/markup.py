"""HTML of the report: page template, escaping of text and data, and number formats.

All text and data from outside this package pass through the functions here.
"""

import html
import json
import re
from collections.abc import Mapping
from importlib import resources
from math import isfinite

# The browser enforces that a page fetches nothing.
CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
THIN_SPACE = "\u202f"  # narrow no-break space: the digits of a number stay on one line


def escape_text(words: str) -> str:
    """Escape text for an element or a quoted attribute.

    Examples
    --------
    >>> escape_text('a < b & "c"')
    'a &lt; b &amp; &quot;c&quot;'
    """
    return html.escape(words, quote=True)


def escape_prose(words: str) -> str:
    """Escape a sentence, and mark text between backticks as code.

    Examples
    --------
    >>> escape_prose("run `make <x>`")
    'run <code>make &lt;x&gt;</code>'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape_text(words))


def make_slug(words: str) -> str:
    """Return words as part of an HTML id.

    Examples
    --------
    >>> make_slug("Mini-batch k-means, 6.3")
    'mini-batch-k-means-6-3'
    """
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or "x"


def escape_json(value: object) -> str:
    r"""Return JSON that is safe inside a script element.

    Examples
    --------
    >>> escape_json({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    written = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return written.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def format_number(value: float) -> str:
    """Format a number for readers: integers in full, others with three significant digits.

    Examples
    --------
    >>> [format_number(v) for v in (0.60725, 93.98, 120, 1.0)]
    ['0.607', '94.0', '120', '1.00']
    >>> format_number(37915.67).replace(THIN_SPACE, " "), format_number(2.22e-16)
    ('37 900', '2.22 × 10⁻¹⁶')
    >>> format_number(-0.5), format_number(float("nan"))
    ('−0.500', 'nan')
    """
    if isinstance(value, int):  # before isfinite: an integer with hundreds of digits has no float
        return _group_digits(f"{value}")
    if not isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    mantissa, power = f"{value:.2e}".split("e")
    exponent = int(power)
    if not -4 <= exponent < 9:
        return f"{_group_digits(mantissa)} × 10{str(exponent).translate(SUPERSCRIPTS)}"
    return _group_digits(f"{float(f'{mantissa}e{power}'):.{max(0, 2 - exponent)}f}")


def _group_digits(digits: str) -> str:
    whole, point, rest = digits.replace("-", "−").partition(".")
    # Four digits are readable without a gap, and a gap would make columns ragged.
    if len(whole.lstrip("−")) > 4:
        whole = re.sub(r"(?<=\d)(?=(\d{3})+$)", THIN_SPACE, whole)
    return whole + point + rest


def render_document(
    title: str, lead: str, contents: Mapping[str, str], body: str, scripts: tuple[str, ...] = ()
) -> str:
    """Return a whole page. `contents` maps link targets to their names; `lead` and `body` are HTML."""
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
    """Read a style sheet or script of this package."""
    return resources.files("lab.report").joinpath(name).read_text("utf-8")
