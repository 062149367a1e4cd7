"""The house's rules about itself: who may import whom, who may write what, how long a file may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ("portal", "datasets", "nodes", "jobs")
LEAVES = ("portal.accounts", "portal.audit", "portal.errors", "portal.after_commit", "portal.db", "portal.env")
# The frames that faces share: no rows and no rules of any app in them.
SHARED_FACES = ("portal.rest", "portal.admin_base", "portal.streaming")
RING = (
    "jobs.spec",
    "jobs.states",
    "jobs.launches",
    "jobs.scheduler",
    "jobs.training",
    "nodes.states",
    "nodes.messages",
    "nodes.agent",
    "datasets.states",
    "datasets.storage",
    "datasets.formats",
)
MAX_FILE_LINES, MAX_FUNCTION_LINES = 400, 60


def sources(*packages: str) -> Iterator[Path]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts and "node_modules" not in path.parts:
                yield path


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node, node.module


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_import_contracts_hold():
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_apps_import_only_leaves_of_portal():
    wrong = []
    for path in sources("datasets", "nodes", "jobs"):
        for node, module in imports_of(parse(path)):
            if module.split(".")[0] == "portal" and not module.startswith(LEAVES + SHARED_FACES):
                wrong.append(f"{name_of(path)}:{node.lineno} imports {module}")
    assert not wrong, wrong


def test_no_import_between_apps_inside_a_function():
    wrong = []
    for path in sources("portal/accounts", "datasets", "nodes", "jobs"):
        own = name_of(path).split(".")[0]
        tree = parse(path)
        top = {id(node) for node in tree.body}
        for node, module in imports_of(tree):
            other = module.split(".")[0]
            if id(node) not in top and other in APPS and other != own and not _is_for_typing(tree, node):
                wrong.append(f"{name_of(path)}:{node.lineno} imports {module}")
    assert not wrong, wrong


def _is_for_typing(tree: ast.Module, node: ast.stmt) -> bool:
    return any(
        isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test) and node in block.body
        for block in tree.body
    )


def blocked(package: str, modules: list[str]) -> subprocess.CompletedProcess[str]:
    """Import `modules` in a fresh interpreter in which `package` cannot be imported."""
    # A launch puts jobs/training/lib on the path of its processes, so that every script finds `trainyard`.
    code = (
        f"import sys, importlib; sys.path.insert(0, 'jobs/training/lib'); sys.modules[{package!r}] = None;"
        f" [importlib.import_module(m) for m in {modules!r}]"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_ring_imports_with_django_blocked():
    modules = []
    for name in RING:
        path = ROOT / Path(*name.split("."))
        found = (
            [path.with_suffix(".py")]
            if path.with_suffix(".py").exists()
            else list(sources(str(path.relative_to(ROOT))))
        )
        modules += [name_of(file) for file in found if file.name != "__main__.py" and "lib" not in file.parts]
    done = blocked("django", modules)
    assert done.returncode == 0, done.stderr


def test_web_imports_with_torch_blocked():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'portal.settings'\n"
        "import portal.asgi, portal.urls"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_job_state_is_written_in_one_place():
    wrong = []
    for path in sources("jobs", "portal", "datasets", "nodes"):
        if name_of(path) == "jobs.services.transition":
            continue
        for node in ast.walk(parse(path)):
            if _writes_job_state(node):
                wrong.append(f"{name_of(path)}:{node.lineno}")
    assert not wrong, f"only jobs.services.transition may write a job's state: {wrong}"


def _writes_job_state(node: ast.AST) -> bool:
    """`job.state = …`, or `Job.objects….update(state=…)`."""
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(
            isinstance(target, ast.Attribute)
            and target.attr == "state"
            and ast.unparse(target.value).split(".")[-1] == "job"
            for target in targets
        )
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "update"
        and any(keyword.arg == "state" for keyword in node.keywords)
        and ast.unparse(node.func).startswith("Job.objects")
    )


def test_nothing_goes_through_a_shell():
    wrong = []
    for path in sources(*APPS):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Call) and (
                any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords)
                or ast.unparse(node.func) in ("os.system", "os.popen")
            ):
                wrong.append(f"{name_of(path)}:{node.lineno}")
    assert not wrong, wrong


def test_nothing_is_unpickled():
    wrong = []
    for path in sources(*APPS):
        for node, module in imports_of(parse(path)):
            if module.split(".")[0] in ("pickle", "marshal", "shelve", "dill", "cloudpickle"):
                wrong.append(f"{name_of(path)}:{node.lineno}")
    assert not wrong, wrong


@pytest.mark.parametrize("where", [*APPS, "tests", "bin"])
def test_files_and_functions_stay_short(where: str):
    wrong = []
    for path in sources(where):
        if "data" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        if len(text.splitlines()) > MAX_FILE_LINES:
            wrong.append(f"{name_of(path)} has {len(text.splitlines())} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or 0) - node.lineno + 1
                if size > MAX_FUNCTION_LINES:
                    wrong.append(f"{name_of(path)}:{node.name} has {size} lines")
    assert not wrong, wrong


def test_every_app_has_its_page_and_an_empty_init():
    for app in ("datasets", "nodes", "jobs", "portal", "frontend"):
        assert (ROOT / app / "README.md").exists(), f"{app}/README.md is missing"
        init = ROOT / app / "__init__.py"
        assert not init.exists() or not init.read_text().strip(), f"{app}/__init__.py is not empty"


def test_each_app_has_one_initial_migration():
    for app in ("portal/accounts", "datasets", "nodes", "jobs"):
        files = [path.name for path in (ROOT / app / "migrations").glob("0*.py")]
        assert files == ["0001_initial.py"], f"{app}: {files}"
