"""Shared modules: errors, files, processes, tables, options and registries."""
