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
    assert ("tests/test_a.py::test_f[1]", continued.code_of(folder)) in continued.passed(journal)
    module.write_text('def f(x):\n    """Two."""\n    return x + 2\n')
    pins = tmp_path / "pins.txt"
    pins.write_text("numpy==2.0\n")
    assert continued.code_of(folder, files=[pins]) != continued.code_of(folder)
    assert continued.code_of(folder) != first
    assert continued.passed(tmp_path / "none") == set()


def test_a_test_depends_on_its_own_file_and_on_those_from_which_it_imports(tmp_path):
    """Another test may change without a calibration being run again; what tests share may not."""
    calibration, fixtures, other = (tmp_path / f"test_{name}.py" for name in ("calibration", "fixtures", "other"))
    calibration.write_text("from test_fixtures import surveys\n")
    for path in (fixtures, other):
        path.write_text("surveys = 200\n")
    shared = continued.code_of(tmp_path)
    before = continued.code_of_test(calibration, shared)
    other.write_text("surveys = 20\n")
    assert continued.code_of_test(calibration, continued.code_of(tmp_path)) == before
    assert continued.code_of_test(calibration, "other code of the package") != before
    fixtures.write_text("surveys = 20\n")
    assert continued.code_of_test(calibration, shared) != before
