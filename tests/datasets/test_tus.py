"""Resumable uploads over real sockets."""

from __future__ import annotations

import base64
import hashlib
import os
import resource
import signal
import threading

import pytest

from datasets.models import Dataset, StoredObject, Upload, Version
from datasets.services.objects import open_object
from datasets.services.uploads import staging
from datasets.states import UploadState
from tests.datasets.conftest import Tus, wait_for

pytestmark = pytest.mark.django_db(transaction=True)


def content_of(stored):
    reader = open_object(stored)
    try:
        return reader.read()
    finally:
        reader.close()


def sum_header(body, name="sha256"):
    return f"{name} {base64.b64encode(hashlib.new(name, body).digest()).decode()}"


def test_pieces_become_a_dataset_with_its_chinese_name(tus):
    body = os.urandom(3_000_000)
    created = tus.create(len(body), "数据集 (终版) №1.csv")
    assert created.status_code == 201
    address = created.headers["Location"]
    assert tus.patch(address, 0, body[:1_000_001]).headers["Upload-Offset"] == "1000001"
    last = tus.patch(address, 1_000_001, body[1_000_001:])
    assert (last.status_code, last.headers["Upload-State"]) == (204, "done")
    version = Version.objects.get()
    assert (version.file_name, version.state, version.number) == ("数据集 (终版) №1.csv", "waiting", 1)
    assert version.dataset.name == "数据集 (终版) №1"
    assert content_of(version.stored) == body
    assert version.stored.sha256 == hashlib.sha256(body).hexdigest()
    assert not staged(address).exists()


def staged(address):
    return staging().path(address.rpartition("/")[2])


def test_creation_may_carry_all_bytes(tus):
    answer = tus.create(5, "a.csv", body=b"a,b\n1", dataset_name="Mine")
    assert (answer.status_code, answer.headers["Upload-Offset"], answer.headers["Upload-State"]) == (201, "5", "done")
    assert Dataset.objects.get().name == "Mine"


def test_empty_file_is_done_at_once(tus):
    assert tus.create(0, "empty.csv").headers["Upload-State"] == "done"
    assert Version.objects.get().stored.size_bytes == 0


def test_a_second_upload_of_the_same_bytes_is_stored_once(tus):
    for _ in range(2):
        tus.create(4, "a.csv", body=b"same")
    assert (Version.objects.count(), StoredObject.objects.count()) == (2, 1)


def test_next_version_of_a_dataset(tus):
    tus.create(1, "a.csv", body=b"1")
    dataset = Dataset.objects.get()
    tus.create(1, "a.csv", body=b"2", dataset=str(dataset.pk))
    assert [v.number for v in dataset.versions.order_by("number")] == [1, 2]


def test_options_tells_what_the_server_can(tus):
    answer = tus.http.options("/uploads/")
    assert answer.status_code == 204
    assert "termination" in answer.headers["Tus-Extension"]


def test_cut_connection_keeps_what_arrived(tus):
    body = os.urandom(1_000_000)
    address = tus.create(len(body)).headers["Location"]
    link = tus.cut(address, 0, body[:300_000], announced=len(body))
    wait_for(lambda: tus.offset(address) == 300_000, what="the bytes of a connection that stands still")
    link.sendall(body[300_000:600_000])
    link.close()
    wait_for(lambda: not is_held(address), what="the end of the cut request")
    offset = tus.offset(address)
    assert 300_000 <= offset <= 600_000  # the web server may drop what it had not handed on yet
    assert tus.patch(address, offset, body[offset:]).status_code == 204
    assert content_of(Version.objects.get().stored) == body


def is_held(address):
    file = staging().lock(address.rpartition("/")[2])
    if file is not None:
        file.close()
    return file is None


def test_cut_piece_with_a_sum_is_thrown_away(tus):
    address = tus.create(1_000_000).headers["Location"]
    tus.patch(address, 0, b"a" * 10)
    sums = [f"Upload-Checksum: {sum_header(b'x' * 900_000)}"]
    tus.cut(address, 10, b"x" * 300_000, announced=900_000, headers=sums).close()
    wait_for(lambda: Upload.objects.get().unverified_from is None, what="the end of the cut piece")
    assert tus.offset(address) == 10


@pytest.mark.parametrize("name", ["sha1", "sha256"])
def test_piece_with_a_flipped_bit_is_refused_and_the_offset_stays(tus, name):
    body = os.urandom(200_000)
    address = tus.create(len(body)).headers["Location"]
    wrong = bytes([body[0] ^ 1]) + body[1:]
    answer = tus.patch(address, 0, wrong, **{"Upload-Checksum": sum_header(body, name)})
    assert (answer.status_code, tus.offset(address)) == (460, 0)
    assert tus.patch(address, 0, body, **{"Upload-Checksum": sum_header(body, name)}).status_code == 204
    assert content_of(Version.objects.get().stored) == body


def test_wrong_whole_file_sum_ends_the_upload(tus):
    answer = tus.create(3, body=b"abc", sha256="0" * 64)
    assert answer.status_code == 460
    assert answer.json()["errors"][0]["code"] == "wrong_checksum"
    upload = Upload.objects.get()
    assert (upload.state, Version.objects.count(), StoredObject.objects.count()) == ("failed", 0, 0)
    assert tus.head(f"/uploads/{upload.pk}").status_code == 410


def test_wrong_offset_is_told_the_right_one(tus):
    address = tus.create(10).headers["Location"]
    tus.patch(address, 0, b"12345")
    answer = tus.patch(address, 3, b"45678")
    assert (answer.status_code, answer.headers["Upload-Offset"]) == (409, "5")


def test_more_bytes_than_announced_are_refused(tus):
    address = tus.create(10).headers["Location"]
    assert tus.patch(address, 0, b"x" * 11).status_code == 413

    def stream():
        yield b"x" * 6
        yield b"x" * 6

    assert tus.patch(address, 0, stream()).status_code == 413
    assert tus.offset(address) == 0


def test_newer_patch_stops_a_half_open_one(tus):
    address = tus.create(100).headers["Location"]
    old = tus.cut(address, 0, b"o" * 20, announced=100)
    wait_for(lambda: tus.offset(address) == 20, what="the first bytes")
    assert tus.patch(address, 20, b"n" * 80).status_code == 204
    try:
        old.sendall(b"o" * 80)
        assert old.recv(1000).startswith(b"HTTP/1.1 409")
    except ConnectionError:
        pass
    old.close()
    assert content_of(Version.objects.get().stored) == b"o" * 20 + b"n" * 80


def test_racing_patches_write_every_byte_once(tus):
    body = os.urandom(8_000_000)
    address = tus.create(len(body)).headers["Location"]
    statuses = []

    def send():
        mine = Tus(str(tus.http.base_url), tus.http.headers["Authorization"].split()[1])
        statuses.append(mine.patch(address, 0, body).status_code)

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(statuses) <= {204, 409, 423}
    while (offset := tus.offset(address)) < len(body):
        tus.patch(address, offset, body[offset:])
    assert content_of(Version.objects.get().stored) == body


def test_a_writer_taken_over_after_the_last_byte_still_makes_a_dataset(tus):
    """It could not say that all bytes are here; whoever asks for the offset next finishes the upload."""
    address = tus.create(5).headers["Location"]
    tus.patch(address, 0, b"a,b\n")
    upload = Upload.objects.get()
    file = staging().lock(upload.pk)
    assert file is not None
    with file:
        file.append(b"1")
    answer = tus.head(address)
    assert (answer.headers["Upload-Offset"], answer.headers["Upload-State"]) == ("5", "done")
    assert Version.objects.count() == 1


def test_foreign_and_unknown_uploads_look_the_same(tus, make_user, make_token):
    address = tus.create(10).headers["Location"]
    stranger = Tus(str(tus.http.base_url), make_token(make_user("eve")))
    other = "/uploads/00000000-0000-0000-0000-000000000000"
    bodies = [stranger.patch(where, 0, b"x").text for where in (address, other)]
    assert bodies[0] == bodies[1]
    for where in (address, other, "/uploads/nonsense"):
        assert stranger.head(where).status_code == 404
        assert stranger.http.delete(where).status_code == 404


def test_upload_token_alone_may_go_on(tus):
    created = tus.create(10)
    nobody = Tus(str(tus.http.base_url))
    address = created.headers["Location"]
    assert nobody.patch(address, 0, b"x").status_code == 401
    assert nobody.patch(address, 0, b"x", **{"Upload-Token": "wrong"}).status_code == 404
    answer = nobody.patch(address, 0, b"0123456789", **{"Upload-Token": created.headers["Upload-Token"]})
    assert answer.status_code == 204


def test_read_token_may_not_upload(tus, make_user, make_token):
    reader = Tus(str(tus.http.base_url), make_token(make_user("bob"), scope="read"))
    answer = reader.create(1)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (403, "read_only_token")
    assert Tus(str(tus.http.base_url), "nonsense").create(1).status_code == 401


def test_session_needs_csrf_protection(server, make_user, client):
    client.force_login(make_user("ada"))
    cookies = {"sessionid": client.cookies["sessionid"].value}
    browser = Tus(server.url, cookies=cookies)
    assert browser.create(1).status_code == 403
    secret = "a" * 32
    browser = Tus(server.url, cookies={**cookies, "csrftoken": secret})
    assert browser.create(1, extra={"X-CSRFToken": secret}).status_code == 201
    assert browser.create(1, extra={"X-CSRFToken": secret, "Origin": "http://evil.example"}).status_code == 403


def test_foreign_host_is_refused(tus):
    assert tus.create(1, extra={"Host": "evil.example"}).status_code == 400


def test_expired_upload_is_gone(tus):
    from datetime import timedelta

    from django.utils import timezone

    address = tus.create(10).headers["Location"]
    Upload.objects.update(moved_at=timezone.now() - timedelta(days=3))
    assert tus.head(address).status_code == 410
    answer = tus.patch(address, 0, b"x")
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (410, "expired")


def test_deleted_upload_leaves_nothing(tus):
    address = tus.create(10).headers["Location"]
    tus.patch(address, 0, b"x")
    assert tus.http.delete(address).status_code == 204
    assert tus.head(address).status_code == 410
    assert not staged(address).exists()


def test_wrong_words_get_a_sentence(tus):
    cases = [
        ({"Upload-Length": "-1"}, 400),
        ({"Upload-Length": "1e3"}, 400),
        ({"Upload-Metadata": "filename !!!"}, 400),
        ({"Upload-Metadata": "colour cmVk"}, 400),
        ({"Tus-Resumable": "0.2"}, 412),
    ]
    for extra, status in cases:
        answer = tus.create(1, extra=extra)
        assert answer.status_code == status, extra
        assert len(answer.json()["errors"][0]["detail"]) > 10
    assert tus.create(1, "..").status_code == 400
    assert tus.create(1, "a\x00b").status_code == 400
    assert tus.create(1, "../../etc/passwd").status_code == 201
    assert Upload.objects.get().file_name == "passwd"
    assert tus.http.put("/uploads/").status_code == 405
    address = tus.create(1).headers["Location"]
    plain = tus.http.patch(address, headers={"Upload-Offset": "0", "Content-Type": "text/plain"}, content=b"x")
    assert plain.status_code == 415


def test_quota_is_reserved_at_creation(tus):
    from portal.accounts.models import User
    from portal.accounts.services import set_quota

    user = User.objects.get(username="ada")
    set_quota(None, user, max_storage_bytes=100)
    assert tus.create(60).status_code == 201
    answer = tus.create(60)
    assert answer.status_code == 507
    assert "60 B" in answer.json()["errors"][0]["detail"]


def test_kill_of_the_server_in_mid_upload_loses_only_what_was_in_flight(own_server, make_user, make_token):
    tus = Tus(own_server.url, make_token(make_user("ada")))
    body = os.urandom(6_000_000)
    address = tus.create(len(body)).headers["Location"]
    link = tus.cut(address, 0, body[:4_000_000], announced=len(body))
    wait_for(lambda: staged(address).stat().st_size >= 3_000_000, what="bytes on disk")
    own_server.stop(signal.SIGKILL)
    link.close()
    own_server.start()
    tus = Tus(own_server.url, tus.http.headers["Authorization"].split()[1])
    offset = tus.offset(address)
    assert 3_000_000 <= offset <= 4_000_000
    assert tus.patch(address, offset, body[offset:]).headers["Upload-State"] == "done"
    assert content_of(Version.objects.get().stored) == body


def test_restart_finishes_what_waited(own_server, make_user, make_token):
    from datetime import timedelta

    from django.utils import timezone

    tus = Tus(own_server.url, make_token(make_user("ada")))
    address = tus.create(3, "a.csv").headers["Location"]
    own_server.stop(signal.SIGKILL)
    staged(address).write_bytes(b"abc")
    Upload.objects.update(state=UploadState.FINISHING, offset_bytes=3, moved_at=timezone.now() - timedelta(minutes=5))
    own_server.start()
    tus = Tus(own_server.url, tus.http.headers["Authorization"].split()[1])
    tus.head(address)
    wait_for(lambda: Upload.objects.get().state == "done", what="the upload's end")
    assert Version.objects.get().stored.size_bytes == 3


def test_full_disk_is_said_and_the_upload_goes_on_when_there_is_room(own_server, make_user, make_token):
    """A limit on file sizes refuses writes as a full disk does; the database stays far below it."""
    limit, body = 20_000_000, os.urandom(24_000_000)
    tus = Tus(own_server.url, make_token(make_user("ada")))
    address = tus.create(len(body)).headers["Location"]
    before = resource.prlimit(own_server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(own_server.process.pid, resource.RLIMIT_FSIZE, (limit, before[1]))
    answer = tus.patch(address, 0, body)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (507, "disk_full")
    offset = tus.offset(address)
    assert 0 < offset <= limit
    resource.prlimit(own_server.process.pid, resource.RLIMIT_FSIZE, before)
    assert tus.patch(address, offset, body[offset:]).headers["Upload-State"] == "done"
    assert content_of(Version.objects.get().stored) == body
