"""What the launcher starts for each rank: send its output to its own log, run the script, note a good end.

    rank_exec.py main.py --epochs 3          like `python main.py --epochs 3` in the launch's code folder
    rank_exec.py -m jobs.training.main       like `python -m jobs.training.main` in the launch's folder
    rank_exec.py --exec ./train.sh --fast    any program, in the code folder

Standard library only, and as little of it as possible: this runs before every rank. It stays as the script's parent, so
that exit codes and signals survive whatever the script does (os._exit, exec, a crash while the interpreter shuts down),
and so that `complete.<rank>` or `failed.<rank>` appears only when the script ended by itself, not because it was told
to stop: of a gang that breaks, this tells who was first.
"""

import ctypes
import json
import os
import signal
import sys
import time

FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    folder = os.environ.get("TRAINYARD_FOLDER") or os.getcwd()  # noqa: PTH109 - pathlib costs start-up time
    rank = os.environ.get("RANK") or os.environ.get("TRAINYARD_RANK") or "0"
    os.environ.update(TRAINYARD_RANK=rank, RANK=rank, PYTHONUNBUFFERED="1")
    send_output_to(f"{folder}/output.{rank}.log")
    argv = command_of(arguments)
    code = f"{folder}/code"
    os.chdir(code if argv[1:3] != ["-u", "-m"] and os.path.isdir(code) else folder)  # noqa: PTH112
    status, was_stopped = run(argv)
    if not was_stopped and not is_told_to_stop(folder):
        note_end(folder, rank, status)
    return leave_like(status)


def send_output_to(path: str) -> None:
    try:
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        print(f"rank_exec: output stays with the launcher: {error}", file=sys.stderr)  # noqa: T201
        return
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def command_of(arguments: list[str]) -> list[str]:
    if not arguments:
        raise SystemExit("rank_exec: give a script, -m MODULE or --exec PROGRAM, then its arguments")
    if arguments[0] == "--exec":
        return arguments[1:]
    return [sys.executable, "-u", *arguments]


def run(argv: list[str]) -> tuple[int, bool]:
    """Wait status of the program, and whether a stopping signal came meanwhile (it was passed on)."""
    seen: list[int] = []
    child = 0

    def pass_on(number: int, _frame: object) -> None:
        seen.append(number)
        if child:
            os.kill(child, number)

    for number in FORWARDED:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # until `child` is known, nothing is lost between
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        become(argv, parent)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    _, status = os.waitpid(child, 0)
    child = 0
    return status, any(number in STOPPING for number in seen)


def become(argv: list[str], parent: int) -> None:
    """In the child: fresh signal handling, an end together with the parent, then the program itself."""
    try:
        for number in FORWARDED:
            signal.signal(number, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        os.execvp(argv[0], argv)  # noqa: S606 - an argument list, no shell wanted
    except OSError as error:
        os.write(2, f"rank_exec: cannot start {argv[0]}: {error.strerror}\n".encode())
    os._exit(127)


def is_told_to_stop(folder: str) -> bool:
    """A script that leaves because it was asked to has not finished its work, however well it says goodbye."""
    try:
        with open(f"{folder}/control.json", encoding="utf-8") as file:  # noqa: PTH123
            return bool(json.load(file).get("stop"))
    except (OSError, ValueError):
        return False


def note_end(folder: str, rank: str, status: int) -> None:
    """complete.<rank>, empty, or failed.<rank> with how and when (seconds since boot)."""
    if status == 0:
        write_whole(folder, f"complete.{rank}", "")
        return
    was_killed = os.WIFSIGNALED(status)
    told = {
        "exit_code": None if was_killed else os.WEXITSTATUS(status),
        "signal": os.WTERMSIG(status) if was_killed else None,
        "at_boot": time.clock_gettime(time.CLOCK_BOOTTIME),
    }
    try:
        write_whole(folder, f"failed.{rank}", json.dumps(told))
    except OSError as error:  # a full disk, which may be why it failed: the exit code is still the script's
        os.write(2, f"rank_exec: how the script ended could not be noted: {error.strerror}\n".encode())


def write_whole(folder: str, name: str, text: str) -> None:
    unfinished = f"{folder}/.{name}"
    with open(unfinished, "wb") as file:  # noqa: PTH123
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    os.rename(unfinished, f"{folder}/{name}")  # noqa: PTH104


def leave_like(status: int) -> int:
    """The script's exit code; a script that died of a signal takes this process along by the same one."""
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    os.write(2, f"rank_exec: the script was ended by signal {number} ({signal.strsignal(number)})\n".encode())
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    return 128 + number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
