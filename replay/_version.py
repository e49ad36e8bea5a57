"""The version of `torch-replay`, read by the build and by the bundle writer; nothing else lives here."""

__version__ = "0.1.0"
