"""The script of the page on many processes runs, and its checkpoint goes on elsewhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import TensorDataset

from varmix.torch import AdaptiveLoader

TESTS = Path(__file__).parents[1]
SCRIPT = TESTS / "support" / "training.py"
PAGE = TESTS.parent / "docs" / "howto" / "distributed.md"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The lines that two processes printed, and the checkpoint that they wrote."""
    path = tmp_path_factory.mktemp("training") / "checkpoint.pt"
    paths = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, str(SCRIPT), str(path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), torch.load(path, weights_only=True)


def test_one_process_speaks_for_all(ran):
    lines, _ = ran
    assert [line.split(":")[0] for line in lines] == [f"epoch {epoch}" for epoch in range(5)]


def test_its_checkpoint_goes_on_in_one_process(ran):
    _, state = ran
    torch.manual_seed(0)
    labels = (torch.rand(2000) < 0.02).long()
    loader = AdaptiveLoader(TensorDataset(labels), labels, batch_size=64)
    loader.load_state_dict(state["loader"])
    assert loader.meter.draws == 5 * 2000
    assert loader.meter.gain.low > 1
    assert sum(len(batch) for (batch,), _ in loader) == 2000
    assert loader.epoch == 5


def test_the_page_shows_this_very_script():
    assert f"```\n{SCRIPT.read_text()}```" in PAGE.read_text()
