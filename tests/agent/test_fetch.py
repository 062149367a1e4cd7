"""Inputs: checked, resumed, unpacked safely, handed to the launch."""

from __future__ import annotations

import hashlib
import io
import stat
import zipfile

import pytest

from nodes.agent.fetch import Unfit, unpack
from nodes.messages import InputFile
from tests.agent.conftest import wait_for


def stored(portal, data: bytes, path: str, **changes) -> InputFile:
    sha256 = hashlib.sha256(data).hexdigest()
    portal.blobs[sha256] = data
    fields = {"path": path, "url": f"/objects/{sha256}", "sha256": sha256, "size_bytes": len(data), **changes}
    return InputFile(**fields)


def bundle(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def test_cut_download_goes_on_where_it_stopped(node, portal):
    data = bytes(range(256)) * 8000
    portal.cut_after = 500_000
    script = InputFile(path="code/main.py", text="import os; print(os.path.getsize('inputs/data'))")
    launch = node.launch("", inputs=[script, stored(portal, data, "inputs/data")])
    wait_for(lambda: launch.token in portal.closed)
    assert portal.text(launch.token) == f"{len(data)}\n"
    assert portal.ranges[0] == ""
    assert 0 < int(portal.ranges[1].removeprefix("bytes=").rstrip("-")) <= 500_000


def test_bundle_runs_from_its_folder(node, portal):
    archive = bundle(**{"main.py": b"import helper\nprint(helper.WORD)", "helper.py": b"WORD = 'helped'"})
    launch = node.launch("", inputs=[stored(portal, archive, "code", unpack_zip=True)], sandboxed=True)
    wait_for(lambda: launch.token in portal.closed)
    assert portal.text(launch.token) == "helped\n"


def test_wrong_bytes_are_refused(node, portal):
    good = stored(portal, b"good", "inputs/data")
    portal.blobs[good.sha256] = b"evil"
    launch = node.launch("", inputs=[good])
    wait_for(lambda: launch.token in portal.closed)
    report = portal.reports[launch.token].exit
    assert report.cause == "input_unavailable"
    assert "inputs/data is not what was stored" in report.message


def test_missing_object_is_refused_at_once(node, portal):
    item = InputFile(path="inputs/data", url="/objects/none", sha256="0" * 64, size_bytes=3)
    launch = node.launch("", inputs=[item])
    wait_for(lambda: launch.token in portal.closed)
    assert "404" in portal.reports[launch.token].exit.message


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil"])
def test_member_that_leads_outside_is_refused(tmp_path, name):
    (tmp_path / "a.zip").write_bytes(bundle(**{name: b"x"}))
    with pytest.raises(Unfit, match="leads outside"):
        unpack(tmp_path / "a.zip", tmp_path / "code")
    assert not (tmp_path / "evil").exists()


def test_links_bombs_and_broken_archives_are_refused(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(Unfit, match="link or a device"):
        unpack(tmp_path / "link.zip", tmp_path / "one")
    (tmp_path / "bomb.zip").write_bytes(bundle(big=b"0" * 1001))
    with pytest.raises(Unfit, match="unpacks to more"):
        unpack(tmp_path / "bomb.zip", tmp_path / "two", most_bytes=1000)
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(Unfit, match="no readable zip"):
        unpack(tmp_path / "broken.zip", tmp_path / "three")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_member_is_refused_whatever_packed_it(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("main.py", b"print('hi')\n" * 2000)
    data = bytearray((tmp_path / "a.zip").read_bytes())
    body = data.index(b"main.py") + len("main.py")
    data[body + 9 : body + 21] = b"\xff" * 12
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises((Unfit, OSError)):
        unpack(tmp_path / "a.zip", tmp_path / "code")


@pytest.mark.parametrize(
    ("archive", "disk_bytes", "said"),
    [(b"PK no zip", 10 * 2**20, "no readable zip"), (bundle(big=b"0" * 2**21), 2**20, "unpacks to more")],
)
def test_bundle_that_no_node_can_use_is_told_as_such(node, portal, archive, disk_bytes, said):
    item = stored(portal, archive, "code", unpack_zip=True)
    launch = node.launch("", inputs=[item], disk_bytes=disk_bytes)
    wait_for(lambda: launch.token in portal.closed)
    report = portal.reports[launch.token].exit
    assert report.cause == "bad_input"
    assert said in report.message
