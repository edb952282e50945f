"""A calibration that was cut off goes on where the code is the same, and begins anew where it is not."""

import continued


def test_what_passed_counts_for_the_same_code_whatever_its_prose(tmp_path):
    folder, journal = tmp_path / "code", tmp_path / "journal"
    (folder / "part").mkdir(parents=True)
    module = folder / "part" / "a.py"
    module.write_text('"""One."""\n\ndef f(x):\n    """Two."""\n    return x + 1  # three\n')
    first = continued.code_of(folder)
    continued.add(journal, first, "tests/test_a.py::test_f[1]")
    module.write_text('"""Other words."""\n\ndef f(x):\n    """More."""\n    return x + 1\n')
    assert continued.passed(journal, continued.code_of(folder)) == {"tests/test_a.py::test_f[1]"}
    module.write_text('def f(x):\n    """Two."""\n    return x + 2\n')
    pins = tmp_path / "pins.txt"
    pins.write_text("numpy==2.0\n")
    assert continued.code_of(folder, files=[pins]) != continued.code_of(folder)
    assert continued.code_of(folder) != first and not continued.passed(journal, continued.code_of(folder))
    assert continued.passed(tmp_path / "none", first) == set()
