import json
import multiprocessing

import pytest

from lab.reproduce.records import Record, Records

CONFIG = {"arm": "mixture", "seed": 3}


def record(config=CONFIG, value=0.25):
    return Record("demo", config, {"error": value, "trace": [1, 2.5, None]}, {"varmix": "0.1.0"}, 1.5, 1.25)


def test_a_record_comes_back_as_it_was_written(tmp_path):
    records = Records(tmp_path)
    records.write(record())
    assert records.read("demo", [CONFIG]) == [record()]
    assert not list(tmp_path.rglob("*.part"))


def test_the_order_of_the_keys_does_not_matter_but_every_value_does(tmp_path):
    records = Records(tmp_path)
    records.write(record())
    assert records.has("demo", {"seed": 3, "arm": "mixture"})
    assert not records.has("demo", {"seed": 4, "arm": "mixture"})
    assert not records.has("other", CONFIG)


def test_reading_keeps_the_order_of_the_plan_and_leaves_out_what_is_missing(tmp_path):
    records = Records(tmp_path)
    for seed in (2, 0):
        records.write(record({"seed": seed}, value=seed))
    plan = [{"seed": seed} for seed in range(4)]
    assert [r.config["seed"] for r in records.read("demo", plan)] == [0, 2]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("0.25", "0.26"),
        lambda text: "",
        lambda text: "[1, 2]",
        lambda text: text.replace('"seed":3', '"seed":4'),
    ],
    ids=["torn", "altered", "empty", "a list", "of another run"],
)
def test_a_damaged_record_is_set_aside_by_name_and_not_counted(tmp_path, damage):
    records = Records(tmp_path)
    path = records.write(record())
    path.write_text(damage(path.read_text()))
    content = path.read_bytes()
    assert not records.has("demo", CONFIG)
    (aside,) = records.damaged
    assert aside.name.startswith(path.stem)
    assert "damaged" in aside.name
    assert aside.read_bytes() == content
    assert not path.exists()


def test_bytes_that_are_no_text_are_damage_too(tmp_path):
    records = Records(tmp_path)
    path = records.write(record())
    path.write_bytes(b"\xff\xfe\x00")
    assert records.read("demo", [CONFIG]) == []
    assert len(records.damaged) == 1


def test_any_byte_that_is_changed_is_damage_or_changes_nothing(tmp_path):
    records = Records(tmp_path)
    path = records.write(record(value=3.9316818330000003))
    content = path.read_bytes()
    damaged = 0
    for place in range(len(content)):
        for byte in b"e9N[ ":
            path.write_bytes(content[:place] + bytes([byte]) + content[place + 1 :])
            assert records.read("demo", [CONFIG]) in ([], [record(value=3.9316818330000003)])
            while records.damaged:
                records.damaged.pop().unlink()  # the search for an unused name tries them one by one
                damaged += 1
    assert damaged > 4 * len(content)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"sha256": "", "wall_seconds": NaN}', "null", "\x00" * 500])
def test_whatever_a_file_holds_it_is_set_aside_and_named(tmp_path, text):
    records = Records(tmp_path)
    records.write(record()).write_text(text)
    assert records.read("demo", [CONFIG]) == []
    assert len(records.damaged) == 1


def test_damage_found_twice_is_kept_twice(tmp_path):
    records = Records(tmp_path)
    for _ in range(2):
        records.write(record()).write_text("{")
        assert not records.has("demo", CONFIG)
    assert len({path.name for path in records.damaged}) == 2
    assert all(path.exists() for path in records.damaged)


def test_numbers_that_json_does_not_have_are_refused_and_leave_nothing_behind(tmp_path):
    records = Records(tmp_path)
    with pytest.raises(ValueError, match="JSON compliant"):
        records.write(record(value=float("nan")))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_write_that_fails_leaves_the_old_record(tmp_path, monkeypatch):
    records = Records(tmp_path)
    records.write(record())

    def fail(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        records.write(record(value=0.5))
    assert records.read("demo", [CONFIG]) == [record()]
    assert not list(tmp_path.rglob("*.part"))


def test_the_table_has_a_row_per_run(tmp_path):
    records = Records(tmp_path)
    plan = [{"seed": seed} for seed in range(3)]
    for config in plan[:2]:
        records.write(record(config, value=config["seed"]))
    lines = records.write_table("demo", records.read("demo", plan)).read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["config"]["seed"] for row in rows] == [0, 1]
    assert rows[0]["versions"] == {"varmix": "0.1.0"}
    assert rows[0]["wall_seconds"] == 1.5


def _write_many(folder, seeds):
    for seed in seeds:
        Records(folder).write(record({"seed": seed}, value=seed))


def test_several_processes_may_write_at_once_even_the_same_run(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write_many, args=(tmp_path, range(30))) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    records = Records(tmp_path)
    assert len(records.read("demo", [{"seed": seed} for seed in range(30)])) == 30
    assert records.damaged == []
