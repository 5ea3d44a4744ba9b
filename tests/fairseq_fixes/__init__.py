"""Tests of the fixes."""
