"""Translations: complete for the browser's texts, and every placeholder is kept."""

from __future__ import annotations

import re

import polib
import pytest

from portal.texts import LOCALE, compile_all, script_texts

CATALOGUES = sorted(LOCALE.glob("*/LC_MESSAGES/*.po"))
PLACEHOLDER = re.compile(r"%\(\w+\)[-0-9.]*[a-z]|\{\w+\}")


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_translations_keep_their_placeholders(path):
    for entry in polib.pofile(str(path)):
        texts = [entry.msgstr] if not entry.msgid_plural else list(entry.msgstr_plural.values())
        for text in filter(None, texts):
            known = set(PLACEHOLDER.findall(entry.msgid + entry.msgid_plural))
            assert set(PLACEHOLDER.findall(text)) <= known, entry.msgid
            assert entry.msgid_plural or set(PLACEHOLDER.findall(text)) == known, entry.msgid
        assert "fuzzy" not in entry.flags


def test_every_text_of_the_browser_is_in_its_catalogue():
    for path in LOCALE.glob("*/LC_MESSAGES/djangojs.po"):
        assert {entry.msgid for entry in polib.pofile(str(path)) if entry.msgstr} == set(script_texts())


def test_catalogues_compile(tmp_path):
    target = tmp_path / "xx" / "LC_MESSAGES" / "django.po"
    target.parent.mkdir(parents=True)
    target.write_text('msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "a"\nmsgstr "甲"\n')
    assert [path.name for path in compile_all(tmp_path)] == ["django.mo"]
    assert polib.mofile(str(target.with_suffix(".mo")))[0].msgstr == "甲"
