"""What a bundle holds, found out without running or loading any of it, and without torch.

imports      what loading the values would import and call
differences  in what two bundles differ
powers       what can be done with a name, and whose it is

Nothing here prints.
"""
