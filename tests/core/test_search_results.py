"""The table of results of a search."""

import numpy as np

from kernelquilt.core.search_results import results_table


def test_ranks_means_and_masks_parameters_that_a_candidate_lacks():
    candidates = [{"C": 1.0}, {"C": 2.0, "widths": [1, 2]}, {"C": 3.0}, {"C": 4.0}]
    scores = np.array([[0.5, 0.7], [0.9, 0.9], [np.nan, 0.9], [0.6, 0.6]])
    table = results_table(candidates, scores, {"fit_time": np.ones((4, 2))}, {"n": scores})
    assert table["rank_test_score"].tolist() == [2, 1, 4, 2]
    assert table["param_widths"].mask.tolist() == [True, False, True, True]
    assert table["param_widths"][1] == [1, 2]
    np.testing.assert_allclose(table["split1_test_score"], [0.7, 0.9, 0.9, 0.6])
    assert table["mean_fit_time"].tolist() == [1.0] * 4
    assert table["params"] is candidates
    assert table["mean_n"][1] == 0.9
