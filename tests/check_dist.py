"""Build wheel and sdist from a clean clone and try both: ``python tests/check_dist.py dist``.

What is in the working tree but not committed is not in them. Each is installed with the newest
dependencies into an empty environment, the wheel with the oldest ones into another; there `pip
check` must be clean, a model be fitted and the command start. All extras must go together.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRIAL = """
import kernelquilt as kq
X, y = kq.datasets.load_example("wdbc")
assert kq.LateFusionClassifier().fit(X, y).score(X, y) > 0.9
kq.show_versions()
"""


def run(*command, **options):
    subprocess.run([str(each) for each in command], check=True, **options)


def build(target):
    """Build both distributions of the last commit into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        run("git", "clone", "--quiet", ROOT, Path(folder) / "clone")
        run(sys.executable, "-m", "build", "--outdir", target, Path(folder) / "clone")


def contents(path):
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    with tarfile.open(path) as archive:
        return archive.getnames()


def check_wheel(path):
    """Refuse a wheel that has more than the package, or lacks what it needs."""
    names = contents(path)
    foreign = [name for name in names if not name.startswith(("kernelquilt/", "kernelquilt-"))]
    assert not foreign, f"not of the package: {foreign}"
    data = [
        name for name in names if name.endswith((".csv", ".npz", ".npy", ".parquet", ".sqlite"))
    ]
    assert not data, f"data: {data}"
    assert not [name for name in names if "test" in Path(name).name], "tests"
    assert "kernelquilt/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def extras(wheel):
    """Return the extras of a wheel that are there for users."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    found = re.findall(r"^Provides-Extra: (\S+)$", text, flags=re.MULTILINE)
    return [each for each in found if each not in ("test", "docs", "dev")]


def check_installs(path, *options, resolve=()):
    """Install into an empty environment, fit a model there, and try whether extras resolve."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts" if os.name == "nt" else "bin") / "python"
        install = python, "-m", "pip", "install", "--quiet", *options
        run(*install, f"{path}[cli]")
        run(python, "-m", "pip", "check")
        run(python, "-c", TRIAL, cwd=folder)
        run(python, "-m", "kernelquilt.cli", "--help", cwd=folder, stdout=subprocess.DEVNULL)
        if resolve:
            run(*install, "--dry-run", f"{path}[{','.join(resolve)}]")


def main():
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve()
    shutil.rmtree(target, ignore_errors=True)
    build(target)
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    check_wheel(wheel)
    assert any(name.endswith("tests/check_dist.py") for name in contents(sdist))
    check_installs(wheel, resolve=extras(wheel))
    check_installs(wheel, "--constraint", ROOT / "tests" / "oldest.txt")
    check_installs(sdist)
    for path in (wheel, sdist):
        sys.stdout.write(f"{path.name}: {path.stat().st_size / 2**20:.2f} MiB, works\n")


if __name__ == "__main__":
    main()
