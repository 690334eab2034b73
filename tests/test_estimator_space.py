"""Any estimator on any small table: the first cases of the campaign ``python -m fuzz ... fits``.

``ESTIMATOR_EXAMPLES`` sets their number.  Times are not looked at here: machines may be busy.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder fuzz lies beside the tests

from fuzz import fits
from fuzz.campaign import input_of
from fuzz.fit_cases import case_of
from fuzz.slow_certificate import slow_energy, slow_primal
from polymargin import MulticlassSVC, MultiPrototypeSVC

EXAMPLES = int(os.environ.get("ESTIMATOR_EXAMPLES", "120"))
CHUNK = 20


@pytest.mark.parametrize("chunk", range(0, EXAMPLES, CHUNK))
def test_a_sound_model_or_one_clear_line(chunk):
    for number in range(chunk, chunk + CHUNK):
        data = input_of("fits", [], number, "tests")
        try:
            fits.check_fit(data, allowance=np.inf)
        except Exception as error:
            raise AssertionError(f"case {number}: {case_of(data)}: {error}") from error


def test_the_slow_path_knows_a_wrong_certificate():
    rng = np.random.default_rng(0)
    y = np.arange(24) % 3
    X = rng.normal(size=(24, 3)) + np.eye(3)[y]
    model = MulticlassSVC("ww", kernel="rbf", random_state=0).fit(X, y)
    slow = slow_primal(model, X, y, np.ones(24))
    assert float(slow.value) == pytest.approx(model.certificate_.primal, rel=1e-12)
    model.dual_coef_[0] *= 1.001
    slow = slow_primal(model, X, y, np.ones(24))
    assert abs(float(slow.value) - model.certificate_.primal) > 1e3 * slow.slack
    machine = MultiPrototypeSVC(2, random_state=0).fit(X, y)
    slow = slow_energy(machine, X, y, np.ones(24))
    assert float(slow.value) == pytest.approx(machine.energy_, rel=1e-12)


def test_what_is_no_refusal_is_noticed():
    for error in (ValueError(" "), ValueError("X:\nno"), ValueError("cannot")):

        def broken(error=error):
            raise error

        with pytest.raises(AssertionError):
            fits.refused(broken)
    assert fits.refused(lambda: MulticlassSVC(C=-1).fit([[0.0], [1.0]], [0, 1])) is None
