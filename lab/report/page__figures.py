"""Figures as inline SVG: matplotlib's drawing, made fit to stand on a page with others."""

import re
from io import BytesIO
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from lab.commands import install
from lab.reproduce.findings import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 0.85  # pixels of the page to a unit of a figure
REFERENCE = re.compile(r"url\(#([^)]+)\)")


def embed(picture: Picture, prefix: str) -> str:
    """Draw a picture and give its SVG, described for those who cannot see it, all ids starting with `prefix`."""
    root = ElementTree.fromstring(svg(_drawn(picture)))
    _forget_namespaces(root)
    _strip(root)
    _rename(root, prefix)
    root.set("role", "img")
    # On a phone it scrolls in its frame rather than getting smaller than this: its letters have nine of these units.
    root.set("style", f"--least: {LEAST * float(root.get('viewBox', '0 0 500 0').split()[2]):.0f}px")
    root.set("aria-label", picture.description)
    return ElementTree.tostring(root, encoding="unicode")


def _drawn(picture: Picture) -> "Figure":
    try:
        from lab.plots import render
    except ImportError:
        raise ImportError(f"The report's figures need matplotlib: {install('experiments')}.") from None
    return render(picture)


def svg(figure: "Figure") -> str:
    """Draw a figure as SVG, letters as outlines: formulas come out as they were set, whatever fonts the reader has."""
    from matplotlib import rc_context

    written = BytesIO()
    # A fixed salt and no date: the same findings give the same page, byte for byte.
    with rc_context({"svg.fonttype": "path", "svg.hashsalt": "varmix"}):
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return written.getvalue().decode()


def _forget_namespaces(root: ElementTree.Element) -> None:
    # HTML knows SVG without declarations, which are also the only addresses in the file.
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for name in [name for name in element.attrib if name.startswith("{")]:
            element.set(name.rpartition("}")[2], element.attrib.pop(name))


def _strip(root: ElementTree.Element) -> None:
    # matplotlib's style sheet says `*`, which on a page means every element of it; page.css says the same for figures.
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("style", "metadata"):
                parent.remove(child)
    root.attrib.pop("version", None)


def _rename(root: ElementTree.Element, prefix: str) -> None:
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == "id":
                element.set(name, prefix + value)
            elif name == "href" and value.startswith("#"):
                element.set(name, f"#{prefix}{value[1:]}")
            else:
                element.set(name, REFERENCE.sub(rf"url(#{prefix}\1)", value))
