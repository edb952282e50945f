"""The house rules: layers, one home for each heavy library, the weight of imports, and names without machine paths."""

import ast
import functools
import pathlib
import re
import subprocess
import sys

import pytest
from tabulated import each_row

pytestmark = pytest.mark.long

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "ldpbayes"
LAYERS = [
    {
        "_hash_kernels",
        "answer",
        "arguments",
        "arrays",
        "checks",
        "compiling",
        "constants",
        "doors",
        "entropy",
        "errors",
        "version",
        "files",
        "hashing",
        "presenting",
        "progress",
        "rooms",
        "starting",
    },
    {"likelihoods"},
    {"protocols"},
    {"collections"},
    {"inference", "priors", "simulation", "sources"},
    {"estimators", "examples", "methods", "result", "theory"},
    {"answers", "describing", "fitness", "fitting", "model", "road"},
    {"pages", "plots", "pymc"},
    {
        "association",
        "planning",
        "private_groups",
        "regression",
        "repeated",
        "robust",
        "scanning",
        "surveys",
    },
    {"__main__", "cli"},
]
#: What one may leave closed: a room stands on the core, and no other room needs it. ``ldpbayes/rooms.py`` has their tables.
ROOMS = LAYERS[-2]
#: Rooms that name others, as the docstrings of their packages say.
BETWEEN: dict[str, set[str]] = {}
#: Who may name every room.
ABOVE = {"__main__", "cli"}
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FAMILIES = ("estimators", "planning", "methods", "theory")
#: What several members of a family may share.
SHARED = {
    "estimators.base",
    "estimators.estimate",
    "estimators.linearized",
    "estimators.solvers",
    "methods.answer",
    "methods.base",
    "methods.completion",
    "methods.constants",
    "methods.conditioned_product",
    "methods.frequency",
    "methods._kernels",
    "methods.forms",
    "methods.merging",
    "methods.nodes",
    "methods.outcome",
    "methods.plan",
    "methods.problem",
    "methods.products",
    "methods.watch",
    "theory.base",
    "theory.enumeration",
    "theory.information",
}
#: Members that stand on named siblings: planning solves for the risks and bounds of the theory.
BUILT_ON = {
    "estimators.confidence": {"estimators.mle"},
    "estimators.derived": {"estimators.mle", "estimators.oracle"},
    "planning.figures": {"planning.plans"},
    "planning.page": {"planning.figures", "planning.plans", "planning.prospects"},
    "planning.plans": {"planning.risk", "planning.waves"},
    "planning.prospects": {"planning.plans"},
    "methods.conjugate": {"methods.expanded", "methods.expansion", "methods.servers"},
    "methods.exact": {"methods.conjugate", "methods.servers"},
    "methods.evidence": {"methods.expanded", "methods.hmc", "methods.sampler", "methods.walk"},
    "methods.expansion": {"methods.expanded"},
    "methods.floor": {"methods.expanded"},
    "methods.hmc": {"methods.sampler", "methods.walk"},
    "methods.many": {
        "methods.conjugate",
        "methods.expansion",
        "methods.quadrature",
        "methods.servers",
    },
    "methods.nuts": {"methods.sampler"},
    "methods.problem": {"methods.expansion"},
    "methods.sampler": {"methods.expanded", "methods.walk"},
    "methods.servers": {"methods.expanded", "methods.floor", "methods.quadrature"},
    "methods.surrogate": {"methods.conjugate", "methods.servers"},
    "methods.walk": {"methods._walk_kernels"},
    "methods.weighted": {"methods.loglinear"},
}
HOMES = {
    "numba": {"compiling"},
    "pymc": {
        "collections.tensor",
        "collections.tensor_rates",
        "compiling",
        "model",
        "private_groups.mixture",
        "methods.nuts",
        "priors.base",
        "priors.tree",
        "priors.device",
        "priors.dirichlet",
        "priors.extended",
        "priors.floor",
        "priors.learnt",
    },
    "pytensor": {
        "collections.tensor",
        "collections.tensor_rates",
        "compiling",
        "model",
        "private_groups.mixture",
        "methods.nuts",
        "priors.base",
        "priors.tree",
        "priors.device",
        "priors.dirichlet",
        "priors.extended",
        "priors.floor",
        "priors.learnt",
        "priors.product",
    },
    "nutpie": {"inference.nuts", "methods.nuts"},
    "cvxpy": {"estimators.solvers.convex", "robust.convex"},
    "arviz_stats": {"inference.importance", "inference.diagnostics"},
    "matplotlib": {"plots", "plots.base", "presenting"},  # the last for types alone
    "narwhals": {"sources.frames"},
    "pyspark": {"scanning.spark"},
    "typer": {"cli", "cli.options"},
}


@functools.cache
def modules():
    """Return (dotted name below ldpbayes, syntax tree) of every file in the package."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            found.append((name, ast.parse(path.read_text())))
    return found


@pytest.fixture(scope="module", autouse=True)
def forget_the_trees():
    """The syntax trees are a million objects: they stay no longer than the tests of this file."""
    yield
    modules.cache_clear()
    imports_of.cache_clear()
    inner_imports.cache_clear()


def imports(tree, package):
    """Yield every imported dotted name; with package, those below ldpbayes, without its prefix."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if not node.module == package else [f"{package}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from names


@functools.cache
def imports_of(package):
    """Return (name, imported dotted names) of every module; package as for imports."""
    return [(name, sorted(set(imports(tree, package)))) for name, tree in modules()]


def is_door(tree):
    """Return whether a module lists public names that load on first use: what it imports is then for type checkers."""
    return any(isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazily" for node in ast.walk(tree))


@functools.cache
def inner_imports():
    """Return (name, modules below ldpbayes that it imports); of lists of names, without those for type checkers."""
    return list(_inner_imports())


def _inner_imports():
    trees = dict(modules())
    doors = {name for name, tree in trees.items() if is_door(tree)}
    for name, used in imports_of("ldpbayes"):
        if name in doors or name == "presenting":  # whose page() states the type of what the layer of pages makes
            body = [node for node in trees[name].body if not ast.unparse(node).startswith("if TYPE_CHECKING")]
            used = sorted(set(imports(ast.Module(body, []), "ldpbayes")))
        yield name, [other.removeprefix("ldpbayes.") for other in used if other.startswith("ldpbayes.")]


def test_every_family_has_a_layer():
    missing = {name.split(".")[0] for name, _ in modules()} - set(LEVEL)
    assert not missing, f"these have no layer, add them to LAYERS: {sorted(missing)}"


def test_imports_go_down():
    """A module imports only from its own layer or below."""
    upwards = [
        f"{name} imports {other} from a higher layer"
        for name, used in inner_imports()
        for other in used
        if LEVEL[other.split(".")[0]] > LEVEL[name.split(".")[0]]
    ]
    assert not upwards, upwards


def test_no_room_is_named_but_by_itself():
    """The core imports no room, and a room no other, except where its docstring says so in its first line or two."""
    wrong = []
    for name, used in inner_imports():
        home, others = name.split(".")[0], {other.split(".")[0] for other in used} & ROOMS
        if home not in ABOVE:
            wrong += [f"{name} imports {other}" for other in sorted(others - {home} - BETWEEN.get(home, set()))]
    assert not wrong, wrong


def test_the_core_names_no_module_of_a_room_as_text():
    """Functions of rooms are named in the tables of the rooms; lists of public names are doors."""
    name_of = re.compile(rf"(ldpbayes\.)?({'|'.join(sorted(ROOMS))})(\.\w+)+")
    named = [
        f"{name}: {node.value}"
        for name, tree in modules()
        if name.split(".")[0] not in ROOMS | ABOVE and not is_door(tree)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and name_of.fullmatch(node.value)
    ]
    assert not named, named


def test_rooms_say_what_they_are():
    """What it is for, what it takes from the core, and what it brings; and the rooms that it needs."""
    trees = dict(modules())
    assert {path.parent.name for path in PACKAGE.glob("*/registered.py")} == ROOMS
    scope = (ROOT / "docs" / "scope.md").read_text()
    for room in ROOMS:
        assert any((ROOT / "tests" / room).glob("test_*.py")) and f"| `{room}/` |" in scope, room
        text = ast.get_docstring(trees[room]) or ""
        assert "\nFrom the core it takes" in text and "It brings" in " ".join(text.split()), room
        for other in BETWEEN.get(room, ()):
            assert f"``{other}``" in text.partition("\n\n")[0], f"{room} needs {other}: its first lines say so"


def test_methods_write_no_results():
    """A method returns an Outcome; the arrays and facts of a result are written last, by result/ and those above it."""
    wrong = [
        (name, other)
        for name, used in inner_imports()
        for other in used
        if name.split(".")[0] in ("inference", "methods", "priors") and other.split(".")[0] in ("result", "road")
    ]
    assert not wrong, wrong


def needed():
    """Return {module: modules of the package that it imports}, also inside functions, but not for type checkers alone."""
    names = {name for name, _ in modules()}

    def home(name):
        while name and name not in names:
            name = name.rpartition(".")[0]
        return name

    def imported(node):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.ImportFrom) and child.module:
                yield from (f"{child.module}.{alias.name}" for alias in child.names)
            elif isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            yield from imported(child)

    inner = "ldpbayes."
    return {
        name: {home(one.removeprefix(inner)) for one in imported(tree) if one.startswith(inner)} - {name, ""}
        for name, tree in modules()
    }


def in_circles(graph):
    """Return the nodes of circles: what needs nothing that is left, or that nothing needs, is taken away step by step."""
    before = None
    while graph != before:
        before, used = graph, set().union(*graph.values())
        graph = {name: targets & graph.keys() for name, targets in graph.items() if name in used and targets & graph.keys()}
    return set(graph)


def test_no_file_needs_itself_through_others():
    """Circles of imports, those inside functions included: what two files share belongs below both."""
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {"b", "c"}
    assert not in_circles(needed())


def member(name):
    """Return the member of a family that a module belongs to: its first two names."""
    return ".".join(name.split(".")[:2])


def test_family_members_stand_alone():
    wrong = []
    for name, used in inner_imports():
        family = name.split(".")[0]
        if family in FAMILIES and "." in name:
            # A sub-package is one member: its modules may import each other.
            shared = SHARED | {f"{family}.constants"}
            siblings = {member(other) for other in used if other.startswith(f"{family}.")} - {member(name)}
            if extra := siblings - shared - BUILT_ON.get(name, set()):
                wrong.append(f"{name} imports {sorted(extra)}")
    assert not wrong, wrong


def test_each_heavy_library_has_one_home():
    astray = [
        f"{name} imports {library}, whose home is {sorted(HOMES[library])}"
        for name, used in imports_of(None)
        for library in sorted({other.split(".")[0] for other in used})
        if library in HOMES and name not in HOMES[library]
    ]
    assert not astray, astray


def loaded_after(code):
    """Return the modules that a fresh interpreter has loaded after running code."""
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.splitlines()[-1].split())


HEAVY = {"pymc", "pytensor", "nutpie", "cvxpy", "matplotlib"}


def test_import_is_light():
    heavy = HEAVY | {"xarray", "pandas", "numba", "arviz_base", "scipy.stats", "scipy.optimize"}
    assert not heavy & loaded_after("import ldpbayes.cli")
    slow = HEAVY | {"scipy.optimize", "scipy.interpolate", "scipy.stats", "pydantic", "numba", "ldpbayes.regression.fitting"}
    fit = "try:\n    main(['fit', 'example:nigeria'])\nexcept SystemExit:\n    pass"
    loaded = loaded_after(f"from ldpbayes.cli import main\n{fit}")
    assert "ldpbayes.pages.fit" in loaded and not slow & loaded


def test_compiled_functions_assign_no_array_to_a_slice():
    """It takes three seconds to compile, for the words on shapes that differ; a loop over the entries takes none."""
    files = {path: text for path in PACKAGE.rglob("*.py") if "@compiled" in (text := path.read_text())}
    seen = 0
    for path, text in files.items():
        for function in ast.walk(ast.parse(text)):
            marks = getattr(function, "decorator_list", [])
            if not any(isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "compiled" for mark in marks):
                continue
            seen += 1
            for node in ast.walk(function):
                for target in node.targets if isinstance(node, ast.Assign) else []:
                    sliced = any(isinstance(part, ast.Slice) for part in ast.walk(target))
                    names = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
                    assert not sliced or names <= {"math", "np"}, f"{path.name}: {ast.unparse(node)}"
    assert len(files) > 5 and seen > 50


def test_no_machine_paths_or_index_hosts():
    """Nothing that git tracks names a package index's host or a folder of this machine."""
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, cwd=ROOT)
    if listed.returncode:
        pytest.skip("not a git checkout")
    words = ["index" + "-url", "pypi." + "org", str(pathlib.Path.home()) + "/", "files.python" + "hosted"]
    for file in listed.stdout.split("\0"):
        path = ROOT / file
        if file and path.is_file() and path.suffix not in (".png", ".nc"):
            text = path.read_text(errors="ignore")
            assert not [word for word in words if word in text], file


def test_models_do_not_import_ldpbayes():
    """models/<protocol>.py are independent oracles; only the richer ones build on ldpbayes.model.observe."""
    richer = {"hierarchical_groups.py", "ordered_random_walk.py", "regression_with_observe.py"}
    models = {path.name: path for path in (ROOT / "models").glob("*.py")}
    assert len(models) > 8 and richer <= set(models)
    for path in models.values():
        used = {name.split(".")[0] for name in imports(ast.parse(path.read_text()), None)}
        assert path.name in richer or "ldpbayes" not in used, path.name


#: Families whose concrete members nobody else asks for: a capability is a method that returns the object or None.
CAPABLE = ("protocols", "likelihoods", "priors", "methods", "repeated")
#: Containers of data and outcomes, which a function takes beside each other: what these are may be asked.
DOOR = {"Summary", "Integers", "Bytes", "ListColumn", "Answer"}
#: Converters, constructors that check their arguments, and a prior beside a word.
MAY_ASK = {
    ("protocols.combine", "Channel"),  # as_channel returns a Channel as it is
    ("protocols.rappor_bits", "Rappor"),  # its constructor takes nothing else
    ("planning.plans", "Dirichlet"),  # a prior beside the word for a worst case
    ("regression.lists", "ListExperiment"),  # a design of several channels beside a mapping of them
}
#: Values of foreign libraries, of which no capability can be asked.
FOREIGN = {"pages.renderers.json", "plots.base"}


def concrete_members():
    """Return the names of the concrete classes of the capable families, and the modules that define them."""
    return {
        (name, node.name)
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and name.split(".")[0] in CAPABLE and not node.name.startswith("Abstract")
    }


def asked(tree):
    """Yield the class names of every isinstance, and the words "hasattr" and "override" for other questions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass"):
                yield from (part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name))
                yield from (part.attr for part in ast.walk(node.args[1]) if isinstance(part, ast.Attribute))
            elif node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3):
                yield "hasattr"
        if isinstance(node, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            sides = [side for side in (node.left, *node.comparators) if isinstance(side, ast.Attribute)]
            if any(isinstance(side.value, ast.Call) and ast.unparse(side.value.func) == "type" for side in sides):
                yield "override"


def test_nobody_asks_what_an_object_can_do_by_its_class():
    """No isinstance of a concrete member outside its module, no hasattr, no "is it overridden"; exceptions are listed."""
    members = concrete_members()
    names = {cls for _, cls in members} - DOOR | {"hasattr", "override"}
    found = {
        (name, word)
        for name, tree in modules()
        for word in asked(tree)
        if word in names and (name, word) not in members and name not in FOREIGN
    }
    assert found <= MAY_ASK, f"ask for a capability instead: {sorted(found - MAY_ASK)}"
    assert MAY_ASK <= found, f"take these off the list, nobody asks them any more: {sorted(MAY_ASK - found)}"


@each_row(
    "code, words",
    [
        ("isinstance(x, GRR)", ["GRR"]),
        ("isinstance(x, (str, grr.GRR))", ["str", "grr", "GRR"]),
        ("hasattr(x, 'rank')", ["hasattr"]),
        ("getattr(x, 'rank', 3)", ["hasattr"]),
        ("type(x).oracle is AbstractProtocol.oracle", ["override"]),
        ("x.oracle is None", []),
    ],
)
def test_the_rule_sees_every_way_to_ask(code, words):
    assert list(asked(ast.parse(code))) == words
