#!/usr/bin/env bash
# Build the wheel, install it in a clean environment, and run the README's first example there, away from the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
python=$(bash tools/find_python.sh)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git ls-files -z --cached --others --exclude-standard | (mkdir "$folder/source" && xargs -0 cp --parents -t "$folder/source")
"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$folder" "$folder/source"
"$python" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt "$folder"/ldpbayes-*.whl
"$folder/env/bin/python" - "$root/README.md" > "$folder/example.py" <<'PY'
import pathlib, re, sys

print(re.search(r"```python\n(.*?)```", pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), re.S).group(1))
PY
cd "$folder"
env/bin/python -W error::DeprecationWarning example.py
env/bin/python -c "import ldpbayes as lb; assert 'site-packages' in lb.__file__; print(lb.fit(lb.load_example('nigeria'), random_seed=1).attrs['outcome'])"
env/bin/ldpbayes fit example:nigeria --seed 1 > /dev/null
echo "The wheel installs in a clean environment and runs the README's first example."
