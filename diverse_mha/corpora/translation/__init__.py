"""The papers' translation corpora: where they are published, and every rule of their making."""
