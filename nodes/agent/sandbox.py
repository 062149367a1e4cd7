"""How far a person's own script is kept from the rest of the node: probed at start, then applied. Stdlib only.

bubblewrap   sees /usr, /etc (a few files), Python, the training code and its own folder; nothing else of the disk
uid          runs as a user of its own; sees what the file permissions of the machine let anybody see
none         runs as the agent's user and can read what the agent can read
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nodes.agent import procs
from nodes.agent.environment import ROOT

Level = Literal["none", "uid", "bubblewrap"]
FIRST_UID, UID_COUNT = 60_000, 5_000
# What a launch needs of the project; var/ and any file with settings in it are left out by not being listed.
VISIBLE_CODE = ("jobs", "datasets", "nodes")
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
SYSTEM_FILES = (
    "/etc/ssl", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/pki", "/etc/alternatives",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/resolv.conf", "/etc/hosts",
    "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/mime.types",
    "/sys",  # gloo and NCCL read the machine's topology there
)  # fmt: skip
GPU_DEVICES = ("nvidia*", "dri", "kfd", "infiniband")


@dataclass(frozen=True)
class Sandbox:
    """The level this node has, with the sentence that its page shows."""

    level: Level
    note: str
    has_pid_namespace: bool = False


def probe(state: Path) -> Sandbox:
    """Try the best level by really running Python under it; fall back and say why."""
    root = os.geteuid() == 0
    trouble = _why_no_bubblewrap(state, root)
    if trouble is None:
        user = "a user id of its own" if root else "the agent's user"
        return Sandbox(
            "bubblewrap",
            f"Own scripts run as {user} in a sandbox: the agent's token, other launches and the portal's var/ do not"
            " exist for them. The network is not closed to them.",
            has_pid_namespace=True,
        )
    if root:
        refused = _why_no_uid(state)
        if refused is None:
            return Sandbox(
                "uid",
                "Own scripts run as a user id of their own and cannot read the agent's token or other launches; files"
                f" that anybody may read are open to them{_open_var()}. No sandbox: {trouble}",
            )
        return Sandbox("none", f"Own scripts run as the agent's user. No other user: {refused} No sandbox: {trouble}")
    return Sandbox("none", f"Own scripts run as the agent's user and can read what it can. No sandbox: {trouble}")


def _why_no_bubblewrap(state: Path, root: bool) -> str | None:
    (state / "probe" / "tmp").mkdir(parents=True, exist_ok=True)
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (package 'bubblewrap')."
    if root and shutil.which("setpriv") is None:
        return "setpriv is not installed (package 'util-linux')."
    folder = state / "probe"
    argv = bubblewrap_argv(folder, uid=FIRST_UID if root else None, argv=[sys.executable, "-c", "print('fine')"])
    return _trouble_of(argv)


def _why_no_uid(state: Path) -> str | None:
    """The other user must be able to run this Python and to get into its folder."""
    folder = state / "probe"
    os.chown(folder, FIRST_UID, FIRST_UID)
    look = "import os, sys; os.listdir(sys.argv[1]); print('fine')"
    return _trouble_of([sys.executable, "-c", look, str(folder)], become(FIRST_UID))


def _trouble_of(argv: Sequence[str], before: Callable[[], None] | None = None) -> str | None:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=20, check=False, preexec_fn=before, cwd="/",
            env={"PATH": os.environ.get("PATH", ""), "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return f"{error}."
    if done.stdout.strip() == "fine":
        return None
    return f"{(done.stderr.strip().splitlines() or ['the probe printed nothing'])[-1][:200]}."


def _open_var() -> str:
    var = Path(os.environ.get("TRAINYARD_VAR", ROOT / "var"))
    try:
        return f" ({var} is: chmod 700 it)" if var.stat().st_mode & 0o005 else ""
    except OSError:
        return ""


def become(uid: int) -> Callable[[], None]:
    """For the moment between fork and exec: give up root for good."""

    def drop() -> None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        procs.forbid_new_privileges()

    return drop


def bubblewrap_argv(folder: Path, *, uid: int | None, argv: Sequence[str]) -> list[str]:
    """The whole command line. Under root bwrap keeps root to set up, and setpriv gives it up inside."""
    line = ["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session"]
    line += ["--proc", "/proc", "--dev", "/dev", "--perms", "0755", "--dir", "/etc", "--perms", "0755", "--dir", "/run"]
    line += ["--perms", "1777", "--tmpfs", "/dev/shm"]  # noqa: S108 - semaphores and tensors of data loaders
    line += ["--bind", str(folder / "tmp"), "/tmp"]  # noqa: S108 - first, for what follows may lie below it
    for path in (*SYSTEM_FOLDERS, *SYSTEM_FILES):
        if Path(path).is_symlink() and path in SYSTEM_FOLDERS:
            line += ["--symlink", str(Path(path).readlink()), path]
        elif Path(path).exists():
            line += ["--ro-bind", str(Path(path).resolve()), path]
    line += [part for path in _hidden(folder) for part in ("--perms", "0755", "--tmpfs", str(path))]
    line += [part for path in _python_folders() for part in (*_open_parents(path), "--ro-bind", str(path), str(path))]
    for name in VISIBLE_CODE:
        if (ROOT / name).is_dir():
            line += [*_open_parents(ROOT / name), "--ro-bind", str(ROOT / name), str(ROOT / name)]
    for pattern in GPU_DEVICES:
        for device in sorted(Path("/dev").glob(pattern)):
            line += ["--dev-bind", str(device), str(device)]
    line += [*_open_parents(folder), "--bind", str(folder), str(folder)]
    line += ["--chdir", str(folder), "--", *_dropping(uid), *argv]
    return line


def _hidden(folder: Path) -> list[Path]:
    """The project, its var/ and the node's state where they lie in a folder of the system, below /opt, say.

    What of them a launch needs is shown again afterwards.
    """
    state = folder.parents[2] if folder.name == "job" else folder.parent
    places = (ROOT, Path(os.environ.get("TRAINYARD_VAR", ROOT / "var")).resolve(), state.resolve())
    return [path for path in places if path.is_dir() and any(Path(top) in path.parents for top in SYSTEM_FOLDERS)]


def _dropping(uid: int | None) -> list[str]:
    if uid is None:
        return []
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--no-new-privs",
            "--inh-caps=-all", "--bounding-set=-all", "--"]  # fmt: skip


def _python_folders() -> list[Path]:
    """The interpreter's homes: the virtual environment, what it was made from, and where its links lead."""
    found: list[Path] = []
    for path in (Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent.parent):
        is_shown = any(path == other or other in path.parents for other in (Path("/usr"), *found))
        if path.exists() and (ROOT in path.parents or not is_shown):
            found.append(path)
    return found


def _open_parents(path: Path) -> list[str]:
    """Folders made on the way are passable for any user; bwrap's own would be as closed as root's umask."""
    return [
        part
        for parent in reversed(path.parents)
        if parent != Path("/")
        for part in ("--perms", "0755", "--dir", str(parent))
    ]


def namespace_argv(argv: Sequence[str]) -> list[str]:
    """Only a PID namespace around a launch that needs no sandbox: so that its end takes everything along."""
    return ["bwrap", "--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent", "--", *argv]
