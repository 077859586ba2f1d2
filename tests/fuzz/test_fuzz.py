"""The first cases of the fuzzer; ``make fuzz`` runs 20 000 of them."""

import pytest

from fuzz.cases import ESTIMATORS, make_case, outcome_of

N_GROUPS = 10
N_CASES = 300


@pytest.mark.parametrize("group", range(N_GROUPS))
def test_every_outcome_is_a_finite_result_or_an_error_that_helps(group):
    findings = []
    for seed in range(group, N_CASES, N_GROUPS):
        case = make_case(seed)
        outcome = outcome_of(case)
        if outcome.kind == "finding":
            findings.append(f"seed {seed}: {case.name}: {outcome.about}")
    assert not findings, "\n".join(findings)


def test_a_seed_stands_for_one_case():
    for seed in (1, 7, 50):
        assert make_case(seed).name == make_case(seed).name


def test_every_estimator_is_among_the_first_cases():
    assert len(ESTIMATORS) < N_CASES
    shown = " ".join(make_case(seed).name for seed in range(N_CASES))
    assert all(each.__name__ in shown for each in ESTIMATORS)
