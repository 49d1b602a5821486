"""Check that the prose of library and lab reads well: sections of docstrings, first words, words to avoid.

Three checks, over `src/varmix` and `lab`:

* every exported name has a docstring in numpydoc's format: parameters with types and defaults, returns, raises, and an
  example for every class and function;
* the first line of a function's docstring is an imperative sentence;
* docstrings, comments and messages avoid a few words of an older style.

`python scripts/check_docstrings.py src/varmix/torch lab/report` checks only these folders or files.
"""

import ast
import importlib
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src/varmix", "lab")

# numpydoc's own checks, https://numpydoc.readthedocs.io/en/latest/validation.html
SECTIONS = {"GL06", "GL07", "GL08", "SS01", "SS03", "SS05", "PR01", "PR02", "PR03", "PR04", "PR07", "RT01", "YD01"}

CONSTRUCTORS = ("__init__", "__post_init__")

AVOID = {
    r"unless told": "say 'by default'",
    r"\blearnt\b": "write 'learned'",
    r"\bforetell": "write 'predict' or say when it is known",
    r"\bfor want of\b": "write 'because there is no ...'",
    r"\b(is|are|was|were) told\b": "say who passes what",
    r"\bin somebody else": "say whose",
    r"\bgone on with\b": "write 'resumed'",
    r"\bbeside the target\b": "write 'relative to the target'",
}
# First words that are no verb, or a verb that does not say what the function does.
GIVE = re.compile(r"gives?\b", re.IGNORECASE)
FIRST_WORDS = re.compile(
    r"(gives?|whether|what|how|where|when|who|which|one|nothing|all|the|an?|as|from|to|for|so|such|its|this|that|these|"
    r"those|by|with|without|in|on|every|each|no|not|of|if|everything)\b",
    re.IGNORECASE,
)


def public_modules() -> list[ModuleType]:
    """Return the modules of the library whose dotted name has no underscore."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            try:
                found.append(importlib.import_module(".".join(parts)))
            except ImportError as error:  # the module needs a package of one integration
                print(f"left out, not installed here: {'.'.join(parts)} ({error})")
    return found


def exported_names(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the classes and functions of the library that a public module exports."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        ]
    for name in names:
        value = getattr(module, name)
        callable_of_ours = inspect.isclass(value) or inspect.isroutine(value)
        if callable_of_ours and str(getattr(value, "__module__", "")).split(".")[0] == "varmix":
            yield name, value


def public_methods(cls: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties that a class defines itself."""
    for name, member in vars(cls).items():
        if not name.startswith("_") and (inspect.isroutine(member) or isinstance(member, (property, classmethod))):
            yield name, member


def overrides(cls: type, name: str) -> bool:
    """Return whether a base class documents the member of this name."""
    return any(
        name in vars(base) and inspect.getdoc(vars(base)[name]) for base in cls.__mro__[1:] if base is not object
    )


def source_of(thing: object) -> tuple[str, ast.AST | None]:
    """Return the file of a class or function, relative to the root, and its syntax tree."""
    thing = inspect.unwrap(thing) if callable(thing) else thing  # type: ignore[arg-type]
    try:
        path = Path(inspect.getsourcefile(thing) or "")  # type: ignore[arg-type]
        tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(thing)))  # type: ignore[arg-type]
    except (OSError, TypeError, SyntaxError):
        return "", None
    return path.resolve().relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else "", tree


def raises_itself(tree: ast.AST | None) -> bool:
    """Return whether a function has a `raise` with a message, or a class one in its constructor."""
    if tree is None:
        return False
    (node,) = tree.body if isinstance(tree, ast.Module) else [tree]
    if isinstance(node, ast.ClassDef):
        return any(raises_itself(each) for each in node.body if getattr(each, "name", "") in CONSTRUCTORS)
    return any(isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call) for each in ast.walk(node))


def check_sections(path: str, name: str, full: bool) -> list[str]:
    """Return what is missing in the docstring of an exported name; `full` asks for an example too."""
    from numpydoc.validate import validate  # here, because the tests of the other checks need no numpydoc

    report = validate(path)
    codes = SECTIONS if report["type"] in ("function", "method", "type") else {"GL08", "SS03"}
    missing = [f"{code} {text}" for code, text in report["errors"] if code in codes]
    if full and "Examples\n" not in report["docstring"]:
        missing.append("has no Examples section")
    return [f"{name}: {each}" for each in missing]


def check_defaults(name: str, thing: object) -> list[str]:
    """Return the parameters whose default the docstring does not say."""
    doc = inspect.getdoc(thing) or ""
    try:
        parameters = inspect.signature(thing).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    found = []
    for parameter in parameters.values():
        if parameter.default is inspect.Parameter.empty or parameter.name.startswith("_"):
            continue
        entry = re.search(
            rf"^(?:[\w*]+, )*{parameter.name}(?:, \w+)*(?: :.*)?\n((?:[ ]+.*\n|\n)*)", doc + "\n", re.MULTILINE
        )
        if entry and not re.search(r"[Dd]efault|optional", entry.group(0)):
            found.append(f"{name}: the default of {parameter.name} is not documented")
    return found


def check_exports(wanted: list[str]) -> list[str]:
    """Return what is missing in the docstrings of exported names that are defined in the wanted files."""
    problems, seen = [], set()
    for module in public_modules():
        for name, thing in exported_names(module):
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            file, tree = source_of(thing)
            if not is_wanted(file, wanted):
                continue
            shown, path = f"{file}: {name}", f"{module.__name__}.{name}"
            problems += check_sections(path, shown, full=True) + check_defaults(shown, thing)
            if raises_itself(tree) and "Raises\n" not in (inspect.getdoc(thing) or ""):
                problems.append(f"{shown}: has no Raises section")
            if not inspect.isclass(thing):
                continue
            for member_name, member in public_methods(thing):
                problems += check_member(thing, member_name, member, shown, path)
    return problems


def check_member(cls: type, name: str, member: object, shown: str, path: str) -> list[str]:
    """Return what is missing in the docstring of a public method or property."""
    shown, path = f"{shown}.{name}", f"{path}.{name}"
    doc = inspect.getdoc(getattr(cls, name)) or ""
    if not doc:
        return [f"{shown}: has no docstring"]
    if isinstance(member, property) or overrides(cls, name):
        return [] if doc.split("\n\n")[0].rstrip().endswith((".", ":")) else [f"{shown}: the summary has no full stop"]
    problems = check_sections(path, shown, full=False) + check_defaults(shown, getattr(cls, name))
    _, tree = source_of(member.__func__ if isinstance(member, (classmethod, staticmethod)) else member)
    if raises_itself(tree) and "Raises\n" not in doc:
        problems.append(f"{shown}: has no Raises section")
    return problems


def is_wanted(file: str, wanted: list[str]) -> bool:
    """Return whether a file lies in one of the wanted folders, or is one of them."""
    return any(file == each or file.startswith(each.rstrip("/") + "/") for each in wanted)


def check_words(wanted: list[str]) -> list[str]:
    """Return the places in docstrings, messages and comments that use words to avoid."""
    problems = []
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        if is_wanted(file, wanted):
            text = path.read_text()
            problems += check_first_words(file, ast.parse(text))
            for line, words in texts_of(text):
                for pattern, hint in AVOID.items():
                    for found in re.finditer(pattern, words, re.IGNORECASE):
                        problems.append(f"{file}:{line}: {found.group(0)!r}: {hint}")
    return problems


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield every string and comment of a file with its line."""
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in kinds:
            yield token.start[0], " ".join(token.string.split())


def check_first_words(file: str, tree: ast.Module) -> list[str]:
    """Return the functions whose docstring does not begin with a verb, and all docstrings that begin with "Give"."""
    problems = []
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        words = (ast.get_docstring(node) or "").split()
        wrong = GIVE if isinstance(node, ast.ClassDef) or is_property(node) else FIRST_WORDS
        if words and wrong.match(words[0]):
            problems.append(f"{file}:{node.lineno}: {node.name} begins with {words[0]!r}: begin with a verb")
    return problems


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is the getter of a property."""
    names = {each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in node.decorator_list}
    return bool(names & {"property", "cached_property"})


def main(arguments: list[str]) -> int:
    """Print every problem; return 0 if there is none, else 1."""
    wanted = [Path(each).as_posix() for each in arguments] or list(FOLDERS)
    problems = check_words(wanted) + check_exports(wanted)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems in docstrings and messages.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
