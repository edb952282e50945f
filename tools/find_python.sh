#!/usr/bin/env bash
# Print a Python interpreter that ldpbayes supports (3.12 or newer, with venv): on PATH first, else among pyenv's versions.
set -u
good() { "$1" -c 'import sys, venv; sys.exit(not (3, 12) <= sys.version_info[:2] < (3, 15))' >/dev/null 2>&1; }
for name in python3.13 python3.12 python3.14 python3 python; do
  path=$(command -v "$name" 2>/dev/null) && good "$path" && { echo "$path"; exit 0; }
done
root=${PYENV_ROOT:-$HOME/.pyenv}
for series in 3.13 3.12 3.14; do
  for path in $(ls -d "$root"/versions/"$series"*/bin/python 2>/dev/null | sort -rV); do
    good "$path" && { echo "$path"; exit 0; }
  done
done
echo "ldpbayes needs Python 3.12, 3.13 or 3.14 with venv; install one (for example 'pyenv install 3.13') and run make again." >&2
exit 1
