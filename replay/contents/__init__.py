"""What a bundle holds, found out without running or loading any of it, and without torch.

imports      what loading the values would import and call
differences  in what two bundles differ
privacy      what leaves the machine with it
secrets      what looks like a key or a password
texts        every text in it
powers       what can be done with a name, and whose it is

Nothing here prints.
"""
