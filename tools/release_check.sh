#!/usr/bin/env bash
# The matrix that a CI runs: build the wheel and the source archive, install each in clean environments, and test there.
#
#   wheel-3.12, -3.13, -3.14  the wheel under every supported Python that is found, with the pinned versions
#   archive                   the source archive under the first Python
#   oldest                    the wheel under 3.12 with the oldest versions that pyproject.toml allows
#   newest                    the wheel under the newest Python with the newest versions that the index has
#   avx2                      the tests that compare numbers, the processor's instructions limited to AVX2
#   facts                     size, extras, types and time to import (tools/check_wheel.sh)
#
# ENVIRONMENTS="oldest avx2" checks these alone, so that a CI can share them among its machines; WORKERS=4 shares the tests
# among four processes; PYTEST_ARGUMENTS="tests/test_fit.py" limits what is run. uv installs: with what it has kept from the
# last time an environment takes some seconds. The tests take about five minutes in each on two idle cores.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
unset PYTHONPATH # it would name the checkout, and what is installed would not be tested
arguments=${PYTEST_ARGUMENTS:-tests}
known="wheel-3.12 wheel-3.13 wheel-3.14 archive oldest newest avx2 facts"
chosen=${ENVIRONMENTS:-$known}
for name in $chosen; do
  case " $known " in *" $name "*) ;; *) echo "ENVIRONMENTS must name some of $known, got $name." >&2 && exit 2 ;; esac
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# As in the Makefile: compiled files are kept, also where the environment asks for none.
export PYTHONDONTWRITEBYTECODE=

interpreter() { # the newest interpreter of one series, on PATH or among pyenv's
  local path
  for path in "$(command -v "python$1" || true)" $(ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1"*/bin/python 2>/dev/null | sort -rV); do
    if [ -n "$path" ] && "$path" -c 'import venv' >/dev/null 2>&1; then echo "$path"; return; fi
  done
}

# What reads the files of the package itself, which make test does.
of_the_source=(--ignore=tests/test_architecture.py --ignore=tests/test_one_file_each.py --ignore=tests/test_packaging.py
  --ignore=tests/test_public_door.py --ignore=tests/test_contributing.py --ignore=tests/test_repository.py
  --deselect=tests/test_numbers.py::test_constants_of_the_core_are_no_rules)

passed=()
check() { # name, interpreter, package file, constraints file, further arguments of pytest
  local name=$1 python=$2 package=$3 constraints=$4 started=$SECONDS
  shift 4
  case " $chosen " in *" $name "*) ;; *) return ;; esac
  echo "== $name: $("$python" --version), $(basename "$package"), $(basename "$constraints")"
  "$uv" venv --quiet --python "$python" "$folder/$name"
  "$uv" pip install --quiet --compile-bytecode --python "$folder/$name/bin/python" -c "$constraints" "ldpbayes[test] @ file://$package"
  # The tests stand beside the data, the models and the notebooks that they read, but not beside the package.
  mkdir "$folder/$name-tree"
  git ls-files -z | grep -zv '^ldpbayes/' | xargs -0 cp --parents -t "$folder/$name-tree"
  (
    cd "$folder/$name-tree"
    "$folder/$name/bin/python" - "$folder/$name" <<'EOF'
import sys

import ldpbayes

assert ldpbayes.__file__.startswith(sys.argv[1]), f"not the installed package: {ldpbayes.__file__}"
EOF
    if [ "$name" = avx2 ]; then
      "$folder/$name/bin/python" tools/portable.py --avx2 -q -n "${WORKERS:-2}" --dist loadfile -p no:cacheprovider
    else
      "$folder/$name/bin/python" -m pytest -q -n "${WORKERS:-2}" --dist loadfile -p no:cacheprovider \
        -m "not calibrate and not notebook" -k "not no_cache_folder and not no_home_folder" "${of_the_source[@]}" "$@" $arguments
    fi
  )
  passed+=("$name ($((SECONDS - started)) s)")
  rm -rf "${folder:?}/$name" "${folder:?}/$name-tree"
}

first=$(bash tools/find_python.sh)
"$first" -m venv "$folder/build"
"$folder/build/bin/python" -m pip install --quiet --disable-pip-version-check build uv
uv=$folder/build/bin/uv
git ls-files -z | (mkdir "$folder/source" && xargs -0 cp --parents -t "$folder/source")
"$folder/build/bin/python" -m build --outdir "$folder/dist" "$folder/source" >"$folder/build.log" 2>&1 || {
  cat "$folder/build.log" >&2
  exit 1
}
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
    -W default::numba.core.errors.NumbaPerformanceWarning -W default::hypothesis.errors.HypothesisWarning
fi
: >"$folder/none.txt" # no constraints: the newest versions that pyproject.toml allows
for series in 3.14 3.13 3.12; do
  python=$(interpreter "$series")
  if [ -n "$python" ]; then
    check newest "$python" "$wheel" "$folder/none.txt" -W default::DeprecationWarning -W default::FutureWarning
    break
  fi
done
check avx2 "$first" "$wheel" "$root/constraints.txt"
case " $chosen " in *" facts "*) bash tools/check_wheel.sh "$wheel" && passed+=(facts) ;; esac
echo "Passed: ${passed[*]}."
