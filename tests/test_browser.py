"""Pages in a real browser: nothing overflows on a phone or a desk, nothing is fetched, and the console stays empty."""

import os
import shutil

import numpy as np
import pytest
from commands import run

import ldpbayes as lb
from ldpbayes.pages import show
from ldpbayes.result import attach

pytestmark = [pytest.mark.browser, pytest.mark.long]

#: Widths of a phone and of a desk, in CSS pixels.
WIDTHS = (360, 1280)
_FLAGS = ("--headless=new", "--disable-background-networking", "--disable-component-update", "--disable-sync")
_FLAGS += ("--no-first-run", "--hide-scrollbars")


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; the tests are skipped where there is none."""
    program, driver = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if program is None or driver is None:
        pytest.skip("Chromium or chromedriver is not installed")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*_FLAGS, *["--no-sandbox"] * (os.geteuid() == 0)):  # Chromium refuses to run as root with its sandbox
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=Service(driver))
    yield session
    session.quit()


def dashboard():
    """Return 60 cells of simulated reports, fifteen regions in four years, and a result with draws about the truth."""
    import arviz_base

    rng, labels, cells = np.random.default_rng(1), ["very satisfied", "satisfied", "neutral", "unsatisfied"], {}
    grr, truth = lb.GRR(4, 1.0), rng.dirichlet([8, 10, 12, 16], size=60)
    for c, p in enumerate(truth):
        key = (f"region {c // 4:02d}", 2020 + c % 4)
        derived = (lb.collections.Derived("satisfied at all", ("very satisfied", "satisfied")),)
        cells[key] = lb.Collection(labels, lb.Tally(grr, *grr.simulate(rng.multinomial(400, p), rng)), derived=derived)
    cells = lb.Cells(cells, by=("region", "year"), title="Satisfaction by region and year")
    draws = rng.gamma(60 * truth, size=(4, 50, 60, 4))
    coords = {"cell": list(cells.labels), "category": labels}
    posterior = {"posterior": {"p": draws / draws.sum(axis=-1, keepdims=True)}}
    trace = arviz_base.from_dict(posterior, coords=coords, dims={"p": ["cell", "category"]})
    return cells, attach(trace, cells, random_seed=1)


def groups():
    """Return durations of page loads by a private group of two, in three countries with long names."""
    import pyarrow

    rng = np.random.default_rng(3)
    cold = rng.random(3000) < 0.3
    reports = lb.GRR(2, 1.1).privatize(cold.astype(int), rng)
    duration = rng.lognormal(np.where(cold, 7.5, 6.7), 0.6).round(1)
    where = np.array(["Sweden", "Norway", "Saint Vincent and the Grenadines"])[rng.integers(3, size=3000)]
    frame = pyarrow.table({"duration": duration, "report": reports, "country": where})
    settings = {"by": "country", "method": "recipe", "draws": 50, "random_seed": 1}
    return lb.by_private_group(frame, "duration", protocol=lb.GRR(2, 1.1), **settings)


def thousand():
    """Return a collection of a thousand categories, some with long names."""
    rng, a = np.random.default_rng(2), 1000
    grr, p = lb.GRR(a, 4.0), 1 / np.arange(1, a + 1)
    reports = grr.simulate(rng.multinomial(20_000, p / p.sum()), rng)
    labels = [f"airport_{x:03d}" + "_with_a_name_that_nobody_broke_into_words" * (x == 2) for x in range(a)]
    return lb.Collection(labels, lb.Tally(grr, *reports), title="Departures by airport <2024> & earlier")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of two surveys, by the command line, and of two large results; all are made once."""
    folder = tmp_path_factory.mktemp("pages")
    made = {"nigeria": folder / "nigeria.html", "minarets": folder / "minarets.html"}
    for name, path in made.items():
        with pytest.raises(SystemExit) as ended:
            lb_main(["fit", f"example:{name}", "--seed", "1", "--draws", "250", "--page", str(path)])
        assert not ended.value.code
    large = thousand()
    found = {"dashboard": dashboard(), "thousand": (large, lb.fit(large, "flat", random_seed=1, draws=25))}
    for name, (data, tree) in found.items():
        made[name] = folder / f"{name}.html"
        show(tree, collection=data, command="ldpbayes fit data.toml --seed 1").save(made[name])
    made["groups"] = folder / "groups.html"
    show(groups(), unit="ms", command="ldpbayes private-groups loads.csv --seed 1").save(made["groups"])
    made["plan"] = folder / "plan.html"
    with pytest.raises(SystemExit):
        lb_main(["plan", "--n-categories", "16", "--epsilon", "1", "--error", ".01", "--page", str(made["plan"])])
    return made


def lb_main(arguments):
    from ldpbayes.cli import main

    main(arguments)


#: Elements that reach beyond the screen and that no scrolling ancestor clips, and elements whose text is cut.
_PROBLEMS = """
const wide = document.documentElement.clientWidth;
const scrolls = e => { for (; e; e = e.parentElement) if (/auto|scroll/.test(getComputedStyle(e).overflowX)) return true;
  return false };
const named = e => e.tagName + '.' + e.getAttribute('class') + ': ' + e.textContent.slice(0, 60);
const found = [];
for (const e of document.body.querySelectorAll('*')) {
  if (e.closest('svg') && e.tagName !== 'svg') continue;
  const box = e.getBoundingClientRect(), style = getComputedStyle(e);
  if (box.width && (box.right > wide + 1 || box.left < -1) && !scrolls(e)) found.push('beyond the screen: ' + named(e));
  if (/hidden|clip/.test(style.overflowX) && e.scrollWidth > e.clientWidth + 1) found.push('cut: ' + named(e));
}
return found;
"""
#: Texts whose contrast with the background is below 4.5 to 1.
_CONTRAST = """
const light = text => { const [r, g, b] = text.match(/[\\d.]+/g).map(x => x / 255)
  .map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b };
const back = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
  if (!/rgba\\(.*, 0\\)|transparent/.test(c)) return c } return 'rgb(255, 255, 255)' };
const found = [];
for (const e of document.body.querySelectorAll('h1, h2, p, li, dt, dd, th, td, a, summary, figcaption, pre, strong')) {
  const [a, b] = [light(getComputedStyle(e).color), light(back(e))].sort((x, y) => y - x);
  if ((a + .05) / (b + .05) < 4.5) found.push([(a + .05) / (b + .05), e.tagName, e.textContent.slice(0, 40)]);
}
return found;
"""


def visit(browser, path, width, theme="light"):
    """Open a page at a width; return (width of the page, width of the screen, SEVERE entries of the console)."""
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    preferred = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": preferred})
    browser.get(path.as_uri())
    sizes = browser.execute_script("const d = document.documentElement; return [d.scrollWidth, d.clientWidth]")
    return *sizes, [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


NAMES = ("nigeria", "minarets", "dashboard", "thousand", "groups", "plan")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_pages_fit_the_screen(browser, pages, name, width):
    page, seen, errors = visit(browser, pages[name], width)
    assert seen == width and page <= seen and errors == []
    assert browser.execute_script(_PROBLEMS) == []
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert [address for address in fetched if not address.startswith("data:")] == []
    browser.execute_script("document.querySelectorAll('details').forEach(one => one.open = true)")
    opened = browser.execute_script("const d = document.documentElement; return [d.scrollWidth, d.clientWidth]")
    assert opened[0] <= opened[1] and browser.execute_script(_PROBLEMS) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["minarets", "dashboard"])
def test_text_has_contrast(browser, pages, name, theme):
    visit(browser, pages[name], 360, theme)
    assert browser.execute_script(_CONTRAST) == []


def test_figures_are_legible_on_a_phone(browser, pages):
    """Letters are outlines of size 100, scaled by their groups: on a phone their text has eleven pixels or more."""
    letters = "[...document.querySelectorAll('figure svg g[id*=text_] use')].map(e => e.getScreenCTM())"
    for name in NAMES:
        visit(browser, pages[name], 360)
        sizes = browser.execute_script(f"return {letters}.map(m => 100 * Math.hypot(m.a, m.b))")
        assert sizes and min(sizes) >= 11, name


def test_long_tables_are_folded_and_whole(browser, pages):
    visit(browser, pages["thousand"], 360)
    rows = "return [...document.querySelectorAll('tbody')].map(e => [e.rows.length, e.closest('details') !== null])"
    assert browser.execute_script(rows) == [[20, False], [1000, True]]
    visit(browser, pages["dashboard"], 360)
    assert browser.execute_script(rows) == [[20, False], [240, True], [10, False], [60, True]]


def test_long_tables_are_sorted_by_a_click(browser, pages):
    """Numbers as numbers, texts as texts; a second click turns the order."""
    visit(browser, pages["thousand"], 1280)
    click = (
        "const head = document.querySelectorAll('table.sortable th')[arguments[0]]; head.querySelector('button').click();"
    )
    column = (
        "return [head.ariaSort, [...head.closest('table').tBodies[0].rows].map(row => row.cells[arguments[0]].textContent)]"
    )
    for place, key in ((1, float), (0, str)):
        for sense in ("ascending", "descending"):
            told, texts = browser.execute_script(click + column, place)
            values = [key(text) for text in texts]
            assert told == sense and values == sorted(values, reverse=sense == "descending") and len(values) == 1000


def test_a_desk_shows_answer_figure_and_first_rows(browser, pages):
    """At 1,280 × 800: the answer above, a figure of 30 rem, and the first row of the table without scrolling."""
    for name in ("nigeria", "minarets", "dashboard", "thousand"):
        visit(browser, pages[name], 1280)
        found = browser.execute_script("""
            const box = e => document.querySelector(e).getBoundingClientRect();
            return [box('.lead').bottom, box('figure svg').top, box('figure svg').width, box('main').width,
                    box('tbody tr').bottom]""")
        assert found[0] <= found[1] and found[2] == 480 < found[3] and found[4] <= 800, (name, found)


def test_printing_opens_what_is_folded(browser, pages):
    visit(browser, pages["dashboard"], 1280)
    hidden = "return [...document.querySelectorAll('details table')].filter(e => !e.checkVisibility()).length"
    assert browser.execute_script(hidden) >= 2
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    found = browser.execute_script(hidden)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert found == 0


def test_the_icon_is_no_request(browser, pages):
    assert 'rel="icon" href="data:,"' in pages["nigeria"].read_text()


def test_every_command_writes_a_page(capsys, tmp_path):
    """Without a browser: check and plan; crosscheck has its own test, since it samples."""
    plan = ["plan", "--n-categories", 4, "--epsilon", 1, "--users", 1000]
    for arguments, suffixes in ((["check", "example:cheating"], ("html", "tex")), (plan, ("md", "json"))):
        for suffix in suffixes:
            path = tmp_path / f"{arguments[0]}.{suffix}"
            status, out, err = run(capsys, *arguments, "--page", path)
            assert status in (0, 1) and "Wrote" in out and path.stat().st_size > 100, (arguments, suffix, err)
