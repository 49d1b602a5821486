"""Lightning trains with adaptive batches, and goes on from its checkpoints with the same ones."""

import doctest
import inspect
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("lightning")

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from support.loaders import EAGER
from varmix.torch import MixtureBatchSampler, norms

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning"),
    pytest.mark.filterwarnings("ignore:Consider setting `persistent_workers=True`:UserWarning"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`:UserWarning"),
]
PAGE = Path(__file__).parents[2] / "docs" / "torch.md"
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}


class Classifier(lightning.LightningModule):
    """Learns from batches that are drawn by class."""

    def __init__(self, x, y, workers=0):
        super().__init__()
        self.model = torch.nn.Linear(x.shape[1], 3)
        self.data, self.labels, self.workers = TensorDataset(x, y), y, workers

    def setup(self, stage):
        self.batches = MixtureBatchSampler(self.labels, batch_size=10, rng=0)

    def train_dataloader(self):
        data, collate = self.batches.tagged(self.data), self.batches.collate()
        return DataLoader(data, batch_sampler=self.batches, collate_fn=collate, num_workers=self.workers)

    def training_step(self, batch, step):
        x, y, weight, draw_id = batch
        logits = self.model(x)
        self.batches.update(draw_id, norms.last_layer(logits, y))
        return (weight * cross_entropy(logits, y, reduction="none")).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_save_checkpoint(self, checkpoint):
        checkpoint["batches"] = self.batches.state_dict()

    def on_load_checkpoint(self, checkpoint):
        self.batches.load_state_dict(checkpoint["batches"])


class Eager(Classifier):
    """The same with a mixture that is played from the first batch on."""

    def setup(self, stage):
        self.batches = MixtureBatchSampler(self.labels, batch_size=10, learner=EAGER, rng=0)


class Recorder(lightning.Callback):
    def __init__(self):
        self.seen = []

    def on_train_batch_end(self, trainer, module, outputs, batch, step):
        x, _, weight, draw_id = batch
        self.seen.append((x[:, 0].tolist(), weight.tolist(), int(draw_id) % 2**31, module.batches.mixture.tolist()))


def data():
    y = torch.repeat_interleave(torch.arange(3), torch.tensor([60, 30, 12]))
    return torch.randn(102, 4, generator=torch.Generator().manual_seed(0)), y


def fit(workers, callbacks=(), path=None, kind=Eager, **options):
    """Train, and give what was seen and the parameters."""
    torch.manual_seed(0)
    model, recorder = kind(*data(), workers), Recorder()
    trainer = lightning.Trainer(
        accelerator="cpu",
        use_distributed_sampler=False,
        enable_checkpointing=any(isinstance(each, ModelCheckpoint) for each in callbacks),
        callbacks=[recorder, *callbacks],
        **QUIET,
        **options,
    )
    trainer.fit(model, ckpt_path=path)
    return recorder.seen, model.model.weight.tolist(), model.batches


def test_every_batch_is_learned_from():
    seen, _, batches = fit(0, max_epochs=2)
    assert batches.meter.draws == 2 * 102
    assert len({str(mixture) for *_, mixture in seen}) == len(seen) == 2 * len(batches)


def test_the_code_of_the_page_runs():
    seen, _, batches = fit(0, kind=Classifier, max_epochs=2)
    assert batches.meter.draws == 2 * 102
    assert len({number for _, _, number, _ in seen}) == len(seen)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_goes_on_from_the_end_of_an_epoch(workers, tmp_path):
    whole, weights, _ = fit(workers, max_epochs=2)
    saver = ModelCheckpoint(tmp_path, filename="epoch")
    before, _, _ = fit(workers, [saver], max_epochs=1)
    after, again, _ = fit(workers, path=tmp_path / "epoch.ckpt", max_epochs=2)
    assert before + after == whole
    assert again == weights


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("stop", [4, 11, 15])
def test_a_run_goes_on_from_the_middle_of_an_epoch(workers, stop, tmp_path):
    whole, weights, _ = fit(workers, max_epochs=2)
    saver = ModelCheckpoint(tmp_path, filename="step", every_n_train_steps=stop)
    before, _, _ = fit(workers, [saver], max_epochs=2, max_steps=stop)
    after, again, _ = fit(workers, path=tmp_path / "step.ckpt", max_epochs=2)
    assert before + after == whole
    assert again == weights


SCRIPT = """
import gc, json, sys, warnings
from pathlib import Path

warnings.simplefilter("ignore")
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from test_lightning import fit

if __name__ == "__main__":  # Lightning starts this once more, for the second process
    folder = Path(sys.argv[1])
    pair = {"devices": 2, "strategy": "ddp", "max_epochs": 2}
    saver = ModelCheckpoint(folder, filename="step", every_n_train_steps=7)
    runs = [fit(1, **pair), fit(1, [saver], max_steps=7, **pair), fit(1, path=folder / "step.ckpt", **pair)]
    said = [{"seen": seen, "weights": weights, "layout": batches.layout.name} for seen, weights, batches in runs]
    (folder / f"{torch.distributed.get_rank()}.json").write_text(json.dumps(said))
    del runs
    gc.collect()  # as in training.py
"""


def run_together(command, environment, tries=2):
    """Run a command with all that it starts; return its exit code and its errors.

    CPython 3.11 may hang in a worker that is forked while a thread of torch asks for the interpreter, about once in
    hundreds of runs on a busy machine.  So it is tried a second time.
    """
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
        try:
            _, errors = run.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            errors = "It took more than 300 seconds."
    return (
        run_together(command, environment, tries - 1) if run.returncode < 0 and tries > 1 else (run.returncode, errors)
    )


def test_two_processes_train_as_one_and_go_on_as_one(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), str(tmp_path)]
    code, errors = run_together(command, environment)
    assert code == 0, errors
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert {run["layout"] for run in first} == {"replicated"}
    for mine, other in zip(first, second, strict=True):
        assert mine["weights"] == other["weights"]
        assert [row[2:] for row in mine["seen"]] == [row[2:] for row in other["seen"]]  # draws and mixtures
    for whole, before, after in (first, second):
        assert before["seen"] + after["seen"] == whole["seen"]
        assert after["weights"] == whole["weights"]


def test_the_page_shows_this_very_code():
    shown = [example.source for example in doctest.DocTestParser().get_examples(PAGE.read_text())]
    assert inspect.getsource(Classifier) in shown
