"""Prefetching, and threads that sample, write and give feedback."""

import threading

import numpy as np

from support.torchrl_buffers import buffer, feed, torch, transitions
from varmix._core.spaces import Window


def test_prefetched_batches_bring_their_own_receipts():
    rb = buffer(batch_size=16, prefetch=3)
    for _ in range(20):
        batch = rb.sample()
        assert torch.equal(batch["value"], batch["index"].double())
        [(receipt, rows, _)] = rb.sampler._slots._book.find(batch["receipt"].numpy())
        assert np.array_equal(receipt.ids[rows], batch["index"].numpy())
        assert np.allclose(1 / receipt.draw.density, batch["priority_weight"].numpy(), rtol=1e-6)
        feed(rb, batch)
        assert receipt.draw is None


def test_threads_may_sample_write_and_give_feedback_at_once():
    rb = buffer(batch_size=16)
    failures = []

    def work(seed):
        try:
            for i in range(30):
                feed(rb, rb.sample())
                rb.extend(transitions(3, start=100 * seed + i))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert rb.sampler.replay.space == Window(100, first=80 + 4 * 30 * 3 - 100)
    assert np.isclose(rb.sampler.sampler.mixture.sum(), 1.0)


def test_feedback_waits_while_another_thread_draws(monkeypatch):
    rb = buffer()
    batch, draw = rb.sample(8), rb.sampler._slots.draw
    late = threading.Thread(target=feed, args=(rb, batch))

    def slow_draw(m):
        late.start()
        late.join(timeout=0.5)
        assert late.is_alive()  # it would have come back, were it not kept waiting
        return draw(m)

    monkeypatch.setattr(rb.sampler._slots, "draw", slow_draw)
    before = rb.sampler.sampler.mixture
    rb.sample(8)
    late.join()
    assert not np.array_equal(rb.sampler.sampler.mixture, before)
