"""Tests of the papers' tables and figures."""
