"""Frozen data: what the analyses find. Plain values only, as in `replay.recording`; nothing here runs or formats.

The replaying process fills these in, or an analysis does; reports and JSON read them.

triage       which part of torch.compile is at fault
ablation     which recorded settings a failure needs
explanation  what the compiler made of a frame
profile      where a frame's time goes
backends     what torch.compile can compile with
imports      what loading a bundle's values would import and call
differences  in what two bundles differ
privacy      what leaves the machine with a bundle
stripping    a bundle with less in it, and whether its failure survived
"""
