"""How many files of varmix a batch passes through: a reader of the loader has to open them all."""

from scripts.instruments import trace_uses


def test_one_batch_with_its_feedback_crosses_at_most_16_files():
    files = trace_uses()["a loader's batch"]
    assert {"torch/_loader.py", "torch/_engine.py", "_sampler.py", "components/_groups.py"} <= set(files)
    assert len(files) <= 16, files
    for of_many_processes in ("torch/_feedback.py", "torch/_exchange.py", "torch/_process_group.py"):
        assert of_many_processes not in files
