"""How text, numbers and data become HTML; everything on a page that was not written here passes through this file."""

import html
import json
import re
from math import isfinite

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
THIN_SPACE = "\u202f"  # narrow and no-break: digits of one number stay on one line


def escape_text(words: str) -> str:
    """Escape text for the inside of an element or of a quoted attribute.

    Examples
    --------
    >>> escape_text('a < b & "c"')
    'a &lt; b &amp; &quot;c&quot;'
    """
    return html.escape(words, quote=True)


def escape_prose(words: str) -> str:
    """Escape a sentence, and set what stands between backticks as code.

    Examples
    --------
    >>> escape_prose("run `make <x>`")
    'run <code>make &lt;x&gt;</code>'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape_text(words))


def make_slug(words: str) -> str:
    """Give the part of an id that words stand for.

    Examples
    --------
    >>> make_slug("Mini-batch k-means, 6.3")
    'mini-batch-k-means-6-3'
    """
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or "x"


def escape_json(value: object) -> str:
    r"""Write JSON that may stand inside a script element, whatever the strings hold.

    Examples
    --------
    >>> escape_json({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    written = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return written.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def format_number(value: float) -> str:
    """Write a number for the eye: integers in full, others with three significant digits.

    Examples
    --------
    >>> [format_number(v) for v in (0.60725, 93.98, 120, 1.0)]
    ['0.607', '94.0', '120', '1.00']
    >>> format_number(37915.67).replace(THIN_SPACE, " "), format_number(2.22e-16)
    ('37 900', '2.22 × 10⁻¹⁶')
    >>> format_number(-0.5), format_number(float("nan"))
    ('−0.500', 'nan')
    """
    if isinstance(value, int):  # first: one with hundreds of digits has no float to ask
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
    # Four digits are read at a glance; a gap in them only makes columns ragged.
    if len(whole.lstrip("−")) > 4:
        whole = re.sub(r"(?<=\d)(?=(\d{3})+$)", THIN_SPACE, whole)
    return whole + point + rest
