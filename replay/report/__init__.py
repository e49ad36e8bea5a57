"""Findings -> text. Nothing here parses arguments, runs a bundle's code or imports torch."""
