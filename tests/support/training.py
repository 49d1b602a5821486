"""Training on several processes: torchrun --standalone --nproc-per-node=2 train.py checkpoint.pt"""

import gc
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

from varmix.torch import AdaptiveLoader, norms


def main(path, epochs=5):
    dist.init_process_group("gloo")  # "nccl" on GPUs
    torch.manual_seed(0)  # the same data and the same model on every process
    labels = (torch.rand(2000) < 0.02).long()
    data = TensorDataset(torch.randn(2000, 10) + 0.5 * labels[:, None], labels)
    model = DistributedDataParallel(torch.nn.Linear(10, 2))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    loader = AdaptiveLoader(data, labels, batch_size=64, rng=0)  # 64 on all processes together
    if path.exists():
        state = torch.load(path, weights_only=True)
        model.module.load_state_dict(state["model"])
        loader.load_state_dict(state["loader"])
    for _ in range(epochs):
        for (x, y), draw in loader:
            logits = model(x)
            losses = cross_entropy(logits, y, reduction="none")
            optimiser.zero_grad()
            (draw.weights * losses).mean().backward()
            optimiser.step()
            loader.update(draw, norms.last_layer(logits, y))
        if dist.get_rank() == 0:
            print(f"epoch {loader.epoch}: gain {loader.gain}", flush=True)
            torch.save({"model": model.module.state_dict(), "loader": loader.state_dict()}, path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    gc.collect()  # gloo of PyTorch 2.13 may abort a process that exits while its tensors are still about
