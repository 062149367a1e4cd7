"""Reading tables: whatever bytes come, there is an answer; and training reads what the inspection saw."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasets.formats.facts import MAX_JSON_BYTES, fit_json
from datasets.formats.options import TableOptions, Unreadable
from datasets.formats.table import decision, inspect, preview, read, sniff

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path):
    def write(content: bytes | str) -> Path:
        path = tmp_path / "data"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def words(facts) -> str:
    return "\n".join(finding.text for finding in [*facts.problems, *facts.warnings])


PIECES = st.sampled_from(
    [b",", b";", b"\t", b'"', b"\n", b"\r", b"\0", b"a", b"1", b"-1e400", b"\xff\xfe", b"\xc3", b"=", b" "]
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PIECES, max_size=60).map(b"".join) | st.binary(max_size=200))
def test_any_bytes_get_an_answer(tmp_path, content):
    path = tmp_path / "any"
    path.write_bytes(content)
    facts = inspect(path)
    assert decision(facts) in ("accept", "question", "refuse")
    assert "\\u0000" not in json.dumps(fit_json(facts), allow_nan=False)
    if decision(facts) == "accept":
        assert read(path, TableOptions()).rows == facts.rows


def test_read_gives_numbers_words_and_gaps(file):
    path = file("x,colour,label\n1,red,a\n,blue,b\ninf,,a\n" + "2,red,b\n" * 60 + "12 kg,red,b\n")
    table = read(path, TableOptions(), as_text=frozenset({"label"}))
    x, colour, label = table.columns
    assert x.numbers[0] == 1
    assert math.isnan(x.numbers[1])
    assert math.isinf(x.numbers[2])
    assert math.isnan(x.numbers[-1])
    assert [colour.values[code] if code >= 0 else None for code in colour.codes[:3]] == ["red", "blue", None]
    assert label.values == ["a", "b"]


def test_known_types_give_the_same_table_as_a_second_look(file):
    path = file("a;b\n1;x\n2;y\n")
    types = {column.name: column.type for column in inspect(path).columns}
    first, second = read(path, TableOptions()), read(path, TableOptions(), types=types)
    assert (first.columns[0].numbers == second.columns[0].numbers).all()
    assert (first.columns[1].codes == second.columns[1].codes).all()


def test_a_chosen_encoding_that_does_not_fit_is_refused_with_byte_and_line(file):
    facts = inspect(file(b"a,label\n1,x\n2,\x96\n"), TableOptions(encoding="utf-8"))
    assert decision(facts) == "refuse"
    assert "Line 3: byte 0x96" in words(facts)
    assert "no known encoding" in words(inspect(file("a,b\n1,2\n"), TableOptions(encoding="klingon")))


def test_a_codec_that_is_no_text_encoding_is_refused(file):
    for name in ("base64", "rot13", "zlib", "undefined"):
        assert decision(inspect(file("a,b\n1,2\n"), TableOptions(encoding=name))) == "refuse"


@pytest.mark.parametrize(
    "encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-8-sig", "cp1251", "gb18030", "shift_jis"]
)
def test_words_of_other_encodings_are_recovered(file, encoding):
    word = {
        "cp1251": "Привет, это длинный текст",
        "gb18030": "样品合格不合格",
        "shift_jis": "これは日本語のテキストです",
    }
    text = word.get(encoding, "Größe")
    body = "".join(f'{n},"{text}",a\n' for n in range(30))
    facts = inspect(file(("n,text,label\n" + body).encode(encoding)))
    assert facts.rows == 30, words(facts)
    assert facts.preview[0][1] == text


def test_a_words_only_table_without_names_is_asked_about(file):
    assert inspect(file("red,yes\nblue,no\nred,no\nblue,yes\n")).question == "header"
    assert inspect(file("colour,answer\nblue,no\nred,no\nblue,yes\n")).question == ""


def test_names_made_up_never_meet_given_ones(file):
    facts = inspect(file("a,a,a (2),,column_4,label\n1,2,3,4,5,x\n2,3,4,5,6,y\n"))
    names = [column.name for column in facts.columns]
    assert len(set(names)) == 6
    assert (names[0], names[2], names[4]) == ("a", "a (2)", "column_4")


def test_an_unknown_label_is_asked_about(file):
    facts = inspect(file("a,b\n1,2\n"), TableOptions(label="c"))
    assert (decision(facts), facts.question) == ("question", "label")


def test_ragged_rows_are_counted_and_the_first_twenty_named(file):
    facts = inspect(file("a,b\n" + "1,2\n" + "1,2,3\n" * 50))
    assert (len(facts.problems), facts.problem_count) == (20, 50)
    assert facts.problems[0].line == 3


def test_a_quoted_cell_may_hold_line_ends_and_lines_are_counted_in_the_file(file):
    facts = inspect(file('a,b\n"x\ny",1\n1,2,3\n'))
    assert facts.problems[0].line == 4


def test_five_thousand_columns_stay_within_the_answers_size(file):
    names = ",".join(f"a rather long column name {n}" for n in range(5000))
    row = ",".join(f"value {n}" for n in range(5000))
    facts = inspect(file(f"{names}\n{row}\n{row}x\n"))
    assert (facts.rows, len(facts.columns)) == (2, 5000)
    assert len(json.dumps(fit_json(facts)).encode()) <= MAX_JSON_BYTES + 6000


def test_preview_is_text_as_in_the_file(file):
    assert preview(file("id,zip\n9007199254740993,007\n"), TableOptions(header=True)) == [["9007199254740993", "007"]]


def test_a_renamed_picture_is_named(file):
    with pytest.raises(Unreadable, match="an image"):
        sniff(file(b"\x89PNG\r\n\x1a\n" + b"\0" * 50))


def test_inspection_uses_bounded_memory(tmp_path):
    """A file ten times as large costs hardly more memory."""
    sizes = []
    for rows in (20_000, 200_000):
        path = tmp_path / f"{rows}"
        numbers = np.random.default_rng(0).normal(size=(1000, 5))
        block = "\n".join(",".join(f"{value:.6f}" for value in row) + ",a" for row in numbers) + "\n"
        path.write_text("a,b,c,d,e,label\n" + block * (rows // 1000))
        code = (
            "import sys, resource; from pathlib import Path; from datasets.formats.table import inspect\n"
            "assert inspect(Path(sys.argv[1])).rows == int(sys.argv[2])\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, path, str(rows)], cwd=ROOT, capture_output=True, text=True, check=True
        )
        sizes.append(int(done.stdout))
    assert sizes[1] < sizes[0] * 1.5


@pytest.mark.parametrize(
    ("content", "expected"), [("a,label\n1,x\n2,y\n", "accept"), ("", "refuse"), ("1,2\n3,4\n", "question")]
)
def test_the_inspections_program_writes_its_answer(tmp_path, content, expected):
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "data").write_text(content)
    (tmp_path / "spec.json").write_text(
        json.dumps({"kind": "inspect", "file_name": "t.csv", "options": {"label": None}})
    )
    done = subprocess.run(
        [sys.executable, "-m", "datasets.formats.inspect_main"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TRAINYARD_FOLDER": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["kind"], result["decision"]) == ("table", expected)
    assert expected in done.stdout
