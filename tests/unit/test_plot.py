"""What the plots of a run hold: lines, bands, labels and limits."""

import io
import subprocess
import sys

import numpy as np
import pytest

import varmix

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from varmix import plot

LABELS = np.repeat(["common", "rare"], [90, 10])
NORMS = np.repeat([0.1, 3.0], [90, 10])


def run(*sources, norms=NORMS, updates=100, **options):
    sampler = varmix.Sampler(*(sources or (LABELS,)), rng=0, history=True, **options)
    for _ in range(updates):
        draw = sampler.draw(8)
        sampler.update(draw, norms[draw.indices])
    return sampler


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def line(axes, label):
    (found,) = [each for each in axes.lines if each.get_label() == label]
    return found


def level(each):
    """The height of a horizontal line, None for others."""
    heights = set(each.get_ydata())
    return heights.pop() if len(heights) == 1 and list(each.get_xdata()) == [0, 1] else None


def test_shares_are_drawn_over_draws_the_last_ones_largest_first():
    sampler = run()
    axes = plot.shares(sampler)
    history = sampler.history
    assert labels(axes) == ["rare", "common", "share of the points"]
    for name in ("rare", "common"):
        assert line(axes, name).get_xdata().tolist() == history.draws.tolist()
        assert line(axes, name).get_ydata().tolist() == history.shares[name].tolist()
    assert axes.get_xlabel() == "draws with feedback"
    assert axes.get_ylabel() == "share of the draws"
    assert axes.get_ylim()[1] > max(history.shares["rare"].max(), history.shares["common"].max())


def test_the_share_of_the_points_is_dashed_in_the_colour_of_its_component():
    axes = plot.shares(run())
    dashed = {each.get_color(): level(each) for each in axes.lines if level(each) is not None}
    assert dashed == {line(axes, "rare").get_color(): 0.1, line(axes, "common").get_color(): 0.9}
    assert all(each.get_linestyle() == "--" for each in axes.lines if level(each) is not None)


def test_components_that_overlap_have_no_line_for_the_points():
    axes = plot.shares(run(varmix.Dense(np.linspace([0.0, 0.02], [0.02, 0.0], 100))))
    assert labels(axes) == [text for text in labels(axes) if text in ("column 0", "column 1", "uniform")]
    assert len(axes.lines) == 3


@pytest.mark.parametrize("k", [8, 9, 40])
def test_at_most_eight_lines_and_the_rest_is_one(k):
    groups = np.arange(2 * k) % k
    sampler = run(groups, norms=np.where(groups == k - 1, 5.0, 0.1 + groups / k), updates=60)
    axes, columns = plot.shares(sampler), sampler.history.shares
    drawn = [each for each in axes.lines if level(each) is None and len(each.get_xdata())]
    assert len(drawn) == 8
    if k == 8:
        assert not any("others" in text for text in labels(axes))
        return
    named = {text for text in labels(axes) if text.isdigit()}
    largest = sorted(columns, key=lambda name: -columns[name].max())[:7]
    assert named == set(map(str, largest))
    rest = [column for name, column in columns.items() if str(name) not in named]
    assert line(axes, f"{k - 7} others").get_ydata() == pytest.approx(np.sum(rest, axis=0))


def test_two_components_keep_their_colours_when_they_change_places():
    early, late = run(updates=0), run()
    colors = [
        {name: line(plot.shares(each), name).get_color() for name in ("common", "rare")} for each in (early, late)
    ]
    assert labels(plot.shares(early))[0] == "common"
    assert colors[0] == colors[1]


def test_the_gain_is_a_line_with_its_interval_where_it_is_known():
    sampler = run()
    axes, history = plot.gain(sampler), sampler.history
    drawn = line(axes, "all draws so far, 95 % interval")
    assert drawn.get_xdata().tolist() == history.draws.tolist()
    assert drawn.get_ydata().tolist() == history.gain.tolist()
    (band,) = axes.collections
    points = band.get_paths()[0].vertices
    known = np.isfinite(history.gain_high)
    assert not known.all()
    for edge in (history.gain_low, history.gain_high):
        for x, y in zip(history.draws[known], edge[known], strict=True):
            assert ((points[:, 0] == x) & (points[:, 1] == y)).any()
    assert np.isfinite(points).all()
    assert axes.get_ylabel() == "gain over uniform sampling"


def test_one_is_no_gain_and_limits_are_where_the_learner_switches():
    learner = varmix.learners.Cautious(off_below=1.1, on_above=2.0)
    sampler = run(learner=learner)
    axes = plot.gain(sampler)
    heights = {each.get_label(): level(each) for each in axes.lines if level(each) is not None}
    assert heights["no gain"] == 1.0
    assert heights["off below 1.1, fully on above 2"] == 1.1
    assert sorted(heights.values()) == [1.0, 1.1, 2.0]
    assert line(axes, "learned mixture, lately").get_ydata().tolist() == sampler.history.learned_gain.tolist()


def test_a_learner_that_is_always_on_has_no_limits():
    axes = plot.gain(run(learner=varmix.learners.BarrierNewton()))
    assert labels(axes) == ["all draws so far, 95 % interval", "no gain"]


@pytest.mark.parametrize("updates", [0, 1, 2, 300])
def test_all_lines_are_in_sight_however_short_the_run(updates):
    sampler = run(updates=updates)
    for axes in (plot.shares(sampler), plot.gain(sampler)):
        low, high = axes.get_ylim()
        for each in axes.lines:
            assert all(low <= y <= high for y in each.get_ydata())
        drawn = [each for each in axes.lines if level(each) is None and len(each.get_xdata())]
        assert all((each.get_marker() == "o") == (updates == 0) for each in drawn)
        axes.figure.savefig(io.BytesIO())


def test_a_huge_early_interval_does_not_hide_the_gain():
    sampler = run(updates=2)
    for gain in (varmix.meter.Interval(1.5, 1e-200, 1e200), varmix.meter.Interval(1.5, 1e-300, np.inf)):
        sampler.history.record(1000, np.array([0.5, 0.5]), gain, 1.5)
    assert plot.gain(sampler).get_ylim()[1] < 20


def test_sampler_history_and_own_axes_come_to_the_same():
    sampler, figure = run(), Figure()
    own = figure.subplots()
    for draw in (plot.shares, plot.gain):
        own.clear()
        assert draw(sampler.history, ax=own) is own
        assert labels(own) == labels(draw(sampler))


def test_names_are_shown_as_they_are():
    groups = np.repeat(["_hidden", "$x$", "a\nb", "n" * 50], 25)
    axes = plot.shares(run(groups))
    axes.figure.savefig(io.BytesIO())
    assert sorted(labels(axes)) == sorted([" _hidden", r"\$x\$", r"a\nb", "n" * 25 + "...", "share of the points"])


@pytest.mark.parametrize("draw", [plot.shares, plot.gain])
def test_without_a_history_there_is_nothing_to_draw(draw):
    for source, says in ((varmix.Sampler(LABELS), "This Sampler keeps no history"), (None, "There is no history")):
        with pytest.raises(ValueError, match=f"{says}. Build the sampler or the loader with history=True"):
            draw(source)
    for wrong in (LABELS, 3, varmix.Groups(LABELS), varmix.Sampler):
        with pytest.raises(TypeError, match="Pass a sampler or a loader"):
            draw(wrong)


def test_nothing_of_pyplot_is_touched():
    code = (
        "import sys, varmix, varmix.plot as plot;"
        "s = varmix.Sampler([0, 1], history=True);"
        "plot.shares(s); plot.gain(s).figure.savefig('/dev/null', format='png');"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_without_matplotlib_one_message_says_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None; import varmix; varmix.Sampler([0, 1], history=True); varmix.plot"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "varmix.plot needs matplotlib, which is not installed" in ended.stderr
    assert "pip install '.[plot]'" in ended.stderr
    assert "During handling" not in ended.stderr
