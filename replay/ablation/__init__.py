"""Which of the recorded settings a failure needs.

search   the smallest set that still fails, by halves; knows no replays
trying   the trials: replays without some of the settings, each isolated

Nothing here prints or parses arguments. The settings themselves: `replay.replayer.settings`.
"""

from replay.ablation.trying import ablate

__all__ = ["ablate"]
