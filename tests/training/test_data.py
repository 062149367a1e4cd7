"""Splits, shares and encodings; what cannot be trained on gets a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from datasets.formats.options import TableOptions
from jobs.spec import JobSpec
from jobs.training.data import batches, load_samples, share, split
from jobs.training.settings import Recipe, Refused, load_recipe
from tests.conftest import DATA
from tests.training.conftest import DIGITS

WISH = {"name": "t", "data": {"version_id": 1}, "stop": {"epochs": 1}}


def recipe(label: str | None = None, **parameters) -> Recipe:
    return Recipe(JobSpec.model_validate({**WISH, "parameters": parameters}), TableOptions(), label)


def table(tmp_path, text: str):
    path = tmp_path / "data"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
def test_ranks_share_every_batch_without_overlap(world_size):
    seen: list[int] = []
    for rows in batches(100, 16, seed=3, epoch=5):
        parts = [share(rows, rank, world_size) for rank in range(world_size)]
        assert sorted(np.concatenate(parts)) == sorted(rows)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        seen += list(rows)
    assert sorted(seen) == list(range(100))


def test_an_epochs_order_depends_on_seed_and_epoch_and_can_be_entered_anywhere():
    whole = np.concatenate(list(batches(50, 8, seed=1, epoch=2)))
    assert (np.concatenate(list(batches(50, 8, seed=1, epoch=2, start=16))) == whole[16:]).all()
    assert (np.concatenate(list(batches(50, 8, seed=1, epoch=3))) != whole).any()
    assert (np.concatenate(list(batches(50, 8, seed=2, epoch=2))) != whole).any()


def test_split_keeps_the_share_of_every_class_and_leaves_out_rows_without_label():
    labels = np.array([0] * 80 + [1] * 20 + [2] + [-1] * 5)
    train, validation = split(labels, 0.25, seed=0)
    assert [int((labels[validation] == c).sum()) for c in (0, 1, 2)] == [20, 5, 0]
    assert sorted([*train, *validation]) == list(range(101))
    again, _ = split(labels, 0.25, seed=0)
    assert (again == train).all()


def test_digits_are_read_standardised():
    samples = load_samples(recipe("label"), DIGITS, 2)
    assert (len(samples.labels), samples.classes) == (1797, [str(n) for n in range(10)])
    train = samples.features[: samples.train_count]
    assert abs(float(train.mean())) < 1e-3
    assert np.isfinite(samples.features).all()


def test_words_become_inputs_and_gaps_become_the_mean(tmp_path):
    rows = "".join(f"{i if i % 5 else ''},{'red' if i % 2 else 'blue'},w{i},{'ab'[i % 2]}\n" for i in range(200))
    samples = load_samples(recipe(), table(tmp_path, "x,colour,word,label\n" + rows), 1)
    assert [code.kind for code in samples.encoder] == ["standardised", "one_hot", "hashed"]
    assert samples.features.shape == (200, 1 + 2 + 64)
    assert set(np.unique(samples.features[:, 1:])) == {0.0, 1.0}
    assert (samples.features[:, 0] == 0).sum() >= 40


def test_labels_that_look_like_numbers_stay_words(tmp_path):
    text = "x,label\n" + "".join(f"{i},0{i % 2}\n" for i in range(20))
    assert load_samples(recipe(), table(tmp_path, text), 1).classes == ["00", "01"]


@pytest.mark.parametrize(
    ("text", "label", "words"),
    [
        ("x,label\n1,a\n2,a\n3,a\n", None, "only one class ('a')"),
        ("x,label\n1,\n2,\n", None, "no values"),
        ("x,label\n1,a\n2,b\n", "y", "no column 'y'. It has: x, label"),
        ("x,label\n1,a\n2,b\n", None, "leaves no row to validate on"),
        ("x,label\n" + "1,a\n1,b\n" * 20, None, "nothing to learn from"),
        ("x,label\n" + "".join(f"{i},{i * 1.5}\n" for i in range(1500)), None, "1500 different values"),
        ("x,label\n1,a\n2\n", None, "line 3 has 1 fields"),
    ],
)
def test_what_cannot_be_trained_on_gets_a_sentence(tmp_path, text, label, words):
    with pytest.raises(Refused) as refusal:
        load_samples(recipe(label), table(tmp_path, text), 1)
    assert words in str(refusal.value)


def test_a_table_of_the_collection_with_gaps_and_text_in_numbers_is_taken():
    samples = load_samples(recipe(), DATA / "tables" / "mixed_types.csv", 1)
    assert len(samples.labels) == 6000
    assert np.isfinite(samples.features).all()


def test_options_and_types_come_from_the_inspection():
    facts = {"read_as": {"delimiter": ";"}, "columns": [{"name": "v", "type": "number"}]}
    loaded = load_recipe({**WISH, "dataset": {"options": {}, "facts": facts, "label": "label"}})
    assert (loaded.options.delimiter, loaded.types, loaded.label) == (";", {"v": "number"}, "label")


def test_a_target_the_recipe_does_not_report_is_refused():
    wish = {**WISH, "stop": {"epochs": 1, "target": {"metric": "f1", "value": 1}}}
    with pytest.raises(Refused, match="no metric 'f1'"):
        load_recipe(wish)
