"""How the documentation site is built; `make docs` does it."""

import ast
import inspect
from textwrap import dedent
from typing import Any

from docutils.nodes import Text, literal_block
from sphinx.addnodes import pending_xref
from sphinx.ext.autodoc.mock import _MockObject

import varmix

project = "varmix"
author = copyright = "The varmix developers"
version = release = varmix.__version__
language = "en_GB"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "sphinx_copybutton"]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
myst_heading_anchors = 3
# The copy button leaves out prompts and outputs of examples.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
highlight_language = "none"  # of what does not say: formulas and commands

# The site is the same whatever is installed: nothing of torch is imported, and no docstring comes from another library.
autodoc_mock_imports = ["torch", "torchrl", "tensordict"]
_MockObject.__or__ = _MockObject.__ror__ = lambda self, other: self  # types of arguments may be unions with tensors
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # see `written`
toc_object_entries_show_parents = "hide"
autosummary_filename_map = {"varmix.Uniform": "varmix.Uniform_"}  # some file systems take it for varmix.uniform
numpydoc_show_class_members = False
maximum_signature_line_length = 88

# Single backticks in docstrings are code, and links where they name something of the reference.
default_role = "py:obj"
nitpick_ignore_regex = [
    ("py:obj", ".*"),
    ("py:class", r"(?!varmix).*"),  # types as they are written in signatures: other libraries', or our aliases
]

html_theme = "pydata_sphinx_theme"
html_title = "varmix"
html_copy_source = html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"index": [], "quickstart": [], "when_it_pays": []}  # they have no pages below them
html_context = {"default_mode": "auto"}
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

# Files of the repository that are pages here: pages link to the files, as the code host wants it.
PAGES = {"CHANGELOG.md": "changelog", "decisions": "decisions/README"}


def link(app: Any, doctree: Any) -> None:  # noqa: ANN401
    """Let links to files of the repository lead to the pages that they are here."""
    for node in doctree.findall(pending_xref):
        if page := PAGES.get(node["reftarget"]):
            node.attributes |= {"refdomain": "doc", "reftarget": page, "reftargetid": None}


def trim(app: Any, doctree: Any) -> None:  # noqa: ANN401
    """Leave out the empty line that ends an example for doctest."""
    for node in doctree.findall(literal_block):
        node.rawsource = node.astext().rstrip()
        node[:] = [Text(node.rawsource)]


def written(app: Any, what: str, name: str, obj: Any, *rest: object) -> tuple[str, str | None] | None:  # noqa: ANN401
    """Give a signature as its source has it: evaluated, `ArrayLike` would be three lines of NumPy's insides."""
    function = inspect.unwrap(getattr(obj, "__init__", obj) if inspect.isclass(obj) else obj)
    if not inspect.isfunction(function) or function.__code__.co_filename.startswith("<"):
        return None  # as of dataclasses and named tuples, which have no source
    if not function.__module__.startswith("varmix"):
        return None
    node = ast.parse(dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef)
    if node.args.args and node.args.args[0].arg in ("self", "cls"):
        del node.args.args[0]
    returns = None if what == "class" or node.returns is None else ast.unparse(node.returns)
    return f"({ast.unparse(node.args)})", returns


def mark_formulas(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:  # noqa: ANN401
    """Mark what a docstring indents below a paragraph, its formulas, as what it is: text to be left alone."""
    marked: list[str] = []
    for line in lines:
        if line.startswith("    ") and len(marked) > 1 and not marked[-1] and not marked[-2].startswith((" ", "::")):
            marked += ["::", ""]
        marked.append(line)
    lines[:] = marked


def setup(app: Any) -> None:  # noqa: ANN401
    """Tell Sphinx about the functions above."""
    app.connect("doctree-read", link)
    app.connect("doctree-read", trim)
    app.connect("autodoc-process-signature", written, priority=400)
    app.connect("autodoc-process-docstring", mark_formulas, priority=400)  # before numpydoc
