"""Nine minutes on a GPU, ``scripts/check-gpu.sh``: ``plan.py`` lists what is done, and where."""
