"""A small package that is not installed where the bundle is replayed."""
