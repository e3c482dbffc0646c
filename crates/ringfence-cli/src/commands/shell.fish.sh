umask 077
config=${XDG_CONFIG_HOME:-$HOME/.config}
data=${XDG_DATA_HOME:-$HOME/.local/share}
beside_fish() {
  for entry in "$1"/* "$1"/.[!.]*; do
    [ -e "$entry" ] && [ "${entry##*/}" != fish ] && ln -s "$entry" "$2"
  done
}
{
  mkdir -p "$config/fish" "$data/fish"
  own=
  if ! [ -w "$config/fish" ] || ! [ -w "$data/fish" ]; then
    own=$(mktemp -d "${TMPDIR:-/tmp}/.fish.XXXXXX") && mkdir -p "$own/config/fish" "$own/data/fish" "$own/run" || own=
  fi
  if [ -n "$own" ]; then
    beside_fish "$config" "$own/config"
    beside_fish "$data" "$own/data"
    cp -RL "$config/fish/." "$own/config/fish"
    chmod -R u+w "$own/config/fish"
    cp -L "$data/fish/fish_history" "$own/data/fish"
    ln -s "$data/fish/generated_completions" "$own/data/fish"
    export RINGFENCE_FISH="$own" RINGFENCE_XDG="${XDG_CONFIG_HOME+config} ${XDG_DATA_HOME+data}"
    export RINGFENCE_CONFIG="$config" RINGFENCE_DATA="$data"
    export XDG_CONFIG_HOME="$own/config" XDG_DATA_HOME="$own/data"
    [ -w "${XDG_RUNTIME_DIR:-/no/such}" ] || export XDG_RUNTIME_DIR="$own/run"
  fi
} 2>/dev/null
exec "$0" -C '
  if set -q RINGFENCE_FISH
    set -e XDG_CONFIG_HOME
    set -e XDG_DATA_HOME
    string match -q "config*" -- $RINGFENCE_XDG; and set -gx XDG_CONFIG_HOME $RINGFENCE_CONFIG
    string match -q "*data" -- $RINGFENCE_XDG; and set -gx XDG_DATA_HOME $RINGFENCE_DATA
    set -g ringfence_fish $RINGFENCE_FISH
    function ringfence_remove --on-event fish_exit; command rm -rf -- $ringfence_fish; end
    set -e RINGFENCE_FISH RINGFENCE_XDG RINGFENCE_CONFIG RINGFENCE_DATA
  end
  functions -q fish_prompt; and functions -c fish_prompt ringfence_inner_prompt
  function fish_prompt; echo -n "(ringfence) "; ringfence_inner_prompt; end'
