"""The fence: the only rooms that use torch's private names.

features        what this torch can do; the only place that compares versions
hooks           observe every attempt to compile a frame
entries         exports and ahead-of-time compilation, which the hooks alone do not tell
later           failures after a frame was compiled
stances         the stances of torch.compiler.set_stance
backward_nodes  the operators of graphs that compiled autograd captured
distributed     ranks and process groups; being one rank alone
failures        an exception of the compiler -> ErrorInfo
tensors         tensors and storages <-> specs and bytes
state           configs, modes, generators: captured, restored, compared
environment     versions and hardware
spans           what the compiler does when
phases          which phase of a compilation a span belongs to
runs            calling a frame again and again, each time as if for the first
profiler        torch's profiler: operators, kernels, memory
provenance      the user's lines behind a kernel of Inductor's
compiling       which backend a frame was compiled with; compiling it again
objects         the private parts of torch's own Python objects (custom ops, compiled functions, ...)

Importing this package imports nothing; each room imports torch itself.
"""
