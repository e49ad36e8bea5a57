"""Which phase of a compilation a span of torch's belongs to, and what a compilation's time went to.

Facts: the names that torch 2.9 to 2.15 gives `dynamo_timed`. A span that is not listed belongs to the phase of the
span around it, so that a new name of a later torch lands where it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replay.torch_adapter import features
from replay.torch_adapter.spans import IMPORT, PROCESSOR, Span

_OF: Mapping[str, str] = {
    "dynamo": "dynamo",
    "entire_frame_compile": "dynamo",
    "_compile.": "dynamo",
    "compile_attempt_": "dynamo",
    "bytecode_tracing": "dynamo",
    "build_guards": "guards",
    "precompile_build_guards": "guards",
    "gc": "dynamo",
    "backend_compile": "backend",
    "OutputGraph.call_user_compiler": "backend",
    "create_aot_dispatcher_function": "aot",
    "aot_": "aot",
    "min_cut_rematerialization_partition": "partitioner",
    "entire_backward_compile": "backend",
    "compile_fx": "backend",
    "inductor_compile": "backend",
    "fx_codegen_and_compile": "backend",
    "_recursive_": "passes",
    "pass.": "passes",
    "additional_fake_tensor_prop": "passes",
    "GraphLowering.run": "lowering",
    "Scheduler.codegen": "codegen",
    "Scheduler.": "scheduling",
    "GraphLowering.": "codegen",
    "code_gen": "codegen",
    "PythonWrapperCodegen.": "codegen",
    "CppWrapper": "codegen",
    "PyCodeCache.load_by_key_path": "codegen",
    "compile_file": "compiler",
    "AotCodeCompiler.compile": "compiler",
    "cpp_wrapper_compile": "compiler",
    "async_compile": "compiler",
    "CachingAutotuner.benchmark": "autotuning",
    "CachingAutotuner.coordinate": "autotuning",
    "benchmark_": "autotuning",
    "pad_mm_benchmark": "autotuning",
    "collective_compute_do_bench": "autotuning",
    "select_algorithm": "autotuning",
    "CachingAutotuner.": "compiler",
    "StaticAutotunerFuture": "compiler",
    "reload_kernel_in_parent": "compiler",
    "triton": "compiler",
    "CacheBase.": "caches",
    "inductor_codecache_torch_key": "caches",
    "FxGraphCache": "caches",
    "AOTAutogradCache": "caches",
    "TritonBundler": "caches",
    "pgo": "caches",
    IMPORT: "imports",
    "inductor_import": "imports",
    PROCESSOR: "processor",
}
"""The beginning of a span's name -> phase; the longest that fits counts."""


def phase_of(span: Span) -> str:
    """The phase of a span's own time: by its name, else by those of the spans around it; else "other"."""
    for name in (span.name, *reversed(span.path)):
        found = max((one for one in _OF if name.startswith(one)), key=len, default=None)
        if found is not None:
            return _OF[found]
    return "other"


def split(spans: Sequence[Span], thread: int) -> tuple[dict[str, int], int]:
    """Nanoseconds by phase of one call that `thread` made, and those of other threads at the same time.

    Another thread's span counts as a phase where the calling one was in none: a backward is run, and compiled, by
    the device's own thread. Compilers that work side by side are no part of the call's time.
    """
    roots = [one for one in spans if one.thread == thread and not one.path]
    phases: dict[str, int] = {}
    aside = 0
    for span in spans:
        if span.thread != thread and any(one.start < span.end and span.start < one.end for one in roots):
            aside += span.own
        else:
            phase = phase_of(span)
            phases[phase] = phases.get(phase, 0) + span.own
    return phases, aside


def cache_counts() -> dict[str, int]:
    """What torch counts of its caches of compiled graphs: hits, misses, bypasses, under its own names."""
    counters = features.require(features.module("torch._dynamo.utils"), "counters")
    return {
        name: int(counters[owner][name])
        for owner, cache in (("aot_autograd", "autograd_cache"), ("inductor", "fxgraph_cache"))
        for name in (f"{cache}_{what}" for what in ("hit", "miss", "bypass"))
    }
