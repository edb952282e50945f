#!/usr/bin/env bash
# Build the wheel and the source archive, install each in clean environments, and run the tests there.
#
# The wheel under every supported Python that is found, with the pinned versions; once more under 3.12 with the oldest versions
# that pyproject.toml allows; the source archive under the first Python. Takes some ten minutes for each environment on two cores.
# PYTEST_ARGUMENTS limits what is run, for example PYTEST_ARGUMENTS="tests/test_fit.py".
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
arguments=${PYTEST_ARGUMENTS:-tests}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

interpreter() { # the newest interpreter of one series, on PATH or among pyenv's
  local path
  for path in "$(command -v "python$1" || true)" $(ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1"*/bin/python 2>/dev/null | sort -rV); do
    if [ -n "$path" ] && "$path" -c 'import venv' >/dev/null 2>&1; then echo "$path"; return; fi
  done
}

# What reads the files of the package itself, which make test does.
of_the_source=(--ignore=tests/test_architecture.py --ignore=tests/test_one_file_each.py --ignore=tests/test_packaging.py
  --ignore=tests/test_public_door.py)

check() { # name, interpreter, package file, constraints file, further arguments of pytest
  local name=$1 python=$2 package=$3 constraints=$4
  shift 4
  echo "== $name: $("$python" --version), $(basename "$package"), $constraints"
  "$python" -m venv "$folder/$name"
  "$folder/$name/bin/python" -m pip install --quiet --disable-pip-version-check -c "$constraints" "$package[test]"
  # The tests stand beside the data, the models and the notebooks that they read, but not beside the package.
  mkdir "$folder/$name-tree"
  git ls-files -z | grep -zv '^ldpbayes/' | xargs -0 cp --parents -t "$folder/$name-tree"
  (cd "$folder/$name-tree" && "$folder/$name/bin/python" -m pytest -q -n "${WORKERS:-2}" --dist loadfile \
    -m "not calibrate and not notebook" -k "not mend_15" "${of_the_source[@]}" "$@" $arguments)
}

first=$(bash tools/find_python.sh)
"$first" -m venv "$folder/build"
"$folder/build/bin/python" -m pip install --quiet --disable-pip-version-check build
git ls-files -z | (mkdir "$folder/source" && xargs -0 cp --parents -t "$folder/source")
"$folder/build/bin/python" -m build --outdir "$folder/dist" "$folder/source" >/dev/null
wheel=$(ls "$folder"/dist/*.whl)
archive=$(ls "$folder"/dist/*.tar.gz)

for series in 3.12 3.13 3.14; do
  python=$(interpreter "$series")
  if [ -n "$python" ]; then check "wheel-$series" "$python" "$wheel" "$root/constraints.txt"; else echo "== Python $series is not here"; fi
done
check archive "$first" "$archive" "$root/constraints.txt"
python=$(interpreter 3.12)
if [ -n "$python" ]; then
  # Old libraries warn of each other's newer versions; that is not the package's doing.
  check oldest "$python" "$wheel" "$root/constraints-oldest.txt" -W default::DeprecationWarning -W default::FutureWarning \
    -W default::numba.core.errors.NumbaPerformanceWarning
fi
echo "Every environment passed."
