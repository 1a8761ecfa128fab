#!/usr/bin/env bash
# A newcomer's first hour: types README's commands, block by block and in order, with nothing in the environment but Rust and a C
# compiler, and compares the output with README's. No command is repeated here.
#
#   tests/acceptance/first_hour.sh [--debug] [--in-place] [--target DIR] [--python PYTHON]
#
#   --debug         builds without --release, which is quicker
#   --in-place      in this checkout instead of a clean clone of what is committed
#   --target DIR    builds there, with this workspace's profiles, so that what is built already is used
#   --python PYTHON an interpreter with TensorFlow: the part that needs it runs too
#
# Marks in README are HTML comments above a block: `file: NAME`, `terminals` (every command in the background, all at once),
# `not run: REASON`. In output `[..]` is anything within a line, a line `...` any number of lines.
# Exit codes: 0 all good, 1 something differs from README, 2 wrong usage.
set -euo pipefail

if [ -z "${FIRST_HOUR_BARE:-}" ]; then
  cargo=$(dirname "$(command -v cargo)")
  pass=("HOME=$HOME" "PATH=$cargo:/usr/bin:/bin" FIRST_HOUR_BARE=1 CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never)
  for name in CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN; do
    if [ -n "${!name:-}" ]; then pass+=("$name=${!name}"); fi
  done
  exec env -i "${pass[@]}" bash "$0" "$@"
fi

profile=release in_place= target= python=
while [ $# -gt 0 ]; do
  case $1 in
    --debug) profile=debug ;;
    --in-place) in_place=1 ;;
    --target) target=$(mkdir -p "$2" && cd "$2" && pwd) && shift ;;
    --python) python=$(cd "$(dirname "$2")" && pwd)/$(basename "$2") && shift ;;
    *) sed -n '5,15p' "$0" >&2 && exit 2 ;;
  esac
  shift
done

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
export TMPDIR=$work
started=()
clean_up() {
  for id in "${started[@]}"; do kill -KILL "$id" 2>/dev/null || true; done
  if [ -n "$in_place" ] && [ -d "$root/runs" ]; then
    find "$root/runs" -maxdepth 1 -name 'demo-*' -newer "$work/began" -exec rm -rf {} +
  fi
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
touch "$work/began"

if [ -n "$in_place" ]; then
  cd "$root"
else
  git clone --quiet "$root" "$work/phalanx"
  cd "$work/phalanx"
fi
readme=$PWD/README.md
if [ -n "$target" ]; then
  export CARGO_TARGET_DIR=$target
  mkdir -p "$work/.cargo"
  # The program of the newcomer is built with the same profiles: else every dependency would be compiled again.
  awk '/^\[/ { on = /^\[profile\./ } on' Cargo.toml >"$work/.cargo/config.toml"
fi

# Ports that nobody uses, instead of 2221 to 2224.
base=$((2000 + RANDOM % 3000))
free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
until free "${base}1" && free "${base}2" && free "${base}3" && free "${base}4"; do base=$((base + 1)); done

# README's commands with the ports, profile and target folder of this run.
adapted() {
  local text=$1 built=${target:+$target/$profile}
  text=${text//localhost:222/localhost:$base}
  if [ "$profile" = debug ]; then text=${text// --release/}; fi
  text=${text//'$PWD/target/release'/${built:-'$PWD/target/'$profile}}
  printf '%s' "${text//target\/release/${built:-target/$profile}}"
}

wrong() {
  echo "FAILED: first hour: $1" >&2
  exit 1
}

# as_shown SHOWN PRINTED: compares two files.
as_shown() {
  local any= at=0 pattern line lines
  mapfile -t lines <"$2"
  while IFS= read -r line; do
    if [ "$line" = ... ]; then any=1 && continue; fi
    pattern=${line//\\/\\\\} pattern=${pattern//\*/\\*} pattern=${pattern//\?/\\?} pattern=${pattern//\[/\\[}
    pattern=${pattern//\\\[..\]/*}
    while [ "$at" -lt "${#lines[@]}" ] && [[ ${lines[$at]} != $pattern ]] && [ -n "$any" ]; do at=$((at + 1)); done
    if [ "$at" -ge "${#lines[@]}" ] || [[ ${lines[$at]} != $pattern ]]; then
      echo "not as README shows, here: $line" >&2
      return 1
    fi
    at=$((at + 1)) any=
  done <"$1"
  [ -n "$any" ] || [ "$at" -eq "${#lines[@]}" ] || { echo "README does not show this: ${lines[$at]}" >&2 && return 1; }
}

count=0
# type_in COMMAND SHOWN: in this shell, so that `cd` and `export` last.
type_in() {
  local command status=0 from=$SECONDS
  command=$(adapted "$1")
  echo "\$ ${1//$'\n'*/ …}"
  eval "$command" >"$work/printed" 2>&1 </dev/null || status=$?
  if [ "$status" -ne 0 ]; then
    tail -n 40 "$work/printed" >&2
    wrong "exit code $status of: $command"
  fi
  if [ -s "$2" ] && ! as_shown "$2" "$work/printed"; then
    tail -n 60 "$work/printed" >&2
    wrong "$command"
  fi
  count=$((count + 1))
  if [ $((SECONDS - from)) -gt 5 ]; then echo "  ($((SECONDS - from)) s)"; fi
}

# One command of `terminals`: all of them run until the block has ended.
type_beside() {
  local command
  command=$(adapted "$1")
  echo "\$ ${1//$'\n'*/ …} (terminal $((${#started[@]} + 1)))"
  (eval "exec env $command") >"$work/terminal${#started[@]}" 2>&1 </dev/null &
  started+=($!)
  count=$((count + 1))
}
all_terminals() {
  local at status
  for at in "${!started[@]}"; do
    status=0
    wait "${started[$at]}" || status=$?
    if [ "$status" -ne 0 ]; then
      tail -n 30 "$work"/terminal* >&2
      wrong "terminal $((at + 1)) ended with exit code $status"
    fi
  done
  started=()
}

# do_block MARK LANGUAGE FILE
do_block() {
  local mark=$1 language=$2 line command= open=
  case $mark in
    "file: "*)
      mkdir -p "$(dirname "${mark#file: }")"
      cp "$3" "${mark#file: }"
      return
      ;;
    "not run: needs TensorFlow")
      if [ -z "$python" ]; then echo "skipped: needs TensorFlow (--python)" && return; fi
      python() { "$python" "$@"; }
      ;;
    "not run: "*) echo "skipped: ${mark#not run: }" && return ;;
  esac
  [ "$language" = console ] || return 0
  finish() {
    if [ -z "$command" ]; then return; fi
    if [ "$mark" = terminals ]; then type_beside "$command"; else type_in "$command" "$work/shown"; fi
    command=
  }
  local quotes
  while IFS= read -r line <&4; do
    if [ -n "$open" ]; then
      command+=$'\n'$line
    elif [[ $line == '$ '* ]]; then
      finish
      : >"$work/shown"
      command=${line#'$ '}
    else
      printf '%s\n' "$line" >>"$work/shown"
      continue
    fi
    quotes=${command//[^\']/}
    if [[ $command == *\\ ]] || [ $((${#quotes} % 2)) -eq 1 ]; then open=1; else open=; fi
  done 4<"$3"
  finish
  if [ "$mark" = terminals ]; then all_terminals; fi
}

mark= language= inside=
while IFS= read -r line <&3; do
  if [[ $line == '```'* ]]; then
    if [ -n "$inside" ]; then
      do_block "$mark" "$language" "$work/block"
      inside= mark=
    else
      inside=1 language=${line#'```'} language=${language%%,*}
      : >"$work/block"
    fi
  elif [ -n "$inside" ]; then
    printf '%s\n' "$line" >>"$work/block"
  elif [[ $line == '<!-- '*' -->' ]]; then
    mark=${line#'<!-- '} mark=${mark%' -->'}
  elif [ -n "$line" ]; then
    mark=
  fi
done 3<"$readme"
[ "$count" -ge 12 ] || wrong "README has only $count commands"
echo "first hour: $count commands of README did what it shows, in $SECONDS s ($profile${in_place:+, in place})"
