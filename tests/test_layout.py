"""Who imports whom, and how long modules are, by reading the source; see CONTRIBUTING.md."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tfrds"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
SIDES = ("tfrds.write", "tfrds.disk", "tfrds.read")
SHARED = (
    "tfrds.spec",
    "tfrds.read_options",
    "tfrds.checks",
    "tfrds.errors",
    "tfrds.cpus",
    "tfrds.geometry",
    "tfrds.split_settings",
    "tfrds.user_warning",
    "tfrds.disk",
)

# Worker processes, the command line and the choice of a dataset must start in a moment.
WITHOUT_TENSORFLOW = (
    "tfrds.write",
    "tfrds.disk",
    "tfrds.spec",
    "tfrds.read_options",
    "tfrds.checks",
    "tfrds.errors",
    "tfrds.cpus",
    "tfrds.geometry",
    "tfrds.split_settings",
    "tfrds.data_dirs",
    "tfrds.read.advice",
    "tfrds.read.ahead",
    "tfrds.read.order",
    "tfrds.read.balance",
    "tfrds.read.buffers",
    "tfrds.read.cut",
    "tfrds.read.mixed",
    "tfrds.read.record_check",
    "tfrds.read.request",
    "tfrds.read.storage",
    "tfrds.read.stretches",
    "tfrds.read.selection",
    "tfrds.read.fetch",
    "tfrds.read.permutation",
    "tfrds.read.randomness",
    "tfrds.read.steps",
    "tfrds.read.mapped",
    "tfrds.read.file_status",
    "tfrds.read.data_source",
    "tfrds.read.numpy_examples",
    "tfrds.read.numpy_stages",
    "tfrds.read.resolve",
    "tfrds.read.statistics",
    "tfrds.tools.verify",
    "tfrds.tools.verify_files",
    "tfrds.tools.verify_image",
    "tfrds.tools.verify_keys",
    "tfrds.tools.verify_rows",
    "tfrds.tools.verify_shard",
)
HEAVY = ("tensorflow", "tensorflow_datasets", "keras", "jax", "torch")

# Extras: imported by the functions that need them.
EXTRAS = ("dask", "distributed", "apache_beam")

MAX_LINES = 400


def is_inside(module, packages):
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def imports(module):
    """Returns the full names of what a module imports, inside functions too."""
    names = set()
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            named = filter(None, [*above, node.module])
            origin = ".".join(named) if node.level else node.module
            # "from tfrds import spec" names a module, "from tfrds.spec import check_int" does not.
            below = {f"{origin}.{alias.name}" for alias in node.names}
            names |= {name for name in below if name in MODULES} or {origin}
    return names


def modules_in(*packages):
    return [module for module in MODULES if is_inside(module, packages)]


def test_the_package_was_found():
    assert {"tfrds", "tfrds.spec", "tfrds.write.plan", "tfrds.read.stages.decode"} <= set(MODULES)
    assert "tfrds.disk.keys" in imports("tfrds.write.plan")


@pytest.mark.parametrize("module", modules_in(*SIDES))
def test_both_sides_know_only_the_disk_and_what_is_shared(module):
    own = next(side for side in SIDES if is_inside(module, [side]))
    allowed = (own, *SHARED)
    ours = {name for name in imports(module) if is_inside(name, ["tfrds"])}
    assert {name for name in ours if not is_inside(name, allowed)} == set()


@pytest.mark.parametrize("module", modules_in("tfrds.disk"))
def test_the_format_knows_neither_side(module):
    assert not any(is_inside(name, ["tfrds.write", "tfrds.read"]) for name in imports(module))


@pytest.mark.parametrize("module", modules_in(*WITHOUT_TENSORFLOW))
def test_module_imports_no_tensorflow(module):
    assert {name for name in imports(module) if is_inside(name, HEAVY)} == set()


def test_modules_without_tensorflow_load_none_of_it():
    names = modules_in(*WITHOUT_TENSORFLOW)
    code = (
        f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
        f"print([name for name in {HEAVY + EXTRAS} if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("module", MODULES)
def test_nothing_imports_the_command_line(module):
    assert not any(is_inside(name, ["tfrds.cli"]) for name in imports(module))


@pytest.mark.parametrize("module", MODULES)
def test_module_is_short(module):
    assert len(MODULES[module].read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_no_module_is_a_drawer_for_everything():
    drawers = {"utils", "util", "common", "helpers", "helper", "misc"}
    assert not [module for module in MODULES if module.rpartition(".")[2] in drawers]


@pytest.mark.parametrize("module", MODULES)
def test_module_says_what_it_is_for(module):
    assert ast.get_docstring(ast.parse(MODULES[module].read_text(encoding="utf-8")))
