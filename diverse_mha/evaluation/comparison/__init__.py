"""Is one method better than another, over seeds and sentences?"""
