# A Docker engine for the length of a script: `start_engine`, and `stop_engine` where it was this script that started one.

ENGINE_LIMIT_S=60
engine_pid=""

start_engine() {
  if docker info >/dev/null 2>&1; then
    return
  fi
  engine_log=$(mktemp)
  # In a session of its own: a Ctrl-C or the end of the script's terminal reaches the script, which then stops the engine.
  setsid dockerd >"$engine_log" 2>&1 &
  engine_pid=$!
  for ((waited = 0; waited < ENGINE_LIMIT_S; waited++)); do
    if docker info >/dev/null 2>&1; then
      return
    fi
    if ! kill -0 "$engine_pid" 2>/dev/null; then
      break
    fi
    sleep 1
  done
  echo "the Docker engine did not start; its last lines:" >&2
  tail --lines 20 "$engine_log" >&2
  stop_engine
  return 1
}

stop_engine() {
  if [[ -z $engine_pid ]]; then
    return
  fi
  docker ps --quiet | xargs --no-run-if-empty docker kill >/dev/null || true
  kill "$engine_pid" 2>/dev/null || true
  for ((waited = 0; waited < ENGINE_LIMIT_S; waited++)); do
    kill -0 "$engine_pid" 2>/dev/null || break
    sleep 1
  done
  engine_pid=""
}
