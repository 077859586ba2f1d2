"""Survival: a quilt that learns the risk of events from times some of which are censored."""
