"""Bringing a launch's inputs into its folder before READY: resumed when cut, checked, unpacked with limits."""

from __future__ import annotations

import hashlib
import logging
import lzma
import os
import stat
import threading
import time
import zipfile
import zlib
from pathlib import Path

from nodes.agent.client import Portal, PortalDown, Refused
from nodes.agent.files import is_inside
from nodes.agent.placement import Placement
from nodes.messages import EndCause, InputFile, Launch

log = logging.getLogger(__name__)
TRY_SECONDS = 300.0
AT_ONCE = 4
MAX_MEMBERS = 20_000
MAX_UNPACKED_BYTES = 4 * 2**30
# Whatever zipfile and the decompressors below it raise about bytes that are none of theirs.
_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError)


class Unfit(Exception):
    """The input is what was stored and cannot be used on any node; a sentence for a person."""


class Unavailable(Exception):
    """The input did not come to this node as it was stored; a sentence for a person."""


class Fetcher:
    """One thread per launch, a few at a time; ends with 'inputs ready' or with a stop that says what is missing."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        self._ending = threading.Event()

    def start(self, placement: Placement) -> None:
        if placement.launch is None or not placement.launch.inputs:
            placement.inputs_are_ready()
            return
        placement.note = "fetching inputs"
        threading.Thread(target=self._run, args=(placement, placement.launch), name="inputs", daemon=True).start()

    def close(self) -> None:
        self._ending.set()

    def _run(self, placement: Placement, launch: Launch) -> None:
        portal = Portal(self._url)
        try:
            with self._slots:
                for item in launch.inputs:
                    self._bring(portal, placement, launch, item)
                    if self._ending.is_set() or placement.is_stopping():
                        return
            placement.inputs_are_ready()
        except Unfit as error:
            log.warning("inputs of %s: %s", placement.token, error)
            text = f"An input cannot be used: {error}"
            placement.stop("bad input", cause=EndCause.BAD_INPUT, message=text[:1000])
        except (Unavailable, Refused, PortalDown, OSError) as error:
            log.warning("inputs of %s: %s", placement.token, error)
            text = f"An input could not be brought to the node: {error}"
            placement.stop("input unavailable", cause=EndCause.INPUT_UNAVAILABLE, message=text[:1000])
        finally:
            portal.close()

    def _bring(self, portal: Portal, placement: Placement, launch: Launch, item: InputFile) -> None:
        if not is_inside(item.path.rstrip("/")):
            raise Unfit(f"{item.path!r} is no path inside the launch's folder")
        owner = placement.node.get("uid")
        target = placement.folder.job / item.path.rstrip("/")
        if item.text is not None:
            _make_parents(target, placement.folder.job, owner)
            target.write_bytes(item.text.encode())
            _hand_over(target, placement.folder.job, owner)
            return
        if item.url is None:
            raise Unfit(f"{item.path}: neither text nor address was given")
        part = placement.folder.private / f"part.{hashlib.sha256(item.path.encode()).hexdigest()[:16]}"
        self._download(portal, placement, item, part)
        _make_parents(target, placement.folder.job, owner)
        if item.unpack_zip:
            unpack(part, target, most_bytes=min(MAX_UNPACKED_BYTES, launch.disk_bytes))
            part.unlink()
        else:
            part.replace(target)
        _hand_over(target, placement.folder.job, owner)

    def _download(self, portal: Portal, placement: Placement, item: InputFile, part: Path) -> None:
        """Until the file is whole; a cut connection goes on where it stopped, a wrong hash starts once more."""
        deadline = time.monotonic() + TRY_SECONDS
        pause, wrong = 0.5, 0
        while not self._ending.is_set() and not placement.is_stopping():
            try:
                self._receive(portal, placement, item, part)
                if _is_right(part, item):
                    return
                part.unlink()
                wrong += 1
                if wrong > 1:
                    raise Unavailable(f"{item.path} is not what was stored (SHA-256 or size differs)")
                continue
            except PortalDown as error:
                if time.monotonic() > deadline:
                    raise Unavailable(f"{item.path}: {error}") from error
            self._ending.wait(pause)
            pause = min(pause * 2, 10.0)

    def _receive(self, portal: Portal, placement: Placement, item: InputFile, part: Path) -> None:
        have = part.stat().st_size if part.exists() else 0
        if item.size_bytes is not None and have == item.size_bytes and have:
            return
        with part.open("r+b" if part.exists() else "w+b") as file:
            for at, chunk in portal.get(str(item.url), offset=have):
                file.seek(at)
                file.write(chunk)
                if item.size_bytes:
                    placement.note = f"fetching {item.path} {100 * (at + len(chunk)) // item.size_bytes} %"
                if item.size_bytes is not None and at + len(chunk) > item.size_bytes:
                    raise Unavailable(f"{item.path} is longer than the {item.size_bytes} bytes announced")
                if self._ending.is_set() or placement.is_stopping():
                    return
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        if item.size_bytes is not None and part.stat().st_size < item.size_bytes:
            raise PortalDown("the connection was cut")


def _is_right(part: Path, item: InputFile) -> bool:
    if item.size_bytes is not None and part.stat().st_size != item.size_bytes:
        return False
    with part.open("rb") as file:
        return item.sha256 is None or hashlib.file_digest(file, "sha256").hexdigest() == item.sha256


def unpack(archive: Path, target: Path, *, most_bytes: int = MAX_UNPACKED_BYTES) -> None:
    """A zip bundle into a new or empty folder. Unfit names the member that is refused."""
    target.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(archive) as bundle:
            members = bundle.infolist()
            if len(members) > MAX_MEMBERS:
                raise Unfit(f"the bundle has {len(members)} members, at most {MAX_MEMBERS} are taken")
            if sum(member.file_size for member in members) > most_bytes:
                raise Unfit(f"the bundle unpacks to more than {most_bytes / 2**30:.3g} GiB")
            for member in members:
                _unpack_member(bundle, member, target)
    except _BROKEN as error:
        raise Unfit(f"the bundle is no readable zip file: {error}") from error


def _unpack_member(bundle: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    name = member.filename.rstrip("/")
    if not is_inside(name):
        raise Unfit(f"the bundle's member {member.filename!r} leads outside its folder")
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise Unfit(f"the bundle's member {member.filename!r} is a link or a device")
    place = target / name
    if member.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with bundle.open(member) as source, place.open("wb") as file:
        left = member.file_size
        while chunk := source.read(1 << 18):
            left -= len(chunk)
            if left < 0:
                raise Unfit(f"the bundle's member {member.filename!r} is longer than it says")
            file.write(chunk)
    if (member.external_attr >> 16) & 0o100:
        place.chmod(0o755)


def _make_parents(target: Path, top: Path, owner: int | None) -> None:
    missing = [parent for parent in target.parents if top in parent.parents and not parent.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    for parent in missing:
        _hand_over(parent, top, owner)


def _hand_over(target: Path, top: Path, owner: int | None) -> None:
    """Inputs stay ours and readable by anyone who gets into the folder; all else belongs to the launch."""
    is_input = (top / "inputs") in target.parents
    paths = [target, *target.rglob("*")] if target.is_dir() else [target]
    for path in paths:
        if owner is not None and not is_input:
            os.chown(path, owner, owner, follow_symlinks=False)
        mode = 0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644
        path.chmod(mode & 0o555 if is_input and not path.is_dir() else mode)
