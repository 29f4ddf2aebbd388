# recipe.sh REPOSITORY NAME WORK INPUTS: prepares one recording in the directory WORK
# and writes the arguments that it would profile with into WORK.recipe, each ended
# by a zero byte. Sourced pieces: scripts/fleet/helpers.sh, scripts/recordings/NAME.
set -euo pipefail
here=$1/scripts
name=$2
work=$3
inputs=$4
targets=$here/targets
PATH=$targets:$PATH
servers=()
packages=()
level=
source "$here/fleet/helpers.sh"
cd "$work"
export TMPDIR=$work

profile() {
    printf '%s\0' "$@" >"$work.recipe"
}

source "$here/recordings/$name"
for needed in "${packages[@]}"; do
    package "${needed%%:*}" "${needed#*:}" || exit 1
done
measure
