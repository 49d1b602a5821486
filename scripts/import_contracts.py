"""A contract of import-linter: one package uses only public modules and names of another."""

import re
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

PRIVATE_NAME = re.compile(r"import .*(?<![\w.])_[a-z]\w*")


class PublicNamesOnly(Contract):
    """Break where a module of `importer` imports a private module of `library`, or a private name."""

    importer = fields.StringField()
    library = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Look at every direct import from one package into the other."""
        details = graph.find_matching_direct_imports(import_expression=f"{self.importer}.** -> {self.library}.**")
        broken = []
        for found in details:
            private = any(part.startswith("_") for part in found["imported"].split("."))
            lines = graph.get_import_details(importer=found["importer"], imported=found["imported"])
            broken += [line for line in lines if private or PRIVATE_NAME.search(line["line_contents"])]
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print every import that is broken, with its line."""
        for line in self._sort(check.metadata["broken"]):
            output.print_error(f"{line['importer']}:{line['line_number']}: {line['line_contents']}", bold=False)
        output.new_line()

    def _sort(self, lines: list[Any]) -> list[Any]:
        return sorted(lines, key=lambda line: (line["importer"], line["line_number"]))
