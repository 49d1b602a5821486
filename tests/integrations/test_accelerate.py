"""Loaders that went through accelerate: those of one process work, shared out ones are refused."""

import pytest
from torch.utils.data import DataLoader

from support import process_group
from support.loaders import LABELS, Numbers
from varmix.torch import MixtureBatchSampler

pytest.importorskip("accelerate")


def make():
    return MixtureBatchSampler(LABELS, 8, rng=0)


def loader_of(batches):
    return DataLoader(batches.tagged(Numbers()), batch_sampler=batches, collate_fn=batches.collate())


@pytest.mark.filterwarnings("ignore")
def test_accelerate_takes_the_loader_of_one_process_and_is_refused_with_several():
    from accelerate import data_loader

    batches, plain = make(), make()
    prepared = data_loader.prepare_data_loader(loader_of(batches), num_processes=1, process_index=0)
    assert [numbers.tolist() for numbers, *_ in prepared] == [numbers.tolist() for numbers, *_ in loader_of(plain)]
    for rank in range(2):
        for split in (False, True):
            batches = make()
            several = data_loader.prepare_data_loader(
                loader_of(batches), num_processes=2, process_index=rank, split_batches=split
            )
            with pytest.raises(RuntimeError, match=r"BatchSamplerShard would share out .* out of accelerator\.prepare"):
                next(iter(several))
            assert batches.sampler.draw(1).serial == 0  # nothing was drawn


def test_a_loader_that_went_through_accelerate_is_refused_on_all_processes(tmp_path):
    for found in process_group.start("accelerated", 2, tmp_path):
        error, batches = found["accelerated"]
        assert error.startswith("RuntimeError: BatchSamplerShard would share out batches among 2 processes")
        assert batches == 5  # of the loader that it was made of
