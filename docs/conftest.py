"""Pages whose examples need more than varmix and its tests do are run where that is installed; the site is no page."""

from importlib.util import find_spec

NEEDS = {
    "howto/distributed.md": ("torch",),
    "howto/norms.md": ("torch",),
    "howto/streams.md": ("torch",),
    "replay_agent.md": ("torch", "gymnasium"),
    "torch.md": ("torch", "lightning", "tensorboard"),
    "torchrl.md": ("torch", "torchrl"),
}
SITE = ["conf.py", "_build", "api/generated"]

collect_ignore = SITE + [page for page, modules in NEEDS.items() if not all(map(find_spec, modules))]
