"""Open every page of the built site in a browser at two widths: links lead somewhere, nothing is wider than the screen."""

import os
import pathlib
import re
import shutil
import sys
import urllib.parse

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

WIDTHS = (1280, 360)
#: What is wider than the screen and cannot be scrolled by itself, as the reader sees it.
CLIPPED = """
const wide = [];
if (document.documentElement.scrollWidth > window.innerWidth + 1) wide.push('the page');
const desk = window.innerWidth > 1000;
for (const e of document.querySelectorAll('main table, main pre, main img, main math, main div.math')) {
  if (desk && ['TABLE', 'PRE', 'DIV'].includes(e.tagName) && e.scrollWidth > e.clientWidth + 1)
    wide.push(`${e.tagName.toLowerCase()}, ${e.scrollWidth - e.clientWidth} too wide: ` + e.textContent.trim().slice(0, 40));
  let box = e.getBoundingClientRect();
  if (box.width === 0 || box.right <= window.innerWidth + 1) continue;
  let up = e, scrolls = false;
  while (up && up !== document.body) {
    if (['auto', 'scroll'].includes(getComputedStyle(up).overflowX)) { scrolls = true; break; }
    up = up.parentElement;
  }
  const text = e.textContent || e.getAttribute('src') || '';
  if (!scrolls) wide.push(`${e.tagName.toLowerCase()} ${text.trim().slice(0, 40)}`);
}
return wide;
"""


def pages_of(root: pathlib.Path) -> list[pathlib.Path]:
    """Return the pages of a site, without the templates of its theme."""
    return [page for page in sorted(root.rglob("*.html")) if not {"_static", "_modules"} & set(page.relative_to(root).parts)]


def broken(root: pathlib.Path) -> list[str]:
    """Return the links between pages that lead nowhere."""
    found = []
    for page in pages_of(root):
        for link in re.findall(r'(?:href|src)="([^"#?]+)[^"]*"', page.read_text(errors="replace")):
            if not re.match(r"[a-z]+:|//", link) and not (page.parent / urllib.parse.unquote(link)).exists():
                found.append(f"{page.relative_to(root)}: {link}")
    return found


def main(folder: str = "docs/_build") -> int:
    """Print what is broken or clipped, and return 1 if anything is."""
    root = pathlib.Path(folder).resolve()
    problems = broken(root)
    program, driver_path = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    if program is None or driver_path is None:
        print(*problems, "Chromium or chromedriver is not installed: no page was opened.", sep="\n")
        return 1
    options, pages = webdriver.ChromeOptions(), pages_of(root)
    options.binary_location = program
    for argument in ("--headless=new", "--disable-dev-shm-usage", *["--no-sandbox"] * (os.geteuid() == 0)):
        options.add_argument(argument)
    for width in WIDTHS:
        screen = {"width": width, "height": 800, "pixelRatio": 1.0}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": screen})
        with webdriver.Chrome(options=options, service=Service(driver_path)) as driver:
            for page in pages:
                driver.get(page.as_uri())
                problems += [f"{page.relative_to(root)} at {width}: {what}" for what in driver.execute_script(CLIPPED)]
    print(*problems, f"{len(pages)} pages at {' and '.join(map(str, WIDTHS))} pixels: {len(problems)} problems", sep="\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
