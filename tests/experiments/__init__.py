"""Tests of the papers' tables and of the recipes."""
