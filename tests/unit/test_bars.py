"""What `print(sampler)` and `varmix inspect` show: plain text, 80 columns, the largest shares."""

import re

import numpy as np
import pytest

import varmix
from varmix._core.bars import format_bars

LABELS = np.repeat(["common", "rare"], [90, 10])


def learn(sampler, norms, updates=200, m=8):
    for _ in range(updates):
        draw = sampler.draw(m)
        sampler.update(draw, norms[draw.indices])
    return sampler


def shown(sampler):
    heading, *bars = str(sampler).splitlines()
    return heading, bars


def test_a_sampler_shows_its_shares_beside_those_of_the_points():
    sampler = learn(varmix.Sampler(LABELS, rng=0), np.repeat([0.1, 3.0], [90, 10]))
    heading, bars = shown(sampler)
    assert heading.startswith(f"Sampler: 1,600 draws with feedback, gain {sampler.gain}, ")
    found = [re.fullmatch(r"  (\w+) +(#+) +(0\.\d{3})  \(points (0\.\d{3})\)", line).groups() for line in bars]
    assert [name for name, *_ in found] == ["rare", "common"]  # the largest first
    for name, bar, share, points in found:
        assert float(share) == pytest.approx(sampler.shares[name], abs=5.1e-4)
        assert float(points) == {"rare": 0.1, "common": 0.9}[name]
        assert len(bar) == round(26 * sampler.shares[name] / sampler.shares["rare"])


def test_the_heading_says_whether_the_learned_mixture_is_on():
    norms = np.repeat([0.1, 3.0], [90, 10])
    assert shown(varmix.Sampler(LABELS))[0].endswith("gain 1 [?], mixture off")
    assert shown(learn(varmix.Sampler(LABELS, rng=0), norms))[0].endswith("mixture on")
    between = varmix.learners.Cautious(off_below=1.0, on_above=10.0)
    assert re.search(r"mixture \d+ % on$", shown(learn(varmix.Sampler(LABELS, rng=0, learner=between), norms))[0])
    assert shown(varmix.Sampler(varmix.Groups(LABELS)))[0].endswith("mixture always on")
    assert shown(varmix.uniform(10))[0].endswith("fixed mixture")


def test_with_a_target_its_shares_are_beside_those_of_the_draws():
    target = varmix.Groups(LABELS, target=np.where(LABELS == "rare", 9.0, 1.0))
    assert shown(varmix.Sampler(target))[1][0].endswith("(target 0.500)")


def test_components_that_overlap_have_no_share_of_the_points():
    _, bars = shown(varmix.Sampler(varmix.Dense(np.linspace([0.0, 0.02], [0.02, 0.0], 100))))
    assert len(bars) == 3
    assert not any("(" in line for line in bars)


@pytest.mark.parametrize("k", [1, 2, 10, 11, 47, 1000])
def test_at_most_twelve_lines_of_80_columns_whatever_there_is_to_show(k):
    labels = [f"a group with a name that goes on and on, {i}" for i in range(k)] * 3
    sampler = learn(varmix.Sampler(labels, rng=0), np.linspace(0.1, 9.0, 3 * k), updates=200 if k < 100 else 1)
    lines = str(sampler).splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 80
    assert str(sampler).isascii()
    if k > 10:
        count, share, points = re.fullmatch(
            r"  \.\.\. and ([\d,]+) more: (0\.\d{3}) together  \(points (0\.\d{3})\)", lines[-1]
        ).groups()
        largest = sorted(sampler.shares.values(), reverse=True)[:10]
        assert int(count) == k - 10
        assert float(share) == pytest.approx(1.0 - sum(largest), abs=5.1e-4)
        assert float(points) == pytest.approx(1.0 - 10 / k, abs=5.1e-4)


def test_a_long_heading_is_wrapped():
    sampler = varmix.Sampler(LABELS, rng=0)
    sampler.meter.add_moments(varmix.meter.Moments(10**15, 1.0, 0.4511, 1.0, 1.0, 1.0))
    lines = str(sampler).splitlines()
    assert "1,000,000,000,000,000 draws" in lines[0]
    assert max(map(len, lines)) <= 80


def test_labels_cannot_move_the_cursor():
    assert "\x1b" not in str(varmix.Sampler(["\x1b[2J", "b\nc", "b\nc"]))
    assert len(str(varmix.Sampler(["\x1b[2J", "b\nc", "b\nc"])).splitlines()) == 3


def test_repr_stays_one_line():
    assert len(repr(varmix.Sampler(LABELS)).splitlines()) == 1


def test_bars_in_their_own_order_and_with_none_left_out():
    lines = format_bars(list("abc"), np.array([0.1, 0.7, 0.2]))
    assert [line.split()[0] for line in lines] == ["a", "b", "c"]
    assert [line.count("#") for line in lines] == [4, 26, 7]


def test_inspect_draws_the_same_bars(tmp_path, capsys):
    from varmix.__main__ import main

    sampler = varmix.vrm(varmix.Groups(LABELS), rng=0)
    varmix.save(tmp_path / "state", sampler)
    assert main(["inspect", str(tmp_path / "state")]) == 0
    printed = capsys.readouterr().out
    names = ["component 0", "component 1", "uniform"]
    assert printed.endswith("\n".join(["Mixture", *format_bars(names, sampler.mixture)]) + "\n")
