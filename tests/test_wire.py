"""The wire format: vectors that every client must send, and the client for browsers and Node held to them."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from test_browser import browser  # noqa: F401  # a fixture

ROOT = pathlib.Path(__file__).parents[1]
VECTORS = sorted((ROOT / "data" / "vectors").glob("*.json"))
CLIENT = ROOT / "clients" / "js"


def test_the_packages_own_clients_send_the_vectors():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "write_vectors.py", "--check"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_vector_states_its_version_and_every_format_is_specified():
    page = (ROOT / "docs" / "wire-format.md").read_text(encoding="utf-8")
    assert len(VECTORS) == 8
    for path in VECTORS:
        content = json.loads(path.read_text())
        assert content["wire_version"] == 1 and len(content["vectors"]) >= 12
        assert f"`{content['protocol']}`" in page, path.name


def node(draws):
    program = shutil.which("node")
    if program is None:
        pytest.skip("Node is not installed")
    environment = os.environ | {"DRAWS": str(draws)}
    return subprocess.run([program, CLIENT / "test.js"], env=environment, capture_output=True, text=True, timeout=600)


def test_the_client_sends_the_vectors_and_its_channels_are_exact_in_node():
    done = node(10_000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "192 vectors agree" in done.stdout and "of GRR" in done.stdout


@pytest.mark.calibrate
def test_a_million_reports_in_node():
    done = node(1_000_000)
    assert done.returncode == 0 and done.stdout.count("χ²") == 3, done.stdout + done.stderr


@pytest.mark.browser
@pytest.mark.xdist_group("browser")
def test_the_client_in_chromium(browser):  # noqa: F811
    browser.set_script_timeout(120)
    vectors = [json.loads(path.read_text()) for path in VECTORS if path.stem in ("oue", "local_hashing")]
    browser.get("about:blank")
    said = browser.execute_async_script(
        """
        const [source, files, done] = arguments;
        (async () => {
          const client = await import(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
          const make = {oue: (q) => new client.UnaryEncoding(q.categories, q.epsilon, q.lam),
                        local_hashing: (q) => new client.LocalHashing(q.categories, q.epsilon, q.buckets)};
          let wrong = 0, compared = 0;
          for (const file of files)
            for (const {value, entropy, report} of file.vectors) {
              const left = [...entropy];
              const sent = make[file.protocol](file.parameters).report(value, {word: () => BigInt("0x" + left.shift()[1])});
              wrong += JSON.stringify(sent) !== JSON.stringify(report);
              compared += 1;
            }
          const counts = [0, 0, 0, 0], grr = new client.GRR(4, 1.0);
          for (let k = 0; k < 10000; k += 1) counts[grr.report(1)] += 1;
          return {wrong, compared, counts};
        })().then(done, (error) => done({error: String(error)}));
        """,
        (CLIENT / "ldpbayes.js").read_text(),
        vectors,
    )
    assert said.get("wrong") == 0 and said["compared"] == 48, said
    e = 2.718281828459045
    law = [(e if y == 1 else 1.0) / (e + 3) for y in range(4)]
    statistic = sum((count - 10_000 * p) ** 2 / (10_000 * p) for count, p in zip(said["counts"], law, strict=True))
    assert statistic < 30  # beyond with a probability of 1.4e-6
