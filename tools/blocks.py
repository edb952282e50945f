"""The Python of a page: its blocks, and the lines above a block that it needs to run alone.

The copy button of the site takes these lines along; a test runs every block of a how-to with them, and nothing else.
"""

import ast
import builtins
import re

#: A block of Python, and what it prints where a block of text follows.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M)
#: Names of files: a statement that mentions one needs those above it that do.
FILE = re.compile(r"\.(parquet|csv|toml|jsonl?|nc|arrow|db)\b")
CHANGES = {"append", "extend", "update", "add"}


def needed(blocks: list[str]) -> list[str]:
    """Return, for every block of a page, the source of the statements above it that it hangs on."""
    out: list[str] = []
    above: list[tuple[str, set[str], set[str], set[str]]] = []
    for block in blocks:
        here = [_traits(node, block) for node in ast.parse(block).body]
        wanted: set[str] = set()
        known: set[str] = set()
        for _, loads, made, _ in here:
            wanted |= loads - known
            known |= made
        kept = []
        for source, loads, made, changed in reversed(above):
            if (made | changed) & wanted:
                kept.append(source)
                wanted = wanted - made | loads
        out.append("\n".join(reversed(kept)))
        above += here
    return out


def undefined(code: str) -> set[str]:
    """Return the names that a piece of code uses and does not make."""
    wanted: set[str] = set()
    known = set(dir(builtins))
    for node in ast.parse(code).body:
        _, loads, made, _ = _traits(node, code)
        wanted |= {name for name in loads - known if not name.startswith("file ")}
        known |= made
    return wanted


def _traits(node, code):
    """Return (source, names used, names made, names changed in place) of a statement; files count as names."""
    walked = list(ast.walk(node))
    own = {
        arg.arg for part in walked if isinstance(part, ast.arguments) for arg in ast.walk(part) if isinstance(arg, ast.arg)
    }
    for part in walked:
        if isinstance(part, ast.comprehension):
            own |= {name.id for name in ast.walk(part.target) if isinstance(name, ast.Name)}
        if isinstance(part, (ast.FunctionDef, ast.ClassDef)):
            own |= {name.id for name in ast.walk(part) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    names = [part for part in walked if isinstance(part, ast.Name)]
    loads = {part.id for part in names if isinstance(part.ctx, ast.Load)} - own - set(dir(builtins))
    made = {part.id for part in names if isinstance(part.ctx, ast.Store)} - own
    if isinstance(node, (ast.For, ast.With, ast.If, ast.While, ast.Try)):  # what it makes before it is used
        first = {name: min((n.lineno, n.col_offset) for n in names if n.id == name) for name in made}
        loads -= {
            n.id for n in names if n.id in made and isinstance(n.ctx, ast.Store) and (n.lineno, n.col_offset) == first[n.id]
        }
    loads |= {
        part.target.id for part in walked if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name)
    } - own
    for part in walked:
        if isinstance(part, (ast.Import, ast.ImportFrom)):
            made |= {alias.asname or alias.name.partition(".")[0] for alias in part.names}
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        made.add(node.name)
    changed = {target.value.id for target in walked if isinstance(target, ast.Subscript) and _stores(target)}
    for part in walked:
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in CHANGES:
            changed |= {part.func.value.id} if isinstance(part.func.value, ast.Name) else set()
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and (kind := FILE.search(part.value)):
            changed.add(f"file {kind[1]}")
    first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    source = "\n".join(code.splitlines()[first - 1 : node.end_lineno])
    return source, loads | {name for name in changed if name.startswith("file ")}, made, changed


def _stores(target):
    return isinstance(target.ctx, ast.Store) and isinstance(target.value, ast.Name)
