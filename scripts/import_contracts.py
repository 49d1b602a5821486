"""A contract for import-linter: a package uses only public modules and names of another one."""

import ast
from collections.abc import Iterator
from pathlib import Path

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


def find_private_imports(path: Path, library: str) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of every private module or name that a file imports from the library."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            private = any(part.startswith("_") and not part.endswith("__") for part in parts)
            if parts[0] == library and private:
                yield node.lineno, name


class PublicNamesOnly(Contract):
    """The contract is broken if a module of `importer` imports a private module or name of `library`."""

    importer = fields.StringField()
    library = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Check every import in every file of the package."""
        package = Path(__file__).parents[1] / str(self.importer)
        broken = [
            f"{path.relative_to(package.parent)}:{line}: {name}"
            for path in sorted(package.rglob("*.py"))
            for line, name in find_private_imports(path, str(self.library))
        ]
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print every private import, with its file and line."""
        for line in check.metadata["broken"]:
            output.print_error(line, bold=False)
        output.new_line()
