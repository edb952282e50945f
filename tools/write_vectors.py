"""Write data/vectors/*.json: what every client must send for given entropy. See docs/wire-format.md.

python tools/write_vectors.py           # write them anew
python tools/write_vectors.py --check   # exit status 1 where the package's clients say something else
"""

import json
import pathlib
import random
import sys

import numpy as np

import ldpbayes as lb
from ldpbayes import entropy, protocols

FOLDER = pathlib.Path(__file__).parents[1] / "data" / "vectors"
#: Version of the wire format.
VERSION = 1
#: Unary encodings by their names in files.
UNARY = {"oue": "optimized", "sue": "symmetric"}


class Recorded:
    """A source of draws that keeps what it gave; draws at the ends come up beside uniform ones."""

    def __init__(self, seed: int) -> None:
        self.random, self.draws = random.Random(seed), []

    def randbits(self, bits: int) -> int:
        kind = self.random.randrange(8)
        draw = 0 if kind == 0 else 2**bits - 1 if kind == 1 else self.random.getrandbits(bits)
        self.draws.append([bits, f"{draw:x}"])
        return draw


def sent(call, seed: int) -> tuple[object, list]:
    """Return what a client returns, and its draws."""
    source = Recorded(seed)
    token = entropy._source.set(source)
    try:
        return call(), source.draws
    finally:
        entropy._source.reset(token)


def bits(packed: np.ndarray, size: int) -> str:
    """Return packed bits as a text of zeros and ones."""
    return "".join(map(str, np.unpackbits(np.asarray(packed, dtype=np.uint8), count=size)))


def plain(protocol, wire) -> list:
    """Return the vectors of a protocol whose client is one call; ``wire`` writes a report."""
    out = []
    for k in range(24):
        value = k % protocol.n_categories
        report, draws = sent(lambda value=value: protocol.privatize_one(value), 1_000 + k)
        out.append({"value": value, "entropy": draws, "report": wire(report)})
    return out


def hashing_wire(report) -> list:
    """Return a seed, which may exceed 2^53, as a text, and the bucket."""
    return [str(int(report[0])), int(report[1])]


def rappor(protocol) -> dict:
    """Return vectors of both stages."""
    permanent, instantaneous = [], []
    for k in range(12):
        value, key = k % protocol.n_categories, bytes((7 * k + j) % 256 for j in range(32))
        kept = protocol.permanent_one(value, key)
        cohort, members = int.from_bytes(bytes(kept[:4]), "big"), bits(kept[4:], protocol.n_bits)
        permanent.append({"value": value, "key": key.hex(), "permanent": [cohort, members]})
        report, draws = sent(lambda kept=kept: protocol.instantaneous_one(kept), 2_000 + k)
        sent_bits = bits(report[4:], protocol.n_bits)
        instantaneous.append({"permanent": [cohort, members], "entropy": draws, "report": [cohort, sent_bits]})
    table = protocol.table  # (cohorts, hashes, categories)
    positions = [
        [[int(b) for b in table[c, :, x] if b >= 0] for c in range(protocol.cohorts)] for x in range(table.shape[2])
    ]
    return {"positions": positions, "permanent": permanent, "vectors": instantaneous}


def files() -> dict[str, dict]:
    """Return the contents of every file by its name."""
    a = 6
    unary = {short: getattr(protocols.UnaryEncoding, name)(a, epsilon=1.0) for short, name in UNARY.items()}
    subset, hashing = protocols.SubsetSelection(a, 1.0), protocols.LocalHashing(1000, 1.5)
    bloom = protocols.Rappor(4, 0.25, 0.75, 0.5, 16, 8, 2, candidates=["red", "green", "blue", "grey"])
    grr, hadamard = {2: lb.GRR(2, 0.1), a: lb.GRR(a, 1.0)}, protocols.HadamardResponse(a, 1.0)
    made = {
        "grr": {"parameters": {"categories": a, "epsilon": 1.0}, "vectors": plain(grr[a], int)},
        "grr_two": {"parameters": {"categories": 2, "epsilon": 0.1}, "vectors": plain(grr[2], int)},
        "oue": {
            "parameters": {"categories": a, "epsilon": 1.0, "lam": unary["oue"].lam},
            "vectors": plain(unary["oue"], lambda r: bits(r, a)),
        },
        "sue": {
            "parameters": {"categories": a, "epsilon": 1.0, "lam": unary["sue"].lam},
            "vectors": plain(unary["sue"], lambda r: bits(r, a)),
        },
        "subset": {
            "parameters": {"categories": a, "epsilon": 1.0, "size": subset.size},
            "vectors": plain(subset, lambda r: bits(r, a)),
        },
        "local_hashing": {
            "parameters": {"categories": 1000, "epsilon": 1.5, "buckets": hashing.buckets, "family": "ldpbayes"},
            "vectors": plain(hashing, hashing_wire),
        },
        "hadamard": {"parameters": {"categories": a, "epsilon": 1.0}, "vectors": plain(hadamard, int)},
        "rappor": {
            "parameters": {"p": bloom.p, "q": bloom.q, "f": bloom.f, "bits": bloom.n_bits, "cohorts": bloom.cohorts},
            **rappor(bloom),
        },
    }
    return {
        name: {"wire_version": VERSION, "protocol": name.partition("_two")[0], **content} for name, content in made.items()
    }


def main(arguments: list[str]) -> int:
    """Write or check the vectors; return the exit status."""
    texts = {name: json.dumps(content, indent=None, separators=(",", ":")) + "\n" for name, content in files().items()}
    FOLDER.mkdir(exist_ok=True)
    other = [
        n for n, text in texts.items() if not (FOLDER / f"{n}.json").exists() or (FOLDER / f"{n}.json").read_text() != text
    ]
    if arguments == ["--check"]:
        print(*(f"{name}.json differs." for name in other), sep="\n", end="\n" if other else "")
        return 1 if other else 0
    for name in other:
        (FOLDER / f"{name}.json").write_text(texts[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
