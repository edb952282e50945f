"""Formulas: a closed language of its own, with columns, numbers, a table of functions, and the signs of R.

::

    formula     name "~" sum
    sum         [sign] product (("+" | "-") product)*
    product     interaction (("*" | "/") interaction)*
    interaction power (":" power)*
    power       atom [("^" | "**") whole number]
    atom        0 | 1 | column | call | "{" comparison "}" | "(" sum ["|" sum] ")"
    call        function "(" comparison ("," [option "="] literal)* ")", where a literal may be a list c(…) or […]
    comparison  arithmetic [("==" | "!=" | "<" | "<=" | ">" | ">=") arithmetic]
    arithmetic  + - * / ^ ** and parentheses over numbers, columns and calls; texts beside == and != alone

A name before a parenthesis is looked up in the table of ``functions``, every other name in the data frame, and nothing
anywhere else: a formula has no way to reach Python.
"""

import itertools
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from ldpbayes.errors import ArgumentError, listed, shown
from ldpbayes.regression.constants import MAX_DEPTH, MAX_HEIGHT, MAX_LENGTH, MAX_ORDER, MAX_TERMS
from ldpbayes.regression.functions import CODINGS, FUNCTIONS, LEVELS, NAMES, NUMBER, SMOOTH

_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
_TOKENS = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))"
    r"|(?P<name>[^\W\d][\w.]*)"
    r"|`(?P<column>[^`]+)`"
    r"|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<sign>\*\*|[=!<>]=|[-+*/:^(){}|,=<>~[\]])"
)
#: How strongly signs bind, for printing.
_STRENGTH = {**dict.fromkeys(_COMPARISONS, 1), "+": 2, "-": 2, "*": 3, "/": 3, "neg": 4, "**": 5}
#: What an option must be: whether a value is that, and the words for it.
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "integer": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "truth": (lambda value: isinstance(value, bool), "True or False"),
    "numbers": (lambda v: isinstance(v, tuple) and all(isinstance(x, (int, float)) for x in v), "numbers such as c(1, 2)"),
    "label": (lambda value: not isinstance(value, tuple), "a text or a number"),
    "coding": (lambda value: value in CODINGS, " or ".join(CODINGS)),
}
_TRUTHS = {"True": True, "TRUE": True, "False": False, "FALSE": False}


@dataclass(frozen=True)
class FrameColumn:
    """A column of the data frame."""

    name: str
    height: ClassVar[int] = 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Literal:
    """A number, or a text in a comparison."""

    value: float | str
    height: ClassVar[int] = 0

    def __str__(self) -> str:
        return f"'{self.value}'" if isinstance(self.value, str) else f"{self.value:.12g}"


@dataclass(frozen=True)
class Apply:
    """A function of the table, or a sign, with what it is applied to.

    Attributes
    ----------
    name : str
    to : tuple of Node
    options : tuple of (str, value)
    text : str
        As it is printed.
    state : dict
        What fitting has found, such as the mean that center takes off.
    height : int
        How many functions and signs stand above each other.
    """

    name: str
    to: tuple["Node", ...]
    options: tuple[tuple[str, Any], ...] = ()
    text: str = field(default="", compare=False)
    state: dict[str, Any] = field(default_factory=dict, compare=False)
    height: int = field(init=False, default=0, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "height", 1 + max(part.height for part in self.to))

    def __str__(self) -> str:
        return self.text


Node = FrameColumn | Literal | Apply
#: The factors whose product a term is; the intercept has none.
Term = tuple[Node, ...]


def columns_of(node: Node) -> set[str]:
    """Return the columns that a node uses."""
    if isinstance(node, Apply):
        return set().union(*map(columns_of, node.to))
    return {node.name} if isinstance(node, FrameColumn) else set()


def of_levels(node: Node) -> bool:
    """Return whether a node is an effect over ordered levels or numbers, rw(x), mo(x) or s(x)."""
    return isinstance(node, Apply) and node.name in FUNCTIONS and FUNCTIONS[node.name].makes in (LEVELS, SMOOTH)


@dataclass(frozen=True)
class Formula:
    """``answer ~ terms``, taken apart.

    Attributes
    ----------
    text : str
    answer : str
        Name of the private answer.
    terms : tuple of Term
        Main effects first; the intercept is the empty tuple.
    groups : tuple of (Term, Term)
        What varies, and between which groups.
    paths : tuple of Term
        Walks, monotone effects and smooths, rw(x), mo(x) and s(x), with what they are multiplied by.
    variables : tuple of str
        Columns that the terms use, sorted.
    """

    text: str
    answer: str
    terms: tuple[Term, ...]
    groups: tuple[tuple[Term, Term], ...]
    paths: tuple[Term, ...]
    variables: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Formula":
        """Return the parts of a formula.

        Parameters
        ----------
        text : str

        Raises
        ------
        ArgumentError
            Where it is no formula, has no left side, or uses what the language does not have.
        """
        if not isinstance(text, str):
            raise ArgumentError(f'formula must be a text such as "answer ~ age + C(sex)", got {shown(text)}.')
        if len(text) > MAX_LENGTH:
            raise ArgumentError(f"formula must have at most {MAX_LENGTH:,} characters, got {len(text):,}.")
        left, tilde, right = text.partition("~")
        answer = left.strip()
        if tilde and re.fullmatch(r"[A-Za-z_]\w*\s*\(.*\)", answer, re.DOTALL):
            raise ArgumentError(
                "formula must have a column on its left side, without functions: make the column first, such as "
                f'data["y"] = data["smoker"] == "yes", got {shown(text)}.'
            )
        if not tilde or not answer.isidentifier() or not right.strip() or "~" in right:
            raise ArgumentError(
                'formula must name the private answer, a "~" and the terms, such as "answer ~ age + C(sex)", got '
                f"{shown(text)}."
            )
        parser = _Parser(right, text)
        parsed = parser.sum()
        parser.expect("", "the end")
        others: list[Term] = []
        paths: list[Term] = []
        for term in parsed.terms.values():
            (paths if any(map(of_levels, term)) else others).append(term)
        grouped = itertools.chain(*itertools.chain(*parsed.groups))
        if any(sum(map(of_levels, term)) > 1 for term in paths) or any(map(of_levels, grouped)):
            raise ArgumentError(f"formula must multiply rw(), mo() and s() by columns, not group them, got {shown(text)}.")
        terms = ([()] if parsed.intercept in (None, True) else []) + sorted(others, key=len)
        if not terms:
            raise ArgumentError("formula must have at least one common term, such as the intercept 1.")
        nodes = itertools.chain(*paths, *terms, *(itertools.chain(*pair) for pair in parsed.groups))
        names = sorted(set().union(*map(columns_of, nodes)))
        if answer in names:
            raise ArgumentError(f"formula must not have the private answer {answer!r} on its right side.")
        return cls(text.strip(), answer, tuple(terms), tuple(parsed.groups), tuple(sorted(paths, key=len)), tuple(names))


@dataclass
class _Sum:
    """Terms as they are read: whether the intercept was added (True) or removed (False), terms, effects of groups."""

    intercept: bool | None = None
    terms: dict[frozenset[Node], Term] = field(default_factory=dict)
    groups: list[tuple[Term, Term]] = field(default_factory=list)

    def add(self, other: "_Sum") -> None:
        self.intercept = self.intercept if other.intercept is None else other.intercept
        for key, term in other.terms.items():
            self.terms.setdefault(key, term)
        self.groups += [pair for pair in other.groups if pair not in self.groups]

    def remove(self, other: "_Sum") -> None:
        self.intercept = self.intercept if other.intercept is None else not other.intercept
        self.terms = {key: term for key, term in self.terms.items() if key not in other.terms}
        self.groups = [pair for pair in self.groups if pair not in other.groups]


class _Parser:
    """Recursive descent over the tokens of the right side."""

    def __init__(self, right: str, text: str):
        self.text, self.at, self.depth, position = text, 0, 0, 0
        self.tokens: list[tuple[str, str]] = []
        while position < len(right):
            match = _TOKENS.match(right, position)
            if match is None:
                raise self.refusal(f"at {shown(right[position : position + 20])}")
            position = match.end()
            kind = match.lastgroup or ""
            if kind != "space":
                self.tokens.append((kind, "**" if match[kind] == "^" else match[kind]))
        self.tokens.append(("end", ""))

    # ---- tokens --------------------------------------------------------------------------------------------------------
    def refusal(self, why: str) -> ArgumentError:
        """Return the error that a formula cannot be read."""
        return ArgumentError(f"formula cannot be read ({why}), got {shown(self.text)}.")

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def token(self) -> str:
        """The present token where it is a sign, else an empty text."""
        kind, token = self.tokens[self.at]
        return token if kind == "sign" else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][1]

    def accept(self, *signs: str) -> str:
        """Return and pass one of some signs, or return an empty text."""
        return self.take() if self.token in signs and self.token else ""

    def expect(self, sign: str, said: str = "") -> None:
        if (self.kind != "end") if not sign else not self.accept(sign):
            raise self.refusal(f"{said or repr(sign)} is expected before {self.ahead()}")

    def ahead(self) -> str:
        return "the end" if self.kind == "end" else shown(self.tokens[self.at][1])

    def called(self) -> bool:
        """Return whether a name with a parenthesis is ahead."""
        return self.kind == "name" and self.tokens[self.at + 1] == ("sign", "(")

    def inner(self, read):
        """Return what ``read`` reads one level deeper."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refusal(f"more than {MAX_DEPTH} levels of parentheses and signs")
        node = read()
        self.depth -= 1
        return node

    # ---- terms ---------------------------------------------------------------------------------------------------------
    def sum(self) -> _Sum:
        total, sign = _Sum(), self.accept("+", "-") or "+"
        while sign:
            term = self.inner(self.product)
            (total.add if sign == "+" else total.remove)(term)
            self.counted(len(total.terms) + len(total.groups))
            sign = self.accept("+", "-")
        return total

    def product(self) -> _Sum:
        left = self.interaction()
        while sign := self.accept("*", "/"):
            right = self.interaction()
            if sign == "*":
                both = self.crossed(left.terms.values(), right)
                left.add(self.single(right))
            else:
                both = self.crossed([tuple(dict.fromkeys(itertools.chain(*self.single(left).terms.values())))], right)
            self.single(left).add(both)
        return left

    def interaction(self) -> _Sum:
        left = self.power()
        while self.accept(":"):
            left = self.crossed(self.single(left).terms.values(), self.power())
        return left

    def power(self) -> _Sum:
        found = self.atom()
        if self.accept("**"):
            order = self.take() if self.kind == "number" else ""
            if not order.isdecimal() or not 1 <= int(order[:9]) <= MAX_ORDER:
                raise self.refusal(f"a power of terms is a whole number from 1 to {MAX_ORDER}; I(x**2) squares a column")
            base = _Sum(terms=dict(self.single(found).terms))
            for _ in range(int(order) - 1):
                found.add(self.crossed(found.terms.values(), base))
        return found

    def single(self, part: _Sum) -> _Sum:
        """Return a factor of a product, which has terms alone."""
        if part.groups or part.intercept is not None:
            raise self.refusal("products are of columns, not of 0, 1 or effects of groups; those are added")
        return part

    def crossed(self, first: Collection[Term], second: _Sum) -> _Sum:
        """Return all products of two sums of terms."""
        self.counted(len(first) * len(self.single(second).terms))
        crossed = _Sum()
        for left, two in itertools.product(first, second.terms.values()):
            term = tuple(dict.fromkeys(left + two))
            if len(term) > MAX_ORDER:
                raise self.refusal(f"an interaction has at most {MAX_ORDER} columns")
            crossed.terms.setdefault(frozenset(term), term)
        return crossed

    def counted(self, terms: int) -> None:
        if terms > MAX_TERMS:
            raise self.refusal(f"it has more than {MAX_TERMS:,} terms")

    def atom(self) -> _Sum:
        if self.kind == "number":
            number = self.take()
            if number not in ("0", "1"):
                raise self.refusal(f"{shown(number)} is no term; only 0 and 1, for the intercept, stand alone")
            return _Sum(number == "1")
        if self.accept("-"):
            term = self.inner(self.atom)
            if term.intercept is None:
                raise self.refusal("a sign stands before a term only to add or remove it")
            return _Sum(not term.intercept)
        if self.accept("("):
            term = self.inner(self.sum)
            if self.accept("|"):
                term = self.effects(term, self.inner(self.sum))
            self.expect(")")
            return term
        if self.accept("{"):
            term = self.inner(self.arithmetic)
            self.expect("}")
            return self.of(self.applied("I", (term,)))
        if self.called():
            return self.of(self.call())
        if self.kind in ("name", "column"):
            return self.of(FrameColumn(self.take()))
        raise self.refusal(f"a term is expected before {self.ahead()}")

    def of(self, node: Node) -> _Sum:
        """Return the sum of one term of one factor."""
        return _Sum(terms={frozenset([node]): (node,)})

    def effects(self, varying: _Sum, by: _Sum) -> _Sum:
        """Return the effects of groups (varying | by); those of the intercept come along unless 0 removes them."""
        if varying.groups or by.groups or by.intercept is not None or not by.terms:
            raise self.refusal("effects of groups are written (1 | county) or (age | county)")
        what: list[Term] = [*([] if varying.intercept is False else [()]), *varying.terms.values()]
        if not what:
            raise self.refusal("(0 | g) has nothing that varies")
        self.counted(len(what) * len(by.terms))
        return _Sum(groups=list(itertools.product(what, by.terms.values())))

    # ---- functions and arithmetic --------------------------------------------------------------------------------------
    def call(self) -> Apply:
        name = self.take()
        if name == "offset":
            raise ArgumentError(
                "formula must not have an offset: every term has coefficients to estimate, one per category but the "
                f"reference, got {shown(self.text)}."
            )
        if name not in FUNCTIONS:
            raise ArgumentError(
                f"formula must use no functions but {', '.join(NAMES)} (or np.log for log, and so on), got {shown(name)}; "
                "compute other columns beforehand."
            )
        self.expect("(")
        argument, options = self.inner(self.arithmetic), []
        while self.accept(","):
            option = ""
            if self.kind == "name" and self.tokens[self.at + 1] == ("sign", "="):
                option = self.take()
                self.take()
            options.append((option, self.literal()))
        self.expect(")")
        return self.applied(name, (argument,), self.options(name, options), options)

    def options(self, name: str, given: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return the options of a function by their names."""
        rules, checked = FUNCTIONS[name].options, {}
        for place, (option, value) in enumerate(given):
            option = option or (list(rules)[place] if place < len(rules) else "")
            if option not in rules or option in checked:
                hint = ". Levels are sorted, or in the order of an ordered Categorical; T(x, 'b') takes 'b' as the base"
                has = f"has the options {listed(rules)}" if rules else "has no options"
                raise self.refusal(f"{name} {has}{hint if option == 'levels' else ''}")
            is_right, words = _RULES[rules[option]]
            if not is_right(value):
                raise self.refusal(f"{option} of {name} must be {words}")
            checked[option] = value
        return checked

    def literal(self) -> Any:
        """Return a number, a text, True or False, a coding, or a list c(…) of them."""
        if self.kind == "text":
            return self.take()[1:-1]
        if self.token == "[" or (self.called() and self.tokens[self.at][1] == "c"):
            end = "]" if self.take() == "[" else ")"
            if end == ")":
                self.take()
            values = [self.inner(self.literal)]
            while self.accept(","):
                values.append(self.inner(self.literal))
            self.expect(end)
            return tuple(values)
        if self.kind == "name":
            name = self.take()
            if name not in _TRUTHS and name not in CODINGS:
                raise self.refusal(f"an option is a number, a text in quotes, True or False, got {shown(name)}")
            return _TRUTHS.get(name, name)
        sign = -1 if self.accept("-") else 1
        if self.kind != "number":
            raise self.refusal(f"a number is expected before {self.ahead()}")
        return sign * self.number()

    def number(self) -> float:
        written = self.take()
        value = int(written) if written.isdecimal() and len(written) < 16 else float(written)
        if abs(value) > 1e300:
            raise self.refusal(f"the number {shown(written)} is too large")
        return value

    def arithmetic(self, least: int = 1) -> Node:
        """Return the operands ahead and the signs between them that bind at least so strongly (_STRENGTH)."""
        left = self.operand()
        while (strength := _STRENGTH.get(self.token, 0)) >= least:
            sign = self.take()
            # Chains go from the left, powers from the right; comparisons are no chain.
            read = partial(self.arithmetic, strength + (sign != "**"))
            left = self.applied(sign, (left, self.inner(read) if sign == "**" else read()))
            least = max(least, 2) if sign in _COMPARISONS else least
        return left

    def operand(self) -> Node:
        if sign := self.accept("-", "+"):  # after powers: -x**2 is -(x**2)
            node = self.inner(partial(self.arithmetic, _STRENGTH["neg"]))
            return self.applied("neg", (node,)) if sign == "-" else node
        if self.kind == "number":
            return Literal(self.number())
        if self.kind == "text":
            return Literal(self.take()[1:-1])
        if self.accept("("):
            node = self.inner(self.arithmetic)
            self.expect(")")
            return node
        if self.called():
            node = self.inner(self.call)
            if FUNCTIONS[node.name].makes != NUMBER:
                raise self.refusal(f"{node.name} stands alone or in interactions of terms, not in arithmetic")
            return node
        if self.kind in ("name", "column"):
            return FrameColumn(self.take())
        raise self.refusal(f"a column or a number is expected before {self.ahead()}")

    def applied(self, name: str, to: tuple[Node, ...], options: dict | None = None, given: Iterable = ()) -> Apply:
        """Return a function or a sign with its arguments, and how it is printed."""
        if name not in ("==", "!=") and any(isinstance(x, Literal) and isinstance(x.value, str) for x in to):
            raise self.refusal("a text stands beside == or !=, or as an option")
        if name in FUNCTIONS:
            if not columns_of(to[0]):
                raise self.refusal(f"{name} needs a column")
            rest = [f"{option}={_written(value)}" if option else _written(value) for option, value in given]
            text = f"{name}({', '.join([str(to[0]), *rest])})"
        else:
            mine = _STRENGTH[name]
            texts = []
            for place, argument in enumerate(to):
                strength = _STRENGTH.get(argument.name, 9) if isinstance(argument, Apply) else 9
                # Chains go from the left, powers from the right.
                weak = strength < mine or (strength == mine and place == (name != "**") and name != "neg")
                texts.append(f"({argument})" if weak else str(argument))
            text = f"-{texts[0]}" if name == "neg" else f" {name} ".join(texts)
        node = Apply(name, to, tuple((options or {}).items()), text)
        if node.height > MAX_HEIGHT:
            raise self.refusal(f"more than {MAX_HEIGHT} functions and signs above each other")
        return node


def _written(value):
    if isinstance(value, tuple):
        return f"c({', '.join(map(_written, value))})"
    if isinstance(value, str) and value not in CODINGS:
        return f"'{value}'"
    return f"{value:.12g}" if isinstance(value, float) else str(value)
