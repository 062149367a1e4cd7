"""Every table of the case collection gets the decision, the counts and the words that its manifest entry asks for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datasets.formats.facts import TableFacts, fit_json
from datasets.formats.options import TableOptions
from datasets.formats.table import decision, inspect

DATA = Path(__file__).parents[1] / "data"
CASES = {
    case["id"]: case
    for case in json.loads((DATA / "manifest.json").read_text("utf-8"))["cases"]
    if case["path"].startswith("tables/")
}
DECISIONS = {"accept": "accept", "accept_warn": "accept", "ask": "question", "reject": "refuse"}


@pytest.fixture(params=sorted(CASES))
def case(request):
    return CASES[request.param]


def facts_of(case) -> TableFacts:
    return inspect(DATA / case["path"])


def sentences(facts: TableFacts) -> str:
    return "\n".join(finding.text for finding in [*facts.problems, *facts.warnings])


def test_decision_is_the_expected_one(case):
    facts = facts_of(case)
    assert decision(facts) == DECISIONS[case["expect"]["decision"]], sentences(facts)


def test_counts_names_and_classes_are_the_expected_ones(case):
    facts, expect = facts_of(case), case["expect"]
    if "rows" in expect:
        assert (facts.rows, len(facts.columns)) == (expect["rows"], expect["columns"])
    if "label" in expect:
        assert facts.label == expect["label"]
    if "column_names" in expect:
        assert [column.name for column in facts.columns] == expect["column_names"]
    if "classes" in expect:
        assert facts.classes == expect["classes"]
    if "class_names" in expect:
        assert sorted(facts.classes) == expect["class_names"]


def test_every_expected_word_is_said(case):
    facts, expect = facts_of(case), case["expect"]
    said = sentences(facts) + f"\n{facts.question}"
    for words in [*expect.get("warnings", []), *expect.get("error_names", [])]:
        assert words in said, said
    if expect["decision"] == "accept":
        assert [*facts.warnings, *facts.problems] == []


def test_json_holds_no_infinity_no_nul_and_none_of_the_forbidden_texts(case):
    facts = facts_of(case)
    text = json.dumps(fit_json(facts), allow_nan=False, ensure_ascii=False)
    assert len(text.encode()) <= 256 * 1024
    assert "\\u0000" not in json.dumps(fit_json(facts))
    for forbidden in ("codec can't decode", "field larger than field limit", "�"):
        assert forbidden not in text


def test_preview_shows_cells_exactly_as_they_stand_in_the_file():
    facts = facts_of(CASES["tab_big_ints"])
    expect = CASES["tab_big_ints"]["expect"]
    first = dict(zip([column.name for column in facts.columns], facts.preview[0], strict=True))
    assert first["id"] == expect["preview_first_row_id"]
    assert first["zip"] == expect["preview_first_row_zip"]
    types = {column.name: column.type for column in facts.columns}
    assert types == {"id": "integer", "zip": "text", "x": "number", "label": "text"}
    assert facts.columns[0].min == "9007199254740993"


def test_a_table_without_names_is_read_whole_once_a_person_says_so():
    facts = inspect(DATA / "tables" / "no_header.csv", TableOptions(header=False))
    assert decision(facts) == "accept"
    assert (facts.rows, facts.label) == (67, "column_4")
    assert facts.columns[3].classes.keys() == {"0", "1", "2"}


def test_both_columns_of_one_name_are_kept_apart():
    facts = facts_of(CASES["tab_dup_columns"])
    assert [column.name for column in facts.columns] == ["id", "score", "score (3)", "column_4", "Score", "label"]
    assert facts.columns[1].mean != facts.columns[2].mean


def test_a_trailing_delimiter_shifts_no_column():
    facts = facts_of(CASES["tab_trailing_delim"])
    assert [column.type for column in facts.columns] == ["number", "number", "text"]


def test_every_value_that_is_no_number_is_listed_with_its_line():
    weight = facts_of(CASES["tab_mixed_types"]).columns[1]
    assert weight.type == "number"
    assert (weight.examples[0].line, weight.examples[0].text) == (5202, "1,234")
    assert {item.text for item in weight.examples} == {"1,234", "N/A", "unknown", "12 kg"}


def test_alike_labels_stay_four_classes():
    assert len(facts_of(CASES["tab_label_blank"]).classes) == 5


def test_a_long_cell_is_cut_in_the_preview_only():
    facts = facts_of(CASES["tab_huge_field"])
    assert max(len(cell) for row in facts.preview for cell in row) <= 200
