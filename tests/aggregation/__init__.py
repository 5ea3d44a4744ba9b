"""Tests of the aggregations."""
