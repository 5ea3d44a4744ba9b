"""Shared by all other folders: errors, files, command lines, options, places."""
