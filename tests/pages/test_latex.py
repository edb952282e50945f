"""Pages in LaTeX are ready to paste: a strict reader takes them, and the numbers and labels are those of the page."""

import re

import pytest

import ldpbayes as lb
from ldpbayes.pages import page
from ldpbayes.pages.renderers import latex

#: What a page may say to LaTeX, and the environments that it may open.
COMMANDS = {"begin", "end", "centering", "caption", "label", "toprule", "midrule", "bottomrule", "par", "vspace", "small"}
COMMANDS |= {"resizebox", "ifdim", "width", "linewidth", "else", "fi", "paragraph", "textbackslash", "textasciitilde"}
COMMANDS |= {"textasciicircum", "textless", "textgreater", "pm", "varepsilon", "times", "leq", "geq", "to", "surd", "infty"}
COMMANDS |= {"dots", "textsuperscript", "includegraphics", "alpha", "gamma", "chi"}


def read(text):
    """Return the tables of a page as (caption, label, column types, rows); raise where LaTeX would stop or misprint."""
    assert text.isascii() or not re.search(r"[^\x00-\x7fÀ-ɏ–’“”]", text), "a character that plain LaTeX does not set"
    bare = re.sub(r"\\[&%$#_{}\\]", "", text)  # what is escaped, and ends of rows
    assert {name for name in re.findall(r"\\([a-zA-Z]+)", bare)} <= COMMANDS
    assert bare.count("{") == bare.count("}") and bare.count("$") % 2 == 0
    outside = re.sub(r"\$[^$]*\$", "", bare.replace(r"\width>\linewidth", ""))
    assert not re.search(r"[_^#<>]", outside)
    assert not re.search(r"%(?!\n)", outside)  # comments only where a line of the wrapper ends
    opened = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened
    pattern = (
        r"\\begin\{table\}.*?\\caption\{(.*?)\}\n  \\label\{(.*?)\}.*?\\begin\{tabular\}\{([lr]+)\}(.*?)\\end\{tabular\}"
    )
    found = []
    for caption, label, sides, body in re.findall(pattern, text, re.DOTALL):
        assert [body.count(f"\\{rule}") for rule in ("toprule", "midrule", "bottomrule")] == [1, 1, 1]
        rows = [row.strip().removesuffix("\\\\").strip() for row in body.splitlines() if "\\\\" in row]
        cells = [[cell.strip() for cell in re.split(r"(?<!\\)&", row)] for row in rows]
        assert len(sides) <= latex.COLUMNS and {len(row) for row in cells} == {len(sides)}
        found.append((caption, label, sides, cells))
    return found


@pytest.fixture(scope="module")
def tables():
    cells = lb.load_example("nigeria_cells")
    return lb.show(lb.fit(cells, draws=0), collection=cells).render("latex")


def test_tables_of_cells_have_eight_columns_and_say_what_is_left_out(tables):
    found = read(tables)
    assert found and all(len(sides) <= 8 for _, _, sides, _ in found)
    assert "Not shown: " in tables and len({label for _, label, _, _ in found}) == len(found)


def test_numbers_have_minus_signs_and_powers_of_ten_and_labels_are_escaped():
    columns = [
        page.Column("name", "name & more", "text"),
        page.Column("x", "x_1", spec=".4g"),
        page.Column("ends", "95 % interval", "interval", ".3f"),
    ]
    rows = [("25-34", -1.5, (-0.25, 0.5)), ("50 % of {a_b} #1 ~ ^", 2.5e-7, (-2.0, -1.0)), ("$x$ \\input", -3e-9, None)]
    table = page.Table("Shares, by age", tuple(columns), tuple(rows))
    text = page.Page("A page", (table,), summary="It falls by -0.5 between 2020-01-02 and 18-24, to 1e-09.").render("latex")
    ((caption, label, sides, cells),) = read(text)
    assert (caption, label, sides) == ("Shares, by age", "tab:1-shares-by-age", "lrr")
    assert cells[0] == [r"name \& more", r"x\_1", r"95 \% interval"]
    assert cells[1] == ["25-34", "$-$1.5", "$-$0.250 to 0.500"]
    assert cells[2][1:] == [r"$2.5\times10^{-7}$", "$-$2.000 to $-$1.000"]
    assert cells[3] == [r"\$x\$ \textbackslash{}input", r"$-3\times10^{-9}$", ""]
    assert r"by $-$0.5 between 2020-01-02 and 18-24, to $1\times10^{-9}$" in text


def test_pages_of_other_kinds_are_read():
    survey, minarets = lb.load_example("nigeria"), lb.load_example("minarets")
    plans = lb.planning.plan(n_categories=16, epsilon=1, error=0.01)
    answers = lb.robust.contamination_hull(survey, "yes"), lb.fit(minarets, draws=0), lb.check(minarets), plans
    assert [len(read(lb.show(answer).render("latex"))) for answer in answers] == [1, 2, 0, 1]
