from __future__ import annotations

import threading

import pytest
from django.contrib.auth.models import Group

from portal.streaming import Download


@pytest.mark.django_db(transaction=True)
async def test_parts_are_made_one_by_one_in_a_thread_of_the_downloads():
    made, threads = [], set()

    def parts():
        for number in range(3):
            threads.add(threading.current_thread().name.split("_")[0])
            Group.objects.count()  # a part may read the database
            made.append(number)
            yield b"%d" % number

    seen = []
    async for part in Download(parts(), file_name="第一.csv", content_type="text/csv"):
        seen.append((part, len(made)))
    assert seen == [(b"0", 1), (b"1", 2), (b"2", 3)]
    assert threads == {"download"}


def test_a_download_is_an_attachment_that_nobody_keeps():
    answer = Download(iter([b"x"]), file_name='a"b\r\n.csv', content_type="text/csv")
    assert answer["Content-Disposition"].startswith("attachment")
    assert "\n" not in answer["Content-Disposition"]
    assert answer["Cache-Control"] == "private, no-store"
