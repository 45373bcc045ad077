"""Processes that work together: how they find each other, agree on what they launch, and notice when one is gone."""
