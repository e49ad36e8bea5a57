#!/usr/bin/env bash
# Records a failing program, removes it, and replays its frame alone.
# Usage: demo/run.sh PYTHON     (an absolute path; PYTHON has replay installed)
set -uo pipefail

python=$1
source=$(cd "$(dirname "$0")" && pwd)
work=$(dirname "$source")/.demo

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
fail() { printf '\ndemo: %s\n' "$*" >&2; exit 1; }
expect() { [ "$1" -eq "$2" ] || fail "exit code $1, expected $2"; }

rm -rf "$work"
mkdir -p "$work/program" "$work/elsewhere"
cp "$source/train.py" "$source/network.py" "$work/program"

say "A program fails under torch.compile. It runs with the recorder on."
cd "$work/program" || exit 1
"$python" -m replay record --output "$work/failures" train.py 4
expect $? 1
bundle=$(ls "$work"/failures/*.rec) || fail "no bundle was written"

say "The program is deleted. We go to an empty directory, with the bundle alone."
rm -r "$work/program"
cd "$work/elsewhere" || exit 1
cp "$bundle" . && bundle=$(basename "$bundle")
ls -l

say "What is inside? (no code of the bundle runs, torch is not imported)"
"$python" -m replay inspect "$bundle"
expect $? 0

say "Replay under the recorded backend: the failure must happen again."
"$python" -m replay "$bundle"
expect $? 1

say "Replay under the backend 'eager': is it the backend's fault?"
"$python" -m replay "$bundle" --backend eager
expect $? 0

say "Reproduced under the recorded backend, passed under eager: the backend it is."
