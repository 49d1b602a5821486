"""The Trainer of transformers trains with adaptive batches, and goes on from its checkpoints with the same ones."""

import inspect
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, default_data_collator

from support.loaders import EAGER
from varmix.torch import MixtureBatchSampler, norms

PAGE = Path(__file__).parents[2] / "docs" / "torch.md"
N, BATCH = 102, 10


class MixtureTrainer(Trainer):
    """Trains on batches of a MixtureBatchSampler."""

    def __init__(self, *arguments, batches, **options):
        super().__init__(*arguments, **options)
        self.batches = batches
        self.model_accepts_loss_kwargs = False  # the loss is a mean: accumulated ones are for the Trainer to divide
        self.add_callback(SaveBatches(batches))

    def get_train_dataloader(self):
        data, collate = self.batches.tagged(self.train_dataset), self.batches.collate(self.data_collator)
        workers = self.args.dataloader_num_workers
        return DataLoader(data, batch_sampler=self.batches, collate_fn=collate, num_workers=workers)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        weight, draw_id = inputs.pop("weight", None), inputs.pop("draw_id", None)
        if weight is None:  # evaluation, which has loaders of its own
            return super().compute_loss(model, inputs, return_outputs)
        outputs = model(**inputs)
        logits, labels = outputs["logits"], inputs["labels"]
        self.batches.update(draw_id, norms.last_layer(logits, labels))
        loss = (weight * cross_entropy(logits, labels, reduction="none")).mean()
        return (loss, outputs) if return_outputs else loss


class SaveBatches(TrainerCallback):
    """Keeps the state of the batches in every checkpoint."""

    def __init__(self, batches):
        self.batches = batches

    def on_save(self, args, state, control, **others):
        folder = f"{args.output_dir}/checkpoint-{state.global_step}"
        torch.save(self.batches.state_dict(), f"{folder}/batches.pt")


def data():
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor([60, 30, 12]))
    return torch.randn(N, 4, generator=torch.Generator().manual_seed(0)), labels


class Rows(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, index):
        x, labels = data()
        return {"x": x[index], "labels": labels[index]}


class Scores(torch.nn.Module):
    """Takes any keywords, as models of transformers do."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x, labels=None, **others):
        logits = self.linear(x)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


def adaptive():
    """Return batches of a mixture that is played from the first one on."""
    return MixtureBatchSampler(data()[1], batch_size=BATCH, learner=EAGER, rng=0)


def build(folder, workers=0, **options):
    torch.manual_seed(0)
    arguments = TrainingArguments(
        str(folder),
        use_cpu=True,
        learning_rate=0.1,
        optim="sgd",
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        dataloader_num_workers=workers,
        dataloader_pin_memory=False,
        ignore_data_skip=True,
        report_to=[],
        disable_tqdm=True,
        **{"num_train_epochs": 2, "save_strategy": "no", "logging_strategy": "no", **options},
    )
    return MixtureTrainer(
        Scores(),
        arguments,
        train_dataset=Rows(),
        eval_dataset=Rows(),
        data_collator=default_data_collator,
        batches=adaptive(),
    )


def weights(trainer):
    return trainer.model.linear.weight.tolist()


def by_hand(accumulated):
    """Train in a loop of our own, as the Trainer should."""
    torch.manual_seed(0)
    (x, labels), model, batches = data(), Scores(), adaptive()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        drawn = iter(batches)
        while several := list(islice(drawn, accumulated)):
            optimiser.zero_grad()
            for slots in several:
                logits, weight = model.linear(x[slots]), torch.from_numpy(slots.weights).float()
                losses = cross_entropy(logits, labels[slots], reduction="none")
                ((weight * losses).mean() / len(several)).backward()
                batches.update(slots.draw_id, norms.last_layer(logits, labels[slots]))
            optimiser.step()
    return model.linear.weight.tolist(), batches.mixture.tolist()


@pytest.mark.parametrize("accumulated", [1, 2])
def test_it_trains_as_a_loop_of_ones_own(accumulated, tmp_path):
    trainer = build(tmp_path, gradient_accumulation_steps=accumulated)
    trainer.train()
    assert trainer.batches.meter.draws == 2 * N
    assert (weights(trainer), trainer.batches.mixture.tolist()) == by_hand(accumulated)


def test_evaluation_has_loaders_of_its_own(tmp_path):
    trainer = build(tmp_path)
    with torch.no_grad():
        expected = trainer.model(*data())["loss"].item()
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5)
    assert trainer.batches.meter.draws == 0


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("stop", [4, 11, 15])
def test_a_run_goes_on_from_a_checkpoint(workers, stop, tmp_path):
    whole = build(tmp_path, workers, save_strategy="steps", save_steps=stop, save_total_limit=None)
    whole.train()
    again, folder = build(tmp_path, workers), tmp_path / f"checkpoint-{stop}"
    again.batches.load_state_dict(torch.load(folder / "batches.pt", weights_only=True))
    again.train(resume_from_checkpoint=str(folder))
    assert weights(again) == weights(whole)
    assert again.batches.mixture.tolist() == whole.batches.mixture.tolist()
    assert again.batches.meter.draws == 2 * N


@pytest.mark.parametrize("shown", [MixtureTrainer, SaveBatches])
def test_the_page_shows_this_very_code(shown):
    assert inspect.getsource(shown) in PAGE.read_text()
