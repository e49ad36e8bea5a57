"""A bundle as a bug report: the Markdown that PyTorch's form for torch.compile asks for, and its attachment.

making    `issue`: triage, export, text, attachment
form      the form's sections
versions  what torch's collect_env prints, as far as the recording knows it
markdown  text of strangers in Markdown

Nothing here prints or parses arguments.
"""

from replay.filing.making import issue

__all__ = ["issue"]
