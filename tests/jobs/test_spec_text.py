from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.spec import ENV_NAME, RESERVED_ENV, JobSpec
from jobs.spec_text import BadText, read_text, write_text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E4", 1e4),
        (".5", 0.5),
        ("-2.", -2.0),
        ("0o17", 15),
        ("0x1F", 31),
        ("010", 10),
        ("1_000", "1_000"),
        ("0,001", "0,001"),
        ("12:30:45", "12:30:45"),
        ("2026-12-01", "2026-12-01"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("~", None),
        ("", None),
        ("'1e-4'", "1e-4"),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_words_and_numbers_follow_yaml_1_2(text, value):
    read = read_text(f"a: {text}\n")["a"]
    assert read == value
    assert type(read) is type(value)


def test_infinite_and_not_a_number_are_read():
    read = read_text("{a: .inf, b: -.Inf, c: .NaN, d: +.INF}")
    assert (read["a"], read["b"], read["d"]) == (math.inf, -math.inf, math.inf)
    assert math.isnan(read["c"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2\n", "line 2, column 1: 'a' is given twice"),
        ("a: &x [1]\nb: *x\n", "anchors and aliases are not taken"),
        ("a: [1\n", "line 2, column 1"),
        ("a: !!python/object/apply:os.system ['true']\n", "line 1, column 4"),
        ("? [a, b]\n: 1\n", "a name must be a plain word"),
        ("\x00", "special characters are not allowed"),
        ("[" * 5000, "nested too deeply"),
    ],
)
def test_what_hides_its_meaning_is_refused_with_its_place(text, said):
    with pytest.raises(BadText) as refused:
        read_text(text)
    assert said in str(refused.value)


@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=1e-9, max_value=100), st.text(min_size=1, max_size=50)
)
def test_a_spec_survives_its_text(rate, name):
    try:
        spec = JobSpec.model_validate(
            {"name": name, "code": {"kind": "script", "script": "pass"}, "parameters": {"learning_rate": rate}}
        )
    except ValueError:
        return  # a blank name or one with NUL is no spec
    assert JobSpec.model_validate(read_text(write_text(spec))) == spec


@pytest.mark.parametrize("name", ["FOO", "PATH"])
def test_a_line_break_after_a_variable_name_is_no_part_of_it(name):
    assert ENV_NAME.match(name)
    assert not ENV_NAME.match(f"{name}\n")
    assert RESERVED_ENV.match("PATH")
    assert not RESERVED_ENV.match("PATH\n")
