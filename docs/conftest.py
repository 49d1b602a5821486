"""Pages whose examples need more than varmix and its tests do are run where that is installed."""

from importlib.util import find_spec

NEEDS = {"replay_agent.md": ("torch", "gymnasium")}

collect_ignore = [page for page, modules in NEEDS.items() if not all(map(find_spec, modules))]
